/* SPDX-License-Identifier: MIT */
/* Map records to rows of a SQLite ledger: one table of fields for each kind. Reading checks each column,
 * because one damaged record must harm that record alone (INV-6). */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

enum field_type { NUMBER, TEXT, SECRET, BINDINGS, ADDRESS, RANGES };

/* One column and its member of the record. BINDINGS are members of a dibs_claim. */
struct field {
    enum field_type type;
    size_t offset, bytes;
    int64_t low, high;  /* limits of a NUMBER */
    const char *column; /* name of a newer column, which a read-only or damaged ledger may lack */
};

#define FIELD(record, member) offsetof(record, member), sizeof(((record *) 0)->member)
#define CLAIM(member) FIELD(struct claim_record, claim.member)
#define EVENT(member) FIELD(struct event_record, event.member)

/* In the order of the columns. */
static const struct field claim_fields[] = {
    { NUMBER, CLAIM(id), INT64_MIN, INT64_MAX, NULL }, /* record_claim_valid() checks it */
    { NUMBER, CLAIM(generation), 1, INT64_MAX, NULL },
    { SECRET, FIELD(struct claim_record, secret), 0, 0, NULL },
    { NUMBER, CLAIM(port), 1, DIBS_PORT_MAX, NULL },
    { NUMBER, CLAIM(kind), 0, 1, NULL },
    { NUMBER, CLAIM(is_exclusive), 0, 1, NULL },
    { NUMBER, CLAIM(is_kept), 0, 1, NULL },
    { NUMBER, CLAIM(holder), 0, 2, NULL },
    { TEXT, CLAIM(process.boot_id), 0, 0, NULL },
    { NUMBER, CLAIM(process.pidns), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, CLAIM(process.pid), 0, INT32_MAX, NULL },
    { NUMBER, CLAIM(process.start_ticks), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, CLAIM(lease_ttl_ms), 0, DIBS_TTL_MAX_MS, NULL },
    { NUMBER, CLAIM(lease_until_ms), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, CLAIM(uid), 0, UINT32_MAX, NULL },
    { NUMBER, CLAIM(netns), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, CLAIM(created_ms), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, CLAIM(changed_ms), INT64_MIN, INT64_MAX, NULL },
    { BINDINGS, offsetof(struct claim_record, claim), sizeof(dibs_claim), 0, 0, NULL },
    { TEXT, CLAIM(principal), 0, 0, NULL },
    { TEXT, CLAIM(name), 0, 0, NULL },
    { TEXT, CLAIM(pool), 0, 0, NULL },
    { TEXT, CLAIM(command), 0, 0, NULL },
    { TEXT, CLAIM(project), 0, 0, NULL },
    { TEXT, CLAIM(env), 0, 0, "env" },
    { TEXT, CLAIM(keeper), 0, 0, "keeper" },
    { NUMBER, CLAIM(run), 0, DIBS_PORT_MAX, "run" },
    { NUMBER, CLAIM(hold), DIBS_HOLD_AUTO, DIBS_HOLD_ENFORCE, "hold" },
    { NUMBER, CLAIM(as_port), 0, DIBS_PORT_MAX, "as_port" },
};

static const struct field slot_fields[] = {
    { NUMBER, FIELD(struct ledger_slot, proto), DIBS_TCP, DIBS_PROTO_MAX, NULL },
    { NUMBER, FIELD(struct ledger_slot, port), 1, DIBS_PORT_MAX, NULL },
    { ADDRESS, FIELD(struct ledger_slot, address), 0, 0, NULL },
    { NUMBER, FIELD(struct ledger_slot, claim_id), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, FIELD(struct ledger_slot, is_exclusive), 0, 1, NULL },
    { NUMBER, FIELD(struct ledger_slot, released_ms), INT64_MIN, INT64_MAX, NULL },
};

static const struct field name_fields[] = {
    { TEXT, FIELD(struct name_record, principal), 0, 0, NULL },
    { TEXT, FIELD(struct name_record, name), 0, 0, NULL },
    { NUMBER, FIELD(struct name_record, claim_id), 0, INT64_MAX, NULL },
    { NUMBER, FIELD(struct name_record, port), 1, DIBS_PORT_MAX, NULL },
    { NUMBER, FIELD(struct name_record, used_ms), INT64_MIN, INT64_MAX, NULL },
    { TEXT, FIELD(struct name_record, project), 0, 0, NULL },
};

