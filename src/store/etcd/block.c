/* SPDX-License-Identifier: MIT */
/* Blocks: the claims of 64 ports in one value. A damaged claim harms no other, because each has its length
 * (INV-6); only the first one has fields that others share. Checking its values is etcd's business. */
#include "store/etcd/packed.h"

#include "base/banned.h"

enum {
    LENGTH_BYTES = 2,
    /* Format 1 has a template in front of the claims that resemble it, as two copies, each with a checksum.
     * Now they resemble the block's first claim. */
    TEMPLATE_COPIES = 2,
    TEMPLATE_CHECK_BYTES = 4,
};

/* The flags of a packed claim. */
enum {
    IS_STATIC = 1,
    IS_EXCLUSIVE = 2,
    IS_KEPT = 4,
    HOLDER_SHIFT = 3, /* uses two bits */
    HAS_PROCESS = 32,
    HAS_LEASE = 64,
    HAS_NAME = 128, /* has name and project */
    HAS_ENV = 256,
    HAS_KEEPER = 512,
    HAS_RUN = 1024,
    HAS_HOLD = 2048,
    HAS_AS_PORT = 4096,
    FLAGS_MAX = 8191,
};

static size_t begin_part(struct bytes *out)
{
    static const char length[LENGTH_BYTES] = { 0 };

    bytes_add(out, length, sizeof length);
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

/* Return the next part by its length, without decoding it. */
static struct packed part_of(struct packed *f)
{
    uint8_t length[LENGTH_BYTES] = { 0 };

    packed_bytes(f, length, sizeof length);
    size_t n = (size_t) length[0] << 8 | length[1];
    struct packed part = { .at = f->at, .end = f->at + n };

    if (f->is_bad || (size_t) (f->end - f->at) < n)
        f->is_bad = part.is_bad = true;
    else
        f->at += n;
    return part;
}

static void common_fields(struct packed *f, struct claim_record *row)
{
    dibs_claim *c = &row->claim;

    row->node = (uint32_t) packed_uint(f, row->node, UINT32_MAX);
    row->lease = (int64_t) packed_uint(f, (uint64_t) row->lease, INT64_MAX);
    c->uid = (uint32_t) packed_uint(f, c->uid, UINT32_MAX);
    c->netns = packed_uint(f, c->netns, UINT64_MAX);
    c->n_bindings = packed_uint(f, c->n_bindings, DIBS_BINDINGS_MAX);
    for (size_t i = 0; i < c->n_bindings && !f->is_bad; i++) {
        c->bindings[i].proto = (dibs_proto) packed_uint(f, c->bindings[i].proto, DIBS_PROTO_MAX);
        packed_address(f, &c->bindings[i].address);
    }
    packed_text(f, c->principal, sizeof c->principal);
    packed_text(f, c->pool, sizeof c->pool);
    packed_text(f, c->command, sizeof c->command);
    packed_boot_id(f, c->process.boot_id, sizeof c->process.boot_id);
}

/* Times are relative to those of the claim that this one resembles, else to zero. */
static void time_fields(struct packed *f, dibs_claim *c, const dibs_claim *template)
{
    c->id = packed_more(f, c->id, template->id, INT64_MAX);
    c->created_ms =
        (int64_t) packed_more(f, (uint64_t) c->created_ms, (uint64_t) template->created_ms, UINT64_MAX);
    c->lease_ttl_ms =
        (int64_t) packed_more(f, (uint64_t) c->lease_ttl_ms, (uint64_t) template->lease_ttl_ms, UINT64_MAX);
    c->lease_until_ms = (int64_t) packed_more(f, (uint64_t) c->lease_until_ms,
                                              (uint64_t) template->lease_until_ms, UINT64_MAX);
}

static const dibs_claim nothing;

static bool get_template(struct packed *f, struct claim_record *out)
{
    struct packed part = part_of(f);

    for (int i = 1; i < TEMPLATE_COPIES; i++)
        (void) part_of(f);
    if (part.is_bad || part.end - part.at < TEMPLATE_CHECK_BYTES)
        return false;
    part.end -= TEMPLATE_CHECK_BYTES;
    *out = (struct claim_record){ 0 };
    common_fields(&part, out);
    time_fields(&part, &out->claim, &nothing);
    return packed_is_done(&part);
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
    flags |= c->env[0] ? HAS_ENV : 0;
    flags |= c->keeper[0] ? HAS_KEEPER : 0;
    flags |= c->run > 0 ? HAS_RUN : 0;
    flags |= c->hold != DIBS_HOLD_AUTO ? HAS_HOLD : 0;
    flags |= c->as_port ? HAS_AS_PORT : 0;
    return flags;
}

/* The fields in front of those that claims of a block often share. Returns the flags. */
static unsigned first_fields(struct packed *f, struct claim_record *row)
{
    dibs_claim *c = &row->claim;
    unsigned flags = (unsigned) packed_uint(f, flags_of(c), FLAGS_MAX);

    c->kind = flags & IS_STATIC ? DIBS_STATIC : DIBS_DYNAMIC;
    c->is_exclusive = flags & IS_EXCLUSIVE;
    c->is_kept = flags & IS_KEPT;
    c->holder = (dibs_holder) (flags >> HOLDER_SHIFT & 3);
    c->generation = packed_uint(f, c->generation, INT64_MAX);
    packed_bytes(f, row->secret, sizeof row->secret);
    return flags;
}

static void last_fields(struct packed *f, dibs_claim *c, unsigned flags)
{
    c->changed_ms = (int64_t) packed_more(f, (uint64_t) c->changed_ms, (uint64_t) c->created_ms, UINT64_MAX);
    if (flags & HAS_PROCESS) {
        c->process.pid = (int32_t) packed_int(f, c->process.pid);
        c->process.pidns = packed_uint(f, c->process.pidns, UINT64_MAX);
        c->process.start_ticks = packed_uint(f, c->process.start_ticks, UINT64_MAX);
    }
    if (flags & HAS_NAME) {
        packed_text(f, c->name, sizeof c->name);
        packed_text(f, c->project, sizeof c->project);
    }
    if (flags & HAS_ENV)
        packed_text(f, c->env, sizeof c->env);
    if (flags & HAS_KEEPER)
        packed_text(f, c->keeper, sizeof c->keeper);
    if (flags & HAS_RUN)
        c->run = (uint16_t) packed_uint(f, c->run, DIBS_PORT_MAX);
    if (flags & HAS_HOLD)
        c->hold = (dibs_hold) packed_uint(f, c->hold, DIBS_HOLD_ENFORCE);
    if (flags & HAS_AS_PORT)
        c->as_port = (uint16_t) packed_uint(f, c->as_port, DIBS_PORT_MAX);
    f->is_bad = f->is_bad || flags_of(c) != flags;
}

struct block_writer pack_block(struct bytes *out, uint32_t n_claims, uint32_t n_cooling)
{
    const uint64_t has_template = 0;
    struct block_writer w = { .out = out };
    struct packed f = packed_to(out);

    (void) packed_uint(&f, n_claims, UINT32_MAX);
    (void) packed_uint(&f, n_cooling, UINT32_MAX);
    (void) packed_uint(&f, has_template, 1);
    return w;
}

/* Remove what was written from `at` on if the block's first claim has the same there. */
static bool is_like_first(struct block_writer *w, size_t at)
{
    size_t n = w->out->n - at;
    bool is_like =
        !w->out->is_lost && w->n_shared == n && memcmp(w->out->at + w->shared_at, w->out->at + at, n) == 0;

    if (is_like)
        w->out->n = at;
    return is_like;
}

void pack_claim(struct block_writer *w, struct claim_record *row)
{
    struct packed f = { .out = w->out };
    size_t began = begin_part(w->out);
    bool is_first = w->n_claims++ == 0;

    (void) packed_uint(&f, (uint64_t) row->claim.port << 1, UINT32_MAX);
    if (!row->claim.is_damaged) { /* a damaged claim stays damaged: only its port is written */
        unsigned flags = first_fields(&f, row);
        size_t at = w->out->n;

        common_fields(&f, row);
        bool is_short = is_like_first(w, at);
        if (is_short)
            w->out->at[began] |= 1;
        if (is_first) {
            w->shared_at = at;
            w->n_shared = w->out->n - at;
            w->first = row->claim;
        }
        time_fields(&f, &row->claim, is_short ? &w->first : &nothing);
        last_fields(&f, &row->claim, flags);
    }
    end_part(w->out, began);
}

/* The claim that others of the block resemble. */
struct template
{
    struct claim_record row; /* has their common fields and times, and no others that are optional */
    bool is_known;
};

/* `is_first`: later claims may resemble this one. */
static bool read_claim(struct packed *f, struct template *template, bool is_first,
                       const struct block_reader *to)
{
    struct packed part = part_of(f);
    struct claim_record row = { 0 };

    if (f->is_bad)
        return false;
    uint64_t head = packed_uint(&part, 0, (uint64_t) DIBS_PORT_MAX << 1 | 1);
    bool is_short = head & 1;

    part.is_bad = part.is_bad || (is_short && !template->is_known);
    if (is_short && !part.is_bad)
        row = template->row;
    unsigned flags = first_fields(&part, &row);
    if (!is_short)
        common_fields(&part, &row);
    time_fields(&part, &row.claim, is_short ? &template->row.claim : &nothing);
    if (is_first && !part.is_bad)
        *template = (struct template){ row, true };
    last_fields(&part, &row.claim, flags);
    record_upgrade_keeper(&row.claim);
    row.claim.port = (uint16_t) (head >> 1);
    bool is_well = packed_is_done(&part) && record_claim_valid(&row.claim, NULL);
    if (is_well)
        return to->claim(to->ctx, &row);
    return !to->damaged || to->damaged(to->ctx, row.claim.port);
}

/* Compare every bit of two addresses. */
static bool is_same_address(const dibs_address *a, const dibs_address *b)
{
    return a->len == b->len && a->v6only == b->v6only && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Pack a cooling port as its difference to the one before: most are neighbours that were released together. A
 * reader passes a copy of the slot before as *slot. */
static void cooling_fields(struct packed *f, struct ledger_slot *slot, const struct ledger_slot *before)
{
    bool is_same = slot->proto == before->proto && slot->node == before->node &&
                   is_same_address(&slot->address, &before->address);
    uint64_t more = (uint64_t) (slot->port - before->port) & DIBS_PORT_MAX;
    uint64_t head = packed_uint(f, more << 1 | is_same, (uint64_t) DIBS_PORT_MAX << 1 | 1);

    slot->port = (uint16_t) (before->port + (head >> 1));
    slot->there_ms =
        (int64_t) packed_more(f, (uint64_t) slot->there_ms, (uint64_t) before->there_ms, UINT64_MAX);
    if (!(head & 1)) {
        slot->proto = (dibs_proto) packed_uint(f, slot->proto, DIBS_PROTO_MAX);
        packed_address(f, &slot->address);
        slot->node = (uint32_t) packed_uint(f, slot->node, UINT32_MAX);
    }
    f->is_bad = f->is_bad || slot->port == 0 || slot->proto == 0;
}

void pack_cooling(struct block_writer *w, const struct ledger_slot *slot)
{
    struct ledger_slot copy = *slot;
    struct packed f = { .out = w->out };

    cooling_fields(&f, &copy, &w->before);
    w->before = *slot;
}

bool unpack_block(struct etcd_bytes from, const struct block_reader *to)
{
    struct packed f = packed_from(from);
    uint64_t n_claims = packed_uint(&f, 0, from.n);
    uint64_t n_cooling = packed_uint(&f, 0, from.n);
    bool has_template = packed_uint(&f, 0, 1);
    struct template template = { 0 };
    struct ledger_slot slot = { 0 };

    if (has_template)
        template.is_known = get_template(&f, &template.row);
    for (uint64_t i = 0; i < n_claims && !f.is_bad; i++)
        f.is_bad = !read_claim(&f, &template, i == 0 && !has_template, to) || f.is_bad;
    for (; n_cooling > 0 && !f.is_bad; n_cooling--) {
        struct ledger_slot before = slot;

        cooling_fields(&f, &slot, &before);
        slot.released_ms = slot.there_ms;
        f.is_bad = f.is_bad || (to->cooling && !to->cooling(to->ctx, &slot));
    }
    return packed_is_done(&f);
}
