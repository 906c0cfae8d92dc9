/* SPDX-License-Identifier: MIT */
#include "cli/json_claim.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#include "base/banned.h"

const char *cli_life_text(dibs_life life)
{
    switch (life) {
    case DIBS_ALIVE: return "alive";
    case DIBS_DEAD: return "dead";
    case DIBS_UNKNOWN: return "unknown";
    }
    return "unknown";
}

const char *cli_scope_text(dibs_scope scope)
{
    switch (scope) {
    case DIBS_SCOPE_HOST: return "host";
    case DIBS_SCOPE_CLUSTER: return "cluster";
    }
    return "host";
}

void cli_band_text(int32_t band, char out[16])
{
    if (band == DIBS_BAND_AUTO)
        (void) snprintf(out, 16, "auto");
    else if (band == 0)
        (void) snprintf(out, 16, "off");
    else
        (void) snprintf(out, 16, "%d", band);
}

void cli_protos_text(uint8_t protos, char out[16])
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = DIBS_TCP; i <= DIBS_SCTP; i++) {
        if (!(protos & 1u << i))
            continue;
        int n = snprintf(out + used, 16 - used, "%s%s", used ? "," : "", dibs_proto_text((dibs_proto) i));

        if (n > 0)
            used += (size_t) n;
    }
}

static void text_or_null(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    if (text[0])
        json_string(w, text);
    else
        json_null(w);
}

static void holder(struct json_writer *w, const dibs_claim *claim)
{
    json_key(w, "holder");
    switch (claim->holder) {
    case DIBS_HELD_BY_NOBODY: json_null(w); return;
    case DIBS_HELD_BY_PROCESS:
        json_object(w);
        json_key_string(w, "kind", "process");
        json_key_int(w, "pid", claim->process.pid);
        json_key_uint(w, "start_ticks", claim->process.start_ticks);
        json_key_uint(w, "pid_namespace", claim->process.pidns);
        break;
    case DIBS_HELD_BY_LEASE:
        json_object(w);
        json_key_string(w, "kind", "lease");
        json_key_int(w, "ttl_ms", claim->lease_ttl_ms);
        json_key_int(w, "until_boot_ms", claim->lease_until_ms);
        break;
    }
    json_key_string(w, "boot_id", claim->process.boot_id);
    json_end_object(w);
}

static void binding_members(struct json_writer *w, dibs_proto proto, const dibs_address *address,
                            uint16_t port)
{
    char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";

    dibs_address_format(address, text);
    json_key_string(w, "proto", dibs_proto_text(proto));
    json_key_string(w, "address", text);
    json_key_uint(w, "port", port);
}

void cli_json_claim_members(struct json_writer *w, const dibs_claim *claim)
{
    char created[32] = "";

    cli_time(claim->created_ms, created);
    json_key_uint(w, "id", claim->id);
    json_key_uint(w, "generation", claim->generation);
    json_key_uint(w, "port", claim->port);
    json_key_string(w, "kind", claim->kind == DIBS_STATIC ? "static" : "dynamic");
    json_key_bool(w, "exclusive", claim->is_exclusive);
    json_key_bool(w, "kept", claim->is_kept);
    holder(w, claim);
    json_key_string(w, "principal", claim->principal);
    json_key_uint(w, "uid", claim->uid);
    text_or_null(w, "name", claim->name);
    text_or_null(w, "pool", claim->pool); /* a port that was named outside of every pool has none */
    text_or_null(w, "project", claim->project);
    text_or_null(w, "command", claim->command);
    json_key_uint(w, "netns", claim->netns);
    json_key(w, "bindings");
    json_array(w);
    for (size_t i = 0; i < claim->n_bindings; i++) {
        json_object(w);
        binding_members(w, claim->bindings[i].proto, &claim->bindings[i].address, claim->port);
        json_end_object(w);
    }
    json_end_array(w);
    json_key_string(w, "created", created);
    json_key_int(w, "created_ms", claim->created_ms);
    json_key_int(w, "changed_ms", claim->changed_ms);
    json_key_string(w, "life", cli_life_text(claim->life));
    json_key_bool(w, "orphan", claim->is_orphan);
    json_key_bool(w, "was_there", claim->was_there);
    json_key_bool(w, "degraded", claim->is_degraded);
    json_key_bool(w, "narrowed", claim->is_narrowed);
    if (claim->token[0])
        json_key_string(w, "token", claim->token);
}

void cli_json_claim(struct json_writer *w, const dibs_claim *claim)
{
    json_object(w);
    cli_json_claim_members(w, claim);
    json_end_object(w);
}

void cli_json_event(struct json_writer *w, const dibs_event *event)
{
    char time[32] = "";

    cli_time(event->time_ms, time);
    json_object(w);
    json_key_uint(w, "seq", event->seq);
    json_key_string(w, "time", time);
    json_key_int(w, "time_ms", event->time_ms);
    json_key_string(w, "what", dibs_event_kind_text(event->kind));
    json_key_uint(w, "claim", event->claim_id);
    json_key_uint(w, "generation", event->generation);
    json_key_uint(w, "port", event->port);
    json_key(w, "protos");
    json_array(w);
    for (int i = DIBS_TCP; i <= DIBS_SCTP; i++)
        if (event->protos & 1u << i)
            json_string(w, dibs_proto_text((dibs_proto) i));
    json_end_array(w);
    json_key_string(w, "kind", event->is_dynamic ? "dynamic" : "static");
    json_key_string(w, "principal", event->principal);
    text_or_null(w, "name", event->name);
    json_key_uint(w, "actor_uid", event->actor_uid);
    json_key_int(w, "actor_pid", event->actor_pid);
    json_end_object(w);
}

void cli_json_socket_members(struct json_writer *w, const dibs_socket *socket)
{
    binding_members(w, socket->proto, &socket->address, socket->port);
    json_key_uint(w, "uid", socket->uid);
    json_key(w, "pid");
    if (socket->pid)
        json_int(w, socket->pid);
    else
        json_null(w);
    json_key_uint(w, "inode", socket->inode);
    text_or_null(w, "command", socket->command);
}

void cli_json_pool(struct json_writer *w, const dibs_pool *pool, const dibs_pool_usage *usage)
{
    char ranges[DIBS_RANGES_TEXT_MAX + 1] = "";
    char band[16] = "";

    dibs_ranges_format(&pool->ranges, ranges);
    cli_band_text(pool->band, band);
    json_object(w);
    json_key_string(w, "name", pool->name);
    json_key_string(w, "ranges", ranges);
    json_key_string(w, "scope", cli_scope_text(pool->scope));
    json_key_string(w, "band", band);
    json_key_string(w, "order", pool->order);
    json_key_int(w, "cooldown_ms", pool->cooldown_ms);
    if (usage) {
        json_key(w, "usage");
        json_object(w);
        json_key_uint(w, "size", usage->size);
        json_key_uint(w, "band", usage->band);
        json_key_uint(w, "static", usage->n_static);
        json_key_uint(w, "dynamic", usage->n_dynamic);
        json_key_uint(w, "available", usage->n_available);
        json_key_uint(w, "withheld", usage->n_withheld);
        json_end_object(w);
    }
    json_end_object(w);
}
