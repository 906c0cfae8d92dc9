/* SPDX-License-Identifier: MIT */
/* A reported call and access to the process that made it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "hold/as/internal.h"

#include "base/banned.h"

#ifndef PIDFD_THREAD /* Linux 6.9 */
#define PIDFD_THREAD O_EXCL
#endif

/* Numbers of i386's socketcall(); see linux/net.h. */
static const int socketcalls[AS_CALL_COUNT] = {
    [AS_BIND] = 2,     [AS_CONNECT] = 3,   [AS_GETSOCKNAME] = 6, [AS_GETPEERNAME] = 7, [AS_SENDTO] = 11,
    [AS_SENDMSG] = 16, [AS_SENDMMSG] = 20, [AS_RECVFROM] = 12,   [AS_RECVMSG] = 17,    [AS_RECVMMSG] = 19,
};

static const int native[AS_CALL_COUNT] = {
    [AS_BIND] = SYS_bind,
    [AS_CONNECT] = SYS_connect,
    [AS_GETSOCKNAME] = SYS_getsockname,
    [AS_GETPEERNAME] = SYS_getpeername,
    [AS_SENDTO] = SYS_sendto,
    [AS_SENDMSG] = SYS_sendmsg,
    [AS_SENDMMSG] = SYS_sendmmsg,
    [AS_RECVFROM] = SYS_recvfrom,
    [AS_RECVMSG] = SYS_recvmsg,
    [AS_RECVMMSG] = SYS_recvmmsg,
};

#if defined(__x86_64__)
enum { I386_SOCKETCALL = 102 };
static const int i386[AS_CALL_COUNT] = {
    [AS_BIND] = 361,    [AS_CONNECT] = 362,  [AS_GETSOCKNAME] = 367, [AS_GETPEERNAME] = 368,
    [AS_SENDTO] = 369,  [AS_SENDMSG] = 370,  [AS_SENDMMSG] = 345,    [AS_RECVFROM] = 371,
    [AS_RECVMSG] = 372, [AS_RECVMMSG] = 337,
};
#endif

static bool find(const int *numbers, int number, enum as_call *out)
{
    for (size_t i = 0; i < AS_CALL_COUNT; i++)
        if (numbers[i] == number) {
            *out = (enum as_call) i;
            return true;
        }
    return false;
}

bool as_request_from(struct as_tree *tree, const struct seccomp_notif *notif, struct as_request *out)
{
    const struct seccomp_data *data = &notif->data;

    *out = (struct as_request){ .tree = tree, .id = notif->id, .tid = (pid_t) notif->pid };
    memcpy(out->args, data->args, sizeof out->args);
#if defined(__x86_64__)
    uint32_t packed[AS_ARGS] = { 0 };

    out->is_32bit = data->arch == AUDIT_ARCH_I386;
    if (out->is_32bit && data->nr != I386_SOCKETCALL)
        return find(i386, data->nr, &out->call);
    if (out->is_32bit) {
        if (!find(socketcalls, (int) data->args[0], &out->call))
            return false;
        /* Reading more than the call has could fail at the end of a page. */
        size_t n = out->call == AS_SENDTO || out->call == AS_RECVFROM ? 6 : out->call == AS_RECVMMSG ? 5 : 3;
        if (out->call == AS_SENDMMSG)
            n = 4;
        if (!as_request_read(out, data->args[1], packed, n * sizeof *packed))
            return false;
        for (size_t i = 0; i < AS_ARGS; i++)
            out->args[i] = packed[i];
        return true;
    }
#else
    (void) socketcalls;
#endif
    return find(native, data->nr, &out->call);
}

bool as_request_is_valid(const struct as_request *request)
{
    return seccomp_notify_id_valid(request->tree->listener, request->id) == 0;
}

bool as_request_read(const struct as_request *request, uint64_t from, void *to, size_t size)
{
    struct iovec here = { to, size };
    struct iovec there = { (void *) (uintptr_t) from, size };

    return process_vm_readv(request->tid, &here, 1, &there, 1, 0) == (ssize_t) size;
}

bool as_request_write(const struct as_request *request, uint64_t to, const void *from, size_t size)
{
    struct iovec here = { (void *) (uintptr_t) from, size };
    struct iovec there = { (void *) (uintptr_t) to, size };

    return process_vm_writev(request->tid, &here, 1, &there, 1, 0) == (ssize_t) size;
}

/* Return the process of a thread; 0: unknown. */
static pid_t process_of(pid_t tid)
{
    char path[64];
    char text[512] = "";
    pid_t found = 0;

    (void) snprintf(path, sizeof path, "/proc/%d/status", tid);
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    const char *line = n > 0 ? strstr(text, "\nTgid:\t") : NULL;

    for (const char *digit = line ? line + 7 : ""; *digit >= '0' && *digit <= '9'; digit++)
        found = found * 10 + (*digit - '0');
    return found;
}

/* Open a pidfd of the thread, or of its process where the kernel has none of threads. */
static int open_pidfd(pid_t tid)
{
    int fd = (int) syscall(SYS_pidfd_open, tid, 0);

    if (fd < 0 && errno != ESRCH) /* it is not the first thread: EINVAL, from 6.9 on ENOENT */
        fd = (int) syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
    if (fd < 0 && errno == EINVAL)
        fd = (int) syscall(SYS_pidfd_open, process_of(tid), 0);
    return fd;
}

pid_t as_request_process(const struct as_request *request)
{
    return process_of(request->tid);
}

int as_borrow(pid_t pid, int fd)
{
    AUTO(fd_auto) int pidfd = open_pidfd(pid);
    int got = pidfd < 0 ? -1 : (int) syscall(SYS_pidfd_getfd, pidfd, fd, 0);

    return got < 0 ? -errno : got; /* the kernel opens it close-on-exec */
}

int as_request_socket(const struct as_request *request)
{
    int fd = as_borrow(request->tid, (int) request->args[0]);

    return fd < 0 ? -1 : fd;
}

bool as_needs_descendants(void)
{
    char text[4] = "";
    AUTO(fd_auto) int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

    return fd >= 0 && read(fd, text, sizeof text - 1) > 0 && text[0] == '1';
}

bool as_reaches_other_users(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    return syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective & (1u << CAP_SYS_PTRACE));
}
