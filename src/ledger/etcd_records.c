/* SPDX-License-Identifier: MIT */
/* The other values: history, names, pools, answers, sightings, the ledger's mark. */
#include "ledger/etcd_numbers.h"

#include "base/banned.h"

void pack_tail(struct bytes *out, const struct node_tail *tail)
{
    pack_put(out, PACK_VERSION);
    pack_put(out, tail->seq);
    pack_put(out, tail->cursor);
    pack_put(out, tail->gone);
    pack_put(out, tail->nonce);
}

bool unpack_tail(struct packed from, struct node_tail *out)
{
    struct reader r = pack_reader(from);

    out->seq = pack_get(&r, INT64_MAX);
    out->cursor = pack_get(&r, UINT64_MAX);
    out->gone = pack_get(&r, out->seq);
    out->nonce = pack_get(&r, UINT64_MAX);
    return pack_is_done(&r);
}

/* What an event is, in one number. */
enum {
    IS_OTHERS = 1, /* another principal than that of the one before */
    IS_USUAL = 2,  /* as the one before, but for time, claim and port */
    KIND_SHIFT = 2,
};

static uint64_t cursor_after(uint64_t before, dibs_event_kind kind)
{
    return before + (kind == DIBS_EV_CLAIMED);
}

static bool is_usual(const struct event_record *record, const struct event_record *before)
{
    const dibs_event *e = &record->event;
    const dibs_event *b = &before->event;

    return e->seq == b->seq + 1 && e->generation == b->generation && e->protos == b->protos &&
           e->is_dynamic == b->is_dynamic && e->actor_uid == b->actor_uid && e->actor_pid == b->actor_pid &&
           !e->name[0] && record->cursor == cursor_after(before->cursor, e->kind) &&
           strcmp(e->principal, b->principal) == 0;
}

static void pack_event(struct bytes *out, const struct event_record *record,
                       const struct event_record *before)
{
    const dibs_event *e = &record->event;
    const dibs_event *b = &before->event;
    unsigned how = is_usual(record, before) ? IS_USUAL : strcmp(e->principal, b->principal) ? IS_OTHERS : 0;

    pack_put(out, (uint64_t) e->kind << KIND_SHIFT | how);
    pack_put_more(out, (uint64_t) e->time_ms, (uint64_t) b->time_ms);
    pack_put_more(out, e->claim_id, b->claim_id);
    pack_put_more(out, e->port, b->port);
    if (how & IS_USUAL)
        return;
    pack_put_more(out, e->seq, b->seq);
    pack_put(out, e->generation);
    pack_put(out, (uint64_t) e->protos << 1 | e->is_dynamic);
    pack_put_more(out, e->actor_uid, b->actor_uid);
    pack_put_more(out, (uint64_t) e->actor_pid, (uint64_t) b->actor_pid);
    if (how & IS_OTHERS)
        pack_put_text(out, e->principal);
    pack_put_text(out, e->name);
    pack_put_more(out, record->cursor, before->cursor);
}

void pack_events(struct bytes *out, const struct event_record *const *events, size_t n)
{
    static const struct event_record nothing;

    pack_put(out, PACK_VERSION);
    pack_put(out, n);
    for (size_t i = 0; i < n; i++)
        pack_event(out, events[i], i > 0 ? events[i - 1] : &nothing);
}

