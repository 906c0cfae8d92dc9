/* SPDX-License-Identifier: MIT */
/* Repairs the ledger from observation (K7): claims ports that are used but not claimed, and drops a claim
 * without a holder whose generation was not used for a grace (W4), if the caller may end it. The grace is a
 * time: a count of runs says nothing, because two of them may be milliseconds apart. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/in_use.h"
#include "host/kernel.h"
#include "net/bindings.h"

#include "base/banned.h"

enum { CHUNK = 256 };
#define NONE SIZE_MAX

/* The keeper of a declared claim that withholds an observed port which could not be claimed. */
#define WITHHELD "observation"

/* An observed use, and the claim that covers it. */
struct use {
    struct use *next;  /* next use of the same protocol and port, in the order of `seen` */
    uint64_t claim_id; /* the claim that covers it; 0: none */
    char *other_name;  /* name of that claim when the observed name differs; else NULL */
    bool is_repeated;  /* an earlier use that can be claimed covers it */
    bool is_blocked;   /* a claim, or an earlier use that can be claimed, covers a part of it only */
};

struct use_chain {
    struct use *first;
};

struct repairing {
    struct core *core;
    const struct call *call;
    const dibs_repair_plan *plan;
    int64_t grace_ms;
    dibs_pool pool;
    dibs_repair_fn fn;
    void *ctx;
    bool is_stopped;
    bool is_failed;            /* a callback ran out of memory */
    const dibs_observed *seen; /* the observed uses, in order */
    struct use *uses;          /* uses[i] belongs to seen[i] */
    struct use_chain *chains;  /* by protocol and port */
    size_t n_seen;
    struct kernel_socket *sockets; /* sockets[i] is seen[i] when sockets are observed; else NULL */
    const struct nat_rule **rules; /* rules[i] publishes seen[i], which is no socket then */
    pid_t *pids;                   /* owners of the sockets; 0: unknown */
};

/* The work of one transaction: a chunk of observed uses or of claims. */
struct chunk {
    size_t n;
    dibs_claim claims[CHUNK];
    uint8_t n_renamed[CHUNK]; /* of each of `claims`: the names tried after the observed one */
    struct sighting_record unused[CHUNK];
    struct ledger_seen leaks[CHUNK];
    uint64_t ids[CHUNK];
    size_t claim_of[CHUNK];                 /* of each use: its index in `claims`, or NONE */
    struct ledger_restored restored[CHUNK]; /* what became of each of `claims` */
    dibs_claim withheld[CHUNK];             /* declared instead of the claims that were refused */
};

static void report(struct repairing *r, const dibs_repair_item *about, const char *fmt, ...)
    DIBS_PRINTF(3, 4);

static void report(struct repairing *r, const dibs_repair_item *about, const char *fmt, ...)
{
    dibs_repair_item item = *about;
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(item.text, sizeof item.text, fmt, ap);
    va_end(ap);
    if (!r->is_stopped)
        r->is_stopped = !r->fn(r->ctx, &item);
}

static dibs_repair_item item_of(dibs_repair_kind kind, const dibs_binding *binding, uint16_t port,
                                const char *name)
{
    dibs_repair_item item = { .kind = kind, .binding = *binding, .port = port };

    (void) text_copy(item.name, sizeof item.name, name);
    return item;
}

static dibs_repair_item seen_item(dibs_repair_kind kind, const dibs_observed *o)
{
    return item_of(kind, &o->binding, o->port, o->name);
}

/* ---- match uses with claims ---- */

static size_t place_of(dibs_proto proto, uint16_t port)
{
    return (size_t) proto << 16 | port;
}

/* Return the first use, from `use` on, that conflicts with the address. */
static struct use *in_the_way(const struct repairing *r, struct use *use, const dibs_address *address)
{
    while (use && !dibs_address_conflict(&r->seen[use - r->uses].binding.address, address))
        use = use->next;
    return use;
}

static struct use *first_use(const struct repairing *r, const dibs_binding *b, uint16_t port)
{
    return b->proto <= DIBS_PROTO_MAX ? in_the_way(r, r->chains[place_of(b->proto, port)].first, &b->address)
                                      : NULL;
}

