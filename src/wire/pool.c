/* SPDX-License-Identifier: MIT */
/* Pools, and snapshots of pools and claims. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/fields.h"
#include "wire/words.h"

#include "base/banned.h"

/* ---- writing ---- */

void wire_usage(struct json_writer *w, const dibs_pool_usage *usage)
{
    json_object(w);
    json_key_uint(w, "size", usage->size);
    json_key_uint(w, "band", usage->band);
    json_key_uint(w, "static", usage->n_static);
    json_key_uint(w, "dynamic", usage->n_dynamic);
    json_key_uint(w, "available", usage->n_available);
    json_key_uint(w, "withheld", usage->n_withheld);
    json_end_object(w);
}

void wire_pool(struct json_writer *w, const dibs_pool *pool, const dibs_pool_usage *usage)
{
    char ranges[DIBS_RANGES_TEXT_MAX + 1] = "";
    char band[16] = "";

    dibs_ranges_format(&pool->ranges, ranges);
    wire_band_text(pool->band, band);
    json_object(w);
    json_key_string(w, "name", pool->name);
    json_key_string(w, "ranges", ranges);
    json_key_string(w, "scope", wire_scope_text(pool->scope));
    json_key_string(w, "band", band);
    json_key_string(w, "order", pool->order);
    json_key_int(w, "cooldown_ms", pool->cooldown_ms);
    if (usage) {
        json_key(w, "usage");
        wire_usage(w, usage);
    }
    json_end_object(w);
}

void wire_snapshot(struct json_writer *w, const dibs_snapshot *snapshot)
{
    json_object(w);
    json_key_int(w, "dibs", WIRE_SNAPSHOT_VERSION);
    json_key(w, "pools");
    json_array(w);
    for (size_t i = 0; i < snapshot->n_pools; i++)
        wire_pool(w, &snapshot->pools[i], NULL);
    json_end_array(w);
    json_key(w, "claims");
    json_array(w);
    for (size_t i = 0; i < snapshot->n; i++)
        wire_claim(w, &snapshot->claims[i], false);
    json_end_array(w);
    json_end_object(w);
}

void wire_node(struct json_writer *w, const dibs_node *node)
{
    json_object(w);
    json_key_string(w, "name", node->name);
    json_key_bool(w, "alive", node->is_alive);
    json_key_bool(w, "here", node->is_here);
    json_end_object(w);
}

void wire_range_members(struct json_writer *w, const dibs_range_snapshot *snapshot)
{
    char text[4 * ((WIRE_RANGE_BYTES_MAX + 2) / 3) + 1] = "";

    if (snapshot->n <= WIRE_RANGE_BYTES_MAX)
        json_base64_encode(snapshot->bytes, snapshot->n, text);
    json_key_string(w, "range", snapshot->range);
    json_key_string(w, "data", text);
}

/* ---- reading ---- */

dibs_status wire_node_read(const json_value *v, dibs_node *out, dibs_err *err)
{
    struct fields f = { 0 };

    *out = (dibs_node){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "name");
    fields_text(&f, "name", out->name, sizeof out->name);
    fields_bool(&f, "alive", &out->is_alive);
    fields_bool(&f, "here", &out->is_here);
    return f.status;
}

dibs_status wire_usage_read(const json_value *v, dibs_pool_usage *out, dibs_err *err)
{
    struct fields f = { 0 };

    *out = (dibs_pool_usage){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "size");
    fields_u32(&f, "size", &out->size);
    fields_u32(&f, "band", &out->band);
    fields_u32(&f, "static", &out->n_static);
    fields_u32(&f, "dynamic", &out->n_dynamic);
    fields_u32(&f, "available", &out->n_available);
    fields_u32(&f, "withheld", &out->n_withheld);
    return f.status;
}

/* Those of a daemon may be of a newer dibs, or of a record that is damaged. */
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
    if (pool->cooldown_ms < 0 || pool->cooldown_ms > DIBS_TTL_MAX_MS)
        fields_bad(f, "cooldown_ms", "a time, and shorter than ten years");
}

