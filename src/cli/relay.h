/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RELAY_H
#define DIBS_CLI_RELAY_H
/* Lines of several processes onto standard output and standard error, without ever waiting for whoever reads
 * them: what he does not take stays in buffers that have a bound, and when those are full the processes wait.
 */
#include <stdbool.h>
#include <stddef.h>

enum {
    RELAY_LINE_MAX = 16384, /* a longer line is cut in pieces */
    RELAY_SINK_MAX = 65536, /* as much as a pipe has; room for the longest line and its title */
};

/* Standard output or standard error. */
struct relay_sink {
    int fd;
    bool is_own; /* opened here: to be closed */
    int failed;  /* errno of a write; what comes afterwards is thrown away */
    size_t used;
    char text[RELAY_SINK_MAX];
};
void relay_sink_open(struct relay_sink *sink, int fd);
void relay_sink_close(struct relay_sink *sink);
/* All of it, or false: there is no room now. */
bool relay_sink_put(struct relay_sink *sink, const char *text, size_t len);
/* Once, when poll() says that it can be written to. True: something was taken. */
bool relay_sink_write(struct relay_sink *sink);

/* What one process writes. */
struct relay_stream {
    int fd;      /* -1: closed */
    size_t left; /* to be read at most */
    size_t used;
    char line[RELAY_LINE_MAX];
};
/* Does it want to be read? */
bool relay_stream_has_room(const struct relay_stream *stream);
/* Once, without waiting. */
void relay_stream_read(struct relay_stream *stream);
/* Nothing is awaited any more: only what is in the pipe already, whoever has it open. */
void relay_stream_finish(struct relay_stream *stream);
/* Whole lines behind the title and a bar, while there is room; the rest too when its end is reached. */
void relay_stream_put(struct relay_stream *stream, const char *title, struct relay_sink *to);
#endif
