/* SPDX-License-Identifier: MIT */
/* The seccomp filter: libseccomp makes it, the command's process loads it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "hold/as/internal.h"

#include "base/banned.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* Linux 5.19 */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

struct as_filter {
    struct sock_fprog program;
    struct sock_filter code[];
};

const char *const as_call_names[AS_CALL_COUNT] = {
    [AS_BIND] = "bind",
    [AS_CONNECT] = "connect",
    [AS_GETSOCKNAME] = "getsockname",
    [AS_GETPEERNAME] = "getpeername",
    [AS_SENDTO] = "sendto",
    [AS_SENDMSG] = "sendmsg",
    [AS_SENDMMSG] = "sendmmsg",
    [AS_RECVFROM] = "recvfrom",
    [AS_RECVMSG] = "recvmsg",
    [AS_RECVMMSG] = "recvmmsg",
};

/* The argument with the flags of calls that can send with the first packet of a connection. */
static const struct {
    enum as_call call;
    unsigned flags;
} fast_open[] = { { AS_SENDTO, 3 }, { AS_SENDMSG, 2 }, { AS_SENDMMSG, 3 } };

static void context_auto(scmp_filter_ctx *context)
{
    if (*context)
        seccomp_release(*context);
}

static int add_rules(scmp_filter_ctx context, bool has_udp)
{
    size_t n = has_udp ? AS_CALL_COUNT : AS_CALL_TCP_COUNT;
    const struct scmp_arg_cmp has_address = { .arg = 4, .op = SCMP_CMP_NE };
    int code = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);

#if defined(__x86_64__) /* 32-bit programs run beside others; elsewhere they are rare */
    if (!code)
        code = seccomp_arch_add(context, SCMP_ARCH_X86);
#endif
    for (size_t i = 0; i < n && !code; i++) {
        int number = seccomp_syscall_resolve_name(as_call_names[i]);

        /* Without an address they are send() and recv(): open connections must not become slower. */
        if (i == AS_SENDTO || i == AS_RECVFROM)
            code = seccomp_rule_add(context, SCMP_ACT_NOTIFY, number, 1, has_address);
        else
            code = seccomp_rule_add(context, SCMP_ACT_NOTIFY, number, 0);
    }
    /* A send that connects, too, would go to the number itself. Programs connect when they may not do that.
     */
    for (size_t i = 0; i < sizeof fast_open / sizeof *fast_open && !has_udp && !code; i++) {
        const struct scmp_arg_cmp connects = { .arg = fast_open[i].flags,
                                               .op = SCMP_CMP_MASKED_EQ,
                                               .datum_a = MSG_FASTOPEN,
                                               .datum_b = MSG_FASTOPEN };

        code = seccomp_rule_add(context, SCMP_ACT_ERRNO(EOPNOTSUPP),
                                seccomp_syscall_resolve_name(as_call_names[fast_open[i].call]), 1, connects);
    }
    /* A ring's operations are invisible to a filter: with it a program would bypass the notifier. */
    if (!code)
        code = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(io_uring_setup), 0);
    return code;
}

dibs_status as_filter_make(bool has_udp, struct as_filter **out, dibs_err *err)
{
    AUTO(context_auto) scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
    AUTO(fd_auto) int fd = memfd_create("dibs-filter", MFD_CLOEXEC);
    struct stat made = { 0 };
    int code = context && fd >= 0 ? add_rules(context, has_udp) : -ENOMEM;

    if (!code)
        code = seccomp_export_bpf(context, fd);
    if (code || fstat(fd, &made))
        return err_os(err, DIBS_FAILURE, code ? -code : errno, "cannot make a seccomp filter for --as");
    AUTO(free_auto) struct as_filter *filter = calloc(1, sizeof *filter + (size_t) made.st_size);
    if (!filter || pread(fd, filter->code, (size_t) made.st_size, 0) != made.st_size)
        return err_set(err, DIBS_FAILURE, "out of memory");
    filter->program =
        (struct sock_fprog){ .len = (unsigned short) ((size_t) made.st_size / sizeof *filter->code),
                             .filter = filter->code };
    *out = TAKE(filter);
    return DIBS_OK;
}

void as_filter_free(struct as_filter *filter)
{
    free(filter);
}

/* Load with as many of the optional flags as the kernel knows. */
static long load(const struct as_filter *filter)
{
    /* Without WAIT_KILLABLE_RECV (5.19) a signal can repeat a call that the notifier has already made. */
    unsigned long flags[] = { SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                              SECCOMP_FILTER_FLAG_SPEC_ALLOW };
    long fd = -1;

    errno = EINVAL;
    for (size_t i = 0; i < sizeof flags / sizeof *flags && fd < 0 && errno == EINVAL; i++)
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | flags[i],
                     &filter->program);
    return fd;
}

int as_filter_load(const struct as_filter *filter)
{
    long fd = load(filter);

    if (fd < 0 && errno == EACCES && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        fd = load(filter);
    return fd < 0 ? -errno : (int) fd; /* the kernel opens it close-on-exec */
}

bool as_is_served(void)
{
    return syscall(SYS_getsockname, -1, AS_ASK, NULL) == AS_SERVED;
}

const char *as_filter_why(int code)
{
    switch (code) {
    case EBUSY:
        return "another notifier already serves this process: it runs under another 'dibs run --as', or "
               "in a container whose engine watches its calls";
    case EINVAL:
    case ENOSYS: return "the kernel has no seccomp user notification (Linux 5.9 or newer has)";
    case EPERM:
    case EACCES:
        return "the kernel does not let dibs reach the command's sockets (see kernel.yama.ptrace_scope)";
    default: return "the seccomp filter cannot be loaded";
    }
}
