/* SPDX-License-Identifier: MIT */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"

#include "base/banned.h"

#define CHUNK_BYTES ((size_t) 65536)

static dibs_status read_all(int fd, const char *path, char **out, size_t *len, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    size_t used = 0;
    size_t room = 0;

    for (;;) {
        if (room - used < CHUNK_BYTES) {
            room = room ? 2 * room : 2 * CHUNK_BYTES;
            char *larger = realloc(text, room + 1);

            if (!larger)
                return err_set(err, DIBS_FAILURE, "out of memory");
            text = larger;
        }
        ssize_t got = read(fd, text + used, room - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_os(err, DIBS_FAILURE, errno, "cannot read '%s'", path);
        if (got == 0)
            break;
        used += (size_t) got;
        if (used > DIBS_INPUT_MAX_BYTES)
            return err_set(err, DIBS_INVALID, "'%s' has more than %u bytes", path, DIBS_INPUT_MAX_BYTES);
    }
    text[used] = '\0';
    *out = TAKE(text);
    *len = used;
    return DIBS_OK;
}

dibs_status cli_input_read(const char *path, char **out, size_t *len, dibs_err *err)
{
    char safe[1024] = "";

    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", out, len, err);
    (void) cli_safe(path, safe, sizeof safe);
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot open '%s'", safe);
    return read_all(fd, safe, out, len, err);
}

dibs_status cli_number_parse(const char *what, const char *text, int64_t least, int64_t most, int64_t *out,
                             dibs_err *err)
{
    char safe[64] = "";

    if (cli_number(text, least, most, out))
        return DIBS_OK;
    return err_set(err, DIBS_INVALID, "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, what,
                   cli_safe(text, safe, sizeof safe), least, most);
}
