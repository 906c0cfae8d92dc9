/* SPDX-License-Identifier: MIT */
#include "cli/run/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/auto.h"

#include "base/banned.h"

void relay_sink_open(struct relay_sink *sink, int fd)
{
    char path[32];
    struct stat st = { 0 };

    /* Reopen it where possible: O_NONBLOCK on the inherited description would affect every process that
     * shares it. A file is shared on purpose, with its offset. */
    (void) snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int flags = fcntl(fd, F_GETFL);
    bool can_write =
        flags >= 0 && (flags & O_ACCMODE) != O_RDONLY; /* otherwise a write must fail as before */
    if (can_write && fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        sink->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    else
        sink->fd = -1;
    sink->is_own = sink->fd >= 0;
    sink->fd = sink->is_own ? sink->fd : fd;
}

void relay_sink_close(struct relay_sink *sink)
{
    if (sink->is_own)
        fd_auto(&sink->fd);
}

bool relay_sink_put(struct relay_sink *sink, const char *text, size_t len)
{
    if (sink->failed)
        return true;
    if (len > sizeof sink->text - sink->used)
        return false;
    memcpy(sink->text + sink->used, text, len);
    sink->used += len;
    return true;
}

bool relay_sink_write(struct relay_sink *sink)
{
    /* A sink that could not be reopened may block, but not for PIPE_BUF bytes when poll() reports space. */
    size_t len = sink->used < PIPE_BUF ? sink->used : PIPE_BUF;
    ssize_t n = write(sink->fd, sink->text, len);

    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        sink->failed = errno;
        sink->used = 0;
    }
    if (n <= 0)
        return false;
    sink->used -= (size_t) n;
    memmove(sink->text, sink->text + n, sink->used);
    return true;
}

bool relay_stream_has_room(const struct relay_stream *stream)
{
    return stream->fd >= 0 && stream->used < sizeof stream->line;
}

void relay_stream_read(struct relay_stream *stream)
{
    size_t space = sizeof stream->line - stream->used;

    if (!relay_stream_has_room(stream))
        return;
    ssize_t n = read(stream->fd, stream->line + stream->used, space < stream->left ? space : stream->left);
    if (n < 0)
        return; /* no more input for now */
    stream->used += (size_t) n;
    stream->left -= (size_t) n;
    if (n == 0 || stream->left == 0)
        fd_auto(&stream->fd);
}

void relay_stream_finish(struct relay_stream *stream)
{
    int waiting = 0;

    if (stream->fd < 0)
        return;
    if (ioctl(stream->fd, FIONREAD, &waiting) == 0 && waiting > 0)
        stream->left = (size_t) waiting;
    else
        fd_auto(&stream->fd);
}

static bool put_line(const char *title, const char *line, size_t len, struct relay_sink *to)
{
    size_t needed = strlen(title) + len + 4;

    if (!to->failed && needed > sizeof to->text - to->used)
        return false;
    return relay_sink_put(to, title, strlen(title)) && relay_sink_put(to, " | ", 3) &&
           relay_sink_put(to, line, len) && relay_sink_put(to, "\n", 1);
}

void relay_stream_put(struct relay_stream *stream, const char *title, struct relay_sink *to)
{
    size_t from = 0;
    bool has_room = true;
    const char *end = NULL;

    while (has_room && (end = memchr(stream->line + from, '\n', stream->used - from))) {
        size_t len = (size_t) (end - stream->line) - from;

        has_room = put_line(title, stream->line + from, len, to);
        from += has_room ? len + 1 : 0;
    }
    bool is_last = stream->fd < 0 || (from == 0 && stream->used == sizeof stream->line);
    if (!end && is_last && stream->used > from &&
        put_line(title, stream->line + from, stream->used - from, to))
        from = stream->used;
    memmove(stream->line, stream->line + from, stream->used - from);
    stream->used -= from;
}
