/* SPDX-License-Identifier: MIT */
/* The fields of packed values, and all values other than blocks. */
#include "store/etcd/packed.h"

#include "base/banned.h"

enum {
    PACK_VERSION = 1,
    NUMBER_BYTES_MAX = 10,
    UUID_BYTES = 16,
    UUID_CHARS = 36,
    UUID_MARK = 127, /* stands in place of a text's length, which is always less */
};
_Static_assert(DIBS_BOOT_ID_MAX < UUID_MARK, "the mark is no length");

struct packed packed_to(struct bytes *out)
{
    struct packed f = { .out = out };

    (void) packed_uint(&f, PACK_VERSION, PACK_VERSION);
    return f;
}

struct packed packed_from(struct etcd_bytes from)
{
    struct packed f = { .at = from.at, .end = (const uint8_t *) from.at + from.n };

    f.is_bad = from.n == 0 || *f.at++ != PACK_VERSION;
    return f;
}

bool packed_is_done(const struct packed *f)
{
    return !f->is_bad && f->at == f->end;
}

static void write_uint(struct bytes *out, uint64_t number)
{
    char text[NUMBER_BYTES_MAX];
    size_t n = 0;

    for (; number > 127; number >>= 7)
        text[n++] = (char) (number | 128);
    text[n++] = (char) number;
    bytes_add(out, text, n);
}

uint64_t packed_uint(struct packed *f, uint64_t number, uint64_t max)
{
    if (f->out) {
        write_uint(f->out, number);
        return number;
    }
    number = 0;
    for (unsigned shift = 0; !f->is_bad; shift += 7) {
        if (f->at == f->end || shift > 63 || (shift == 63 && *f->at > 1)) {
            f->is_bad = true;
            break;
        }
        uint8_t byte = *f->at++;

        number |= (uint64_t) (byte & 127) << shift;
        if (byte < 128)
            break;
    }
    f->is_bad = f->is_bad || number > max;
    return f->is_bad ? 0 : number;
}

int64_t packed_int(struct packed *f, int64_t number)
{
    uint64_t packed = packed_uint(f, (uint64_t) number << 1 ^ (number < 0 ? UINT64_MAX : 0), UINT64_MAX);

    return (int64_t) (packed >> 1 ^ (~(packed & 1) + 1));
}

uint64_t packed_more(struct packed *f, uint64_t number, uint64_t before, uint64_t max)
{
    number = before + (uint64_t) packed_int(f, (int64_t) (number - before));
    f->is_bad = f->is_bad || number > max;
    return f->is_bad ? 0 : number;
}

void packed_bytes(struct packed *f, void *bytes, size_t n)
{
    if (f->out) {
        bytes_add(f->out, bytes, n);
    } else if (f->is_bad || (size_t) (f->end - f->at) < n) {
        f->is_bad = true;
    } else {
        memcpy(bytes, f->at, n);
        f->at += n;
    }
}

void packed_text(struct packed *f, char *text, size_t size)
{
    size_t n = packed_uint(f, f->out ? strlen(text) : 0, size - 1);

    packed_bytes(f, text, n);
    f->is_bad = f->is_bad || strnlen(text, n) < n;
    text[f->is_bad ? 0 : n] = '\0';
}

void packed_address(struct packed *f, dibs_address *address)
{
    static const uint8_t zero[sizeof address->bytes];
    bool has_bytes = memcmp(address->bytes, zero, address->len) != 0; /* most have none */
    uint64_t head = (uint64_t) address->len << 2 | (uint64_t) has_bytes << 1 | address->v6only;

    head = packed_uint(f, head, 16 << 2 | 3);
    if (!f->out)
        *address = (dibs_address){ .len = (uint8_t) (head >> 2), .v6only = head & 1 };
    f->is_bad = f->is_bad || (address->len != 4 && address->len != 16);
    packed_bytes(f, address->bytes, f->is_bad || !(head & 2) ? 0 : address->len);
}

