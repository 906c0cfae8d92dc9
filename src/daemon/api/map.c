/* SPDX-License-Identifier: MIT */
/* The map: every socket of a protocol with its process, and what else is in the way of a port. A request
 * waits for the observer's next look, unless the last one is young enough. */
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "core/cooldown.h"
#include "daemon/api/internal.h"
#include "daemon/observer.h"
#include "daemon/relation.h"
#include "host/user_names.h"
#include "lib/handle.h"

#include "base/banned.h"

/* ---- waiting for a look ---- */

dibs_status api_read_map(struct api_request *request, dibs_err *err)
{
    const char *text = http_query(request->r, "proto", 0);

    request->look_proto = DIBS_TCP;
    return text ? dibs_proto_parse(text, &request->look_proto, err) : DIBS_OK;
}

bool api_looks(struct api_request *request)
{
    struct api *api = request->api;

    if (!request->look_proto || observer_is_fresh(api->observer, request->look_proto))
        return false;
    if (api->is_draining)
        request->outcome = err_trouble(&request->err, DIBS_TROUBLE_NONE, "the daemon is stopping");
    else
        request->outcome = observer_look(api->observer, request->look_proto, &request->err);
    if (request->outcome != DIBS_OK) {
        api_answer(request);
        return true;
    }
    request->next = api->looking;
    api->looking = request;
    return true;
}

/* Take the requests of the protocol (0: all) off the list. */
static struct api_request *take_looking(struct api *api, dibs_proto proto)
{
    struct api_request *taken = NULL;

    for (struct api_request **at = &api->looking; *at;) {
        struct api_request *request = *at;

        if (proto != 0 && request->look_proto != proto) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        request->next = taken;
        taken = request;
    }
    return taken;
}

void api_looked(void *ctx, dibs_proto proto, const dibs_err *err)
{
    struct api *api = ctx;

    for (struct api_request *request = take_looking(api, proto), *next = NULL; request; request = next) {
        next = request->next;
        if (err) {
            request->err = *err;
            request->outcome = err->code;
            api_answer(request);
        } else {
            api_queue(request);
        }
    }
}

void api_stop_looking(struct api *api)
{
    dibs_err err = { 0 };

    (void) err_trouble(&err, DIBS_TROUBLE_NONE, "the daemon is stopping");
    api_looked(api, 0, &err);
}

/* ---- the answer ---- */

/* Times of processes are in ticks since the boot. */
struct clocks {
    struct instant now;
    int64_t ticks_a_second;
};

static int64_t wall_of(const struct clocks *clocks, uint64_t ticks)
{
    int64_t boot_ms = (int64_t) (ticks * 1000 / (uint64_t) clocks->ticks_a_second);

    return clocks->now.wall_ms - (clocks->now.boot_ms - boot_ms);
}

static void write_text(struct jsonw *w, const char *key, const char *text)
{
    if (text[0])
        jsonw_key_string(w, key, text);
}

static void write_process(struct jsonw *w, const struct table_process *process, const struct clocks *clocks,
                          bool is_own)
{
    static const char container[] = "container ";
    const struct process_details *details = &process->details;
    bool is_contained = strncmp(details->unit, container, sizeof container - 1) == 0;

    jsonw_key_int(w, "pid", process->facts.process.pid);
    jsonw_key_string(w, "command", process->facts.command);
    jsonw_key_int(w, "since_ms", wall_of(clocks, process->facts.process.start_ticks));
    if (is_contained)
        write_text(w, "container", details->unit + sizeof container - 1);
    else
        write_text(w, "unit", details->unit);
    if (is_own) {
        write_text(w, "arguments", details->arguments);
        write_text(w, "directory", details->directory);
    }
}

static void write_address(struct jsonw *w, uint16_t port, const dibs_address *address)
{
    char text[DIBS_ADDRESS_TEXT_MAX + 1];

    dibs_address_format(address, text);
    jsonw_key_uint(w, "port", port);
    jsonw_key_string(w, "address", text);
    if (address->v6only)
        jsonw_key_bool(w, "v6only", true);
}

