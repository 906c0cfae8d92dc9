/* SPDX-License-Identifier: MIT */
#include "storm_client.h"

#include <sys/wait.h>

struct client {
    struct mix_slot *slot;
    struct mix *mix;
    const struct mix_access *access;
    void *at;
    struct storm_random random;
    struct mix_held *held; /* in the slot, so that the checker sees it */
    int fds[MIX_HELD_MAX][2];
    unsigned upsets; /* when the call began */
};

static uint64_t hash(const char *token)
{
    uint64_t h = 1469598103934665603u;

    for (; *token; token++)
        h = (h ^ (uint8_t) *token) * 1099511628211u;
    return h;
}

/* ---- access through libdibs ---- */

static void *library_open(void)
{
    return storm_open();
}

static dibs_status library_claim(void *at, const dibs_request *request, dibs_claim *out, dibs_err *err)
{
    return dibs_claim_ports(at, &(dibs_batch){ .requests = request, .n = 1 }, out, err);
}

static dibs_status library_release(void *at, const char *token, size_t *n, dibs_err *err)
{
    return dibs_claim_release(at, &(dibs_which){ .token = token }, 0, n, err);
}

static dibs_status library_renew(void *at, const char *token, int64_t ttl_ms, dibs_claim *out, dibs_err *err)
{
    return dibs_claim_renew(at, &(dibs_which){ .token = token }, ttl_ms, out, err);
}

static dibs_status library_transfer(void *at, const char *token, const dibs_heir *heir, dibs_claim *out,
                                    dibs_err *err)
{
    return dibs_claim_transfer(at, &(dibs_which){ .token = token }, heir, out, err);
}

static dibs_status library_find(void *at, const char *token, dibs_claim *out, dibs_err *err)
{
    return dibs_claim_find(at, &(dibs_which){ .token = token }, out, err);
}

const struct mix_access mix_library = {
    .open = library_open,
    .claim = library_claim,
    .release = library_release,
    .renew = library_renew,
    .transfer = library_transfer,
    .find = library_find,
};

/* ---- sockets ---- */

static void close_sockets(struct client *c, size_t i)
{
    for (int k = 0; k < 2; k++) {
        if (c->fds[i][k] >= 0)
            (void) close(c->fds[i][k]);
        c->fds[i][k] = -1;
    }
}

/* A process can bind its own port. A lease that may have ended meanwhile promises nothing any more. */
static void open_sockets(struct client *c, size_t i)
{
    const struct mix_held *h = &c->held[i];
    const struct mix_kind *kind = &mix_kinds[h->kind];

    for (size_t k = 0; k < kind->n; k++) {
        c->fds[i][k] = storm_listen(&kind->bindings[k], h->port);
        if (c->fds[i][k] < 0 && (h->until_ns == 0 || storm_now_ns() < h->until_ns))
            storm_violation("pid %d cannot bind its own port %u (kind %u): %s", (int) getpid(), h->port,
                            h->kind, strerror(errno));
    }
    c->held[i].is_bound = h->until_ns == 0 || storm_now_ns() < h->until_ns;
}

/* ---- history ---- */

static unsigned upsets_of(const struct client *c)
{
    return c->mix->upsets ? atomic_load(c->mix->upsets) : 0;
}

static struct mix_record *begin(struct client *c, enum mix_op op, const struct mix_held *h)
{
    struct mix_record *r = mix_next(c->slot);

    r->op = op;
    r->incarnation = c->slot->incarnation;
    if (h) {
        r->port = h->port;
        r->kind = h->kind;
        r->token = hash(h->token);
        r->until_ns = h->until_ns;
    }
    r->start_ns = storm_now_ns();
    atomic_store(&r->state, MIX_BEGUN);
    c->upsets = upsets_of(c);
    return r;
}

/* May the call have been cut off, or have been made twice, since it began? */
static bool is_upset(const struct client *c)
{
    return c->upsets % 2 || upsets_of(c) != c->upsets;
}

