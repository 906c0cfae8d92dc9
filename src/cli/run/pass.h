/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_PASS_H
#define DIBS_CLI_RUN_PASS_H
/* Sockets that `dibs run --listen` binds and passes to its command: LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES.
 */
#include "cli/run/launch.h"
#include "hold/listen.h"

/* The sockets of a command. */
struct pass {
    int fds[LISTEN_PARCEL_FDS];
    size_t n;
    char names[LISTEN_PARCEL_TEXT]; /* "web:web:dns" */
};

/* In dibs: bind the ports whose claims have the level `fd`; names[i] is the name of the i-th. TAKEN: another
 * process uses one. */
dibs_status pass_open(struct pass *pass, const struct launch_claims *claims,
                      const char *(*name_of)(const void *ctx, size_t i), const void *ctx, dibs_err *err);
void pass_close(struct pass *pass);
/* Send them to the child. */
dibs_status pass_send(const struct pass *pass, int to, dibs_err *err);
/* In the child: receive them as descriptors 3, 4, ... and set the variables. Returns errno. */
int pass_take(int from);
#endif
