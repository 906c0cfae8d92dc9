/* SPDX-License-Identifier: MIT */
/* Processes that claim, release, transfer, renew and die by SIGKILL, all at once, on a few ports.
 *
 *   storm_mix clients=64 seconds=60
 *
 * Each client writes its own history (storm_history.h) and holds real sockets on what it believes is its own.
 * The checker believes the clients and the kernel, not the ledger's own log. */
#include "storm_history.h"

#include <sys/wait.h>

struct client {
    struct mix_slot *slot;
    struct mix *mix;
    dibs *handle;
    struct storm_random random;
    struct mix_held *held; /* in the slot, so that the checker sees it */
    int fds[MIX_HELD_MAX][2];
};

static uint64_t hash(const char *token)
{
    uint64_t h = 1469598103934665603u;

    for (; *token; token++)
        h = (h ^ (uint8_t) *token) * 1099511628211u;
    return h;
}

/* ---- sockets ---- */

static void close_sockets(struct client *c, size_t i)
{
    for (int k = 0; k < 2; k++) {
        if (c->fds[i][k] >= 0)
            (void) close(c->fds[i][k]);
        c->fds[i][k] = -1;
    }
}

/* What is one's own can be bound. A lease that may have ended meanwhile promises nothing any more. */
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
    return r;
}