/* True when the answer is one to rely on; else the record stays as of one that was killed. */
static bool finish(const struct client *c, struct mix_record *r, dibs_status status)
{
    if (status != DIBS_OK && is_upset(c))
        return false;
    r->status = status;
    r->end_ns = storm_now_ns();
    atomic_store(&r->state, MIX_DONE);
    return true;
}

/* ---- what a client does ---- */

/* At the earliest: leases are counted in whole milliseconds, and begin after the call. */
static int64_t lease_end(int64_t start_ns, int64_t ttl_ms)
{
    return (start_ns / 1000000 + ttl_ms) * 1000000;
}

static size_t free_place(const struct client *c)
{
    size_t i = 0;

    while (i < MIX_HELD_MAX && c->held[i].port)
        i++;
    return i;
}

static bool has_already(const struct client *c, const char *token)
{
    for (size_t k = 0; k < MIX_HELD_MAX; k++)
        if (c->held[k].port && strcmp(c->held[k].token, token) == 0)
            return true;
    return false;
}

/* Asks and writes down; true with *out when it was given. */
static bool ask(struct client *c, const dibs_request *request, uint8_t kind, struct mix_held *out)
{
    struct mix_record *r = begin(c, MIX_CLAIM, NULL);
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    r->kind = kind;
    r->until_ns = request->holder == DIBS_HELD_BY_LEASE ? lease_end(r->start_ns, request->ttl_ms) : 0;
    if (request->keep)
        r->until_ns = MIX_KEPT;
    dibs_status s = c->access->claim(c->at, request, &claim, &err);
    r->port = claim.port;
    r->token = s == DIBS_OK ? hash(claim.token) : 0;
    if (finish(c, r, s) && s != DIBS_OK && s != DIBS_TAKEN && s != DIBS_EXHAUSTED)
        storm_violation("claim: %s", err.msg);
    if (s == DIBS_OK && claim.is_degraded)
        storm_violation("degraded");
    *out = (struct mix_held){ .port = claim.port, .kind = kind, .until_ns = r->until_ns };
    (void) snprintf(out->token, sizeof out->token, "%s", claim.token);
    return s == DIBS_OK;
}

static dibs_request request_of(const dibs_ranges *ranges, uint8_t kind)
{
    dibs_request request = { .ranges = ranges, .n_bindings = mix_kinds[kind].n };

    memcpy(request.bindings, mix_kinds[kind].bindings, sizeof mix_kinds[kind].bindings);
    return request;
}

static void do_claim(struct client *c)
{
    size_t i = free_place(c);
    uint8_t kind = (uint8_t) storm_below(&c->random, MIX_KINDS);
    bool is_lease = storm_below(&c->random, 4) == 0;
    dibs_ranges ranges = { .n = 1, .item = { { MIX_FIRST, MIX_LAST } } };
    dibs_request request = request_of(&ranges, kind);
    struct mix_held held = { 0 };
    char name[32] = "";

    if (i == MIX_HELD_MAX)
        return;
    request.mode = (dibs_mode) storm_below(&c->random, 3); /* random, required, preferred */
    request.port = (uint16_t) (MIX_FIRST + storm_below(&c->random, MIX_LAST - MIX_FIRST + 1));
    request.holder = is_lease ? DIBS_HELD_BY_LEASE : DIBS_HELD_BY_PROCESS;
    request.ttl_ms = is_lease ? MIX_TTL_MS / 4 + (int64_t) storm_below(&c->random, MIX_TTL_MS * 3 / 4) : 0;
    (void) snprintf(name, sizeof name, "mix/n%u", storm_below(&c->random, 24));
    /* Not for leases: a lease asked for again by name is anybody's of the same user. */
    if (!is_lease && storm_below(&c->random, 3) == 0)
        request.name = name;
    if (!ask(c, &request, kind, &held) || has_already(c, held.token))
        return; /* asked again by name: ours already */
    c->held[i] = held;
    open_sockets(c, i);
}

/* Is it certain that this claim is there? Asked after a call, it was there all the while. */
bool mix_is_certain(const struct mix_held *h)
{
    return h->until_ns == 0 || h->is_bound || storm_now_ns() < h->until_ns;
}

