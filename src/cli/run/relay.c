/* SPDX-License-Identifier: MIT */
#include "cli/run/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/auto.h"

#include "base/banned.h"

enum { TERMINAL_MS = 20 };

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
    bool is_over = n < 0 && (errno == EIO || (errno == EAGAIN && stream->is_ending));
    if (n < 0 && !is_over)
        return;        /* no more input for now */
    n = n < 0 ? 0 : n; /* EIO: the last process has closed the terminal */
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
    if (stream->is_terminal) { /* the kernel delivers what was written a moment later */
        (void) poll(&(struct pollfd){ .fd = stream->fd, .events = POLLIN }, 1, TERMINAL_MS);
        stream->is_ending = true;
        return;
    }
    if (ioctl(stream->fd, FIONREAD, &waiting) == 0 && waiting > 0)
        stream->left = (size_t) waiting;
    else
        fd_auto(&stream->fd);
}

/* Return the length of the escape sequence at p: two bytes or more, of at most `left`. */
static size_t sequence_length(const char *p, size_t left)
{
    size_t n = 2;

    if (left < 2)
        return left;
    if (p[1] == '[') { /* CSI: parameters, then a byte from '@' to '~' */
        while (n < left && p[n] >= ' ' && p[n] <= '?')
            n++;
        return n < left && p[n] >= '@' && p[n] <= '~' ? n + 1 : n;
    }
    if (p[1] == ']' || p[1] == 'P' || p[1] == '_' || p[1] == '^') { /* a string up to BEL or ESC \ */
        while (n < left && p[n] != '\a' && p[n] != '\033')
            n++;
        return n >= left ? left : p[n] == '\a' ? n + 1 : n + 2 < left ? n + 2 : left;
    }
    return p[1] == '(' || p[1] == ')' || p[1] == '#' ? (left < 3 ? left : 3) : 2;
}

size_t relay_clean_line(char *line, size_t len)
{
    size_t to = 0;

    while (len > 0 && line[len - 1] == '\r')
        len--;
    for (size_t at = 0, n = 1; at < len; at += n) {
        n = line[at] == '\033' ? sequence_length(line + at, len - at) : 1;
        bool is_colour = n > 2 && line[at + 1] == '[' && line[at + n - 1] == 'm';

        if (line[at] == '\r') {
            to = 0;
        } else if (line[at] != '\b' && (line[at] != '\033' || is_colour)) {
            memmove(line + to, line + at, n);
            to += n;
        }
    }
    return to;
}

static bool put_line(const char *prefix, const char *line, size_t len, struct relay_sink *to)
{
    static const char reset[] = "\033[0m";
    bool has_colour = memchr(prefix, '\033', strlen(prefix)) || memchr(line, '\033', len);
    size_t needed = strlen(prefix) + len + sizeof reset + 1;

    if (!to->failed && needed > sizeof to->text - to->used)
        return false;
    return relay_sink_put(to, prefix, strlen(prefix)) && relay_sink_put(to, line, len) &&
           relay_sink_put(to, reset, has_colour ? sizeof reset - 1 : 0) && relay_sink_put(to, "\n", 1);
}

/* Clean a copy of the line if it is a terminal's: it may not fit now, and is put again later. */
static bool put(const struct relay_stream *stream, const char *prefix, const char *line, size_t len,
                struct relay_sink *to)
{
    char clean[RELAY_LINE_MAX];

    if (!stream->is_terminal)
        return put_line(prefix, line, len, to);
    memcpy(clean, line, len);
    return put_line(prefix, clean, relay_clean_line(clean, len), to);
}

void relay_stream_put(struct relay_stream *stream, const char *prefix, struct relay_sink *to)
{
    size_t from = 0;
    bool has_room = true;
    const char *end = NULL;

    while (has_room && (end = memchr(stream->line + from, '\n', stream->used - from))) {
        size_t len = (size_t) (end - stream->line) - from;

        has_room = put(stream, prefix, stream->line + from, len, to);
        from += has_room ? len + 1 : 0;
    }
    bool is_last = stream->fd < 0 || (from == 0 && stream->used == sizeof stream->line);
    if (!end && is_last && stream->used > from &&
        put(stream, prefix, stream->line + from, stream->used - from, to))
        from = stream->used;
    memmove(stream->line, stream->line + from, stream->used - from);
    stream->used -= from;
}
