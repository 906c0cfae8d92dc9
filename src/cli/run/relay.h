/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_RELAY_H
#define DIBS_CLI_RUN_RELAY_H
/* Relay the output of several processes, line by line, to standard output and standard error without
 * blocking: lines wait in bounded buffers for the reader, and when those are full the processes wait. */
#include <stdbool.h>
#include <stddef.h>

enum {
    RELAY_LINE_MAX = 16384, /* a longer line is cut in pieces */
    RELAY_SINK_MAX = 65536, /* as much as a pipe has; the longest line and its title fit */
};

/* Standard output or standard error. */
struct relay_sink {
    int fd;
    bool is_own; /* it was opened here */
    int failed;  /* errno of a write; later output is dropped */
    size_t used;
    char text[RELAY_SINK_MAX];
};
void relay_sink_open(struct relay_sink *sink, int fd);
void relay_sink_close(struct relay_sink *sink);
/* Append the whole text, or return false: it does not fit now. */
bool relay_sink_put(struct relay_sink *sink, const char *text, size_t len);
/* Write once, when poll() has found the sink writable. True: something was written. */
bool relay_sink_write(struct relay_sink *sink);

/* The output of one process. */
struct relay_stream {
    int fd;      /* -1: closed */
    size_t left; /* to be read at most */
    size_t used;
    char line[RELAY_LINE_MAX];
};
/* Is there space for more input? */
bool relay_stream_has_room(const struct relay_stream *stream);
/* Read once, without blocking. */
void relay_stream_read(struct relay_stream *stream);
/* Read from now on only what is in the pipe already, even if another process has it open. */
void relay_stream_finish(struct relay_stream *stream);
/* Write whole lines behind the title and a bar, while they fit; the rest, too, when the end is reached.
 */
void relay_stream_put(struct relay_stream *stream, const char *title, struct relay_sink *to);
#endif
