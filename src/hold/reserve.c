/* SPDX-License-Identifier: MIT */
#include "hold/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"
#include "host/kernel.h"

#include "base/banned.h"

#define LIST "/proc/sys/net/ipv4/ip_local_reserved_ports"

enum {
    LIST_BYTES =
        1 << 20, /* the longest list, every second port, has less than 200,000; one read returns it */
};

struct reserve {
    char path[DIBS_SETTING_VALUE_MAX + 16];
    char head[128]; /* first line of the file: boot and network namespace */
    int list;       /* the kernel's file; its lock orders the changes of all dibs in this namespace */
    int file;       /* ours, locked as long as we live */
    struct portbits own;
};

/* Write at `at`. The kernel takes a long list page by page. */
static dibs_status write_all(int fd, const struct bytes *text, off_t at, const char *what, dibs_err *err)
{
    if (text->is_lost)
        return err_set(err, DIBS_FAILURE, "reserving ports: out of memory");
    for (size_t done = 0; done < text->n;) {
        ssize_t n = pwrite(fd, text->at + done, text->n - done, at + (off_t) done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_os(err, DIBS_UNAVAILABLE, n < 0 ? errno : EIO, "writing %s", what);
        done += (size_t) n;
    }
    return DIBS_OK;
}

/* ---- the kernel's list ---- */

/* Read the list; *has_zero: it has port 0, which is no port for us and has to stay. */
static dibs_status read_list(const struct reserve *r, struct portbits *out, bool *has_zero, dibs_err *err)
{
    AUTO(free_auto) char *text = malloc(LIST_BYTES);
    ssize_t n = text ? pread(r->list, text, LIST_BYTES - 1, 0) : -1;

    if (n < 1 || n == LIST_BYTES - 1)
        return err_os(err, DIBS_UNAVAILABLE, n < 0 ? errno : EIO, "reading " LIST);
    *has_zero = text[0] == '0';
    if (!kernel_reserved_parse(text, (size_t) n, out))
        return err_set(err, DIBS_UNAVAILABLE, LIST " is not in its usual format");
    return DIBS_OK;
}

/* A write that does not begin at 0 adds to the list: no entry that others write meanwhile is lost. */
static dibs_status add_to_list(const struct reserve *r, const struct portbits *more, dibs_err *err)
{
    AUTO(bytes_done) struct bytes text = { 0 };

    portbits_format(more, &text);
    return write_all(r->list, &text, 1, LIST, err);
}

static dibs_status replace_list(const struct reserve *r, const struct portbits *all, bool has_zero,
                                dibs_err *err)
{
    AUTO(bytes_done) struct bytes text = { 0 };

    if (has_zero)
        bytes_add(&text, "0", 1);
    portbits_format(all, &text);
    if (text.n == 0)
        bytes_add(&text, "\n", 1);
    return write_all(r->list, &text, 0, LIST, err);
}

/* ---- our file ---- */

static dibs_status write_file(struct reserve *r, const struct portbits *own, dibs_err *err)
{
    AUTO(bytes_done) struct bytes text = { 0 };

    portbits_format(own, &text);
    struct bytes whole = { 0 };
    bytes_add(&whole, r->head, strlen(r->head));
    bytes_add(&whole, text.at ? text.at : "", text.n);
    bytes_add(&whole, "\n", 1);
    whole.is_lost = whole.is_lost || text.is_lost;
    /* A SIGKILL between the two leaves a cut file: its entries stay reserved, which harms nobody's bind. */
    dibs_status s = write_all(r->file, &whole, 0, r->path, err);
    if (s == DIBS_OK && ftruncate(r->file, (off_t) whole.n) != 0)
        s = err_os(err, DIBS_UNAVAILABLE, errno, "writing %s", r->path);
    bytes_done(&whole);
    return s;
}

/* Take over the entries of the file, if it is of this boot and namespace. */
static dibs_status read_file(struct reserve *r, dibs_err *err)
{
    AUTO(free_auto) char *text = malloc(LIST_BYTES);
    ssize_t n = text ? pread(r->file, text, LIST_BYTES - 1, 0) : -1;
    size_t head = strlen(r->head);
    struct stat st = { 0 };

    if (n < 0 || fstat(r->file, &st) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "reading %s", r->path);
    /* Of another boot, namespace or user, or cut: nothing is ours. */
    if (st.st_uid == geteuid() && (size_t) n > head && memcmp(text, r->head, head) == 0)
        (void) kernel_reserved_parse(text + head, (size_t) n - head, &r->own);
    return DIBS_OK;
}

static dibs_status open_file(struct reserve *r, dibs_err *err)
{
    r->file = open(r->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->file < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "opening %s", r->path);
    if (flock(r->file, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, DIBS_TAKEN, "another daemon reserves ports for this ledger (%s)", r->path);
    return read_file(r, err);
}

/* ---- */

static void discard(struct reserve *r)
{
    if (!r)
        return;
    fd_auto(&r->file);
    fd_auto(&r->list);
    free(r);
}
DEFINE_AUTO(struct reserve, discard)

dibs_status reserve_open(const char *path, const char *boot_id, struct reserve **out, dibs_err *err)
{
    AUTO(discard_auto) struct reserve *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "reserving ports: out of memory");
    self->file = -1;
    self->list = open(LIST, O_RDWR | O_CLOEXEC);
    if (self->list < 0)
        return err_os(err, errno == EACCES || errno == EPERM ? DIBS_DENIED : DIBS_UNAVAILABLE, errno,
                      "ports cannot be reserved: " LIST " needs root of the network namespace");
    if (!text_copy(self->path, sizeof self->path, path))
        return err_set(err, DIBS_INVALID, "reserving ports: the path is too long");
    (void) snprintf(self->head, sizeof self->head, "%s %" PRIu64 " ", boot_id, kernel_netns());
    dibs_status s = open_file(self, err);
    if (s == DIBS_OK)
        *out = TAKE(self);
    return s;
}

/* With the lock: the file gets what will be ours, then the list changes, then the file what is ours. */
static dibs_status change(struct reserve *r, const struct portbits *wanted, dibs_err *err)
{
    struct portbits foreign;
    bool has_zero = false;
    dibs_status s = read_list(r, &foreign, &has_zero, err);
    struct portbits listed = foreign;

    if (s != DIBS_OK)
        return s;
    portbits_subtract(&foreign, &r->own);
    struct portbits next = *wanted;
    portbits_subtract(&next, &foreign);
    struct portbits added = next;
    portbits_subtract(&added, &listed);
    struct portbits ended = r->own;
    portbits_subtract(&ended, &next);
    struct portbits both = r->own;
    portbits_add_all(&both, &next);
    bool has_ended = portbits_count(&ended) > 0;
    if (portbits_count(&added) == 0 && !has_ended)
        return DIBS_OK;
    s = write_file(r, &both, err);
    if (s == DIBS_OK && portbits_count(&added) > 0)
        s = add_to_list(r, &added, err);
    if (s == DIBS_OK && has_ended) {
        portbits_add_all(&foreign, &next);
        s = replace_list(r, &foreign, has_zero, err);
    }
    r->own = s == DIBS_OK ? next : both;
    return s == DIBS_OK && has_ended ? write_file(r, &next, err) : s;
}

dibs_status reserve_set(struct reserve *reserve, const struct portbits *wanted, dibs_err *err)
{
    /* Each holder of the lock has it for milliseconds; one that is stopped must not stop us. */
    if (flock(reserve->list, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, DIBS_UNAVAILABLE, "another process is changing " LIST);
    dibs_status s = change(reserve, wanted, err);
    (void) flock(reserve->list, LOCK_UN);
    return s;
}

void reserve_close(struct reserve *reserve)
{
    const struct portbits none = { { 0 } };
    bool is_done = false;

    if (!reserve)
        return;
    for (int tries = 0; tries < 100 && !is_done; tries++) {
        is_done = reserve_set(reserve, &none, NULL) == DIBS_OK;
        if (!is_done)
            (void) usleep(1000);
    }
    if (is_done)
        (void) unlink(reserve->path);
    discard(reserve);
}

void reserve_remove(const char *path, const char *boot_id)
{
    struct reserve *left = NULL;

    if (access(path, F_OK) != 0 || reserve_open(path, boot_id, &left, NULL) != DIBS_OK)
        return;
    if (portbits_count(&left->own) > 0)
        reserve_close(left);
    else
        discard(left);
}