static void release(struct client *c, const struct mix_held *h)
{
    struct mix_record *r = begin(c, MIX_RELEASE, h);
    dibs_err err = { 0 };
    size_t n = 0;
    dibs_status s = c->access->release(c->at, h->token, &n, &err);

    if (finish(c, r, s) && s != DIBS_OK)
        storm_violation("release: %s", err.msg);
    else if (s == DIBS_OK && n != 1 && !is_upset(c) && (h->until_ns == 0 || storm_now_ns() < h->until_ns))
        storm_violation("lost: pid %d released its own port %u, and there was nothing", (int) getpid(),
                        h->port);
}

static void do_release(struct client *c, size_t i)
{
    close_sockets(c, i);
    release(c, &c->held[i]);
    c->held[i] = (struct mix_held){ 0 };
}

static void do_renew(struct client *c, size_t i)
{
    struct mix_held *h = &c->held[i];
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    if (h->until_ns == 0)
        return;
    struct mix_record *r = begin(c, MIX_RENEW, h);
    dibs_status s = c->access->renew(c->at, h->token, MIX_TTL_MS, &claim, &err);
    if (s == DIBS_OK)
        r->until_ns = lease_end(r->start_ns, MIX_TTL_MS);
    if (!finish(c, r, s) && s == DIBS_UNAVAILABLE)
        return;
    if (s == DIBS_OK)
        h->until_ns = r->until_ns;
    else if (mix_is_certain(h))
        storm_violation("lost: the lease on port %u cannot be renewed: %s", h->port, err.msg);
    else
        do_release(c, i);
}

static void find(struct client *c, const struct mix_held *h)
{
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    c->upsets = upsets_of(c);
    dibs_status s = c->access->find(c->at, h->token, &claim, &err);
    if (s == DIBS_UNAVAILABLE && is_upset(c))
        return;
    if (mix_is_certain(h) && (s != DIBS_OK || claim.port != h->port))
        storm_violation("lost: pid %d does not find its port %u: %s", (int) getpid(), h->port,
                        s ? err.msg : "another port");
}

/* The port is written last: who is killed in the middle has written nothing. */
static void remember(struct mix_held *at, struct mix_held held)
{
    uint16_t port = held.port;

    at->port = held.port = 0;
    atomic_thread_fence(memory_order_seq_cst);
    *at = held;
    atomic_thread_fence(memory_order_seq_cst);
    at->port = port;
}

/* One claim of a slot is kept: by its name, so that the slot's next process has it again. What is being
 * released is nobody's to rely on, so it is forgotten first. */
static void do_keep(struct client *c)
{
    struct mix_held *kept = &c->slot->kept;
    uint8_t kind = (uint8_t) (c->slot->number % MIX_KINDS);
    dibs_ranges ranges = { .n = 1, .item = { { MIX_FIRST, MIX_LAST } } };
    dibs_request request = request_of(&ranges, kind);
    struct mix_held held = *kept;
    char name[32] = "";

    if (kept->port && storm_below(&c->random, 4) != 0) {
        find(c, kept);
        return;
    }
    if (kept->port && storm_below(&c->random, 2) == 0) {
        remember(kept, (struct mix_held){ 0 });
        release(c, &held);
        return;
    }
    (void) snprintf(name, sizeof name, "mix/kept%d", c->slot->number);
    request.name = name;
    request.keep = true;
    bool is_given = ask(c, &request, kind, &held);
    if (kept->port && (is_given || !is_upset(c)) && strcmp(kept->token, held.token) != 0)
        storm_violation("lost: the kept name %s had port %u, and its claim is another one", name, kept->port);
    if (is_given)
        remember(kept, held);
}

