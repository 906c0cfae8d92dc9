/* SPDX-License-Identifier: MIT */
/* Libmicrohttpd pushes each answer out by options of TCP. On a connection that is none it gives that up when
 * the kernel says that the option is unknown; for Unix sockets Linux says that the operation is not
 * supported, so it tries anew at every answer: two system calls in vain. This function stands before libc's
 * in the program, and says what it understands. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

__attribute__((visibility("default"))) int setsockopt(int fd, int level, int optname, const void *optval,
                                                      socklen_t optlen)
{
    int failed = (int) syscall(SYS_setsockopt, fd, level, optname, optval, optlen);

    if (failed && level == IPPROTO_TCP && errno == EOPNOTSUPP)
        errno = ENOPROTOOPT;
    return failed;
}
