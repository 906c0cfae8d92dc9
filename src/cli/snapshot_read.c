/* SPDX-License-Identifier: MIT */
#include "cli/snapshot_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"

#include "base/banned.h"

/* A member that is missing, of another type, or out of bounds. */
static dibs_status bad(dibs_err *err, const char *key, const char *expected)
{
    return err_set(err, DIBS_INVALID, "\"%s\" must be %s", key, expected);
}

static dibs_status text_of(const json_value *object, const char *key, char *out, size_t size, dibs_err *err)
{
    const char *text = NULL;

    if (!json_get_string(object, key, &text) || !text[0])
        return bad(err, key, "a text");
    if (strlen(text) >= size)
        return err_set(err, DIBS_INVALID, "\"%s\" has more than %zu bytes", key, size - 1);
    for (const char *c = text; *c; c++)
        if ((unsigned char) *c < 0x20 || *c == 0x7f)
            return bad(err, key, "a text without control characters");
    (void) snprintf(out, size, "%s", text);
    return DIBS_OK;
}

static dibs_status number_of(const json_value *object, const char *key, uint64_t most, uint64_t *out,
                             dibs_err *err)
{
    uint64_t value = 0;

    if (!json_get_uint(object, key, &value) || value > most)
        return bad(err, key, "a whole number within its bounds");
    *out = value;
    return DIBS_OK;
}

static dibs_status time_of(const json_value *object, const char *key, int64_t *out, dibs_err *err)
{
    uint64_t value = 0;
    dibs_status status = number_of(object, key, INT64_MAX, &value, err);

    if (status == DIBS_OK)
        *out = (int64_t) value;
    return status;
}

static dibs_status flag_of(const json_value *object, const char *key, bool *out, dibs_err *err)
{
    return json_get_bool(object, key, out) ? DIBS_OK : bad(err, key, "true or false");
}

static dibs_status only(const json_value *object, const char *const *known, dibs_err *err)
{
    char safe[80] = "";

    if (!json_is_object(object))
        return err_set(err, DIBS_INVALID, "not an object");
    const char *unknown = json_unknown_key(object, known);

    if (unknown)
        return err_set(err, DIBS_INVALID, "unknown member \"%s\"", cli_safe(unknown, safe, sizeof safe));
    return DIBS_OK;
}

static dibs_status process_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    uint64_t pid = 0;
    dibs_status status = number_of(object, "pid", INT32_MAX, &pid, err);

    claim->holder = DIBS_HELD_BY_PROCESS;
    claim->process.pid = (int32_t) pid;
    if (status == DIBS_OK && pid == 0)
        status = bad(err, "pid", "above 0");
    if (status == DIBS_OK)
        status = number_of(object, "start_ticks", INT64_MAX, &claim->process.start_ticks, err);
    if (status == DIBS_OK)
        status = number_of(object, "pid_namespace", INT64_MAX, &claim->process.pidns, err);
    return status;
}

static dibs_status lease_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    uint64_t ttl = 0;
    dibs_status status = number_of(object, "ttl_ms", DIBS_TTL_MAX_MS, &ttl, err);

    claim->holder = DIBS_HELD_BY_LEASE;
    claim->lease_ttl_ms = (int64_t) ttl;
    if (status == DIBS_OK)
        status = time_of(object, "until_boot_ms", &claim->lease_until_ms, err);
    /* No host is up for ten years, and no lease longer than that. */
    if (status == DIBS_OK && claim->lease_until_ms > 2 * DIBS_TTL_MAX_MS)
        status = bad(err, "until_boot_ms", "a time at which a lease can end");
    return status;
}

static dibs_status holder_of(const json_value *holder, dibs_claim *claim, dibs_err *err)
{
    static const char *const known[] = { "kind",    "pid",    "start_ticks",   "pid_namespace",
                                         "boot_id", "ttl_ms", "until_boot_ms", NULL };
    const char *kind = "";

    if (json_is_null(holder))
        return DIBS_OK;
    dibs_status status = only(holder, known, err);

    if (status == DIBS_OK)
        status = text_of(holder, "boot_id", claim->process.boot_id, sizeof claim->process.boot_id, err);
    if (status != DIBS_OK)
        return err_wrap(err, status, "\"holder\"");
    (void) json_get_string(holder, "kind", &kind);
    if (strcmp(kind, "process") == 0)
        return process_of(holder, claim, err);
    if (strcmp(kind, "lease") == 0)
        return lease_of(holder, claim, err);
    return bad(err, "kind", "process or lease in a holder");
}