/* *record is the one before, and becomes the next. */
static void get_event(struct reader *r, struct event_record *record)
{
    dibs_event *e = &record->event;
    uint64_t how = pack_get(r, DIBS_EV_POOL << KIND_SHIFT | IS_USUAL | IS_OTHERS);

    e->kind = (dibs_event_kind) (how >> KIND_SHIFT);
    e->time_ms = (int64_t) pack_get_more(r, (uint64_t) e->time_ms, UINT64_MAX);
    e->claim_id = pack_get_more(r, e->claim_id, INT64_MAX);
    e->port = (uint16_t) pack_get_more(r, e->port, DIBS_PORT_MAX);
    if (how & IS_USUAL) {
        r->is_bad = r->is_bad || how & IS_OTHERS || e->seq == INT64_MAX;
        e->seq++;
        e->name[0] = '\0';
        record->cursor = cursor_after(record->cursor, e->kind);
        return;
    }
    e->seq = pack_get_more(r, e->seq, INT64_MAX);
    e->generation = pack_get(r, INT64_MAX);
    uint64_t protos = pack_get(r, UINT8_MAX << 1 | 1);
    e->protos = (uint8_t) (protos >> 1);
    e->is_dynamic = protos & 1;
    e->actor_uid = (uint32_t) pack_get_more(r, e->actor_uid, UINT32_MAX);
    int64_t pid = (int64_t) pack_get_more(r, (uint64_t) e->actor_pid, UINT64_MAX);
    r->is_bad = r->is_bad || pid < INT32_MIN || pid > INT32_MAX;
    e->actor_pid = (int32_t) pid;
    if (how & IS_OTHERS)
        pack_get_text(r, e->principal, sizeof e->principal);
    pack_get_text(r, e->name, sizeof e->name);
    record->cursor = pack_get_more(r, record->cursor, UINT64_MAX);
}

bool unpack_events(struct packed from, bool (*fn)(void *ctx, const struct event_record *event), void *ctx)
{
    struct reader r = pack_reader(from);
    struct event_record record = { 0 };

    for (uint64_t n = pack_get(&r, from.n); n > 0 && !r.is_bad; n--) {
        get_event(&r, &record);
        if (!r.is_bad && !fn(ctx, &record))
            return true;
    }
    return pack_is_done(&r);
}

/* ---- names, pools, answers, sightings ---- */

void pack_name(struct bytes *out, const struct name_record *name)
{
    pack_put(out, PACK_VERSION);
    pack_put_text(out, name->principal);
    pack_put_text(out, name->name);
    pack_put(out, name->row.claim_id);
    pack_put(out, name->row.port);
    pack_put_signed(out, name->row.used_ms);
    pack_put_text(out, name->row.project);
}

bool unpack_name(struct packed from, struct name_record *out)
{
    struct reader r = pack_reader(from);

    *out = (struct name_record){ 0 };
    pack_get_text(&r, out->principal, sizeof out->principal);
    pack_get_text(&r, out->name, sizeof out->name);
    out->row.claim_id = pack_get(&r, INT64_MAX);
    out->row.port = (uint16_t) pack_get(&r, DIBS_PORT_MAX);
    out->row.used_ms = pack_get_signed(&r);
    pack_get_text(&r, out->row.project, sizeof out->row.project);
    return pack_is_done(&r) && out->name[0];
}

void pack_pool(struct bytes *out, const dibs_pool *pool)
{
    pack_put(out, PACK_VERSION);
    pack_put_text(out, pool->name);
    pack_put(out, pool->scope);
    pack_put_signed(out, pool->band);
    pack_put_signed(out, pool->cooldown_ms);
    pack_put_text(out, pool->order);
    pack_put(out, pool->ranges.n);
    for (size_t i = 0; i < pool->ranges.n; i++) {
        pack_put(out, pool->ranges.item[i].first);
        pack_put(out, pool->ranges.item[i].last);
    }
}

bool unpack_pool(struct packed from, dibs_pool *out)
{
    struct reader r = pack_reader(from);
    uint32_t before = 0;

    *out = (dibs_pool){ 0 };
    pack_get_text(&r, out->name, sizeof out->name);
    out->scope = (dibs_scope) pack_get(&r, DIBS_SCOPE_CLUSTER);
    int64_t band = pack_get_signed(&r);
    out->cooldown_ms = pack_get_signed(&r);
    pack_get_text(&r, out->order, sizeof out->order);
    out->ranges.n = pack_get(&r, DIBS_RANGES_MAX);
    for (size_t i = 0; i < out->ranges.n && !r.is_bad; i++) {
        dibs_range range = { (uint16_t) pack_get(&r, DIBS_PORT_MAX), (uint16_t) pack_get(&r, DIBS_PORT_MAX) };

        r.is_bad = r.is_bad || range.first <= before || range.last < range.first;
        before = range.last;
        out->ranges.item[i] = range;
    }
    r.is_bad = r.is_bad || band < DIBS_BAND_AUTO || band > DIBS_PORT_MAX || out->ranges.n == 0 ||
               out->cooldown_ms < 0 || out->cooldown_ms > DIBS_COOLDOWN_MAX_MS;
    out->band = (int32_t) band;
    return pack_is_done(&r) && out->name[0];
}