static void uuid_write(const uint8_t bytes[UUID_BYTES], char out[UUID_CHARS + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

void packed_boot_id(struct packed *f, char *text, size_t size)
{
    uint8_t bytes[UUID_BYTES] = { 0 };

    if (f->out || f->is_bad || f->at == f->end || *f->at != UUID_MARK) {
        packed_text(f, text, size);
        return;
    }
    f->at++;
    packed_bytes(f, bytes, sizeof bytes);
    f->is_bad = f->is_bad || size <= UUID_CHARS;
    if (!f->is_bad)
        uuid_write(bytes, text);
}

/* Define both directions of a record from the list of its fields. */
#define DEFINE_PACK(kind, type)                             \
    void pack_##kind(struct bytes *out, const type *record) \
    {                                                       \
        struct packed f = packed_to(out);                   \
        type copy = *record;                                \
                                                            \
        kind##_fields(&f, &copy);                           \
    }                                                       \
    bool unpack_##kind(struct etcd_bytes from, type *out)   \
    {                                                       \
        struct packed f = packed_from(from);                \
                                                            \
        *out = (type){ 0 };                                 \
        kind##_fields(&f, out);                             \
        return packed_is_done(&f);                          \
    }

static void tail_fields(struct packed *f, struct node_tail *tail)
{
    tail->seq = packed_uint(f, tail->seq, INT64_MAX);
    tail->cursor = packed_uint(f, tail->cursor, UINT64_MAX);
    tail->gone = packed_uint(f, tail->gone, tail->seq);
    tail->nonce = packed_uint(f, tail->nonce, UINT64_MAX);
}
DEFINE_PACK(tail, struct node_tail)

/* The flags of a packed event. */
enum {
    IS_OTHERS = 1, /* principal differs from the event before */
    IS_USUAL = 2,  /* equals the event before, except time, claim and port */
    KIND_SHIFT = 2,
};

static uint64_t cursor_after(uint64_t before, dibs_event_kind kind)
{
    return before + (kind == DIBS_EV_CLAIMED);
}

static uint64_t how_event_differs(const struct event_record *record, const struct event_record *before)
{
    const dibs_event *e = &record->event;
    const dibs_event *b = &before->event;

    if (strcmp(e->principal, b->principal) != 0)
        return IS_OTHERS;
    return e->seq == b->seq + 1 && e->generation == b->generation && e->protos == b->protos &&
                   e->is_dynamic == b->is_dynamic && e->actor_uid == b->actor_uid &&
                   e->actor_pid == b->actor_pid && !e->name[0] &&
                   record->cursor == cursor_after(before->cursor, e->kind)
               ? IS_USUAL
               : 0;
}

/* When reading, *record is a copy of the event before. */
static void event_fields(struct packed *f, struct event_record *record, const struct event_record *before)
{
    dibs_event *e = &record->event;
    const dibs_event *b = &before->event;
    uint64_t how = packed_uint(f, (uint64_t) e->kind << KIND_SHIFT | how_event_differs(record, before),
                               DIBS_EV_POOL << KIND_SHIFT | IS_USUAL | IS_OTHERS);

    e->kind = (dibs_event_kind) (how >> KIND_SHIFT);
    e->time_ms = (int64_t) packed_more(f, (uint64_t) e->time_ms, (uint64_t) b->time_ms, UINT64_MAX);
    e->claim_id = packed_more(f, e->claim_id, b->claim_id, INT64_MAX);
    e->port = (uint16_t) packed_more(f, e->port, b->port, DIBS_PORT_MAX);
    if (how & IS_USUAL) {
        f->is_bad = f->is_bad || how & IS_OTHERS || b->seq == INT64_MAX;
        e->seq = b->seq + 1;
        e->name[0] = '\0';
        record->cursor = cursor_after(before->cursor, e->kind);
        return;
    }
    e->seq = packed_more(f, e->seq, b->seq, INT64_MAX);
    e->generation = packed_uint(f, e->generation, INT64_MAX);
    uint64_t protos = packed_uint(f, (uint64_t) e->protos << 1 | e->is_dynamic, UINT8_MAX << 1 | 1);
    e->protos = (uint8_t) (protos >> 1);
    e->is_dynamic = protos & 1;
    e->actor_uid = (uint32_t) packed_more(f, e->actor_uid, b->actor_uid, UINT32_MAX);
    int64_t pid = (int64_t) packed_more(f, (uint64_t) e->actor_pid, (uint64_t) b->actor_pid, UINT64_MAX);
    f->is_bad = f->is_bad || pid < INT32_MIN || pid > INT32_MAX;
    e->actor_pid = (int32_t) pid;
    if (how & IS_OTHERS)
        packed_text(f, e->principal, sizeof e->principal);
    packed_text(f, e->name, sizeof e->name);
    record->cursor = packed_more(f, record->cursor, before->cursor, UINT64_MAX);
}

static const struct event_record nothing;

void pack_events(struct bytes *out, const struct event_record *const *events, size_t n)
{
    struct packed f = packed_to(out);

    (void) packed_uint(&f, n, UINT64_MAX);
    for (size_t i = 0; i < n; i++) {
        struct event_record copy = *events[i];

        event_fields(&f, &copy, i > 0 ? events[i - 1] : &nothing);
    }
}

bool unpack_events(struct etcd_bytes from, bool (*fn)(void *ctx, const struct event_record *event), void *ctx)
{
    struct packed f = packed_from(from);
    struct event_record record = nothing;

    for (uint64_t n = packed_uint(&f, 0, from.n); n > 0 && !f.is_bad; n--) {
        struct event_record before = record;

        event_fields(&f, &record, &before);
        if (!f.is_bad && !fn(ctx, &record))
            return true;
    }
    return packed_is_done(&f);
}

static void name_fields(struct packed *f, struct name_record *name)
{
    packed_text(f, name->principal, sizeof name->principal);
    packed_text(f, name->name, sizeof name->name);
    name->claim_id = packed_uint(f, name->claim_id, INT64_MAX);
    name->port = (uint16_t) packed_uint(f, name->port, DIBS_PORT_MAX);
    name->used_ms = packed_int(f, name->used_ms);
    packed_text(f, name->project, sizeof name->project);
    f->is_bad = f->is_bad || !name->name[0];
}
DEFINE_PACK(name, struct name_record)

static void pool_fields(struct packed *f, dibs_pool *pool)
{
    uint32_t before = 0;

    packed_text(f, pool->name, sizeof pool->name);
    pool->scope = (dibs_scope) packed_uint(f, pool->scope, DIBS_SCOPE_CLUSTER);
    int64_t band = packed_int(f, pool->band);
    pool->cooldown_ms = packed_int(f, pool->cooldown_ms);
    packed_text(f, pool->order, sizeof pool->order);
    pool->ranges.n = packed_uint(f, pool->ranges.n, DIBS_RANGES_MAX);
    for (size_t i = 0; i < pool->ranges.n && !f->is_bad; i++) {
        dibs_range *range = &pool->ranges.item[i];

        range->first = (uint16_t) packed_uint(f, range->first, DIBS_PORT_MAX);
        range->last = (uint16_t) packed_uint(f, range->last, DIBS_PORT_MAX);
        f->is_bad = f->is_bad || range->first <= before || range->last < range->first;
        before = range->last;
    }
    f->is_bad = f->is_bad || band < DIBS_BAND_AUTO || band > DIBS_PORT_MAX || pool->ranges.n == 0 ||
                pool->cooldown_ms < 0 || pool->cooldown_ms > DIBS_COOLDOWN_MAX_MS || !pool->name[0];
    pool->band = (int32_t) band;
    if (f->out ? pool->is_rebuilt : !f->is_bad && f->at < f->end)
        pool->is_rebuilt = packed_uint(f, 1, 1) == 1;
}
DEFINE_PACK(pool, dibs_pool)

void pack_ports(struct bytes *out, const struct portbits *ports)
{
    struct packed f = packed_to(out);

    for (uint32_t i = 0; i < PORTBITS_WORDS; i++)
        if (ports->word[i]) {
            (void) packed_uint(&f, i, UINT32_MAX);
            (void) packed_uint(&f, ports->word[i], UINT64_MAX);
        }
}

bool unpack_ports(struct etcd_bytes from, struct portbits *out)
{
    struct packed f = packed_from(from);

    while (!f.is_bad && f.at < f.end) {
        uint64_t i = packed_uint(&f, 0, PORTBITS_WORDS - 1);
        uint64_t word = packed_uint(&f, 0, UINT64_MAX);

        if (!f.is_bad)
            out->word[i] |= word;
    }
    return packed_is_done(&f);
}

static void answer_fields(struct packed *f, struct answer_record *answer)
{
    packed_text(f, answer->principal, sizeof answer->principal);
    packed_text(f, answer->key, sizeof answer->key);
    answer->part = (uint32_t) packed_uint(f, answer->part, UINT32_MAX);
    answer->n = (uint32_t) packed_uint(f, answer->n, UINT32_MAX);
    answer->seq = packed_uint(f, answer->seq, INT64_MAX);
    answer->digest = packed_uint(f, answer->digest, UINT64_MAX);
    answer->claim_id = packed_uint(f, answer->claim_id, INT64_MAX);
    answer->generation = packed_uint(f, answer->generation, INT64_MAX);
}
DEFINE_PACK(answer, struct answer_record)

static void sighting_fields(struct packed *f, struct sighting_record *sighting)
{
    sighting->seen.id = packed_uint(f, sighting->seen.id, INT64_MAX);
    sighting->seen.generation = packed_uint(f, sighting->seen.generation, INT64_MAX);
    sighting->seen.lease_until_ms = packed_int(f, sighting->seen.lease_until_ms);
    sighting->count = (uint32_t) packed_uint(f, sighting->count, UINT32_MAX);
    if (f->out ? sighting->since_ms != 0 : !f->is_bad && f->at < f->end) /* an older dibs writes none */
        sighting->since_ms = packed_int(f, sighting->since_ms);
}
DEFINE_PACK(sighting, struct sighting_record)

static void fact_fields(struct packed *f, struct fact_record *fact)
{
    packed_text(f, fact->cluster, sizeof fact->cluster);
    packed_text(f, fact->installation, sizeof fact->installation);
    fact->quota = (uint32_t) packed_uint(f, fact->quota, DIBS_PORT_MAX);
}
DEFINE_PACK(fact, struct fact_record)

static void header_fields(struct packed *f, struct ledger_header *header)
{
    header->major = (uint32_t) packed_uint(f, header->major, UINT32_MAX);
    header->salt = packed_uint(f, header->salt, UINT64_MAX);
}
DEFINE_PACK(header, struct ledger_header)

static void number_fields(struct packed *f, uint64_t *number)
{
    *number = packed_uint(f, *number, UINT64_MAX);
}
DEFINE_PACK(number, uint64_t)

static void boot_fields(struct packed *f, struct node_boot *boot)
{
    packed_text(f, boot->id, sizeof boot->id);
}
DEFINE_PACK(boot, struct node_boot)