static void write_sockets(struct api_request *request, const struct call *call,
                          const struct socket_table *table)
{
    static const char *const states[] = {
        [KERNEL_LISTENING] = "listening", [KERNEL_BOUND] = "bound", [KERNEL_CONNECTED] = "connected"
    };
    struct engine *engine = request->api->options.engine;
    const struct clocks clocks = { call->now, sysconf(_SC_CLK_TCK) };
    struct user_names names = { 0 };
    struct relations relations;
    struct jsonw *w = &request->w;

    user_names_load(&names);
    relations_load(&relations, engine, call, table);
    jsonw_key_array(w, "sockets");
    for (size_t i = 0; i < table->n; i++) {
        const struct kernel_socket *socket = &table->sockets[i].socket;
        const struct table_process *process = socket_table_process(table, table->sockets[i].pid);
        uint32_t uid = uid_map_above_seen(&engine->core->view.users, socket->uid);
        const char *user = user_names_find(&names, uid);

        jsonw_object(w);
        write_address(w, socket->port, &socket->address);
        jsonw_key_string(w, "state", states[socket->state]);
        jsonw_key_uint(w, "uid", uid);
        write_text(w, "user", user ? user : "");
        if (process)
            write_process(w, process, &clocks, call->is_admin || call->uid == uid);
        jsonw_key_string(w, "relation", wire_relation_text(relation_of(&relations, &table->sockets[i])));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    relations_done(&relations);
    user_names_done(&names);
}

struct published {
    struct jsonw *w;
    dibs_proto proto;
};

static bool write_rule(void *ctx, const struct nat_rule *rule)
{
    struct published *to = ctx;

    if (rule->proto != to->proto)
        return true;
    jsonw_object(to->w);
    write_address(to->w, rule->ports.first, &rule->address);
    if (rule->ports.last != rule->ports.first)
        jsonw_key_uint(to->w, "last", rule->ports.last);
    jsonw_key_string(to->w, "rule", rule->text);
    jsonw_end_object(to->w);
    return true;
}

enum { POOLS_MAX = 64 }; /* ports of further pools cool as long as the settings say */

struct cooling {
    struct core *core;
    struct jsonw *w;
    int64_t now_ms, otherwise_ms;
    dibs_pool *pools;
    size_t n;
};

static bool note_pool(void *ctx, const dibs_pool *pool)
{
    struct cooling *c = ctx;

    cooldown_remember(c->core, pool->cooldown_ms);
    c->pools[c->n++] = *pool;
    return c->n < POOLS_MAX;
}

static void write_cooling(void *ctx, uint16_t port, int64_t released_ms)
{
    const struct cooling *c = ctx;
    int64_t cooldown_ms = c->otherwise_ms;

    for (size_t i = 0; i < c->n; i++)
        if (dibs_ranges_contain(&c->pools[i].ranges, port)) {
            cooldown_ms = c->pools[i].cooldown_ms;
            break;
        }
    if (released_ms > c->now_ms || c->now_ms >= released_ms + cooldown_ms)
        return;
    jsonw_object(c->w);
    jsonw_key_uint(c->w, "port", port);
    jsonw_key_int(c->w, "until_boot_ms", released_ms + cooldown_ms);
    jsonw_end_object(c->w);
}

static dibs_status write_all_cooling(struct api_request *request, dibs *handle, dibs_err *err)
{
    const struct call call = handle_call(handle);
    struct core *core = request->api->options.engine->core;
    struct cooling c = { .core = core,
                         .w = &request->w,
                         .now_ms = call.now.boot_ms,
                         .otherwise_ms = dibs_settings_of(handle)->cooldown_ms,
                         .pools = calloc(POOLS_MAX, sizeof *c.pools) };
    dibs_status s = c.pools ? dibs_pool_list(handle, note_pool, &c, err)
                            : err_set(err, DIBS_FAILURE, "looking at ports: out of memory");

    if (s == DIBS_OK)
        s = core_index_refresh(core, &call, err);
    jsonw_key_array(&request->w, "cooling");
    if (s == DIBS_OK)
        cooldown_each(core, request->look_proto, write_cooling, &c);
    jsonw_end_array(&request->w);
    free(c.pools);
    return s;
}

static void write_ranges(struct api_request *request, const struct call *call)
{
    struct core *core = request->api->options.engine->core;
    const struct core_host *host = core_host(core, call);
    struct bytes reserved = { 0 };
    char ephemeral[16];

    (void) snprintf(ephemeral, sizeof ephemeral, "%u-%u", host->ephemeral.first, host->ephemeral.last);
    portbits_format(&host->reserved, &reserved);
    bytes_add(&reserved, "", 1);
    jsonw_key_string(&request->w, "ephemeral", ephemeral);
    jsonw_key_string(&request->w, "reserved", reserved.is_lost ? "" : reserved.at);
    bytes_done(&reserved);
}

dibs_status api_map(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct engine *engine = request->api->options.engine;
    const struct socket_table *table = observer_table(request->api->observer, request->look_proto);
    const struct call call = handle_call(handle);
    struct jsonw *w = &request->w;

    if (!table)
        return err_trouble(err, DIBS_TROUBLE_NONE,
                           "the host's sockets were not looked at in time; ask again");
    nat_refresh(engine->core->nat, call.now.boot_ms);
    jsonw_object(w);
    jsonw_key_uint(w, "seq", engine->seq);
    jsonw_key_string(w, "proto", dibs_proto_text(request->look_proto));
    jsonw_key_int(w, "time_ms", call.now.wall_ms);
    jsonw_key_int(w, "boot_ms", call.now.boot_ms);
    write_ranges(request, &call);
    jsonw_key_object(w, "sees");
    jsonw_key_bool(w, "processes", table->shows_processes);
    jsonw_key_bool(w, "nat", !nat_view(engine->core->nat).why);
    jsonw_end_object(w);
    jsonw_key_bool(w, "cut", table->is_cut);
    write_sockets(request, &call, table);
    jsonw_key_array(w, "nat");
    nat_each(engine->core->nat, write_rule, &(struct published){ w, request->look_proto });
    jsonw_end_array(w);
    dibs_status s = write_all_cooling(request, handle, err);
    jsonw_end_object(w);
    return s;
}