static dibs_status index_uses(struct repairing *r, dibs_err *err)
{
    r->uses = calloc(r->n_seen + 1, sizeof *r->uses);
    r->chains = calloc(place_of(DIBS_PROTO_MAX + 1, 0), sizeof *r->chains);
    if (!r->uses || !r->chains)
        return err_set(err, DIBS_FAILURE, "repair: out of memory");
    for (size_t i = r->n_seen; i-- > 0;) {
        struct use_chain *chain = &r->chains[place_of(r->seen[i].binding.proto, r->seen[i].port)];

        r->uses[i].next = chain->first;
        chain->first = &r->uses[i];
    }
    return DIBS_OK;
}

/* Return whether a claim on `wide` is enough for a use of `used`. A live socket is protected by the probe,
 * too: then a claim on another part of it is enough. */
static bool is_enough(const struct repairing *r, const dibs_binding *wide, const dibs_binding *used)
{
    return r->sockets || bindings_include(wide, 1, used, 1);
}

/* Compare each use with the earlier ones of its port. */
static void mark_repeated(struct repairing *r)
{
    for (size_t i = 0; r->uses && i < r->n_seen; i++) {
        const dibs_binding *used = &r->seen[i].binding;
        struct use *use = &r->uses[i];

        for (struct use *earlier = first_use(r, used, r->seen[i].port); earlier != use && !use->is_repeated;
             earlier = in_the_way(r, earlier->next, &used->address)) {
            bool is_enough_for_it = is_enough(r, &r->seen[earlier - r->uses].binding, used);

            use->is_repeated = !earlier->is_blocked && is_enough_for_it;
            use->is_blocked = use->is_blocked || (!earlier->is_blocked && !is_enough_for_it);
        }
    }
}

/* Write the name of a second claim of a service with several ports: "two/133". Empty: not a valid name. */
static void name_beside(const char *name, uint16_t port, char out[DIBS_NAME_MAX + 1])
{
    int n = snprintf(out, DIBS_NAME_MAX + 1, "%s/%u", name, port);

    if (n < 0 || n > DIBS_NAME_MAX || dibs_name_check(out, NULL) != DIBS_OK)
        out[0] = '\0';
}

static bool is_name_of(const dibs_claim *claim, const char *observed)
{
    char beside[DIBS_NAME_MAX + 1];

    if (!observed[0] || !claim->name[0] || strcmp(observed, claim->name) == 0)
        return true;
    name_beside(observed, claim->port, beside);
    return strcmp(beside, claim->name) == 0;
}

static bool note_other_name(struct use *use, const dibs_claim *claim, const char *observed)
{
    if (!is_name_of(claim, observed))
        use->other_name = strdup(claim->name);
    return is_name_of(claim, observed) || use->other_name;
}

/* Note the first claim that covers each use, and the uses of which a claim covers only a part. */
static bool cover(void *ctx, const dibs_claim *claim)
{
    struct repairing *r = ctx;

    /* A socket on a declared port is the use that was declared. */
    if (!claim->is_exclusive && !r->sockets)
        return true;
    for (size_t k = 0; k < claim->n_bindings; k++) {
        const dibs_binding *b = &claim->bindings[k];

        for (struct use *use = first_use(r, b, claim->port); use;
             use = in_the_way(r, use->next, &b->address)) {
            const dibs_observed *seen = &r->seen[use - r->uses];

            if (use->claim_id != 0)
                continue;
            use->is_blocked = !is_enough(r, b, &seen->binding);
            if (use->is_blocked)
                continue;
            use->claim_id = claim->id;
            r->is_failed = r->is_failed || !note_other_name(use, claim, seen->name);
        }
    }
    return !r->is_failed;
}

static bool is_observed(const struct repairing *r, const dibs_claim *claim)
{
    bool is_found = false;

    for (size_t k = 0; k < claim->n_bindings && !is_found; k++)
        is_found = first_use(r, &claim->bindings[k], claim->port) != NULL;
    return is_found;
}

/* ---- observed, but not claimed ---- */

static bool is_missing(const struct repairing *r, size_t i)
{
    return dibs_ranges_contain(&r->pool.ranges, r->seen[i].port) && !r->uses[i].is_repeated &&
           r->uses[i].claim_id == 0;
}