static const struct field event_fields[] = {
    { NUMBER, EVENT(seq), 1, INT64_MAX, NULL },
    { NUMBER, FIELD(struct event_record, cursor), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, EVENT(time_ms), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, EVENT(kind), DIBS_EV_CLAIMED, DIBS_EV_POOL, NULL },
    { NUMBER, EVENT(claim_id), 0, INT64_MAX, NULL },
    { NUMBER, EVENT(generation), 0, INT64_MAX, NULL },
    { NUMBER, EVENT(port), 0, DIBS_PORT_MAX, NULL },
    { NUMBER, EVENT(protos), 0, UINT8_MAX, NULL },
    { NUMBER, EVENT(is_dynamic), 0, 1, NULL },
    { NUMBER, EVENT(actor_uid), 0, UINT32_MAX, NULL },
    { NUMBER, EVENT(actor_pid), INT32_MIN, INT32_MAX, NULL },
    { TEXT, EVENT(principal), 0, 0, NULL },
    { TEXT, EVENT(name), 0, 0, NULL },
};

static const struct field pool_fields[] = {
    { TEXT, FIELD(dibs_pool, name), 0, 0, NULL },
    { RANGES, FIELD(dibs_pool, ranges), 0, 0, NULL },
    { NUMBER, FIELD(dibs_pool, scope), DIBS_SCOPE_HOST, DIBS_SCOPE_CLUSTER, NULL },
    { NUMBER, FIELD(dibs_pool, band), DIBS_BAND_AUTO, DIBS_PORT_MAX, NULL },
    { NUMBER, FIELD(dibs_pool, cooldown_ms), 0, DIBS_TTL_MAX_MS, NULL },
    { TEXT, FIELD(dibs_pool, order), 0, 0, NULL },
    { NUMBER, FIELD(dibs_pool, is_rebuilt), 0, 1, "rebuilt" },
};

static const struct field sighting_fields[] = {
    { NUMBER, FIELD(struct sighting_record, seen.id), 1, INT64_MAX, NULL },
    { NUMBER, FIELD(struct sighting_record, seen.generation), 1, INT64_MAX, NULL },
    { NUMBER, FIELD(struct sighting_record, count), 0, UINT32_MAX, NULL },
    { NUMBER, FIELD(struct sighting_record, since_ms), INT64_MIN, INT64_MAX, "since_ms" },
};

static const struct field answer_fields[] = {
    { TEXT, FIELD(struct answer_record, principal), 0, 0, NULL },
    { TEXT, FIELD(struct answer_record, key), 0, 0, NULL },
    { NUMBER, FIELD(struct answer_record, part), 0, DIBS_BATCH_MAX, NULL },
    { NUMBER, FIELD(struct answer_record, n), 0, DIBS_BATCH_MAX, NULL },
    { NUMBER, FIELD(struct answer_record, seq), 0, INT64_MAX, NULL },
    { NUMBER, FIELD(struct answer_record, digest), INT64_MIN, INT64_MAX, NULL },
    { NUMBER, FIELD(struct answer_record, claim_id), 0, INT64_MAX, NULL },
    { NUMBER, FIELD(struct answer_record, generation), 0, INT64_MAX, NULL },
};

static const struct field fact_fields[] = {
    { TEXT, FIELD(struct fact_record, subject), 0, 0, NULL },
    { TEXT, FIELD(struct fact_record, cluster), 0, 0, NULL },
    { TEXT, FIELD(struct fact_record, installation), 0, 0, NULL },
    { NUMBER, FIELD(struct fact_record, quota), 0, DIBS_PORT_MAX, NULL },
};

#define DOING(noun) "reading " noun, "writing " noun, "removing " noun
#define FIELDS(array) array, sizeof array / sizeof array[0]

