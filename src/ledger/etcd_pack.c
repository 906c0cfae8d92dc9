/* SPDX-License-Identifier: MIT */
/* Blocks: the claims of 64 ports in one value. Claims that are made together have most in common: that stands
 * once, in front of them all, or rather twice, so that no damage to one place harms more than one claim
 * (INV-6). */
#include "base/hash.h"
#include "ledger/etcd_numbers.h"

#include "base/banned.h"

enum {
    LENGTH_BYTES = 2, /* in front of each part: one that is damaged does not spoil the next */
    CHECK_BYTES = 4,  /* behind what is common, for a changed number there would be another right one */
    COPIES = 2,
};

/* What a claim is, in one number. */
enum {
    IS_STATIC = 1,
    IS_EXCLUSIVE = 2,
    IS_KEPT = 4,
    HOLDER_SHIFT = 3, /* two bits */
    HAS_PROCESS = 32,
    HAS_LEASE = 64,
    HAS_NAME = 128, /* and project */
    FLAGS_MAX = 255,
};

/* ---- parts ---- */

static size_t begin_part(struct bytes *out)
{
    static const char room[LENGTH_BYTES] = { 0 };

    bytes_add(out, room, sizeof room);
    return out->n;
}

static void end_part(struct bytes *out, size_t began)
{
    size_t n = out->n - began;

    if (out->is_lost)
        return;
    out->at[began - 2] = (char) (n >> 8);
    out->at[began - 1] = (char) n;
}

/* The next one, whatever is inside. */
static struct reader part_of(struct reader *r)
{
    uint8_t length[LENGTH_BYTES] = { 0 };

    pack_get_bytes(r, length, sizeof length);
    size_t n = (size_t) length[0] << 8 | length[1];
    struct reader part = { r->at, r->at + n, false };

    if (r->is_bad || (size_t) (r->end - r->at) < n)
        r->is_bad = part.is_bad = true;
    else
        r->at += n;
    return part;
}

/* ---- what claims have in common ---- */

static void put_common(struct bytes *out, const struct row_claim *row)
{
    const dibs_claim *c = &row->claim;

    pack_put(out, row->node);
    pack_put(out, (uint64_t) row->lease);
    pack_put(out, c->uid);
    pack_put(out, c->netns);
    pack_put(out, c->n_bindings);
    for (size_t i = 0; i < c->n_bindings; i++) {
        pack_put(out, c->bindings[i].proto);
        pack_put_address(out, &c->bindings[i].address);
    }
    pack_put_text(out, c->principal);
    pack_put_text(out, c->pool);
    pack_put_text(out, c->command);
    pack_put_uuid(out, c->process.boot_id);
}

static void get_common(struct reader *r, struct row_claim *row)
{
    dibs_claim *c = &row->claim;

    row->node = (uint32_t) pack_get(r, UINT32_MAX);
    row->lease = (int64_t) pack_get(r, INT64_MAX);
    c->uid = (uint32_t) pack_get(r, UINT32_MAX);
    c->netns = pack_get(r, UINT64_MAX);
    c->n_bindings = pack_get(r, DIBS_BINDINGS_MAX);
    for (size_t i = 0; i < c->n_bindings && !r->is_bad; i++) {
        c->bindings[i].proto = (dibs_proto) pack_get(r, DIBS_SCTP);
        pack_get_address(r, &c->bindings[i].address);
    }
    pack_get_text(r, c->principal, sizeof c->principal);
    pack_get_text(r, c->pool, sizeof c->pool);
    pack_get_text(r, c->command, sizeof c->command);
    pack_get_uuid(r, c->process.boot_id, sizeof c->process.boot_id);
}

/* To the last bit, also where it says nothing. */
static bool is_same_address(const dibs_address *a, const dibs_address *b)
{
    return a->len == b->len && a->v6only == b->v6only && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool has_same_bindings(const dibs_claim *a, const dibs_claim *b)
{
    bool is_same = a->n_bindings == b->n_bindings;

    for (size_t i = 0; i < a->n_bindings && is_same; i++)
        is_same = a->bindings[i].proto == b->bindings[i].proto &&
                  is_same_address(&a->bindings[i].address, &b->bindings[i].address);
    return is_same;
}

static bool is_like(const struct row_claim *row, const struct row_claim *like)
{
    const dibs_claim *c = &row->claim;
    const dibs_claim *l = &like->claim;

    return row->node == like->node && row->lease == like->lease && c->uid == l->uid && c->netns == l->netns &&
           has_same_bindings(c, l) && strcmp(c->principal, l->principal) == 0 &&
           strcmp(c->pool, l->pool) == 0 && strcmp(c->command, l->command) == 0 &&
           strcmp(c->process.boot_id, l->process.boot_id) == 0;
}

/* Numbers and times of claims are near those of the one that they are like. */
static void put_near(struct bytes *out, const dibs_claim *c, const dibs_claim *near)
{
    pack_put_more(out, c->id, near->id);
    pack_put_more(out, (uint64_t) c->created_ms, (uint64_t) near->created_ms);
    pack_put_more(out, (uint64_t) c->lease_ttl_ms, (uint64_t) near->lease_ttl_ms);
    pack_put_more(out, (uint64_t) c->lease_until_ms, (uint64_t) near->lease_until_ms);
}

static void get_near(struct reader *r, dibs_claim *c, const dibs_claim *near)
{
    c->id = pack_get_more(r, near->id, INT64_MAX);
    c->created_ms = (int64_t) pack_get_more(r, (uint64_t) near->created_ms, UINT64_MAX);
    c->lease_ttl_ms = (int64_t) pack_get_more(r, (uint64_t) near->lease_ttl_ms, UINT64_MAX);
    c->lease_until_ms = (int64_t) pack_get_more(r, (uint64_t) near->lease_until_ms, UINT64_MAX);
}

static const dibs_claim nothing;

static uint32_t check_of(const void *bytes, size_t n)
{
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, bytes, n);

    return (uint32_t) (hash ^ hash >> 32);
}

