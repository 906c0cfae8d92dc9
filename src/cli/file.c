/* SPDX-License-Identifier: MIT */
#include "cli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#include "base/banned.h"

dibs_status cli_input_read(const char *path, char **out, size_t *len, dibs_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = cli_input_name(path);
    AUTO(free_auto)
    char *text = malloc(DIBS_INPUT_MAX_BYTES + 2u); /* only the pages of the input are used */
    FILE *from = is_stdin ? stdin : fopen(path, "re");

    if (!from)
        return err_os(err, DIBS_FAILURE, errno, "cannot open '%s'", name);
    size_t n = text ? fread(text, 1, DIBS_INPUT_MAX_BYTES + 1u, from) : 0;
    int failed = ferror(from) ? errno : 0;
    if (!is_stdin)
        (void) fclose(from);
    if (!text)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (failed)
        return err_os(err, DIBS_FAILURE, failed, "cannot read '%s'", name);
    if (n > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "'%s' has more than %u bytes", name, DIBS_INPUT_MAX_BYTES);
    text[n] = '\0';
    *out = TAKE(text);
    *len = n;
    return DIBS_OK;
}

const char *cli_input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

enum { NEW_MODE = 0666, PRIVATE_MODE = 0600, MODE_BITS = 07777 };

bool cli_write_all(int fd, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *) bytes + done, n - done);

        if (put < 0 && errno == EAGAIN) { /* another process made the pipe non-blocking */
            (void) poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
            continue;
        }
        if (put == 0 || (put < 0 && errno != EINTR))
            return false;
        done += put > 0 ? (size_t) put : 0;
    }
    return true;
}

/* Write to a device, a pipe or a terminal, which is never replaced. */
static dibs_status write_through(const char *path, const char *text, size_t len, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

    if (fd >= 0 && cli_write_all(fd, text, len))
        return DIBS_OK;
    return err_os(err, DIBS_FAILURE, errno, "cannot write '%s'", path);
}

static mode_t new_mode(void)
{
    mode_t mask = umask(0);

    (void) umask(mask);
    return NEW_MODE & ~mask;
}

dibs_status cli_output_save(const char *path, const char *text, size_t len, bool is_private, dibs_err *err)
{
    char real[PATH_MAX] = "";
    char temporary[PATH_MAX + 8] = "";
    struct stat st = { 0 };
    bool is_there = stat(path, &st) == 0;
    const char *name = path;

    if (is_there && !S_ISREG(st.st_mode))
        return write_through(path, text, len, err);
    for (int own = STDOUT_FILENO; is_there && own <= STDERR_FILENO; own++) { /* "/dev/stdout" > file */
        struct stat at = { 0 };

        if (fstat(own, &at) == 0 && at.st_dev == st.st_dev && at.st_ino == st.st_ino)
            return cli_write_all(own, text, len)
                       ? DIBS_OK
                       : err_os(err, DIBS_FAILURE, errno, "cannot write '%s'", name);
    }
    if (realpath(path, real)) /* follow a link: its target is replaced */
        path = real;
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t) n >= sizeof temporary)
        return err_set(err, DIBS_INVALID, "the path of the file is too long");
    AUTO(fd_auto) int fd = mkostemp(temporary, O_CLOEXEC);

    if (fd < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot write beside '%s'", name);
    mode_t mode = is_private ? PRIVATE_MODE : is_there ? st.st_mode & MODE_BITS : new_mode();
    bool is_good = cli_write_all(fd, text, len) && fchmod(fd, mode) == 0 && fsync(fd) == 0 &&
                   rename(temporary, path) == 0;
    if (!is_good) {
        int why = errno;

        (void) unlink(temporary); /* report the first failure */
        return err_os(err, DIBS_FAILURE, why, "cannot write '%s'", name);
    }
    return DIBS_OK;
}
