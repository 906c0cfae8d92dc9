/* SPDX-License-Identifier: MIT */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#include "base/banned.h"

static dibs_status check_rights(const char *what, const char *path, const struct stat *st, dibs_err *err)
{
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return err_set(err, DIBS_DENIED, "%s %s belongs to user %u: it must be yours or root's; use 'chown'",
                       what, path, (unsigned) st->st_uid);
    if (st->st_mode & (S_IRWXO | S_IWGRP))
        return err_set(err, DIBS_DENIED, "%s %s has mode %04o: other users can access it; use 'chmod 600'",
                       what, path, (unsigned) st->st_mode & 07777);
    return DIBS_OK;
}

static dibs_status read_file(const char *what, const char *path, size_t max_bytes, bool is_secret,
                             struct bytes *out, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    AUTO(secret_done) struct bytes text = { 0 };
    struct stat st = { 0 };

    if (fd < 0 || fstat(fd, &st) != 0)
        return err_os(err, is_secret && errno == EACCES ? DIBS_DENIED : DIBS_INVALID, errno, "%s %s", what,
                      path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, DIBS_INVALID, "%s %s: not a regular file", what, path);
    dibs_status s = is_secret ? check_rights(what, path, &st, err) : DIBS_OK;
    if (s != DIBS_OK)
        return s;
    /* Reserve everything at once: a buffer that moves leaves a copy behind. */
    if (!bytes_reserve(&text, max_bytes + 2))
        return err_set(err, DIBS_FAILURE, "%s %s: out of memory", what, path);
    for (ssize_t got = 1; got > 0 && text.n <= max_bytes; text.n += (size_t) got) {
        got = read(fd, text.at + text.n, max_bytes + 1 - text.n);
        if (got < 0)
            return err_os(err, DIBS_INVALID, errno, "%s %s", what, path);
    }
    if (text.n > max_bytes)
        return err_set(err, DIBS_INVALID, "%s %s: more than %zu bytes", what, path, max_bytes);
    text.at[text.n] = '\0';
    if (!is_secret && strlen(text.at) != text.n)
        return err_set(err, DIBS_INVALID, "%s %s: it has a NUL byte, so it is not a text", what, path);
    *out = text;
    text = (struct bytes){ 0 };
    return DIBS_OK;
}

dibs_status secret_read(const char *what, const char *path, size_t max_bytes, struct bytes *out,
                        dibs_err *err)
{
    return read_file(what, path, max_bytes, true, out, err);
}

dibs_status file_read_text(const char *what, const char *path, size_t max_bytes, char **out, dibs_err *err)
{
    struct bytes text = { 0 };
    dibs_status s = read_file(what, path, max_bytes, false, &text, err);

    if (s == DIBS_OK)
        *out = text.at;
    return s;
}

void secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void secret_done(struct bytes *secret)
{
    if (secret->at)
        explicit_bzero(secret->at, secret->capacity);
    bytes_done(secret);
}