static void put_like(struct bytes *out, const struct row_claim *like)
{
    size_t began = begin_part(out);

    put_common(out, like);
    put_near(out, &like->claim, &nothing);
    if (out->is_lost)
        return;
    uint32_t check = check_of(out->at + began, out->n - began);
    const char bytes[CHECK_BYTES] = { (char) check, (char) (check >> 8), (char) (check >> 16),
                                      (char) (check >> 24) };
    bytes_add(out, bytes, sizeof bytes);
    end_part(out, began);
}

/* False: it is not as it was written. */
static bool get_like(struct reader *part, struct row_claim *out)
{
    size_t n = part->is_bad ? 0 : (size_t) (part->end - part->at);

    if (n < CHECK_BYTES)
        return false;
    part->end -= CHECK_BYTES;
    const uint8_t *is = part->end;
    uint32_t check = is[0] | (uint32_t) is[1] << 8 | (uint32_t) is[2] << 16 | (uint32_t) is[3] << 24;
    if (check != check_of(part->at, n - CHECK_BYTES))
        return false;
    *out = (struct row_claim){ 0 };
    get_common(part, out);
    get_near(part, &out->claim, &nothing);
    return pack_is_done(part);
}

/* ---- claims ---- */

struct block_writer pack_block(struct bytes *out, uint32_t n_claims, uint32_t n_cooling,
                               const struct row_claim *like)
{
    pack_put(out, PACK_VERSION);
    pack_put(out, n_claims);
    pack_put(out, n_cooling);
    pack_put(out, like != NULL);
    for (int i = 0; i < COPIES && like; i++)
        put_like(out, like);
    return (struct block_writer){ .out = out, .like = like };
}

static unsigned flags_of(const dibs_claim *c)
{
    unsigned flags = (unsigned) c->holder << HOLDER_SHIFT;

    flags |= c->kind == DIBS_STATIC ? IS_STATIC : 0;
    flags |= c->is_exclusive ? IS_EXCLUSIVE : 0;
    flags |= c->is_kept ? IS_KEPT : 0;
    flags |= c->process.pid || c->process.pidns || c->process.start_ticks ? HAS_PROCESS : 0;
    flags |= c->lease_ttl_ms || c->lease_until_ms ? HAS_LEASE : 0;
    flags |= c->name[0] || c->project[0] ? HAS_NAME : 0;
    return flags;
}

static void put_claim(struct bytes *out, const struct row_claim *row, const struct row_claim *like)
{
    const dibs_claim *c = &row->claim;
    unsigned flags = flags_of(c);

    pack_put(out, flags);
    pack_put(out, c->generation);
    bytes_add(out, (const char *) row->secret, sizeof row->secret);
    if (!like)
        put_common(out, row);
    put_near(out, c, like ? &like->claim : &nothing);
    pack_put_more(out, (uint64_t) c->changed_ms, (uint64_t) c->created_ms);
    if (flags & HAS_PROCESS) {
        pack_put_signed(out, c->process.pid);
        pack_put(out, c->process.pidns);
        pack_put(out, c->process.start_ticks);
    }
    if (flags & HAS_NAME) {
        pack_put_text(out, c->name);
        pack_put_text(out, c->project);
    }
}

void pack_claim(struct block_writer *w, const struct row_claim *row)
{
    size_t began = begin_part(w->out);
    bool is_short = w->like && !row->claim.is_damaged && is_like(row, w->like);

    pack_put(w->out, (uint64_t) row->claim.port << 1 | is_short);
    if (!row->claim.is_damaged) /* what is left of one is as unreadable the next time */
        put_claim(w->out, row, is_short ? w->like : NULL);
    end_part(w->out, began);
}

