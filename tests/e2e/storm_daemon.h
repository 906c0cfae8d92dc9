/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_DAEMON_H
#define DIBS_TESTS_STORM_DAEMON_H
/* The daemon as a child that is killed and started again, and bytes on its socket: HTTP as anybody could
 * write it, without a line of ours. */
#include "storm.h"

/* Seen by all processes of a storm. */
struct storm_daemon {
    pid_t keeper; /* a process of ours that starts and kills it */
    uint32_t n_lives;
    _Atomic unsigned upsets; /* counts up before each death and after each birth; odd: it is dead */
    _Atomic int state;
    char socket[100];
};
/* Beside the ledger; $DIBS_SOCKET names it from then on. From its first answer on it is killed by SIGKILL and
 * started again, again and again. */
struct storm_daemon *storm_daemon_begin(uint64_t seed);
/* Once more; then it lives. */
void storm_daemon_calm(struct storm_daemon *daemon);
/* By SIGTERM: it ends well. */
void storm_daemon_end(struct storm_daemon *daemon);

struct storm_http {
    int fd; /* -1: none yet, or no more */
};
struct storm_answer {
    int status;
    char body[16384];
};
/* One request and its whole answer, on a connection that stays. False when it was cut off: whether it was
 * done is not known. `key`, `body`: NULL is none. */
bool storm_http_ask(struct storm_http *http, const char *method_and_target, const char *key, const char *body,
                    struct storm_answer *answer);
/* The two halves of it, for who wants to do something in between. */
bool storm_http_say(struct storm_http *http, const char *method_and_target, const char *key,
                    const char *body);
bool storm_http_hear(struct storm_http *http, struct storm_answer *answer);
void storm_http_disconnect(struct storm_http *http);
/* A request that is asked again until there is an answer; false after half a minute without one. */
bool storm_http_insist(struct storm_http *http, const char *method_and_target, const char *key,
                       const char *body, struct storm_answer *answer);
/* The first member of that name: text without escapes, or a number. */
bool storm_json_text(const char *json, const char *name, char *out, size_t size);
long storm_json_number(const char *json, const char *name, long otherwise);
#endif