static dibs_status binding_of(const json_value *object, uint16_t port, dibs_binding *out, dibs_err *err)
{
    static const char *const known[] = { "proto", "address", "port", NULL };
    char proto[16] = "";
    char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";
    dibs_address addresses[2] = { 0 };
    size_t n = 0;
    uint64_t same = port;
    dibs_status status = only(object, known, err);

    if (status == DIBS_OK)
        status = text_of(object, "proto", proto, sizeof proto, err);
    if (status == DIBS_OK)
        status = text_of(object, "address", address, sizeof address, err);
    if (status == DIBS_OK && json_get(object, "port"))
        status = number_of(object, "port", DIBS_PORT_MAX, &same, err);
    if (status == DIBS_OK && same != port)
        return bad(err, "port", "the same in a binding and its claim");
    if (status == DIBS_OK)
        status = dibs_proto_parse(proto, &out->proto, err);
    if (status == DIBS_OK)
        status = dibs_address_parse(address, addresses, &n, err);
    if (status == DIBS_OK && n != 1)
        return bad(err, "address", "one address");
    out->address = addresses[0];
    return status;
}

static dibs_status bindings_of(const json_value *list, dibs_claim *claim, dibs_err *err)
{
    size_t n = json_array_size(list);

    if (n < 1 || n > DIBS_BINDINGS_MAX)
        return bad(err, "bindings", "a list of 1 to 8");
    for (size_t i = 0; i < n; i++) {
        dibs_status status = binding_of(json_array_at(list, i), claim->port, &claim->bindings[i], err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "bindings[%zu]", i);
    }
    claim->n_bindings = n;
    return DIBS_OK;
}

/* A kernel lets a command be called anything, so what was exported comes back readable, not refused. */
static dibs_status command_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    const char *text = "";

    if (!json_is_null(json_get(object, "command")) && !json_get_string(object, "command", &text))
        return bad(err, "command", "a text or null");
    (void) cli_safe(text, claim->command, sizeof claim->command);
    return DIBS_OK;
}

/* A directory's name may be any bytes. One that JSON could not carry has U+FFFD in it and is left out:
 * taken as it stands it would name a directory that is not there, and `reap --stale` would end the claim. */
static dibs_status project_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    const char *text = "";

    if (!json_is_null(json_get(object, "project")) && !json_get_string(object, "project", &text))
        return bad(err, "project", "a text or null");
    if (strstr(text, "\xef\xbf\xbd"))
        return DIBS_OK;
    if (strlen(text) > DIBS_PROJECT_MAX)
        return err_set(err, DIBS_INVALID, "\"project\" has more than %d bytes", DIBS_PROJECT_MAX);
    (void) snprintf(claim->project, sizeof claim->project, "%s", text);
    return DIBS_OK;
}

static dibs_status identity_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    uint64_t uid = 0;
    dibs_status status = DIBS_OK;

    if (!json_is_null(json_get(object, "name"))) {
        status = text_of(object, "name", claim->name, sizeof claim->name, err);
        if (status == DIBS_OK)
            status = dibs_name_check(claim->name, err);
    }
    if (status == DIBS_OK)
        status = text_of(object, "principal", claim->principal, sizeof claim->principal, err);
    if (status == DIBS_OK && !json_is_null(json_get(object, "pool")))
        status = text_of(object, "pool", claim->pool, sizeof claim->pool, err);
    if (status == DIBS_OK)
        status = project_of(object, claim, err);
    if (status == DIBS_OK)
        status = command_of(object, claim, err);
    if (status == DIBS_OK)
        status = number_of(object, "uid", UINT32_MAX, &uid, err);
    if (status == DIBS_OK)
        status = number_of(object, "netns", INT64_MAX, &claim->netns, err);
    claim->uid = (uint32_t) uid;
    return status;
}

static dibs_status kind_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    const char *kind = "";

    (void) json_get_string(object, "kind", &kind);
    if (strcmp(kind, "static") != 0 && strcmp(kind, "dynamic") != 0)
        return bad(err, "kind", "static or dynamic");
    claim->kind = kind[0] == 's' ? DIBS_STATIC : DIBS_DYNAMIC;
    dibs_status status = flag_of(object, "exclusive", &claim->is_exclusive, err);

    return status == DIBS_OK ? flag_of(object, "kept", &claim->is_kept, err) : status;
}

/* "created", "life" and the like are for readers of the list; they follow from the rest. */
static dibs_status claim_of(const json_value *object, dibs_claim *claim, dibs_err *err)
{
    static const char *const known[] = { "id",        "generation", "port",       "kind",  "exclusive",
                                         "kept",      "holder",     "principal",  "uid",   "name",
                                         "pool",      "project",    "command",    "netns", "bindings",
                                         "created",   "created_ms", "changed_ms", "life",  "orphan",
                                         "was_there", "degraded",   "narrowed",   NULL };
    uint64_t port = 0;
    dibs_status status = only(object, known, err);

    if (status == DIBS_OK)
        status = number_of(object, "port", DIBS_PORT_MAX, &port, err);
    if (status == DIBS_OK && port == 0)
        status = bad(err, "port", "above 0");
    claim->port = (uint16_t) port;
    if (status == DIBS_OK)
        status = number_of(object, "id", INT64_MAX, &claim->id, err);
    if (status == DIBS_OK)
        status = number_of(object, "generation", INT64_MAX, &claim->generation, err);
    if (status == DIBS_OK)
        status = kind_of(object, claim, err);
    if (status == DIBS_OK)
        status = holder_of(json_get(object, "holder"), claim, err);
    if (status == DIBS_OK)
        status = identity_of(object, claim, err);
    if (status == DIBS_OK)
        status = bindings_of(json_get(object, "bindings"), claim, err);
    if (status == DIBS_OK)
        status = time_of(object, "created_ms", &claim->created_ms, err);
    if (status == DIBS_OK)
        status = time_of(object, "changed_ms", &claim->changed_ms, err);
    return status;
}