static const struct kind {
    const char *reading, *writing, *removing; /* for messages */
    const struct field *fields;
    int n, n_key;
    size_t bytes;                    /* size of the record */
    enum sqlite_sql get, put, erase; /* SQL_BEGIN_READ: the ledger does not use this one */
} kinds[RECORD_KINDS] = {
    [CLAIMS] = { DOING("a claim"), FIELDS(claim_fields), 1, sizeof(struct claim_record), SQL_CLAIM_GET,
                 SQL_CLAIM_PUT, SQL_CLAIM_DELETE },
    [SLOTS] = { DOING("a port"), FIELDS(slot_fields), 4, sizeof(struct ledger_slot), 0, SQL_SLOT_PUT,
                SQL_SLOT_DELETE },
    [NAMES] = { DOING("a name"), FIELDS(name_fields), 2, sizeof(struct name_record), SQL_NAME_GET,
                SQL_NAME_PUT, 0 },
    [EVENTS] = { DOING("an event"), FIELDS(event_fields), 1, sizeof(struct event_record), 0, SQL_EVENT_PUT,
                 0 },
    [POOLS] = { DOING("a pool"), FIELDS(pool_fields), 1, sizeof(dibs_pool), SQL_POOL_GET, SQL_POOL_PUT,
                SQL_POOL_DELETE },
    [SIGHTINGS] = { DOING("a sighting"), FIELDS(sighting_fields), 1, sizeof(struct sighting_record),
                    SQL_SIGHTING_GET, SQL_SIGHTING_PUT, SQL_SIGHTING_DELETE },
    [ANSWERS] = { DOING("an answer"), FIELDS(answer_fields), 3, sizeof(struct answer_record), SQL_ANSWER_GET,
                  SQL_ANSWER_PUT, 0 },
    [FACTS] = { DOING("a fact"), FIELDS(fact_fields), 1, sizeof(struct fact_record), SQL_FACT_GET,
                SQL_FACT_PUT, SQL_FACT_DELETE },
};

/* The low bytes of an int64_t, in this machine's byte order. */
#define LOW_BYTES(value, bytes) \
    ((char *) &(value) + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(value) - (bytes) : 0))

static int64_t get_number(const struct field *f, const char *from)
{
    int64_t value = 0;

    memcpy(LOW_BYTES(value, f->bytes), from, f->bytes);
    return f->low < 0 && f->bytes == sizeof(int32_t) ? (int32_t) value : value;
}

static bool load_number(const struct field *f, sqlite3_stmt *stmt, int at, char *to)
{
    int64_t value = sqlite3_column_int64(stmt, at);
    bool is_ok = sqlite3_column_type(stmt, at) == SQLITE_INTEGER && value >= f->low && value <= f->high;

    value = is_ok ? value : 0;
    memcpy(to, LOW_BYTES(value, f->bytes), f->bytes);
    return is_ok;
}

static bool load_text(sqlite3_stmt *stmt, int at, char *to, size_t bytes)
{
    const unsigned char *text = sqlite3_column_text(stmt, at);
    size_t n = (size_t) sqlite3_column_bytes(stmt, at);
    bool is_ok = sqlite3_column_type(stmt, at) == SQLITE_TEXT && text && n < bytes && !memchr(text, 0, n);

    if (is_ok)
        memcpy(to, text, n);
    to[is_ok ? n : 0] = '\0';
    return is_ok;
}

static bool load_bytes(const struct field *f, sqlite3_stmt *stmt, int at, char *to)
{
    const void *blob = sqlite3_column_blob(stmt, at);
    size_t n =
        sqlite3_column_type(stmt, at) == SQLITE_BLOB && blob ? (size_t) sqlite3_column_bytes(stmt, at) : 0;
    dibs_address *address = (dibs_address *) to;
    dibs_claim *claim = (dibs_claim *) to;

    if (blob && f->type == SECRET && n == f->bytes) {
        memcpy(to, blob, n);
        return true;
    }
    if (f->type == ADDRESS && (n == 4 || n == 16)) {
        address->len = (uint8_t) n;
        memcpy(address->bytes, blob, n);
        return true;
    }
    if (f->type == BINDINGS && record_bindings_unpack(blob, n, claim))
        return true;
    if (f->type == BINDINGS)
        claim->n_bindings = 0;
    return false;
}