/* Make the claim for a use: held by the process of a socket (false: it cannot hold), or kept for a list. */
static bool claim_for(struct repairing *r, size_t i, dibs_claim *out)
{
    const dibs_observed *o = &r->seen[i];
    const dibs_heir holder = { .holder = r->sockets ? DIBS_HELD_BY_PROCESS : DIBS_HELD_BY_NOBODY,
                               .pid = r->sockets ? r->pids[i] : 0 };

    *out = (dibs_claim){
        .port = o->port, .kind = DIBS_STATIC, .is_exclusive = true, .n_bindings = 1, .is_kept = !r->sockets
    };
    out->bindings[0] = o->binding;
    out->bindings[0].address.v6only =
        false; /* "::" alone is claimed as "*": that blocks more than needed, never less */
    (void) text_copy(out->principal, sizeof out->principal, r->call->principal);
    (void) text_copy(out->pool, sizeof out->pool, r->pool.name);
    (void) text_copy(out->name, sizeof out->name, o->name);
    return (!r->sockets || holder.pid != 0) && core_holder(r->core, r->call, &holder, out, NULL) == DIBS_OK;
}

static void tell_restored(struct repairing *r, size_t i, const dibs_claim *claim, const dibs_err *why)
{
    const char *outcome = r->plan->is_dry_run ? "would be claimed" : "claimed now";
    dibs_repair_item item = seen_item(DIBS_REPAIR_RESTORED, &r->seen[i]);

    if (why->code != DIBS_OK) {
        item.kind = DIBS_REPAIR_FULL;
        report(r, &item, "in use, could not be claimed: %.180s", why->msg);
    } else if (r->plan->is_dry_run && r->uses[i].is_blocked) {
        item.kind = DIBS_REPAIR_FULL;
        report(r, &item, "in use, cannot be claimed: a part of its addresses is claimed already");
    } else if (r->sockets) {
        report(r, &item, "in use by pid %d (%s), was not claimed: %s", claim->process.pid, claim->command,
               outcome);
    } else {
        report(r, &item, "in use, was not claimed: %s", outcome);
    }
}

/* Report uses that are already claimed, or need no claim. */
static void report_known(struct repairing *r, size_t i)
{
    const dibs_observed *o = &r->seen[i];
    dibs_repair_item item = seen_item(DIBS_REPAIR_DUPLICATE, o);

    if (!dibs_ranges_contain(&r->pool.ranges, o->port)) {
        item.kind = DIBS_REPAIR_OUTSIDE;
        if (!r->sockets) /* sockets outside the pool are not reported */
            report(r, &item, "outside of pool '%s'", r->pool.name);
    } else if (r->uses[i].is_repeated) {
        if (!r->sockets) /* one server often has several sockets */
            report(r, &item, "observed more than once; one of its users must change");
    } else if (r->uses[i].other_name) {
        report(r, &item, "used by '%.80s', but claimed as '%.80s'", o->name, r->uses[i].other_name);
    }
}

/* Add a binding to the claim of the same name and number: a name on tcp and udp is one claim. */
static bool join(struct chunk *chunk, const dibs_claim *claim, size_t *at)
{
    for (size_t k = 0; k < chunk->n && claim->name[0]; k++) {
        dibs_claim *other = &chunk->claims[k];

        if (other->port != claim->port || strcmp(other->name, claim->name) != 0 ||
            other->n_bindings == DIBS_BINDINGS_MAX)
            continue;
        other->bindings[other->n_bindings++] = claim->bindings[0];
        *at = k;
        return true;
    }
    return false;
}

/* Make a claim of each binding of those that were refused: another protocol of the name may be free. */
static bool part(struct chunk *chunk, size_t n_uses)
{
    size_t n_parts[CHUNK] = { 0 };
    size_t n = chunk->n;

    for (size_t i = 0; i < n_uses; i++) {
        size_t k = chunk->claim_of[i];

        if (k == NONE || chunk->restored[k].refused.code == DIBS_OK || n_parts[k]++ == 0)
            continue;
        chunk->claims[n] = chunk->claims[k];
        chunk->claims[n].n_bindings = 1;
        chunk->claims[n].bindings[0] = chunk->claims[k].bindings[n_parts[k] - 1];
        chunk->n_renamed[n] = 0;
        chunk->claim_of[i] = n++;
    }
    for (size_t k = 0; k < chunk->n; k++)
        if (n_parts[k] > 0)
            chunk->claims[k].n_bindings = 1;
    bool is_parted = n > chunk->n;
    chunk->n = n;
    return is_parted;
}

/* Give the claim its next name: NAME/PORT, then none. False: there is no other. */
static bool take_next_name(struct chunk *chunk, size_t k)
{
    dibs_claim *claim = &chunk->claims[k];
    char name[DIBS_NAME_MAX + 1] = "";

    if (!claim->name[0])
        return false;
    if (chunk->n_renamed[k]++ == 0)
        name_beside(claim->name, claim->port, name);
    (void) text_copy(claim->name, sizeof claim->name, name);
    return true;
}

