/* SPDX-License-Identifier: MIT */
/* Any bytes over a Unix socket where the sockets of a claim are expected: refused, or a valid claim. */
#include <sys/socket.h>
#include <unistd.h>

#include "dibs/dibs.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dibs_sockets sockets = { .n = 0 };
    dibs_err err = { 0 };
    int pair[2] = { -1, -1 };

    if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 0;
    CHECK(send(pair[0], data, size, MSG_NOSIGNAL) == (ssize_t) size);
    (void) close(pair[0]);
    dibs_status s = dibs_sockets_receive(pair[1], &sockets, &err);
    CHECK(s == DIBS_OK || s == DIBS_INVALID || s == DIBS_UNAVAILABLE);
    if (s == DIBS_OK) /* a claim without sockets */
        CHECK(sockets.n == 0 && sockets.claim.port > 0 &&
              (!sockets.claim.name[0] || dibs_name_check(sockets.claim.name, NULL) == DIBS_OK));
    else
        CHECK(err.msg[0] && sockets.n == 0 && sockets.claim.port == 0);
    (void) close(pair[1]);
    return 0;
}