static bool load_field(const struct field *f, sqlite3_stmt *stmt, int at, char *to)
{
    char ranges[DIBS_RANGES_TEXT_MAX + 1];

    switch (f->type) {
    case NUMBER: return load_number(f, stmt, at, to);
    case TEXT: return load_text(stmt, at, to, f->bytes);
    case RANGES:
        return load_text(stmt, at, ranges, sizeof ranges) &&
               dibs_ranges_parse(ranges, (dibs_ranges *) to, NULL) == DIBS_OK;
    case SECRET:
    case BINDINGS:
    case ADDRESS: break;
    }
    return load_bytes(f, stmt, at, to);
}

static void bind_field(const struct field *f, sqlite3_stmt *stmt, int at, const char *from)
{
    const dibs_address *address = (const dibs_address *) from;
    uint8_t bindings[RECORD_BINDINGS_BYTES_MAX];
    char ranges[DIBS_RANGES_TEXT_MAX + 1];

    switch (f->type) {
    case NUMBER: (void) sqlite3_bind_int64(stmt, at, get_number(f, from)); break;
    case TEXT: (void) sqlite3_bind_text(stmt, at, from, -1, SQLITE_STATIC); break;
    case SECRET: (void) sqlite3_bind_blob(stmt, at, from, (int) f->bytes, SQLITE_STATIC); break;
    case ADDRESS: (void) sqlite3_bind_blob(stmt, at, address->bytes, address->len, SQLITE_STATIC); break;
    case BINDINGS:
        (void) sqlite3_bind_blob(stmt, at, bindings,
                                 (int) record_bindings_pack((const dibs_claim *) from, bindings),
                                 SQLITE_TRANSIENT);
        break;
    case RANGES:
        dibs_ranges_format((const dibs_ranges *) from, ranges);
        (void) sqlite3_bind_text(stmt, at, ranges, -1, SQLITE_TRANSIENT);
        break;
    }
}

/* Return the column of a field; -1: the row has none. */
static int column_of(sqlite3_stmt *stmt, const struct kind *k, int i)
{
    int n = sqlite3_column_count(stmt);

    if (!k->fields[i].column)
        return i < n ? i : -1;
    for (int at = i; at < n; at++) /* columns added by a user may come before it */
        if (strcmp(sqlite3_column_name(stmt, at), k->fields[i].column) == 0)
            return at;
    return -1;
}

bool sqlite_load(sqlite3_stmt *stmt, enum record_kind kind, void *record)
{
    const struct kind *k = &kinds[kind];
    bool is_ok = true;

    memset(record, 0, k->bytes);
    for (int i = 0; i < k->n; i++) {
        int at = column_of(stmt, k, i);

        if (at >= 0 || !k->fields[i].column)
            is_ok = load_field(&k->fields[i], stmt, at, (char *) record + k->fields[i].offset) && is_ok;
    }
    return is_ok;
}

void sqlite_load_claim(sqlite3_stmt *stmt, struct claim_record *row)
{
    dibs_claim *c = &row->claim;
    bool is_ok = sqlite_load(stmt, CLAIMS, row);

    record_upgrade_keeper(c);
    if (is_ok && record_claim_valid(c, NULL))
        return;
    /* Treat it as a kept claim without a holder, which keeps its port until a user releases it (INV-6). */
    c->is_damaged = c->is_exclusive = c->is_kept = true;
    c->holder = DIBS_HELD_BY_NOBODY;
}

bool sqlite_load_slot(sqlite3_stmt *stmt, struct ledger_slot *out)
{
    enum { CLAIM_COLUMN = 3 };

    if (sqlite_load(stmt, SLOTS, out))
        return true;
    if (sqlite3_column_type(stmt, CLAIM_COLUMN) != SQLITE_INTEGER)
        out->claim_id = INT64_MAX; /* its claim is unknown */
    if (out->proto == 0 || out->port == 0 || out->claim_id == 0)
        return false;
    /* A damaged slot of a claim blocks its port for all addresses: leak it, never give it twice (INV-10). */
    out->address = (dibs_address){ .len = 16 };
    out->is_exclusive = true;
    return true;
}