/* Claim the missing uses. What is refused is tried again in parts, then with other names. */
static dibs_status restore(struct repairing *r, const struct call *call, struct chunk *chunk, size_t n_uses,
                           dibs_err *err)
{
    enum { TRIES = 4 };
    bool is_again = chunk->n > 0;
    dibs_status s = DIBS_OK;

    for (int i = 0; i < TRIES && is_again && s == DIBS_OK; i++) {
        memset(chunk->restored, 0, sizeof chunk->restored);
        s = ledger_restore(r->core->ledger, call, &(dibs_snapshot){ chunk->claims, chunk->n, NULL, 0 }, NULL,
                           chunk->restored, err);
        is_again = part(chunk, n_uses);
        for (size_t k = 0, n = is_again ? 0 : chunk->n; k < n && s == DIBS_OK; k++)
            is_again = (chunk->restored[k].refused.code != DIBS_OK && take_next_name(chunk, k)) || is_again;
    }
    return s;
}

/* Declare the observed ports that could not be claimed, so that choice passes them over. */
static dibs_status withhold(struct repairing *r, const struct call *call, struct chunk *chunk, dibs_err *err)
{
    size_t n = 0;

    for (size_t k = 0; k < chunk->n; k++) {
        dibs_claim *claim = &chunk->withheld[n];

        if (chunk->restored[k].refused.code == DIBS_OK)
            continue;
        *claim = chunk->claims[k];
        claim->is_exclusive = false;
        claim->name[0] = '\0';
        (void) text_copy(claim->keeper, sizeof claim->keeper, WITHHELD);
        n++;
    }
    return n > 0 ? ledger_restore(r->core->ledger, call, &(dibs_snapshot){ chunk->withheld, n, NULL, 0 },
                                  NULL, NULL, err)
                 : DIBS_OK;
}

/* List the claims that the uses from..to lack. */
static void list_missing(struct repairing *r, size_t from, size_t to, struct chunk *chunk)
{
    chunk->n = 0;
    memset(chunk->restored, 0, sizeof chunk->restored);
    memset(chunk->n_renamed, 0, sizeof chunk->n_renamed);
    for (size_t i = from; i < to; i++) {
        size_t *claim_of = &chunk->claim_of[i - from];

        *claim_of = NONE;
        if (!is_missing(r, i))
            continue;
        if (!claim_for(r, i, &chunk->claims[chunk->n]))
            r->pids[i] = 0; /* the process is gone, or the caller may not claim for it */
        else if (!join(chunk, &chunk->claims[chunk->n], claim_of))
            *claim_of = chunk->n++;
    }
}

/* Report a use that the caller cannot claim. */
static void report_unclaimed(struct repairing *r, size_t i)
{
    dibs_repair_item item = seen_item(DIBS_REPAIR_UNCLAIMED, &r->seen[i]);

    if (r->rules && r->rules[i])
        report(r, &item, "published without a claim by a NAT rule: %s", r->rules[i]->text);
    else
        report(r, &item, "in use without a claim by another user (uid %u)",
               r->sockets ? uid_map_above_seen(&r->core->view.users, r->sockets[i].uid) : 0);
}

/* Check uses from..to: claim the missing ones. */
static dibs_status check_lines(struct repairing *r, size_t from, size_t to, struct chunk *chunk,
                               dibs_err *err)
{
    struct call call = core_part(r->core, r->call);
    dibs_status s = DIBS_OK;

    list_missing(r, from, to, chunk);
    if (!r->plan->is_dry_run)
        s = restore(r, &call, chunk, to - from, err);
    if (s == DIBS_OK && !r->plan->is_dry_run && !r->sockets)
        s = withhold(r, &call, chunk, err);
    for (size_t i = from; i < to && s == DIBS_OK && !r->is_stopped; i++) {
        size_t k = chunk->claim_of[i - from];

        if (!is_missing(r, i)) {
            report_known(r, i);
        } else if (k == NONE) {
            report_unclaimed(r, i);
        } else {
            tell_restored(r, i, &chunk->claims[k], &chunk->restored[k].refused);
        }
    }
    return s;
}

/* ---- claimed, but not observed ---- */

static bool gather(void *ctx, const dibs_claim *claim)
{
    struct chunk *chunk = ctx;

    chunk->claims[chunk->n++] = *claim;
    return chunk->n < CHUNK;
}