/* Transfer the claim to the process of another slot, which learns of it through its letter box. */
static void do_transfer(struct client *c, size_t i)
{
    struct mix_held *h = &c->held[i];
    struct mix_slot *to = &c->mix->slots[storm_below(&c->random, (uint32_t) c->mix->n)];
    dibs_heir heir = { .holder = DIBS_HELD_BY_PROCESS };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    int empty = MIX_BOX_EMPTY;

    if (h->until_ns || to == c->slot ||
        !atomic_compare_exchange_strong(&to->box.state, &empty, MIX_BOX_WRITTEN + 1 + c->slot->number))
        return;
    uint32_t incarnation = to->incarnation;
    heir.pid = to->pid;
    if (heir.pid == 0) { /* between two lives; to the library 0 would mean ourselves */
        atomic_store(&to->box.state, MIX_BOX_EMPTY);
        return;
    }
    struct mix_record *r = begin(c, MIX_TRANSFER, h);
    r->heir_slot = to->number;
    r->heir_incarnation = incarnation;
    close_sockets(c, i);
    dibs_status s = c->access->transfer(c->at, h->token, &heir, &claim, &err);
    r->new_token = s == DIBS_OK ? hash(claim.token) : 0;
    /* The slot may have got a new process between the two reads: then the owner is unknown. */
    r->is_heir_sure = to->incarnation == incarnation && to->pid == heir.pid;
    if (!finish(c, r, s)) { /* whose it is, only the ledger knows */
        *h = (struct mix_held){ 0 };
        atomic_store(&to->box.state, MIX_BOX_EMPTY);
        return;
    }
    if (s != DIBS_OK) {
        atomic_store(&to->box.state, MIX_BOX_EMPTY);
        if (kill(heir.pid, 0) == 0 && to->incarnation == incarnation && to->pid == heir.pid &&
            !atomic_load(&to->is_doomed))
            storm_violation("transfer to the living pid %d: %s", (int) heir.pid, err.msg);
        find(c, h);
        open_sockets(c, i); /* it was not handed over: it is still ours */
        return;
    }
    to->box.held = *h;
    (void) snprintf(to->box.held.token, sizeof to->box.held.token, "%s", claim.token);
    to->box.incarnation = incarnation;
    atomic_store(&to->box.state, MIX_BOX_FULL);
    *h = (struct mix_held){ 0 };
}

static void open_box(struct client *c)
{
    struct mix_box *box = &c->slot->box;
    size_t i = free_place(c);

    if (atomic_load(&box->state) != MIX_BOX_FULL || i == MIX_HELD_MAX)
        return;
    /* Another request may have claimed a transferred port by its name before the message was read. */
    if (box->incarnation == c->slot->incarnation && !has_already(c, box->held.token)) {
        c->held[i] = box->held;
        open_sockets(c, i);
        find(c, &c->held[i]);
    }
    atomic_store(&box->state, MIX_BOX_EMPTY);
}

static void do_something(struct client *c)
{
    size_t i = storm_below(&c->random, MIX_HELD_MAX);
    uint32_t what = storm_below(&c->random, 8);

    open_box(c);
    if (c->slot->number < MIX_KEEPERS && storm_below(&c->random, 8) == 0)
        do_keep(c);
    else if (!c->held[i].port)
        do_claim(c);
    else if (what < 3)
        do_release(c, i);
    else if (what < 5)
        do_transfer(c, i);
    else if (what == 5 || c->held[i].until_ns)
        do_renew(c, i);
    else
        find(c, &c->held[i]);
    if (what == 7)
        storm_sleep_us((long) storm_below(&c->random, 20000));
}

_Noreturn void mix_live(struct mix *mix, struct mix_slot *slot)
{
    struct client c = { .slot = slot, .mix = mix, .held = slot->held };

    c.access = mix->accesses[slot->number % MIX_ACCESSES];
    c.at = c.access->open();
    c.random = storm_random_of(mix->seed, (uint64_t) slot->number << 32 | slot->incarnation);
    memset(c.fds, 0xff, sizeof c.fds);
    if (slot->kept.port)
        find(&c, &slot->kept); /* of the one before us */
    while (!atomic_load(&mix->is_over))
        do_something(&c);
    open_box(&c);
    for (size_t i = 0; i < MIX_HELD_MAX; i++)
        if (c.held[i].port)
            find(&c, &c.held[i]);
    atomic_store(&slot->is_waiting, 1);
    storm_stay(120); /* held until the checker has seen it; it ends us */
}