dibs_status sqlite_find_place(struct sqlite_store *self, dibs_claim *claim, dibs_err *err)
{
    AUTO(sqlite_reset_auto) sqlite3_stmt *slots = NULL;
    struct ledger_slot slot;
    int rc = SQLITE_DONE;

    if (!claim->is_damaged || (claim->port && claim->n_bindings > 0))
        return DIBS_OK;
    claim->n_bindings = 0;
    slots = sqlite_stmt(self, SQL_SLOTS_OF_CLAIM, err);
    if (!slots)
        return DIBS_UNAVAILABLE;
    (void) sqlite3_bind_int64(slots, 1, (int64_t) claim->id);
    while ((rc = sqlite3_step(slots)) == SQLITE_ROW) {
        if (!sqlite_load_slot(slots, &slot))
            continue;
        claim->port = claim->port ? claim->port : slot.port;
        if (slot.port == claim->port)
            record_add_binding(claim, &slot);
    }
    if (rc != SQLITE_DONE)
        return sqlite_error(self, rc, "reading ports", err);
    /* The address is lost: assume every address, of the two usual protocols. */
    bool is_anywhere = claim->port && claim->n_bindings == 0;
    for (dibs_proto proto = DIBS_TCP; is_anywhere && proto <= DIBS_UDP; proto++)
        record_add_binding(claim, &(struct ledger_slot){ .proto = proto, .address.len = 16 });
    return DIBS_OK;
}

static sqlite3_stmt *bind(struct store *store, enum sqlite_sql which, const struct kind *k, int n,
                          const void *record, dibs_err *err)
{
    assert(which != SQL_BEGIN_READ);
    sqlite3_stmt *stmt = sqlite_stmt(sqlite_of(store), which, err);

    for (int i = 0; i < n && stmt; i++)
        bind_field(&k->fields[i], stmt, i + 1, (const char *) record + k->fields[i].offset);
    return stmt;
}

dibs_status sqlite_get(struct store *store, enum record_kind kind, void *record, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    const struct kind *k = &kinds[kind];
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = bind(store, k->get, k, k->n_key, record, err);
    dibs_status s = sqlite_find(self, stmt, k->reading, err);

    if (s != DIBS_OK)
        return s;
    if (kind != CLAIMS)
        return sqlite_load(stmt, kind, record) ? DIBS_OK : DIBS_NOT_FOUND;
    struct claim_record *row = record;
    sqlite_load_claim(stmt, row);
    return sqlite_find_place(self, &row->claim, err);
}

dibs_status sqlite_put(struct store *store, enum record_kind kind, const void *record, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    const struct kind *k = &kinds[kind];

    if (self->access != SQLITE_WRITES) /* and it may lack columns of a newer version */
        return sqlite_refuse_writing(self, err);
    return sqlite_run(self, bind(store, k->put, k, k->n, record, err), k->writing, err);
}

dibs_status sqlite_copy(struct sqlite_store *self, enum record_kind kind, sqlite3_stmt *from, dibs_err *err)
{
    const struct kind *k = &kinds[kind];
    sqlite3_stmt *stmt = sqlite_stmt(self, k->put, err);
    int rc = SQLITE_OK;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    (void) sqlite3_clear_bindings(stmt);
    for (int i = 0; i < k->n && rc == SQLITE_OK; i++) {
        int at = column_of(from, k, i);

        if (at >= 0) /* an older ledger has fewer columns; REPLACE inserts their defaults */
            rc = sqlite3_bind_value(stmt, i + 1, sqlite3_column_value(from, at));
    }
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    (void) sqlite3_reset(stmt);
    if (rc == SQLITE_DONE || (rc & 0xff) == SQLITE_CONSTRAINT)
        return DIBS_OK;
    return sqlite_error(self, rc, "writing what was readable", err);
}

dibs_status sqlite_erase(struct store *store, enum record_kind kind, const void *record, dibs_err *err)
{
    const struct kind *k = &kinds[kind];
    sqlite3_stmt *stmt = bind(store, k->erase, k, k->n_key, record, err);

    return sqlite_run(sqlite_of(store), stmt, k->removing, err);
}