/* Return whether the repair may drop a claim that is not observed. */
static bool is_unused(struct repairing *r, dibs_claim *claim)
{
    bool is_mine = r->call->is_admin || strcmp(claim->principal, r->call->principal) == 0;
    bool is_ours = claim->is_exclusive || strcmp(claim->keeper, WITHHELD) == 0;

    if (!is_ours || !is_mine || !dibs_ranges_contain(&r->pool.ranges, claim->port))
        return false;
    /* A holder that is alive or unknown is no leak (INV-5). */
    return claim->holder == DIBS_HELD_BY_NOBODY ||
           core_judge(r->core, r->call, NULL, claim, NULL) == DIBS_DEAD;
}

static bool is_leak(const struct repairing *r, const struct call *call, const struct sighting_record *unused)
{
    return call->now.boot_ms - unused->since_ms >= r->grace_ms;
}

/* Record one sighting of each claim in chunk->unused, and drop those whose grace is over. */
static dibs_status drop_leaks(struct repairing *r, const struct call *call, struct chunk *chunk,
                              dibs_err *err)
{
    size_t n_leaks = 0;
    dibs_status s = ledger_sighted(r->core->ledger, call, chunk->unused, chunk->n, err);

    for (size_t i = 0; i < chunk->n && s == DIBS_OK; i++)
        if (is_leak(r, call, &chunk->unused[i]))
            chunk->leaks[n_leaks++] = chunk->unused[i].seen;
    if (s == DIBS_OK && n_leaks > 0)
        s = ledger_end(r->core->ledger, call,
                       &(struct ledger_ending){ chunk->leaks, n_leaks, LEDGER_END_LEAK }, NULL, err);
    return s;
}

static dibs_status check_leaks(struct repairing *r, const struct call *call, struct chunk *chunk,
                               dibs_err *err)
{
    size_t n_unused = 0;
    size_t n_used = 0;
    dibs_status s = DIBS_OK;
    char text[24];

    for (size_t i = 0; i < chunk->n; i++) {
        if (is_observed(r, &chunk->claims[i]))
            chunk->ids[n_used++] = chunk->claims[i].id;
        else if (is_unused(r, &chunk->claims[i]))
            chunk->claims[n_unused++] = chunk->claims[i];
    }
    for (size_t i = 0; i < n_unused; i++)
        chunk->unused[i] =
            (struct sighting_record){ .seen = { chunk->claims[i].id, chunk->claims[i].generation,
                                                chunk->claims[i].lease_until_ms } };
    chunk->n = n_unused;
    if (!r->plan->is_dry_run && n_used > 0)
        s = ledger_not_leaked(r->core->ledger, call, chunk->ids, n_used, err);
    if (s == DIBS_OK && !r->plan->is_dry_run && n_unused > 0)
        s = drop_leaks(r, call, chunk, err);
    for (size_t i = 0; i < n_unused && s == DIBS_OK && !r->is_stopped; i++) {
        const dibs_claim *claim = &chunk->claims[i];
        dibs_repair_item item = item_of(DIBS_REPAIR_SUSPECT, &claim->bindings[0], claim->port, claim->name);

        if (r->plan->is_dry_run) {
            report(r, &item, "claimed, but not in use");
            continue;
        }
        item.sightings = chunk->unused[i].count;
        if (is_leak(r, call, &chunk->unused[i])) {
            item.kind = DIBS_REPAIR_LEAK;
            clock_duration_format(call->now.boot_ms - chunk->unused[i].since_ms, text);
            report(r, &item, "claimed, but not in use for %s: dropped", text);
        } else {
            clock_duration_format(r->grace_ms - (call->now.boot_ms - chunk->unused[i].since_ms), text);
            report(r, &item, "claimed, but not in use: a repair in %s or later drops it", text);
        }
    }
    return s;
}

static dibs_status find_leaks(struct repairing *r, struct chunk *chunk, dibs_err *err)
{
    struct ledger_filter filter = { .limit = CHUNK };
    dibs_status s = DIBS_OK;
    bool is_last = false;

    while (s == DIBS_OK && !is_last && !r->is_stopped) {
        chunk->n = 0;
        struct call part = core_part(r->core, r->call);
        s = ledger_list(r->core->ledger, &part, &filter, gather, chunk, err);
        is_last = chunk->n < CHUNK;
        if (chunk->n > 0)
            filter.after_id = chunk->claims[chunk->n - 1].id;
        if (s == DIBS_OK)
            s = check_leaks(r, &part, chunk, err);
    }
    return s;
}

/* ---- observe sockets ---- */

