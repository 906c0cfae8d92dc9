/* SPDX-License-Identifier: MIT */
/* Pools, and snapshots of pools and claims, as JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "codec/wire_fields.h"

#include "base/banned.h"

#define U(member, key) FIELD(U32, dibs_pool_usage, member, key, 0)
static const struct field usage_fields[] = {
    FIELD(U32, dibs_pool_usage, size, "size", FIELD_NEEDED),
    U(band, "band"),
    U(n_static, "static"),
    U(n_dynamic, "dynamic"),
    U(n_available, "available"),
    U(n_withheld, "withheld"),
    { 0 },
};
WIRE_VALUE(usage, dibs_pool_usage)

/* Write null for a webhook or a controller, HOST/PART, which has no lease. */
static void write_alive(struct jsonw *w, const void *object)
{
    const dibs_node *node = object;

    jsonw_key(w, "alive");
    if (strchr(node->name, '/'))
        jsonw_null(w);
    else
        jsonw_bool(w, node->is_alive);
}

static void read_alive(struct fields *f, void *object)
{
    fields_bool(f, "alive", &((dibs_node *) object)->is_alive);
}

static const struct field node_fields[] = {
    FIELD(STRING, dibs_node, name, "name", FIELD_NEEDED),
    FIELD_OWNED("alive", 0, alive),
    FIELD(BOOL, dibs_node, is_here, "here", 0),
    { 0 },
};
WIRE_VALUE(node, dibs_node)

#define P(type, member, key, flags) FIELD(type, dibs_pool, member, key, flags)
static const struct field pool_fields[] = {
    P(STRING, name, "name", FIELD_NEEDED),
    P(RANGES, ranges, "ranges", FIELD_NEEDED),
    FIELD_WORDS(dibs_pool, scope, "scope", FIELD_NEEDED, words_scope),
    P(BAND, band, "band", FIELD_NEEDED),
    P(STRING, order, "order", FIELD_NEEDED),
    P(MS, cooldown_ms, "cooldown_ms", FIELD_NEEDED),
    P(BOOL, is_rebuilt, "rebuilt", FIELD_BRIEF),
    { .key = "usage", .type = FIELD_KNOWN },
    { 0 },
};

void wire_pool(struct jsonw *w, const dibs_pool *pool, const dibs_pool_usage *usage)
{
    jsonw_object(w);
    fields_write(w, pool_fields, pool);
    if (usage) {
        jsonw_key(w, "usage");
        wire_usage(w, usage);
    }
    jsonw_end_object(w);
}

void wire_snapshot(struct jsonw *w, const dibs_snapshot *snapshot)
{
    jsonw_object(w);
    jsonw_key_int(w, "dibs", WIRE_SNAPSHOT_VERSION);
    field_list(w, "pools", pool_fields, snapshot->pools, sizeof *snapshot->pools, snapshot->n_pools);
    jsonw_key_array(w, "claims");
    for (size_t i = 0; i < snapshot->n; i++)
        wire_claim(w, &snapshot->claims[i], false);
    jsonw_end_array(w);
    jsonw_end_object(w);
}

void wire_range_members(struct jsonw *w, const dibs_range_snapshot *snapshot)
{
    char text[4 * ((WIRE_RANGE_BYTES_MAX + 2) / 3) + 1] = "";

    if (snapshot->n <= WIRE_RANGE_BYTES_MAX)
        base64_encode(snapshot->bytes, snapshot->n, text);
    jsonw_key_string(w, "range", snapshot->range);
    jsonw_key_string(w, "data", text);
}

