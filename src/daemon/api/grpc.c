/* SPDX-License-Identifier: MIT */
/* Routes for clients of gRPC's port server: GET requests, answered with text. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "daemon/api/internal.h"
#include "lib/handle.h"

#include "base/banned.h"

/* gRPC's server is at version 21. A client that knows a newer version would stop the server. */
#define VERSION "1000"

static dibs_status answer_text(struct api_request *request)
{
    request->type = "text/plain";
    return DIBS_OK;
}

static void add_number(struct api_request *request, const char *before, unsigned number)
{
    char text[24];

    (void) snprintf(text, sizeof text, "%s%u", before, number);
    bytes_add_text(&request->out, text);
}

static dibs_status get(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_request wanted = { .mode = DIBS_RANDOM,
                            .holder = DIBS_HELD_BY_LEASE,
                            .ttl_ms = DIBS_TTL_DEFAULT_MS /* as in gRPC's server */ };
    dibs_batch batch = { .requests = &wanted, .n = 1 };
    dibs_claim claim;
    dibs_status s = dibs_claim_ports(handle, &batch, &claim, err);

    if (s != DIBS_OK) {
        metrics_refused(request->api->options.metrics, &batch, request->api->options.settings, s);
        return s;
    }
    add_number(request, "", claim.port);
    return answer_text(request);
}

/* Find a claim like those that /get makes: a lease without a name. */
static bool find_lease(void *ctx, const dibs_claim *claim)
{
    dibs_claim *found = ctx;
    bool is_such = claim->holder == DIBS_HELD_BY_LEASE && !claim->is_kept && !claim->name[0] &&
                   claim->kind == DIBS_DYNAMIC;

    if (is_such)
        *found = *claim;
    return !is_such;
}

/* Release this claim by its id: the caller may have declared the same number, too. */
static dibs_status end_lease(const struct engine *engine, const dibs *handle, const dibs_claim *claim,
                             dibs_err *err)
{
    const struct call call = handle_call(handle);
    struct ledger_seen seen = { claim->id, claim->generation, claim->lease_until_ms };
    size_t n = 0;
    dibs_status s =
        ledger_end(engine->ledger, &call, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, err);

    if (s == DIBS_OK && n > 0)
        core_index_note_end(engine->core, claim, call.now.boot_ms);
    return s;
}

/* Ignore claims of other users and claims made in another way; the answer is the same. */
static dibs_status drop(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_filter filter = { .principal = request->caller->principal, .proto = DIBS_TCP };
    dibs_claim lease = { 0 };
    dibs_status s = dibs_port_parse(request->match.part[0], &filter.port, err);

    if (s == DIBS_OK)
        s = dibs_claim_list(handle, &filter, find_lease, &lease, err);
    if (s == DIBS_OK && lease.id != 0)
        s = end_lease(request->api->options.engine, handle, &lease, err);
    return s == DIBS_OK ? answer_text(request) : s;
}

struct dump {
    struct api_request *request;
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
    add_number(d->request, d->before, claim->port);
    int64_t age_ms = d->now_ms > claim->created_ms ? d->now_ms - claim->created_ms : 0;
    (void) snprintf(age, sizeof age, ": %lld.%03d", (long long) (age_ms / 1000), (int) (age_ms % 1000));
    bytes_add_text(&d->request->out, age);
    d->before = ", ";
    return true;
}

/* Write YAML with the two parts of gRPC's dump: ports in use with their age in seconds, and free ports. */
static dibs_status dump(struct api_request *request, dibs *handle, dibs_err *err)
{
    const struct call call = handle_call(handle);
    dibs_pool pool;
    dibs_status s = core_pool(request->api->options.engine->core, &call, NULL, NULL, &pool, err);

    if (s != DIBS_OK)
        return s;
    struct dump d = { .request = request, .pool = pool.name, .now_ms = call.now.wall_ms, .before = "" };
    bytes_add_text(&request->out, "in_use: {");
    s = dibs_claim_list(handle, &(dibs_filter){ .proto = DIBS_TCP }, dump_one, &d, err);
    bytes_add_text(&request->out, "}\npool: [");
    d.before = "";
    for (uint32_t port = 1; port <= DIBS_PORT_MAX && s == DIBS_OK; port++) {
        if (!dibs_ranges_contain(&pool.ranges, (uint16_t) port) || portbits_has(&d.taken, (uint16_t) port))
            continue;
        add_number(request, d.before, port);
        d.before = ", ";
    }
    bytes_add_text(&request->out, "]\n");
    return s == DIBS_OK ? answer_text(request) : s;
}

static dibs_status version(struct api_request *request, dibs_err *err)
{
    (void) err;
    bytes_add_text(&request->out, VERSION);
    return answer_text(request);
}

static dibs_status quit(struct api_request *request, dibs_err *err)
{
    (void) request;
    return err_set(
        err, DIBS_DENIED,
        "this daemon serves other clients, too; its administrator ends it (SIGTERM, or its service manager)");
}

static const struct api_route api_grpc_routes[] = {
    { { "GET", "/get", "", ROUTE_CHANGES }, get, NULL },
    { { "GET", "/drop/{}", "", ROUTE_CHANGES }, drop, NULL },
    { { "GET", "/dump", "", 0 }, dump, NULL },
    { { "GET", "/version_number", "", API_PUBLIC }, NULL, version },
    { { "GET", "/quitquitquit", "", API_PUBLIC }, NULL, quit },
};
const struct router api_grpc_router = ROUTER_OF(api_grpc_routes);
