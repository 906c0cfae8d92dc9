/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_HISTORY_H
#define DIBS_TESTS_STORM_HISTORY_H
/* The histories of clients (storm_client.h): what each one did, when it began and when it had the answer.
 *
 * A history is a shared mapping of a file, so that SIGKILL takes nothing of it: a record counts as begun or
 * done by its last field. It outlives the processes of its slot, which come one after the other. */
#include "storm.h"

enum {
    MIX_FIRST = 20000,
    MIX_LAST = 20039, /* few enough for many conflicts */
    MIX_HELD_MAX = 4,
    MIX_KINDS = 9,
    MIX_CLIENTS_MAX = 128,
    MIX_RECORDS_MAX = 1 << 16, /* of one slot */
    MIX_LIVES_MAX = 2000,
    MIX_TTL_MS = 1600,
    MIX_KEEPERS = 6, /* slots that keep a claim: more would leave too few ports for the others */
};

struct mix_kind {
    size_t n;
    dibs_binding bindings[2];
};
extern const struct mix_kind mix_kinds[MIX_KINDS];

#define MIX_KEPT INT64_MAX /* ends by a release alone */

enum mix_op { MIX_CLAIM = 1, MIX_RELEASE, MIX_RENEW, MIX_TRANSFER };
enum mix_state { MIX_NONE = 0, MIX_BEGUN, MIX_DONE };

struct mix_record {
    int64_t start_ns, end_ns;
    int64_t until_ns; /* of a lease, at the earliest; MIX_KEPT; 0: held by the process */
    uint64_t token, new_token;
    enum mix_op op;
    dibs_status status;
    uint32_t incarnation;
    uint32_t heir_incarnation;
    int heir_slot;
    uint16_t port;
    uint8_t kind;
    bool is_heir_sure;
    _Atomic int state; /* enum mix_state: set last */
};

struct mix_held {
    uint16_t port; /* 0: nothing */
    uint8_t kind;
    bool is_bound; /* the sockets were open before the lease could end: it cannot end since */
    int64_t until_ns;
    char token[DIBS_TOKEN_MAX + 1];
};

/* Where a claim is handed over. While it is written, the state names the writer. */
enum { MIX_BOX_EMPTY = 0, MIX_BOX_FULL = 1, MIX_BOX_WRITTEN = 2 };
struct mix_box {
    _Atomic int state;
    uint32_t incarnation; /* of the recipient */
    struct mix_held held;
};

struct mix_slot {
    int number;
    _Atomic uint32_t incarnation;
    _Atomic pid_t pid;
    _Atomic int is_waiting, is_doomed;
    struct mix_box box;
    struct mix_held held[MIX_HELD_MAX];
    struct mix_held kept;                 /* by nobody: it outlives the slot's processes */
    int64_t killed_ns[MIX_LIVES_MAX + 1]; /* by life, before the kill: it lived until then */
    size_t n_records;
    struct mix_record *records;
};

struct mix_access; /* storm_client.h */

enum { MIX_ACCESSES = 4 };
struct mix {
    _Atomic int is_over;
    /* How the slots ask, by number. */
    const struct mix_access *accesses[MIX_ACCESSES];
    /* Counts up before and after whatever may cut off a call; odd: just now. NULL: nothing does. */
    const _Atomic unsigned *upsets;
    uint64_t seed;
    size_t n, n_killed;
    struct mix_slot slots[MIX_CLIENTS_MAX];
};

struct mix *mix_new(size_t n, uint64_t seed);
/* Only by the slot's living process. */
struct mix_record *mix_next(struct mix_slot *slot);
/* No two conflicting claims at once, by the clients' own words. */
void mix_check(const struct mix *mix);
#endif
