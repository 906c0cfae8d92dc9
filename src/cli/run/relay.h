/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_RELAY_H
#define DIBS_CLI_RUN_RELAY_H
/* Relay the output of several processes, line by line, to standard output and standard error without
 * blocking. Lines wait in bounded buffers; when these are full, the processes wait. */
#include <stdbool.h>
#include <stddef.h>

enum {
    RELAY_LINE_MAX = 16384, /* longer lines are split */
    RELAY_SINK_MAX = 65536, /* capacity of a pipe; the longest line and its title fit */
};

/* Standard output or standard error. */
struct relay_sink {
    int fd;
    bool is_own; /* opened here, so closed here */
    int failed;  /* errno of a write; later output is dropped */
    size_t used;
    char text[RELAY_SINK_MAX];
};
void relay_sink_open(struct relay_sink *sink, int fd);
void relay_sink_close(struct relay_sink *sink);
/* Append the whole text. Return false when it does not fit now. */
bool relay_sink_put(struct relay_sink *sink, const char *text, size_t len);
/* Write once, when poll() reports the sink writable. Return true when something was written. */
bool relay_sink_write(struct relay_sink *sink);

/* The output of one process. */
struct relay_stream {
    int fd;           /* -1: closed */
    bool is_terminal; /* the process writes to a terminal: lines are cleaned for ours */
    bool is_ending;   /* read until there is nothing more */
    size_t left;      /* bytes still to be read at most */
    size_t used;
    char line[RELAY_LINE_MAX];
};
/* Is there space for more input? */
bool relay_stream_has_room(const struct relay_stream *stream);
/* Read once, without blocking. */
void relay_stream_read(struct relay_stream *stream);
/* From now on read only what is in the pipe already, even if another process has it open. */
void relay_stream_finish(struct relay_stream *stream);
/* Write whole lines behind the prefix, while they fit; at the end of input also the rest. */
void relay_stream_put(struct relay_stream *stream, const char *prefix, struct relay_sink *to);
/* Clean a line of a terminal in place, and return its new length: colours stay, whatever moves the cursor,
 * erases or sets modes goes, and of what a carriage return overwrites only the last text stays. */
size_t relay_clean_line(char *line, size_t len);
#endif
