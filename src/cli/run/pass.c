/* SPDX-License-Identifier: MIT */
#include "cli/run/pass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

#include "base/banned.h"

enum { FIRST_FD = 3 }; /* systemd's protocol */
_Static_assert(CHILD_FDS_MAX >= FIRST_FD + LISTEN_PARCEL_FDS, "the child's own descriptors are above them");

/* A name ends at a colon. One without a name is "unknown", as from systemd. */
static bool add_name(struct pass *pass, const char *name)
{
    size_t used = strlen(pass->names);
    int n = snprintf(pass->names + used, sizeof pass->names - used, "%s%s", used ? ":" : "",
                     name[0] ? name : "unknown");

    for (char *c = pass->names + used + (used > 0); *c; c++)
        if (*c == ':')
            *c = '_';
    return n > 0 && (size_t) n < sizeof pass->names - used;
}

dibs_status pass_open(struct pass *pass, const struct launch_claims *claims,
                      const char *(*name_of)(const void *ctx, size_t i), const void *ctx, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    *pass = (struct pass){ .n = 0 };
    for (size_t i = 0; i < claims->n && s == DIBS_OK; i++) {
        int fds[DIBS_BINDINGS_MAX];
        size_t n = 0;

        if (claims->requests[i].hold != DIBS_HOLD_FD)
            continue;
        s = listen_open(&claims->claims[i], fds, &n, err);
        for (size_t k = 0; k < n && s == DIBS_OK; k++) {
            if (pass->n == LISTEN_PARCEL_FDS || !add_name(pass, name_of(ctx, i)))
                s = err_set(err, DIBS_INVALID, "run: at most %d sockets can be passed", LISTEN_PARCEL_FDS);
            else
                pass->fds[pass->n++] = fds[k];
        }
    }
    if (s)
        pass_close(pass);
    return s;
}

void pass_close(struct pass *pass)
{
    while (pass->n > 0)
        (void) close(pass->fds[--pass->n]);
}

dibs_status pass_send(const struct pass *pass, int to, dibs_err *err)
{
    return listen_send(to, &(struct listen_parcel){ pass->names, strlen(pass->names), pass->fds, pass->n },
                       err);
}

/* ---- in the child ---- */

static bool set_number(const char *name, unsigned long long number)
{
    char text[24];

    (void) snprintf(text, sizeof text, "%llu", number);
    return setenv(name, text, 1) == 0;
}

/* Set the id of this process's pidfd, by which a program recognises that the sockets are meant for it even
 * when its pid was used before. Kernels before 6.9 have no such ids. */
static void set_pidfd_id(void)
{
    struct stat st = { 0 };
    int fd = (int) syscall(SYS_pidfd_open, getpid(), 0);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino > 1u << 16)
        (void) set_number("LISTEN_PIDFDID", st.st_ino);
    if (fd >= 0)
        (void) close(fd);
}

int pass_take(int from)
{
    struct listen_received got;
    dibs_err err = { 0 };
    int above[LISTEN_PARCEL_FDS];

    (void) unsetenv("LISTEN_PIDFDID");
    if (listen_receive(from, &got, &err) != DIBS_OK)
        return err.os_errno ? err.os_errno : EPROTO;
    /* First out of the way: a received one may have a number that another is to get. */
    for (size_t i = 0; i < got.n; i++) {
        above[i] = fcntl(got.fds[i], F_DUPFD_CLOEXEC, CHILD_FDS_MAX);
        if (above[i] < 0)
            return errno;
        (void) close(got.fds[i]);
    }
    for (size_t i = 0; i < got.n; i++)
        if (dup2(above[i], FIRST_FD + (int) i) < 0) /* without close-on-exec */
            return errno;
    set_pidfd_id();
    return setenv("LISTEN_FDNAMES", got.text, 1) == 0 && set_number("LISTEN_FDS", got.n) &&
                   set_number("LISTEN_PID", (unsigned long long) getpid())
               ? 0
               : ENOMEM;
}