static void finish(struct mix_record *r, dibs_status status)
{
    r->status = status;
    r->end_ns = storm_now_ns();
    atomic_store(&r->state, MIX_DONE);
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

static void take(struct client *c, size_t i, struct mix_record *r, const dibs_claim *claim)
{
    struct mix_held held = { .port = claim->port, .kind = r->kind, .until_ns = r->until_ns };

    (void) snprintf(held.token, sizeof held.token, "%s", claim->token);
    if (has_already(c, held.token))
        return; /* asked again by name: ours already */
    c->held[i] = held;
    open_sockets(c, i);
}

static void do_claim(struct client *c)
{
    size_t i = free_place(c);
    uint8_t kind = (uint8_t) storm_below(&c->random, MIX_KINDS);
    bool is_lease = storm_below(&c->random, 4) == 0;
    dibs_ranges ranges = { .n = 1, .item = { { MIX_FIRST, MIX_LAST } } };
    dibs_request request = { .ranges = &ranges, .n_bindings = mix_kinds[kind].n };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    char name[32];

    if (i == MIX_HELD_MAX)
        return;
    memcpy(request.bindings, mix_kinds[kind].bindings, sizeof mix_kinds[kind].bindings);
    request.mode = (dibs_mode) storm_below(&c->random, 3); /* random, required, preferred */
    request.port = (uint16_t) (MIX_FIRST + storm_below(&c->random, MIX_LAST - MIX_FIRST + 1));
    request.holder = is_lease ? DIBS_HELD_BY_LEASE : DIBS_HELD_BY_PROCESS;
    request.ttl_ms = is_lease ? MIX_TTL_MS / 4 + (int64_t) storm_below(&c->random, MIX_TTL_MS * 3 / 4) : 0;
    (void) snprintf(name, sizeof name, "mix/n%u", storm_below(&c->random, 24));
    /* Not for leases: a lease asked for again by name is anybody's of the same user. */
    if (!is_lease && storm_below(&c->random, 3) == 0)
        request.name = name;

    struct mix_record *r = begin(c, MIX_CLAIM, NULL);
    r->kind = kind;
    r->until_ns = is_lease ? lease_end(r->start_ns, request.ttl_ms) : 0;
    dibs_status s = dibs_claim_ports(c->handle, &batch, &claim, &err);
    r->port = claim.port;
    r->token = s == DIBS_OK ? hash(claim.token) : 0;
    finish(r, s);
    if (s == DIBS_OK && claim.is_degraded)
        storm_violation("degraded");
    if (s == DIBS_OK)
        take(c, i, r, &claim);
    else if (s != DIBS_TAKEN && s != DIBS_EXHAUSTED)
        storm_violation("claim: %s", err.msg);
}

/* Is it certain that this claim is there? */
static bool is_certain(const struct mix_held *h)
{
    return h->until_ns == 0 || h->is_bound || storm_now_ns() < h->until_ns;
}

static void do_release(struct client *c, size_t i)
{
    struct mix_held *h = &c->held[i];
    struct mix_record *r = NULL;
    dibs_which which = { .token = h->token };
    dibs_err err = { 0 };
    size_t n = 0;

    r = begin(c, MIX_RELEASE, h);
    close_sockets(c, i);
    dibs_status s = dibs_claim_release(c->handle, &which, 0, &n, &err);
    finish(r, s);
    if (s != DIBS_OK)
        storm_violation("release: %s", err.msg);
    else if (n != 1 && (h->until_ns == 0 || storm_now_ns() < h->until_ns))
        storm_violation("lost: pid %d released its own port %u, and there was nothing", (int) getpid(),
                        h->port);
    *h = (struct mix_held){ 0 };
}

static void do_renew(struct client *c, size_t i)
{
    struct mix_held *h = &c->held[i];
    dibs_which which = { .token = h->token };
    bool was_certain = is_certain(h);
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    if (h->until_ns == 0)
        return;
    struct mix_record *r = begin(c, MIX_RENEW, h);
    dibs_status s = dibs_claim_renew(c->handle, &which, MIX_TTL_MS, &claim, &err);
    if (s == DIBS_OK)
        r->until_ns = lease_end(r->start_ns, MIX_TTL_MS);
    finish(r, s);
    if (s == DIBS_OK)
        h->until_ns = r->until_ns;
    else if (was_certain)
        storm_violation("lost: the lease on port %u cannot be renewed: %s", h->port, err.msg);
    else
        do_release(c, i);
}

static void do_find(struct client *c, size_t i)
{
    struct mix_held *h = &c->held[i];
    dibs_which which = { .token = h->token };
    bool was_certain = is_certain(h);
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    dibs_status s = dibs_claim_find(c->handle, &which, &claim, &err);

    if (was_certain && (s != DIBS_OK || claim.port != h->port))
        storm_violation("lost: pid %d does not find its port %u: %s", (int) getpid(), h->port,
                        s ? err.msg : "another port");
}

/* To the process of another slot, which hears of it through its letter box. */
static void do_transfer(struct client *c, size_t i)
{
    struct mix_held *h = &c->held[i];
    struct mix_slot *to = &c->mix->slots[storm_below(&c->random, (uint32_t) c->mix->n)];
    dibs_which which = { .token = h->token };
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
    dibs_status s = dibs_claim_transfer(c->handle, &which, &heir, &claim, &err);
    r->new_token = s == DIBS_OK ? hash(claim.token) : 0;
    /* The slot may have got a new process between the two looks: then nobody can say whose it is. */
    r->is_heir_sure = to->incarnation == incarnation && to->pid == heir.pid;
    finish(r, s);
    if (s != DIBS_OK) {
        atomic_store(&to->box.state, MIX_BOX_EMPTY);
        if (kill(heir.pid, 0) == 0 && to->incarnation == incarnation && to->pid == heir.pid &&
            !atomic_load(&to->is_doomed))
            storm_violation("transfer to the living pid %d: %s", (int) heir.pid, err.msg);
        do_find(c, i);
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
    /* What was handed over may have been asked for by its name before the letter was opened. */
    if (box->incarnation == c->slot->incarnation && !has_already(c, box->held.token)) {
        c->held[i] = box->held;
        open_sockets(c, i);
        do_find(c, i);
    }
    atomic_store(&box->state, MIX_BOX_EMPTY);
}

__attribute__((noreturn)) static void live(struct mix *mix, struct mix_slot *slot)
{
    struct client c = { .slot = slot, .mix = mix, .held = slot->held, .handle = storm_open() };

    c.random = storm_random_of(mix->seed, (uint64_t) slot->number << 32 | slot->incarnation);
    memset(c.fds, 0xff, sizeof c.fds);
    while (!atomic_load(&mix->is_over)) {
        size_t i = storm_below(&c.random, MIX_HELD_MAX);
        uint32_t what = storm_below(&c.random, 8);

        open_box(&c);
        if (!c.held[i].port)
            do_claim(&c);
        else if (what < 3)
            do_release(&c, i);
        else if (what < 5)
            do_transfer(&c, i);
        else if (what == 5 || c.held[i].until_ns)
            do_renew(&c, i);
        else
            do_find(&c, i);
        if (what == 7)
            storm_sleep_us((long) storm_below(&c.random, 20000));
    }
    open_box(&c);
    for (size_t i = 0; i < MIX_HELD_MAX; i++)
        if (c.held[i].port)
            do_find(&c, i);
    atomic_store(&slot->is_waiting, 1);
    storm_stay(120); /* held until the checker has seen it; it ends us */
}

/* ---- the storm ---- */

static void give_birth(struct mix *mix, struct mix_slot *slot)
{
    int stuck = MIX_BOX_WRITTEN + 1 + slot->number;

    /* What the dead one was writing into others' boxes is void; what lay in its own is for nobody. */
    for (size_t i = 0; i < mix->n; i++) {
        int state = stuck;
        (void) atomic_compare_exchange_strong(&mix->slots[i].box.state, &state, MIX_BOX_EMPTY);
    }
    memset(slot->held, 0, sizeof slot->held);
    slot->incarnation++;
    slot->pid = 0;
    atomic_store(&slot->is_doomed, 0);
    pid_t pid = storm_fork();
    if (pid == 0) {
        slot->pid = getpid();
        live(mix, slot);
    }
    slot->pid = pid;
}

static void kill_one(struct mix *mix, struct mix_slot *slot)
{
    if (slot->incarnation >= MIX_LIVES_MAX)
        storm_die("more than %d lives in one slot", MIX_LIVES_MAX);
    atomic_store(&slot->is_doomed, 1);
    slot->killed_ns[slot->incarnation] = storm_now_ns();
    storm_kill(slot->pid);
    mix->n_killed++;
}

static pid_t start_reaper(const struct mix *mix)
{
    pid_t pid = storm_fork();
    struct storm_run run = { 0 };

    if (pid != 0)
        return pid;
    while (!atomic_load(&mix->is_over)) {
        STORM_DIBS(&run, "reap");
        if (run.code != 0)
            storm_violation("reap: exit %d: %s", run.code, run.err);
        storm_sleep_us(30000);
    }
    _exit(0);
}

/* All hold still: what they hold is in the ledger, under the token they know. */
static void check_none_lost(struct mix *mix)
{
    dibs *handle = storm_open();
    size_t n = 0;

    for (size_t s = 0; s < mix->n; s++) {
        for (int tries = 0; !atomic_load(&mix->slots[s].is_waiting); tries++) {
            if (tries > 20000)
                storm_die("client %zu does not come to rest", s);
            storm_sleep_us(1000);
        }
        for (size_t i = 0; i < MIX_HELD_MAX; i++) {
            const struct mix_held *h = &mix->slots[s].held[i];
            dibs_which which = { .token = h->token };
            dibs_claim claim = { 0 };
            dibs_err err = { 0 };

            if (!h->port || !is_certain(h))
                continue;
            n++;
            if (dibs_claim_find(handle, &which, &claim, &err) != DIBS_OK || claim.port != h->port)
                storm_violation("lost: port %u of client %zu: %s", h->port, s, err.msg);
        }
    }
    printf("  %zu claims are held at the end, each found by its token\n", n);
    dibs_close(handle);
}

static void check_none_leaked(struct mix *mix)
{
    struct storm_run run = { 0 };
    char range[32];
    char count[16];

    for (size_t s = 0; s < mix->n; s++)
        kill_one(mix, &mix->slots[s]);
    STORM_DIBS(&run, "reap");
    if (run.code != 0 || storm_sql("SELECT count(*) FROM claims WHERE holder = 1") != 0)
        storm_violation("leaked: after reap (exit %d) processes hold %lld claims", run.code,
                        (long long) storm_sql("SELECT count(*) FROM claims WHERE holder = 1"));
    storm_sleep_us((MIX_TTL_MS + 100) * 1000L);
    STORM_DIBS(&run, "reap");
    if (storm_sql("SELECT count(*) FROM claims") != 0)
        storm_violation("leaked: %lld leases", (long long) storm_sql("SELECT count(*) FROM claims"));
    (void) snprintf(range, sizeof range, "%d-%d", MIX_FIRST, MIX_LAST);
    (void) snprintf(count, sizeof count, "%d", MIX_LAST - MIX_FIRST + 1);
    STORM_DIBS(&run, "claim", "-n", count, "--range", range, "--proto", "tcp+udp", "--ttl", "1m");
    if (run.code != 0)
        storm_violation("leaked: the whole range cannot be claimed: %s", run.err);
    storm_check_ledger("at the end");
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_mix");
    struct mix *mix = mix_new((size_t) storm_number(argc, argv, "clients", 64), seed);
    struct storm_random random = storm_random_of(seed, UINT64_MAX);
    int64_t end = storm_now_ns() + storm_number(argc, argv, "seconds", 8) * 1000000000;

    for (size_t i = 0; i < mix->n; i++)
        give_birth(mix, &mix->slots[i]);
    pid_t reaper = start_reaper(mix);
    while (storm_now_ns() < end) {
        struct mix_slot *slot = &mix->slots[storm_below(&random, (uint32_t) mix->n)];

        storm_sleep_us(1000 + (long) storm_below(&random, 30000));
        kill_one(mix, slot);
        give_birth(mix, slot);
    }
    atomic_store(&mix->is_over, 1);
    (void) storm_wait(reaper);
    check_none_lost(mix);
    check_none_leaked(mix);
    mix_check(mix);
    return storm_end("storm_mix");
}
