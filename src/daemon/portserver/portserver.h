/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_PORTSERVER_PORTSERVER_H
#define DIBS_DAEMON_PORTSERVER_PORTSERVER_H
/* Google's portserver protocol, for clients that speak it (python_portpicker and others): a connection is one
 * request, the number of a process; the answer is a port and the end, or nothing and the end. The port, with
 * TCP and UDP, is that process' until it dies. Requests become jobs of the engine; it decides nothing. */
#include "daemon/api/api.h"

struct portserver;

/* Connections at once. Those that wait for the engine are answered in their turn; of those that say nothing
 * the one that was silent longest is closed for a new one, so that no client can shut out others. */
#define PORTSERVER_CONNECTIONS_MAX 1024
/* Longer requests are refused. */
#define PORTSERVER_REQUEST_MAX 20
/* An honest client sends its request as it connects. */
#define PORTSERVER_SILENT_MS 10000

/* Its options are those of the API. */
dibs_status portserver_open(const struct api_options *options, struct portserver **out, dibs_err *err);
/* After the engine, which answers its jobs in the end. NULL is fine. */
void portserver_close(struct portserver *server);

/* Takes over a listening Unix socket on success. */
dibs_status portserver_listen(struct portserver *server, int fd, dibs_err *err);

/* Once a turn: cut off clients that were silent for too long. */
void portserver_run(struct portserver *server);
int64_t portserver_next_ms(const struct portserver *server); /* below 0: for ever */
/* No new connections; answers that are due are still given. False: nothing is open any more. */
bool portserver_drain(struct portserver *server);
size_t portserver_connections(const struct portserver *server);

/* Read a request, the number of a process, as their server does (Python's int() of bytes): white space around
 * it, a sign before it, leading zeros and single underscores between digits are allowed. A larger number than
 * INT64_MAX becomes that. */
bool portserver_pid_parse(const char *text, size_t n, int64_t *out);
#endif