void pack_ports(struct bytes *out, const struct portbits *ports)
{
    pack_put(out, PACK_VERSION);
    for (uint32_t i = 0; i < PORTBITS_WORDS; i++)
        if (ports->word[i]) {
            pack_put(out, i);
            pack_put(out, ports->word[i]);
        }
}

bool unpack_ports(struct packed from, struct portbits *out)
{
    struct reader r = pack_reader(from);

    while (!r.is_bad && r.at < r.end) {
        uint64_t i = pack_get(&r, PORTBITS_WORDS - 1);
        uint64_t word = pack_get(&r, UINT64_MAX);

        if (!r.is_bad)
            out->word[i] |= word;
    }
    return pack_is_done(&r);
}

void pack_answer(struct bytes *out, const struct row_answer *answer)
{
    pack_put(out, PACK_VERSION);
    pack_put_text(out, answer->principal);
    pack_put_text(out, answer->key);
    pack_put(out, answer->part);
    pack_put(out, answer->n);
    pack_put(out, answer->seq);
    pack_put(out, answer->digest);
    pack_put(out, answer->claim_id);
    pack_put(out, answer->generation);
}

bool unpack_answer(struct packed from, struct row_answer *out)
{
    struct reader r = pack_reader(from);

    *out = (struct row_answer){ 0 };
    pack_get_text(&r, out->principal, sizeof out->principal);
    pack_get_text(&r, out->key, sizeof out->key);
    out->part = (uint32_t) pack_get(&r, UINT32_MAX);
    out->n = (uint32_t) pack_get(&r, UINT32_MAX);
    out->seq = pack_get(&r, INT64_MAX);
    out->digest = pack_get(&r, UINT64_MAX);
    out->claim_id = pack_get(&r, INT64_MAX);
    out->generation = pack_get(&r, INT64_MAX);
    return pack_is_done(&r);
}

void pack_sighting(struct bytes *out, const struct sighting_record *sighting)
{
    pack_put(out, PACK_VERSION);
    pack_put(out, sighting->seen.id);
    pack_put(out, sighting->seen.generation);
    pack_put_signed(out, sighting->seen.lease_until_ms);
    pack_put(out, sighting->count);
}

bool unpack_sighting(struct packed from, struct sighting_record *out)
{
    struct reader r = pack_reader(from);

    *out = (struct sighting_record){ 0 };
    out->seen.id = pack_get(&r, INT64_MAX);
    out->seen.generation = pack_get(&r, INT64_MAX);
    out->seen.lease_until_ms = pack_get_signed(&r);
    out->count = (uint32_t) pack_get(&r, UINT32_MAX);
    return pack_is_done(&r);
}

void pack_mark(struct bytes *out, const struct ledger_mark *mark)
{
    pack_put(out, PACK_VERSION);
    pack_put(out, mark->major);
    pack_put(out, mark->salt);
}

bool unpack_mark(struct packed from, struct ledger_mark *out)
{
    struct reader r = pack_reader(from);

    out->major = (uint32_t) pack_get(&r, UINT32_MAX);
    out->salt = pack_get(&r, UINT64_MAX);
    return pack_is_done(&r);
}

void pack_text(struct bytes *out, const char *text)
{
    pack_put(out, PACK_VERSION);
    pack_put_text(out, text);
}

bool unpack_text(struct packed from, char *out, size_t size)
{
    struct reader r = pack_reader(from);

    pack_get_text(&r, out, size);
    return pack_is_done(&r);
}

void pack_number(struct bytes *out, uint64_t number)
{
    pack_put(out, PACK_VERSION);
    pack_put(out, number);
}

bool unpack_number(struct packed from, uint64_t *out)
{
    struct reader r = pack_reader(from);

    *out = pack_get(&r, UINT64_MAX);
    return pack_is_done(&r);
}