static void get_claim(struct reader *r, struct row_claim *row, const struct row_claim *like)
{
    dibs_claim *c = &row->claim;
    unsigned flags = (unsigned) pack_get(r, FLAGS_MAX);

    if (like)
        *row = *like;
    c->kind = flags & IS_STATIC ? DIBS_STATIC : DIBS_DYNAMIC;
    c->is_exclusive = flags & IS_EXCLUSIVE;
    c->is_kept = flags & IS_KEPT;
    c->holder = (dibs_holder) (flags >> HOLDER_SHIFT & 3);
    c->generation = pack_get(r, INT64_MAX);
    pack_get_bytes(r, row->secret, sizeof row->secret);
    if (!like)
        get_common(r, row);
    get_near(r, c, like ? &like->claim : &nothing);
    c->changed_ms = (int64_t) pack_get_more(r, (uint64_t) c->created_ms, UINT64_MAX);
    if (flags & HAS_PROCESS) {
        c->process.pid = (int32_t) pack_get_signed(r);
        c->process.pidns = pack_get(r, UINT64_MAX);
        c->process.start_ticks = pack_get(r, UINT64_MAX);
    }
    if (flags & HAS_NAME) {
        pack_get_text(r, c->name, sizeof c->name);
        pack_get_text(r, c->project, sizeof c->project);
    }
    r->is_bad = r->is_bad || flags_of(c) != flags;
}

static bool read_claim(struct reader *r, const struct row_claim *like, const struct block_reader *to)
{
    struct reader part = part_of(r);
    struct row_claim row = { 0 };

    if (r->is_bad)
        return false;
    uint64_t head = pack_get(&part, (uint64_t) DIBS_PORT_MAX << 1 | 1);
    bool is_short = head & 1;

    part.is_bad = part.is_bad || (is_short && !like);
    if (!part.is_bad)
        get_claim(&part, &row, is_short ? like : NULL);
    row.claim.port = (uint16_t) (head >> 1);
    bool is_well = pack_is_done(&part) && codec_claim_valid(&row.claim, NULL);
    return is_well ? to->claim(to->ctx, &row) : to->damaged(to->ctx, row.claim.port);
}

/* ---- ports that cool ---- */

static bool cools_like(const struct ledger_slot *slot, const struct ledger_slot *before)
{
    return slot->proto == before->proto && slot->node == before->node &&
           is_same_address(&slot->address, &before->address);
}

/* Most have been released together, and are neighbours. */
void pack_cooling(struct block_writer *w, const struct ledger_slot *slot)
{
    bool is_same = cools_like(slot, &w->before);
    uint32_t more = (uint32_t) (slot->port - w->before.port) & DIBS_PORT_MAX;

    pack_put(w->out, more << 1 | is_same);
    pack_put_more(w->out, (uint64_t) slot->there_ms, (uint64_t) w->before.there_ms);
    if (!is_same) {
        pack_put(w->out, slot->proto);
        pack_put_address(w->out, &slot->address);
        pack_put(w->out, slot->node);
    }
    w->before = *slot;
}

/* *slot is the one before, and becomes the next. */
static void get_cooling(struct reader *r, struct ledger_slot *slot)
{
    uint64_t head = pack_get(r, (uint64_t) DIBS_PORT_MAX << 1 | 1);

    slot->port = (uint16_t) (slot->port + (head >> 1));
    slot->there_ms = (int64_t) pack_get_more(r, (uint64_t) slot->there_ms, UINT64_MAX);
    slot->released_ms = slot->there_ms;
    if (!(head & 1)) {
        slot->proto = (dibs_proto) pack_get(r, DIBS_SCTP);
        pack_get_address(r, &slot->address);
        slot->node = (uint32_t) pack_get(r, UINT32_MAX);
    }
    r->is_bad = r->is_bad || slot->port == 0 || slot->proto == 0;
}

bool unpack_block(struct packed from, const struct block_reader *to)
{
    struct reader r = pack_reader(from);
    uint64_t n_claims = pack_get(&r, from.n);
    uint64_t n_cooling = pack_get(&r, from.n);
    int copies = pack_get(&r, 1) ? COPIES : 0;
    struct row_claim like;
    bool has_like = false;
    struct ledger_slot slot = { 0 };

    for (; copies > 0 && !r.is_bad; copies--) {
        struct reader part = part_of(&r);

        has_like = has_like || get_like(&part, &like);
    }
    for (; n_claims > 0 && !r.is_bad; n_claims--)
        r.is_bad = !read_claim(&r, has_like ? &like : NULL, to) || r.is_bad;
    for (; n_cooling > 0 && !r.is_bad; n_cooling--) {
        get_cooling(&r, &slot);
        r.is_bad = r.is_bad || !to->cooling(to->ctx, &slot);
    }
    return pack_is_done(&r);
}
