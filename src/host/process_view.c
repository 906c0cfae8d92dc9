/* SPDX-License-Identifier: MIT */
/* Load the boot id and our namespaces of pids, time and users. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "host/proc_read.h"
#include "host/process.h"

#include "base/banned.h"

#define NS_PER_S 1000000000

static dibs_status load_boot_id(struct process_view *view, dibs_err *err)
{
    char text[DIBS_BOOT_ID_MAX + 2];
    ssize_t n = proc_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);

    if (n < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot read the boot id in /proc/sys/kernel/random/boot_id");
    text[strcspn(text, "\n")] = '\0';
    if (strlen(text) != DIBS_BOOT_ID_MAX || strspn(text, "0123456789abcdef-") != DIBS_BOOT_ID_MAX)
        return err_set(err, DIBS_FAILURE, "/proc/sys/kernel/random/boot_id does not hold a boot id");
    memcpy(view->boot_id, text, sizeof view->boot_id);
    return DIBS_OK;
}

/* "boottime  SECONDS  NANOSECONDS"; seconds may be negative. */
static bool parse_boottime_offset(const char *text, int64_t *out_ns)
{
    const char *p = strstr(text, "boottime");
    const char *end = text + strlen(text);
    const char *word = NULL;
    int64_t seconds = 0;
    int64_t ns = 0;

    return p && proc_next_word(&p, end, &word) && proc_next_word(&p, end, &word) &&
           proc_number(word, p, &seconds) && proc_next_word(&p, end, &word) && proc_number(word, p, &ns) &&
           !__builtin_mul_overflow(seconds, (int64_t) NS_PER_S, &seconds) &&
           !__builtin_add_overflow(seconds, ns, out_ns);
}

static dibs_status load_boot_offset(struct process_view *view, dibs_err *err)
{
    char text[256];
    uint64_t ours = proc_link_inode(AT_FDCWD, "/proc/self/ns/time", "time");

    view->boot_offset_ns = 0;
    /* No link: a kernel without time namespaces. */
    if (ours == PROC_INITIAL_TIMENS || (ours == 0 && errno == ENOENT))
        return DIBS_OK;
    /* The file shows the namespace that our children will get, which need not be ours. */
    if (ours == 0 || proc_link_inode(AT_FDCWD, "/proc/self/ns/time_for_children", "time") != ours)
        return err_set(err, DIBS_FAILURE, "the clock offset of this time namespace is not known");
    if (proc_read_file(AT_FDCWD, "/proc/self/timens_offsets", text, sizeof text) < 0)
        return errno == ENOENT ? DIBS_OK
                               : err_os(err, DIBS_FAILURE, errno, "cannot read /proc/self/timens_offsets");
    if (!parse_boottime_offset(text, &view->boot_offset_ns))
        return err_set(err, DIBS_FAILURE, "/proc/self/timens_offsets is not in the kernel's format");
    return DIBS_OK;
}

dibs_status process_view_load(struct process_view *out, dibs_err *err)
{
    struct process_view view = { .pidns = proc_link_inode(AT_FDCWD, "/proc/self/ns/pid", "pid") };

    if (view.pidns == 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot read our pid namespace from /proc/self/ns/pid");
    view.is_initial_pidns = view.pidns == PROC_INITIAL_PIDNS;
    dibs_status s = load_boot_id(&view, err);
    if (s == DIBS_OK)
        s = load_boot_offset(&view, err);
    if (s == DIBS_OK)
        s = uid_map_load(&view.users, err);
    if (s == DIBS_OK)
        *out = view;
    return s;
}
