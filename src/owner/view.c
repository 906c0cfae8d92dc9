/* SPDX-License-Identifier: MIT */
/* From where we look: boot, and the namespaces of pids, time and users. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "owner/look.h"
#include "owner/owner.h"

#include "base/banned.h"

/* PROC_PID_INIT_INO and PROC_TIME_INIT_INO of the kernel: fixed, part of its ABI. */
#define INITIAL_PIDNS 0xEFFFFFFCu
#define INITIAL_TIMENS 0xEFFFFFFAu
#define NS_PER_S 1000000000

static dibs_status load_boot_id(struct owner_view *view, dibs_err *err)
{
    char text[DIBS_BOOT_ID_MAX + 2];
    ssize_t n = look_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);

    if (n < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot read the boot id in /proc/sys/kernel/random/boot_id");
    text[strcspn(text, "\n")] = '\0';
    if (strlen(text) != DIBS_BOOT_ID_MAX || strspn(text, "0123456789abcdef-") != DIBS_BOOT_ID_MAX)
        return err_set(err, DIBS_FAILURE, "/proc/sys/kernel/random/boot_id does not hold a boot id");
    memcpy(view->boot_id, text, sizeof view->boot_id);
    return DIBS_OK;
}

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* "boottime  SECONDS  NANOSECONDS"; seconds may be negative. */
static bool parse_boottime_offset(const char *text, int64_t *out_ns)
{
    const char *line = strstr(text, "boottime");
    int64_t seconds = 0;
    int64_t ns = 0;

    if (!line)
        return false;
    const char *first = skip_blanks(line + strlen("boottime"));
    const char *first_end = first + strcspn(first, " \t\n");
    const char *second = skip_blanks(first_end);
    return look_number(first, first_end, &seconds) &&
           look_number(second, second + strcspn(second, " \t\n"), &ns) &&
           !__builtin_mul_overflow(seconds, (int64_t) NS_PER_S, &seconds) &&
           !__builtin_add_overflow(seconds, ns, out_ns);
}

static dibs_status load_boot_offset(struct owner_view *view, dibs_err *err)
{
    char text[256];
    uint64_t ours = look_namespace(AT_FDCWD, "/proc/self/ns/time");

    view->boot_offset_ns = 0;
    /* No link: a kernel without time namespaces. */
    if (ours == INITIAL_TIMENS || (ours == 0 && errno == ENOENT))
        return DIBS_OK;
    /* The file shows the namespace that our children will get, which need not be ours. */
    if (ours == 0 || look_namespace(AT_FDCWD, "/proc/self/ns/time_for_children") != ours)
        return err_set(err, DIBS_FAILURE, "cannot tell the clock offset of this time namespace");
    if (look_file(AT_FDCWD, "/proc/self/timens_offsets", text, sizeof text) < 0)
        return errno == ENOENT ? DIBS_OK
                               : err_os(err, DIBS_FAILURE, errno, "cannot read /proc/self/timens_offsets");
    if (!parse_boottime_offset(text, &view->boot_offset_ns))
        return err_set(err, DIBS_FAILURE, "/proc/self/timens_offsets is not in the kernel's format");
    return DIBS_OK;
}

dibs_status owner_view_load(struct owner_view *out, dibs_err *err)
{
    struct owner_view view = { .pidns = look_namespace(AT_FDCWD, "/proc/self/ns/pid") };

    if (view.pidns == 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot tell our pid namespace from /proc/self/ns/pid");
    view.is_initial_pidns = view.pidns == INITIAL_PIDNS;
    dibs_status s = load_boot_id(&view, err);
    if (s == DIBS_OK)
        s = load_boot_offset(&view, err);
    if (s == DIBS_OK)
        s = owner_users_load(&view.users, err);
    if (s == DIBS_OK)
        *out = view;
    return s;
}