dibs_status wire_pool_read(const json_value *v, enum wire_source from, dibs_pool *out, dibs_err *err)
{
    static const char *const known[] = { "name",  "ranges",      "scope", "band",
                                         "order", "cooldown_ms", "usage", NULL };
    struct fields f = { 0 };
    const char *ranges = "";
    const char *band = "";
    unsigned scope = DIBS_SCOPE_HOST;

    *out = (dibs_pool){ 0 };
    fields_begin(&f, v, known, from, err);
    for (size_t i = 0; i < 6; i++)
        fields_need(&f, known[i]);
    fields_text(&f, "name", out->name, sizeof out->name);
    fields_borrow(&f, "ranges", &ranges);
    fields_word(&f, "scope", words_scope, WORDS_SCOPE, &scope);
    out->scope = (dibs_scope) scope;
    fields_borrow(&f, "band", &band);
    fields_text(&f, "order", out->order, sizeof out->order);
    fields_int(&f, "cooldown_ms", INT64_MIN, INT64_MAX, &out->cooldown_ms);
    if (f.status == DIBS_OK && dibs_ranges_parse(ranges, &out->ranges, err) != DIBS_OK)
        return err_wrap(err, DIBS_INVALID, "\"ranges\"");
    if (f.status == DIBS_OK && !wire_band_read(band, &out->band))
        fields_bad(&f, "band", "auto, off or a number of ports");
    check_pool(&f, out);
    return f.status;
}

static dibs_status read_pools(const json_value *list, struct wire_snapshot *out, dibs_err *err)
{
    size_t n = json_array_size(list);

    out->pools = calloc(n + 1, sizeof *out->pools);
    if (!out->pools)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        dibs_status status = wire_pool_read(json_array_at(list, i), WIRE_ASKED, &out->pools[i], err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "pools[%zu]", i);
    }
    out->n_pools = n;
    return DIBS_OK;
}

static dibs_status read_claims(const json_value *list, struct wire_snapshot *out, dibs_err *err)
{
    size_t n = json_array_size(list);

    out->claims = calloc(n + 1, sizeof *out->claims);
    if (!out->claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        dibs_status status = wire_claim_read(json_array_at(list, i), WIRE_ASKED, &out->claims[i], err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "claims[%zu]", i);
    }
    out->n_claims = n;
    return DIBS_OK;
}

dibs_status wire_snapshot_read(const json_value *v, struct wire_snapshot *out, dibs_err *err)
{
    static const char *const known[] = { "dibs", "pools", "claims", NULL };
    struct fields f = { 0 };
    int64_t version = 0;

    if (!json_get_int(v, "dibs", &version))
        return err_set(err, DIBS_INVALID,
                       "neither a full snapshot (\"dibs\": %d) nor a RangeAllocation of Kubernetes",
                       WIRE_SNAPSHOT_VERSION);
    if (version != WIRE_SNAPSHOT_VERSION)
        return err_set(err, DIBS_INVALID, "a snapshot of version %lld; this program reads version %d",
                       (long long) version, WIRE_SNAPSHOT_VERSION);
    fields_begin(&f, v, known, WIRE_ASKED, err);
    for (size_t i = 1; i < 3; i++)
        if (!json_is_array(json_get(v, known[i])))
            fields_bad(&f, known[i], "a list");
    if (f.status == DIBS_OK)
        f.status = read_pools(json_get(v, "pools"), out, err);
    return f.status == DIBS_OK ? read_claims(json_get(v, "claims"), out, err) : f.status;
}

void wire_snapshot_done(struct wire_snapshot *snapshot)
{
    free(snapshot->pools);
    free(snapshot->claims);
    *snapshot = (struct wire_snapshot){ 0 };
}

dibs_status wire_range_read(const json_value *v, uint8_t bytes[WIRE_RANGE_BYTES_MAX],
                            dibs_range_snapshot *out, dibs_err *err)
{
    struct fields f = { 0 };
    const char *data = ""; /* Kubernetes leaves it out for a range without any port in use, or says null */

    *out = (dibs_range_snapshot){ .bytes = bytes };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "range");
    fields_borrow(&f, "range", &out->range);
    fields_borrow(&f, "data", &data);
    if (f.status == DIBS_OK && !json_base64_decode(data, bytes, WIRE_RANGE_BYTES_MAX, &out->n))
        fields_bad(&f, "data", "base64 of at most 8192 bytes");
    return f.status;
}
