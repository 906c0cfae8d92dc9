/* SPDX-License-Identifier: MIT */
/* What clients of gRPC's port server ask for: plain GETs, answered with plain text. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "daemon/api_parts.h"
#include "lib/handle.h"

#include "base/banned.h"

/* As theirs: for so long without use, and then as long as it is in use. */
#define LEASE_MS 600000
/* Theirs is 21 today. A client that knows a newer one than its server's ends that server to start its own: no
 * client shall try that. */
#define VERSION "1000"

static dibs_status answer_text(struct ask *ask)
{
    ask->type = "text/plain";
    return DIBS_OK;
}

static void add_number(struct ask *ask, const char *before, unsigned number)
{
    char text[24];

    (void) snprintf(text, sizeof text, "%s%u", before, number);
    bytes_add_text(&ask->out, text);
}

/* ---- /get and /drop ---- */

static dibs_status get(struct ask *ask, dibs *handle, dibs_err *err)
{
    dibs_request request = { .mode = DIBS_RANDOM, .holder = DIBS_HELD_BY_LEASE, .ttl_ms = LEASE_MS };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim;
    dibs_status s = dibs_claim_ports(handle, &batch, &claim, err);

    if (s != DIBS_OK) {
        metrics_refused(ask->api->options.metrics, &batch, ask->api->options.settings, s);
        return s;
    }
    add_number(ask, "", claim.port);
    return answer_text(ask);
}

/* Such a claim as /get makes: they have no mark of their own. */
static bool find_lease(void *ctx, const dibs_claim *claim)
{
    dibs_claim *found = ctx;
    bool is_such = claim->holder == DIBS_HELD_BY_LEASE && !claim->is_kept && !claim->name[0] &&
                   claim->kind == DIBS_DYNAMIC;

    if (is_such)
        *found = *claim;
    return !is_such;
}

/* That very claim: the caller may have declared the same number, too. */
static dibs_status end_lease(struct core *core, const dibs_claim *claim, dibs_err *err)
{
    struct ledger_actor actor = core_actor(core, core_now(core));
    struct ledger_seen seen = { claim->id, claim->generation, claim->lease_until_ms };
    size_t n = 0;
    dibs_status s =
        ledger_end(core->ledger, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &actor, &n, err);

    if (s == DIBS_OK && n > 0)
        core_index_note_end(core, claim, actor.now.boot_ms);
    return s;
}

/* What is not there is dropped already, and what is another's or could not be got here is none of the
 * caller's business. */
static dibs_status drop(struct ask *ask, dibs *handle, dibs_err *err)
{
    dibs_filter filter = { .principal = ask->caller->principal, .proto = DIBS_TCP };
    dibs_claim lease = { 0 };
    dibs_status s = dibs_port_parse(ask->part[0], &filter.port, err);

    if (s == DIBS_OK)
        s = dibs_claim_list(handle, &filter, find_lease, &lease, err);
    if (s == DIBS_OK && lease.id != 0)
        s = end_lease(handle->core, &lease, err);
    return s == DIBS_OK ? answer_text(ask) : s;
}

/* ---- /dump ---- */

struct dump {
    struct ask *ask;
    const char *pool;
    int64_t now_ms;
    struct portbits taken;
    const char *before;
};

static bool dump_one(void *ctx, const dibs_claim *claim)
{
    struct dump *d = ctx;
    char age[32];

    if (strcmp(claim->pool, d->pool) != 0)
        return true;
    portbits_add(&d->taken, claim->port);
    add_number(d->ask, d->before, claim->port);
    int64_t age_ms = d->now_ms > claim->created_ms ? d->now_ms - claim->created_ms : 0;
    (void) snprintf(age, sizeof age, ": %lld.%03d", (long long) (age_ms / 1000), (int) (age_ms % 1000));
    bytes_add_text(&d->ask->out, age);
    d->before = ", ";
    return true;
}

/* YAML with the two parts of theirs: ports in use with their age in seconds, and the free ones. */
static dibs_status dump(struct ask *ask, dibs *handle, dibs_err *err)
{
    dibs_pool pool;
    dibs_status s = core_pool(handle->core, NULL, NULL, &pool, err);

    if (s != DIBS_OK)
        return s;
    struct dump d = { .ask = ask, .pool = pool.name, .now_ms = core_now(handle->core).wall_ms, .before = "" };
    bytes_add_text(&ask->out, "in_use: {");
    s = dibs_claim_list(handle, &(dibs_filter){ .proto = DIBS_TCP }, dump_one, &d, err);
    bytes_add_text(&ask->out, "}\npool: [");
    d.before = "";
    for (uint32_t port = 1; port <= DIBS_PORT_MAX && s == DIBS_OK; port++) {
        if (!dibs_ranges_contain(&pool.ranges, (uint16_t) port) || portbits_has(&d.taken, (uint16_t) port))
            continue;
        add_number(ask, d.before, port);
        d.before = ", ";
    }
    bytes_add_text(&ask->out, "]\n");
    return s == DIBS_OK ? answer_text(ask) : s;
}

/* ---- the server itself ---- */

static dibs_status version(struct ask *ask, dibs_err *err)
{
    (void) err;
    bytes_add_text(&ask->out, VERSION);
    return answer_text(ask);
}

static dibs_status quit(struct ask *ask, dibs_err *err)
{
    (void) ask;
    return err_set(err, DIBS_DENIED,
                   "this daemon serves others, too; who runs it ends it (SIGTERM, or its service manager)");
}

const struct route api_grpc_routes[] = {
    { "GET", "/get", NULL, get, NULL, false, false },
    { "GET", "/drop/{}", NULL, drop, NULL, false, false },
    { "GET", "/dump", NULL, dump, NULL, false, false },
    { "GET", "/version_number", NULL, NULL, version, false, true },
    { "GET", "/quitquitquit", NULL, NULL, quit, false, true },
    { NULL, NULL, NULL, NULL, NULL, false, false },
};
