/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_CLIENT_H
#define DIBS_TESTS_STORM_CLIENT_H
/* Processes that claim, release, renew and hand over at random, write down their answers
 * (storm_history.h), and hold real sockets on what they believe is their own.
 *
 * A call that may have been cut off (mix->upsets) can have happened or not: nobody may rely on it. Whatever
 * was answered must hold. */
#include "storm_history.h"

/* How a client reaches dibs: the returned status says whether the call succeeded. `at` is what open() gave.
 */
struct mix_access {
    void *(*open)(void);
    dibs_status (*claim)(void *at, const dibs_request *request, dibs_claim *out, dibs_err *err);
    dibs_status (*release)(void *at, const char *token, size_t *n, dibs_err *err);
    dibs_status (*renew)(void *at, const char *token, int64_t ttl_ms, dibs_claim *out, dibs_err *err);
    dibs_status (*transfer)(void *at, const char *token, const dibs_heir *heir, dibs_claim *out,
                            dibs_err *err);
    dibs_status (*find)(void *at, const char *token, dibs_claim *out, dibs_err *err);
};
/* Through libdibs, as the environment says. */
extern const struct mix_access mix_library;

/* The work of a process of the slot until it is ended. */
_Noreturn void mix_live(struct mix *mix, struct mix_slot *slot);
/* May one rely on what it holds? */
bool mix_is_certain(const struct mix_held *held);

/* Lives and deaths for so long, then all hold still. */
void mix_rage(struct mix *mix, int64_t seconds);
/* Find their claims by the tokens they know. */
void mix_check_none_lost(struct mix *mix);
/* After the death of all clients and `reap` (NULL: by itself, soon) nothing is held and the range is free. */
void mix_check_none_leaked(struct mix *mix, void (*reap)(void));
#endif
