/* SPDX-License-Identifier: MIT */
/* Blocks: the claims of 64 ports in one value. */
#include "ledger/etcd_numbers.h"

#include "base/banned.h"

enum { CLAIM_LENGTH_BYTES = 2 }; /* in front of each: one that is damaged does not spoil the next (INV-6) */

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

void pack_block(struct bytes *out, uint32_t n_claims, uint32_t n_cooling)
{
    pack_put(out, PACK_VERSION);
    pack_put(out, n_claims);
    pack_put(out, n_cooling);
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

void pack_claim(struct bytes *out, const struct row_claim *row)
{
    static const char room[CLAIM_LENGTH_BYTES] = { 0 };
    const dibs_claim *c = &row->claim;
    unsigned flags = flags_of(c);
    size_t before = out->n;

    bytes_add(out, room, sizeof room);
    pack_put(out, c->port);
    if (c->is_damaged) { /* what is left of it is as unreadable the next time */
        if (!out->is_lost)
            out->at[before + 1] = (char) (out->n - before - sizeof room);
        return;
    }
    pack_put(out, flags);
    pack_put(out, c->id);
    pack_put(out, c->generation);
    bytes_add(out, (const char *) row->secret, sizeof row->secret);
    pack_put(out, row->node);
    pack_put(out, (uint64_t) row->lease);
    pack_put(out, c->uid);
    pack_put(out, c->netns);
    pack_put_signed(out, c->created_ms);
    pack_put_signed(out, (int64_t) ((uint64_t) c->changed_ms - (uint64_t) c->created_ms));
    pack_put(out, c->n_bindings);
    for (size_t i = 0; i < c->n_bindings; i++) {
        pack_put(out, c->bindings[i].proto);
        pack_put_address(out, &c->bindings[i].address);
    }
    pack_put_text(out, c->principal);
    pack_put_text(out, c->pool);
    pack_put_text(out, c->command);
    pack_put_uuid(out, c->process.boot_id);
    if (flags & HAS_PROCESS) {
        pack_put_signed(out, c->process.pid);
        pack_put(out, c->process.pidns);
        pack_put(out, c->process.start_ticks);
    }
    if (flags & HAS_LEASE) {
        pack_put_signed(out, c->lease_ttl_ms);
        pack_put_signed(out, c->lease_until_ms);
    }
    if (flags & HAS_NAME) {
        pack_put_text(out, c->name);
        pack_put_text(out, c->project);
    }
    if (out->is_lost)
        return;
    size_t n = out->n - before - sizeof room;

    out->at[before] = (char) (n >> 8);
    out->at[before + 1] = (char) n;
}

void pack_cooling(struct bytes *out, const struct ledger_slot *slot)
{
    pack_put(out, slot->port);
    pack_put(out, slot->proto);
    pack_put_address(out, &slot->address);
    pack_put(out, slot->node);
    pack_put_signed(out, slot->there_ms);
}

static void get_bindings(struct reader *r, dibs_claim *c)
{
    c->n_bindings = pack_get(r, DIBS_BINDINGS_MAX);
    for (size_t i = 0; i < c->n_bindings && !r->is_bad; i++) {
        c->bindings[i].proto = (dibs_proto) pack_get(r, DIBS_SCTP);
        pack_get_address(r, &c->bindings[i].address);
    }
}

static void get_claim(struct reader *r, struct row_claim *row)
{
    dibs_claim *c = &row->claim;

    *row = (struct row_claim){ 0 };
    c->port = (uint16_t) pack_get(r, DIBS_PORT_MAX);
    unsigned flags = (unsigned) pack_get(r, FLAGS_MAX);
    c->kind = flags & IS_STATIC ? DIBS_STATIC : DIBS_DYNAMIC;
    c->is_exclusive = flags & IS_EXCLUSIVE;
    c->is_kept = flags & IS_KEPT;
    c->holder = (dibs_holder) (flags >> HOLDER_SHIFT & 3);
    c->id = pack_get(r, INT64_MAX);
    c->generation = pack_get(r, INT64_MAX);
    pack_get_bytes(r, row->secret, sizeof row->secret);
    row->node = (uint32_t) pack_get(r, UINT32_MAX);
    row->lease = (int64_t) pack_get(r, INT64_MAX);
    c->uid = (uint32_t) pack_get(r, UINT32_MAX);
    c->netns = pack_get(r, UINT64_MAX);
    c->created_ms = pack_get_signed(r);
    c->changed_ms = (int64_t) ((uint64_t) c->created_ms + (uint64_t) pack_get_signed(r));
    get_bindings(r, c);
    pack_get_text(r, c->principal, sizeof c->principal);
    pack_get_text(r, c->pool, sizeof c->pool);
    pack_get_text(r, c->command, sizeof c->command);
    pack_get_uuid(r, c->process.boot_id, sizeof c->process.boot_id);
    if (flags & HAS_PROCESS) {
        c->process.pid = (int32_t) pack_get_signed(r);
        c->process.pidns = pack_get(r, UINT64_MAX);
        c->process.start_ticks = pack_get(r, UINT64_MAX);
    }
    if (flags & HAS_LEASE) {
        c->lease_ttl_ms = pack_get_signed(r);
        c->lease_until_ms = pack_get_signed(r);
    }
    if (flags & HAS_NAME) {
        pack_get_text(r, c->name, sizeof c->name);
        pack_get_text(r, c->project, sizeof c->project);
    }
    r->is_bad = !pack_is_done(r) || !codec_claim_valid(c, NULL);
}

/* The next claim, whatever is inside. */
static struct reader part_of(struct reader *r)
{
    uint8_t length[CLAIM_LENGTH_BYTES] = { 0 };

    pack_get_bytes(r, length, sizeof length);
    size_t n = (size_t) length[0] << 8 | length[1];
    struct reader part = { r->at, r->at + n, false };

    if (r->is_bad || (size_t) (r->end - r->at) < n)
        r->is_bad = part.is_bad = true;
    else
        r->at += n;
    return part;
}

static bool read_claim(struct reader *r, const struct block_reader *to)
{
    struct reader part = part_of(r);
    struct reader head = part;
    struct row_claim row;

    if (r->is_bad)
        return false;
    uint16_t port = (uint16_t) pack_get(&head, DIBS_PORT_MAX);
    get_claim(&part, &row);
    return part.is_bad ? to->damaged(to->ctx, port) : to->claim(to->ctx, &row);
}

bool unpack_block(struct packed from, const struct block_reader *to)
{
    struct reader r = pack_reader(from);
    uint64_t n_claims = pack_get(&r, from.n);
    uint64_t n_cooling = pack_get(&r, from.n);

    for (; n_claims > 0 && !r.is_bad; n_claims--)
        r.is_bad = !read_claim(&r, to) || r.is_bad;
    for (; n_cooling > 0 && !r.is_bad; n_cooling--) {
        struct ledger_slot slot = { .port = (uint16_t) pack_get(&r, DIBS_PORT_MAX) };

        slot.proto = (dibs_proto) pack_get(&r, DIBS_SCTP);
        pack_get_address(&r, &slot.address);
        slot.node = (uint32_t) pack_get(&r, UINT32_MAX);
        slot.released_ms = slot.there_ms = pack_get_signed(&r);
        r.is_bad = r.is_bad || slot.port == 0 || slot.proto == 0 || !to->cooling(to->ctx, &slot);
    }
    return pack_is_done(&r);
}