/* Check a pool, unless it is from a daemon: that may be newer, or the record damaged. */
static void check_pool(struct fields *f, const dibs_pool *pool)
{
    bool is_order = false;

    if (f->status != DIBS_OK || f->from == WIRE_ANSWERED)
        return;
    if (pool->band > 0 && (uint32_t) pool->band >= dibs_ranges_count(&pool->ranges))
        fields_bad(f, "band", "auto, off or a number below the pool's size");
    for (size_t i = 0; dibs_order_name(i); i++)
        is_order = is_order || strcmp(dibs_order_name(i), pool->order) == 0;
    if (!is_order)
        fields_bad(f, "order", "one of the known orders");
    if (pool->cooldown_ms > DIBS_TTL_MAX_MS)
        fields_bad(f, "cooldown_ms", "shorter than ten years");
}

dibs_status wire_pool_read(const jsonr_value *v, enum wire_source from, dibs_pool *out, dibs_err *err)
{
    struct fields f = { .from = from, .err = err };

    *out = (dibs_pool){ 0 };
    fields_read(&f, v, pool_fields, out);
    check_pool(&f, out);
    return f.status;
}

/* Allocate storage for the list `key`, with one item more than it has. */
static void *take_list(struct fields *f, const char *key, size_t size, size_t *n)
{
    fields_need(f, key);
    (void) fields_list(f, key, SIZE_MAX, n);
    void *items = f->status == DIBS_OK ? calloc(*n + 1, size) : NULL;
    if (!items && f->status == DIBS_OK)
        f->status = err_set(f->err, DIBS_FAILURE, "out of memory");
    return items;
}

dibs_status wire_snapshot_read(const jsonr_value *v, struct wire_snapshot *out, dibs_err *err)
{
    static const char *const known[] = { "dibs", "pools", "claims", NULL };
    struct fields f = { 0 };
    int64_t version = 0;

    if (!jsonr_get_int(v, "dibs", &version))
        return err_set(err, DIBS_INVALID,
                       "neither a full snapshot (\"dibs\": %d) nor a RangeAllocation of Kubernetes",
                       WIRE_SNAPSHOT_VERSION);
    if (version != WIRE_SNAPSHOT_VERSION)
        return err_set(err, DIBS_INVALID, "a snapshot of version %lld; this program reads version %d",
                       (long long) version, WIRE_SNAPSHOT_VERSION);
    fields_begin(&f, v, known, WIRE_ASKED, err);
    out->pools = take_list(&f, "pools", sizeof *out->pools, &out->n_pools);
    out->claims = take_list(&f, "claims", sizeof *out->claims, &out->n_claims);
    for (size_t i = 0; i < out->n_pools && f.status == DIBS_OK; i++) {
        f.status = wire_pool_read(jsonr_array_at(jsonr_get(v, "pools"), i), WIRE_ASKED, &out->pools[i], err);
        if (f.status != DIBS_OK)
            (void) err_wrap(err, f.status, "pools[%zu]", i);
    }
    for (size_t i = 0; i < out->n_claims && f.status == DIBS_OK; i++) {
        f.status =
            wire_claim_read(jsonr_array_at(jsonr_get(v, "claims"), i), WIRE_ASKED, &out->claims[i], err);
        if (f.status != DIBS_OK)
            (void) err_wrap(err, f.status, "claims[%zu]", i);
    }
    return f.status;
}

void wire_snapshot_done(struct wire_snapshot *snapshot)
{
    free(snapshot->pools);
    free(snapshot->claims);
    *snapshot = (struct wire_snapshot){ 0 };
}

dibs_status wire_range_read(const jsonr_value *v, uint8_t bytes[WIRE_RANGE_BYTES_MAX],
                            dibs_range_snapshot *out, dibs_err *err)
{
    struct fields f = { 0 };
    const char *data = ""; /* Kubernetes omits it, or writes null, for a range without used ports */

    *out = (dibs_range_snapshot){ .bytes = bytes };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "range");
    fields_borrow(&f, "range", &out->range);
    fields_borrow(&f, "data", &data);
    if (f.status == DIBS_OK && !base64_decode(data, bytes, WIRE_RANGE_BYTES_MAX, &out->n))
        fields_bad(&f, "data", "base64 of at most 8192 bytes");
    return f.status;
}