static dibs_status band_of(const json_value *object, dibs_pool *pool, dibs_err *err)
{
    char band[16] = "";
    dibs_status status = text_of(object, "band", band, sizeof band, err);
    uint16_t number = 0;

    if (status != DIBS_OK)
        return status;
    if (strcmp(band, "auto") == 0)
        pool->band = DIBS_BAND_AUTO;
    else if (strcmp(band, "off") == 0)
        pool->band = 0;
    else if (dibs_port_parse(band, &number, NULL) == DIBS_OK && number < dibs_ranges_count(&pool->ranges))
        pool->band = number;
    else
        return bad(err, "band", "auto, off or a number below the pool's size");
    return DIBS_OK;
}

static dibs_status order_of(const json_value *object, dibs_pool *pool, dibs_err *err)
{
    dibs_status status = text_of(object, "order", pool->order, sizeof pool->order, err);

    for (size_t i = 0; status == DIBS_OK && dibs_order_name(i); i++)
        if (strcmp(dibs_order_name(i), pool->order) == 0)
            return DIBS_OK;
    return status == DIBS_OK ? bad(err, "order", "one of the known orders") : status;
}

static dibs_status pool_of(const json_value *object, dibs_pool *pool, dibs_err *err)
{
    static const char *const known[] = { "name",  "ranges",      "scope", "band",
                                         "order", "cooldown_ms", "usage", NULL };
    char text[DIBS_RANGES_TEXT_MAX + 1] = "";
    const char *scope = "";
    dibs_status status = only(object, known, err);

    if (status == DIBS_OK)
        status = text_of(object, "name", pool->name, sizeof pool->name, err);
    if (status == DIBS_OK)
        status = text_of(object, "ranges", text, sizeof text, err);
    if (status == DIBS_OK)
        status = dibs_ranges_parse(text, &pool->ranges, err);
    if (status == DIBS_OK)
        status = band_of(object, pool, err);
    if (status == DIBS_OK)
        status = order_of(object, pool, err);
    if (status == DIBS_OK)
        status = time_of(object, "cooldown_ms", &pool->cooldown_ms, err);
    if (status != DIBS_OK)
        return status;
    if (pool->cooldown_ms > DIBS_TTL_MAX_MS)
        return bad(err, "cooldown_ms", "shorter than ten years");
    (void) json_get_string(object, "scope", &scope);
    if (strcmp(scope, "host") != 0 && strcmp(scope, "cluster") != 0)
        return bad(err, "scope", "host or cluster");
    pool->scope = scope[0] == 'h' ? DIBS_SCOPE_HOST : DIBS_SCOPE_CLUSTER;
    return DIBS_OK;
}

static dibs_status read_pools(const json_value *list, struct snapshot *out, dibs_err *err)
{
    size_t n = json_array_size(list);

    out->pools = calloc(n ? n : 1, sizeof *out->pools);
    if (!out->pools)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        dibs_status status = pool_of(json_array_at(list, i), &out->pools[i], err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "pools[%zu]", i);
    }
    out->n_pools = n;
    return DIBS_OK;
}

static dibs_status read_claims(const json_value *list, struct snapshot *out, dibs_err *err)
{
    size_t n = json_array_size(list);

    out->claims = calloc(n ? n : 1, sizeof *out->claims);
    if (!out->claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        dibs_status status = claim_of(json_array_at(list, i), &out->claims[i], err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "claims[%zu]", i);
    }
    out->n_claims = n;
    return DIBS_OK;
}

dibs_status snapshot_read(const json_value *root, struct snapshot *out, dibs_err *err)
{
    static const char *const known[] = { "dibs", "pools", "claims", NULL };
    int64_t version = 0;

    if (!json_get_int(root, "dibs", &version))
        return err_set(err, DIBS_INVALID,
                       "neither a full snapshot (\"dibs\": %d) nor a RangeAllocation of Kubernetes",
                       SNAPSHOT_VERSION);
    if (version != SNAPSHOT_VERSION)
        return err_set(err, DIBS_INVALID, "a snapshot of version %lld; this program reads version %d",
                       (long long) version, SNAPSHOT_VERSION);
    dibs_status status = only(root, known, err);

    if (status != DIBS_OK)
        return status;
    if (!json_is_array(json_get(root, "pools")))
        return bad(err, "pools", "a list");
    if (!json_is_array(json_get(root, "claims")))
        return bad(err, "claims", "a list");
    status = read_pools(json_get(root, "pools"), out, err);
    return status == DIBS_OK ? read_claims(json_get(root, "claims"), out, err) : status;
}

void snapshot_done(struct snapshot *snapshot)
{
    free(snapshot->pools);
    free(snapshot->claims);
    *snapshot = (struct snapshot){ 0 };
}