static bool reaped(void *ctx, const dibs_claim *claim)
{
    struct repairing *r = ctx;
    const dibs_repair_item item = item_of(DIBS_REPAIR_REAPED, &claim->bindings[0], claim->port, claim->name);
    char who[200];

    core_describe(claim, who, sizeof who);
    report(r, &item, "its holder is dead: %s", who);
    return !r->is_stopped;
}

/* Find the owners, in one walk, of sockets that lack a claim. */
static void find_owners(struct repairing *r)
{
    for (size_t i = 0; i < r->n_seen; i++)
        if (!is_missing(r, i))
            r->sockets[i].inode = 0;
    core_socket_owners(r->core, r->call, 0, r->sockets, r->pids, r->n_seen);
}

/* ---- compare ---- */

static dibs_status compare(struct repairing *r, dibs_err *err)
{
    AUTO(free_auto) struct chunk *chunk = calloc(1, sizeof *chunk);
    struct ledger_filter everything = { 0 };

    if (!chunk)
        return err_set(err, DIBS_FAILURE, "repair: out of memory");
    dibs_status s = index_uses(r, err);
    if (s == DIBS_OK && r->n_seen > 0)
        s = ledger_list(r->core->ledger, r->call, &everything, cover, r, err);
    if (s == DIBS_OK && r->is_failed)
        s = err_set(err, DIBS_FAILURE, "repair: out of memory");
    if (s == DIBS_OK)
        mark_repeated(r);
    if (s == DIBS_OK && r->sockets)
        find_owners(r);
    for (size_t i = 0; i < r->n_seen && s == DIBS_OK && !r->is_stopped; i += CHUNK)
        s = check_lines(r, i, r->n_seen - i < CHUNK ? r->n_seen : i + CHUNK, chunk, err);
    if (s == DIBS_OK && !r->sockets && !r->is_stopped)
        s = find_leaks(r, chunk, err);
    for (size_t i = 0; i < r->n_seen && r->uses; i++)
        free(r->uses[i].other_name);
    free(r->uses);
    free(r->chains);
    return s;
}

static dibs_status repair_by_sockets(struct repairing *r, dibs_err *err)
{
    AUTO(in_use_done) struct in_use now = { 0 };
    struct core_reaping dead = { r->plan->is_dry_run ? DIBS_REAP_DRY_RUN : 0, reaped, r, 0 };
    dibs_status s = core_reap(r->core, r->call, &dead, err);

    if (s == DIBS_OK)
        s = in_use_list(r->core, r->call, &r->pool.ranges, &now, err);
    dibs_observed *seen = calloc(now.n + 1, sizeof *seen);
    r->pids = calloc(now.n + 1, sizeof *r->pids);
    if (s == DIBS_OK && (!seen || !r->pids))
        s = err_set(err, DIBS_FAILURE, "repair: out of memory");
    if (s == DIBS_OK && seen && now.n > 0 && !r->is_stopped) {
        for (size_t i = 0; i < now.n; i++)
            seen[i] = (dibs_observed){ .binding = { now.sockets[i].proto, now.sockets[i].address },
                                       .port = now.sockets[i].port };
        r->seen = seen;
        r->n_seen = now.n;
        r->sockets = now.sockets;
        r->rules = now.rules;
        s = compare(r, err);
    }
    free(seen);
    free(r->pids);
    return s;
}

dibs_status core_repair(struct core *core, const struct call *call, const dibs_repair_plan *plan,
                        dibs_repair_fn fn, void *ctx, dibs_err *err)
{
    struct repairing r = { .core = core, .call = call, .plan = plan, .fn = fn, .ctx = ctx };
    r.grace_ms = plan->grace_ms ? plan->grace_ms : DIBS_GRACE_DEFAULT_MS;
    dibs_status s = core_pool(core, call, plan->pool, NULL, &r.pool, err);

    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < plan->n && plan->observed && s == DIBS_OK; i++) {
        const dibs_observed *o = &plan->observed[i];

        if (o->name[0])
            s = dibs_name_check(o->name, err);
        if (s == DIBS_OK && o->port != 0 && dibs_ranges_contain(&r.pool.ranges, o->port))
            s = core_may_bind(core, call, &o->binding, o->port, err);
    }
    if (s != DIBS_OK)
        return s;
    if (plan->observed) {
        r.seen = plan->observed;
        r.n_seen = plan->n;
        s = compare(&r, err);
    } else {
        s = repair_by_sockets(&r, err);
    }
    core_index_forget(core);
    return s;
}
