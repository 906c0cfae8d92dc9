/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_PORTSERVER_PORTSERVER_H
#define DIBS_DAEMON_PORTSERVER_PORTSERVER_H
/* Google's portserver protocol, for clients such as python_portpicker: a connection is one request, a pid,
 * and the answer is a port and the end of the connection; on failure only the end. That process holds the
 * port, TCP and UDP, until it dies. */
#include "daemon/api/api.h"

struct portserver;

/* Open connections. When all are in use, a new one replaces the one that was silent longest, so that no
 * client can shut out others; clients that wait for the engine stay. */
#define PORTSERVER_CONNECTIONS_MAX 1024
/* Longer requests are refused. */
#define PORTSERVER_REQUEST_MAX 20
/* A correct client sends its request as it connects. */
#define PORTSERVER_SILENT_MS 10000

/* The options are those of the API. */
dibs_status portserver_open(const struct api_options *options, struct portserver **out, dibs_err *err);
/* Close it after the engine, which still answers its jobs. NULL is fine. */
void portserver_close(struct portserver *server);

/* Serve a listening Unix socket; the server owns it on success. */
dibs_status portserver_listen(struct portserver *server, int fd, dibs_err *err);

/* Close connections that were silent for too long; called once per loop turn. */
void portserver_run(struct portserver *server);
int64_t portserver_next_ms(const struct portserver *server); /* below 0: for ever */
/* Accept no new connections and send the pending answers. Return false when nothing is open any more. */
bool portserver_drain(struct portserver *server);
size_t portserver_connections(const struct portserver *server);

/* Parse a request, a pid, as Google's server does (Python's int() of bytes): white space around it, a sign,
 * leading zeros and single underscores between digits are allowed. A larger number becomes INT64_MAX. */
bool portserver_pid_parse(const char *text, size_t n, int64_t *out);
#endif
