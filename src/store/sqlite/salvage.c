/* SPDX-License-Identifier: MIT */
/* Salvage a damaged ledger: copy the readable records into a new file, set the damaged one aside, and put
 * the new one in its place.
 *
 * The lock on the ledger's directory keeps other processes from creating or salvaging it, and the ledger's
 * own write lock keeps them from changing it. A process that then gets that lock finds that the file has
 * moved, and opens the new one (begin() in sqlite_store.c). The log is empty while the lock is held, so
 * that one rename replaces everything: a killed salvage has changed nothing, or everything. A file that
 * SQLite cannot use has no lock to hold.
 *
 * Each table is read from the front until an error, and then from the back. A claim whose record is
 * damaged or lost becomes a placeholder: a kept claim without a holder, which blocks its port until a user
 * with the right releases it (INV-6, INV-10). It has the fields still known from the record, its slots, its
 * name and its newest event. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/err.h"
#include "base/text.h"
#include "dibs/settings.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

#define PLACEHOLDER_COMMAND "damaged record"
#define UNKNOWN_PRINCIPAL "uid:?" /* until its name gives another one */

enum { TIMEOUT_MS = 30000, ASIDE_MAX = 1000, EMPTY_PAGE_BYTES = 4096, ROWS_MAX = 1 << 22, ASTRAY_MAX = 1024 };

struct salvage {
    struct sqlite_store old;  /* the damaged ledger */
    bool is_held;             /* we hold its write lock, and its log is empty */
    char dir[1024];           /* directory of the ledger */
    char work[1024 + 8];      /* a private directory inside that one */
    char new_path[1024 + 16]; /* path of the new ledger, in the private directory */
    struct store *store;      /* the new ledger */
    const dibs_event *event;  /* actor and time of the salvage */
    bool is_old;              /* the ledger is older than 1.3, and may lack tables */
    unsigned unread;          /* tables that could not be read to their end, a bit for each kind */
    struct ledger_salvaged result;
    dibs_err *err;
};

static const char suffixes[4][9] = { "", "-wal", "-shm", "-journal" }; /* suffixes of a ledger's files */

static dibs_status os_error(const struct salvage *r, const char *doing)
{
    return err_os(r->err, DIBS_FAILURE, errno, "salvaging ledger %s: %s", r->old.path, doing);
}

/* Remove the -wal and -shm of a ledger, and with `first` 0 the ledger itself. */
static dibs_status remove_files(const struct salvage *r, const char *path, size_t first)
{
    char name[sizeof r->new_path + 8];

    for (size_t i = first; i < 4; i++) {
        (void) snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (unlink(name) != 0 && errno != ENOENT && errno != ENOTDIR)
            return os_error(r, "cannot remove a file");
    }
    return DIBS_OK;
}

static void salvage_auto(struct salvage *r)
{
    sqlite_close(r->store);
    sqlite_disconnect(&r->old); /* rolls back */
    if (r->work[0]) {
        (void) remove_files(r, r->new_path, 0);
        (void) rmdir(r->work);
    }
}

/* ---- the damaged ledger ---- */

/* Bring back the log that a killed salvage set aside before it put the new file in place. The damaged file
 * then still has the second name to which that log belongs. */
static void bring_back_log(const struct salvage *r, const struct stat *st)
{
    const char *base = strrchr(r->old.path, '/') ? strrchr(r->old.path, '/') + 1 : r->old.path;
    DIR *dir = st->st_nlink > 1 && !sqlite_has_log(&r->old) ? opendir(r->dir) : NULL;
    char log[1024 + 8];
    char aside[sizeof r->dir + 264];
    struct stat other = { 0 };

    (void) snprintf(log, sizeof log, "%s-wal", r->old.path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (strncmp(entry->d_name, base, strlen(base)) != 0 || !strstr(entry->d_name, ".damaged-"))
            continue;
        int n = snprintf(aside, sizeof aside, "%s/%s", r->dir, entry->d_name);
        bool is_same = stat(aside, &other) == 0 && other.st_ino == st->st_ino && other.st_dev == st->st_dev;
        (void) snprintf(aside + n, sizeof aside - (size_t) n, "-wal");
        if (is_same)
            (void) rename(aside, log);
    }
    if (dir)
        (void) closedir(dir);
}

/* Check the file. An empty one gets a page of zeros: else SQLite treats it as new and deletes its log. */
static dibs_status check_file(struct salvage *r)
{
    struct stat st = { 0 };

    if (stat(r->old.path, &st) != 0)
        return errno == ENOENT ? err_set(r->err, DIBS_NOT_FOUND, "there is no ledger %s", r->old.path)
                               : os_error(r, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return err_set(r->err, DIBS_INVALID, "ledger %s is not a regular file; it is left as it is",
                       r->old.path);
    if (st.st_uid != geteuid()) /* the owner decides about pools, and can exchange files under a rebuild */
        return err_set(r->err, DIBS_DENIED, "ledger %s belongs to uid %u: only that user may rebuild it",
                       r->old.path, (unsigned) st.st_uid);
    bring_back_log(r, &st);
    if (st.st_size == 0 && sqlite_has_log(&r->old) && truncate(r->old.path, EMPTY_PAGE_BYTES) != 0)
        return os_error(r, "cannot write to it");
    return DIBS_OK;
}

/* Return whether SQLite reports that the file cannot be used at all. */
static bool is_unusable(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

/* Refuse another program's database and a newer ledger before changing anything. */
static dibs_status check_owner(struct salvage *r)
{
    uint8_t header[SQLITE_HEADER_BYTES] = { 0 };
    sqlite3 *db = r->old.db;
    int64_t application_id = 0;
    int64_t version = 0;
    int64_t n_tables = 0;
    int os_errno = 0;
    bool has_header = sqlite_read_header(&r->old, header, &os_errno) == SQLITE_OK &&
                      memcmp(header, "SQLite format 3", 16) == 0;
    int rc = sqlite_get_number(db, "PRAGMA application_id", &application_id);

    r->result.n_pages = has_header ? sqlite_big_endian(header + 28) : 0;
    (void) sqlite_get_number(db, "PRAGMA page_count", &r->result.n_pages_left);
    if (rc == SQLITE_ROW)
        rc = sqlite_get_number(db, "PRAGMA user_version", &version);
    if (rc == SQLITE_ROW)
        (void) sqlite_get_number(db, "SELECT count(*) FROM sqlite_schema", &n_tables);
    else if (!is_unusable(rc))
        return sqlite_error(&r->old, rc, "reading it", r->err);
    else if (has_header)
        application_id = sqlite_big_endian(header + 68);
    r->is_old = version > 0 && version < SQLITE_OLDEST_VERSION;
    bool is_ours = application_id == SQLITE_APPLICATION_ID || (application_id == 0 && n_tables == 0);
    if (is_ours && version / 1000 > SQLITE_LEDGER_MAJOR)
        return sqlite_check_version(&r->old, (uint32_t) version, r->err);
    if (is_ours || sqlite_is_ours(db))
        return DIBS_OK;
    return err_set(r->err, DIBS_INVALID, "ledger %s is a database of another program; it is left as it is",
                   r->old.path);
}

/* Empty the log into the file and keep the write lock. OK without r->is_held: the file cannot be used. */
static dibs_status lock_old(struct salvage *r)
{
    struct sqlite_store *old = &r->old;

    do { /* another process may write between the checkpoint and our lock */
        int rc = sqlite3_exec(old->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

        if (rc == SQLITE_OK && !sqlite_has_log(old)) {
            r->is_held = true;
            return DIBS_OK;
        }
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(old->db, "ROLLBACK", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_wal_checkpoint_v2(old->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        if (is_unusable(rc))
            return DIBS_OK;
        if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
            return sqlite_error(old, rc, "locking it", r->err);
    } while (clock_monotonic_ms() < old->deadline_ms);
    return sqlite_error(old, SQLITE_BUSY, "locking it", r->err);
}

static dibs_status open_old(struct salvage *r)
{
    dibs_status s = check_file(r);

    if (s == DIBS_OK)
        s = sqlite_connect(&r->old, r->err);
    if (s != DIBS_OK)
        return s;
    /* Only with this does SQLite read a file that is shorter than its header says. */
    (void) sqlite3_exec(r->old.db, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
    s = check_owner(r);
    return s == DIBS_OK ? lock_old(r) : s;
}

/* ---- the new ledger ---- */

static dibs_status open_new(struct salvage *r)
{
    const struct ledger_options options = { .timeout_ms = TIMEOUT_MS };

    (void) snprintf(r->work, sizeof r->work, "%s.salvage", r->old.path);
    (void) snprintf(r->new_path, sizeof r->new_path, "%s/new", r->work);
    /* Remove the files of a killed salvage. */
    if (remove_files(r, r->new_path, 0) != DIBS_OK || (rmdir(r->work) != 0 && errno != ENOENT) ||
        mkdir(r->work, 0700) != 0)
        return os_error(r, "cannot make a directory beside it");
    return sqlite_open(r->new_path, &options, &r->store, r->err);
}

static dibs_status sync_path(const struct salvage *r, const char *path)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0 && fsync(fd) == 0 ? DIBS_OK : os_error(r, "cannot write it to disk");
}

/* Give the new file the group and mode of the old one. */
static dibs_status take_rights(const struct salvage *r)
{
    struct stat old = { 0 };
    struct stat made = { 0 };
    AUTO(fd_auto) int fd = open(r->new_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || stat(r->old.path, &old) != 0 || fstat(fd, &made) != 0)
        return os_error(r, "cannot look at its rights");
    if (!S_ISREG(made.st_mode) || made.st_nlink != 1) /* another user of the directory exchanged it */
        return err_set(r->err, DIBS_FAILURE, "%s is not the file that was made", r->new_path);
    mode_t mode = old.st_mode & 0777;
    if (fchown(fd, (uid_t) -1, old.st_gid) != 0) /* we may not be in its group any more */
        mode &= ~(mode_t) 070;
    return fchmod(fd, mode) == 0 ? DIBS_OK : os_error(r, "cannot set its mode");
}

/* Checkpoint the new ledger into one file, and sync it. */
static dibs_status finish(struct salvage *r)
{
    struct sqlite_store *self = (struct sqlite_store *) r->store;
    int rc = sqlite3_wal_checkpoint_v2(self->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if (rc != SQLITE_OK)
        return sqlite_error(self, rc, "writing it whole", r->err);
    sqlite_close(TAKE(r->store));
    dibs_status s = remove_files(r, r->new_path, 1);
    if (s == DIBS_OK)
        s = take_rights(r);
    return s == DIBS_OK ? sync_path(r, r->new_path) : s;
}

static struct sqlite_store *target(const struct salvage *r)
{
    return (struct sqlite_store *) r->store;
}

/* ---- claims and slots ---- */

static dibs_status put_placeholder(struct salvage *r, struct claim_record *row)
{
    static const uint8_t none[STORE_SECRET_BYTES];
    dibs_claim *c = &row->claim;

    c->is_damaged = false;
    c->generation = c->generation ? c->generation : 1;
    c->kind = DIBS_STATIC;
    c->is_exclusive = c->is_kept = true;
    c->holder = DIBS_HELD_BY_NOBODY;
    c->process = (dibs_process){ 0 };
    c->lease_ttl_ms = c->lease_until_ms = 0;
    c->changed_ms = r->event->time_ms;
    if (dibs_name_check(c->name, NULL) != DIBS_OK || !c->principal[0])
        c->name[0] = '\0';
    if (!c->principal[0])
        (void) text_copy(c->principal, sizeof c->principal, UNKNOWN_PRINCIPAL);
    if (!c->pool[0])
        (void) text_copy(c->pool, sizeof c->pool, "default");
    (void) text_copy(c->command, sizeof c->command, PLACEHOLDER_COMMAND);
    dibs_status s =
        memcmp(row->secret, none, sizeof none) == 0 ? record_secret(row->secret, r->err) : DIBS_OK;
    r->result.n_lost++;
    return s == DIBS_OK ? store_put_claim(r->store, row, r->err) : s;
}

static dibs_status save_claim(struct salvage *r, sqlite3_stmt *stmt)
{
    struct claim_record row;
    struct claim_record known;

    sqlite_load_claim(stmt, &row);
    if (sqlite3_column_int64(stmt, 0) < 1)
        return DIBS_OK; /* its slots keep its port */
    dibs_status s = store_get_claim(r->store, row.claim.id, &known, r->err);
    if (s != DIBS_NOT_FOUND) /* saved by the first pass */
        return s;
    if (!row.claim.is_damaged) {
        r->result.n_saved++;
        return store_put_claim(r->store, &row, r->err);
    }
    if (sqlite_find_place(&r->old, &row.claim, NULL) != DIBS_OK || row.claim.port == 0)
        return DIBS_OK;
    return put_placeholder(r, &row);
}

static bool covers(void *ctx, const struct ledger_slot *slot)
{
    struct ledger_slot *saved = ctx;

    if (slot->claim_id != 0 && slot->is_exclusive && dibs_address_conflict(&slot->address, &saved->address))
        saved->claim_id = 0;
    return saved->claim_id != 0;
}

/* Keep the port of a slot whose claim was not saved. All slots of one lost claim make one placeholder. */
static dibs_status save_slot(struct salvage *r, sqlite3_stmt *stmt)
{
    struct ledger_slot slot;
    struct claim_record row;
    uint64_t id = 0;
    uint64_t cursor = 0;

    if (!sqlite_load_slot(stmt, &slot)) {
        r->unread |= 1u << SLOTS; /* it may have been that of a lost claim */
        return DIBS_OK;
    }
    if (slot.claim_id == 0) /* a cooling port */
        return r->store->ops->put(r->store, SLOTS, &slot, r->err);
    struct ledger_slot uncovered = slot;
    dibs_status s = r->store->ops->slots(r->store, slot.proto, slot.port, covers, &uncovered, r->err);
    if (s != DIBS_OK || !slot.is_exclusive || uncovered.claim_id == 0)
        return s;
    s = store_get_claim(r->store, slot.claim_id, &row, r->err);
    if (s == DIBS_OK && row.claim.port == slot.port) {
        if (strcmp(row.claim.command, PLACEHOLDER_COMMAND) != 0)
            return DIBS_OK; /* the claim has this binding */
        record_add_binding(&row.claim, &slot);
        return store_put_claim(r->store, &row, r->err);
    }
    record_make_lost(&row, slot.claim_id, slot.port);
    row.claim.created_ms = r->event->time_ms;
    record_add_binding(&row.claim, &slot);
    if (s == DIBS_OK || (s == DIBS_NOT_FOUND && slot.claim_id > INT64_MAX / 2)) {
        /* Its own id belongs to another claim or is out of range. */
        s = r->store->ops->tail(r->store, &id, &cursor, r->err);
        row.claim.id = id + 1;
    } else if (s == DIBS_NOT_FOUND) {
        s = DIBS_OK;
    }
    return s == DIBS_OK ? put_placeholder(r, &row) : s;
}

/* ---- names ---- */

/* Give each nameless claim the name that leads to it, and its principal, else that of the file's owner, who
 * is the newest event's actor; make each name lead to its newest claim, or to none. */
static dibs_status match_names(struct salvage *r)
{
    return sqlite_exec(
        target(r),
        "UPDATE claims SET (principal, name, project) = (n.principal, n.name, n.project) FROM names AS n"
        " WHERE n.claim=claims.id AND n.port=claims.port AND claims.name='' AND claims.principal IN"
        " ('" UNKNOWN_PRINCIPAL "', n.principal);"
        "UPDATE claims SET principal='uid:' || (SELECT actor_uid FROM events ORDER BY seq DESC LIMIT 1)"
        " WHERE principal='" UNKNOWN_PRINCIPAL "';"
        "INSERT OR REPLACE INTO names(principal, name, claim, port, used_ms, project)"
        " SELECT principal, name, id, port, changed_ms, project FROM claims AS c WHERE name<>''"
        " AND NOT EXISTS (SELECT 1 FROM names AS n JOIN claims AS x ON x.id=n.claim"
        " WHERE n.principal=c.principal AND n.name=c.name AND n.claim>=c.id AND n.port=x.port"
        " AND x.principal=c.principal AND x.name=c.name) ORDER BY id;"
        "UPDATE names SET claim=0 WHERE claim<>0 AND NOT EXISTS (SELECT 1 FROM claims AS c"
        " WHERE c.id=names.claim AND c.principal=names.principal AND c.name=names.name)",
        "matching names with claims", r->err);
}

/* Copy the salt, so that names prefer the same ports as before. */
static dibs_status copy_meta(struct salvage *r, sqlite3_stmt *row)
{
    if (sqlite3_column_type(row, 0) != SQLITE_TEXT || sqlite3_column_type(row, 1) != SQLITE_INTEGER)
        return DIBS_OK;
    char *sql = sqlite3_mprintf("INSERT OR REPLACE INTO meta(key, value) VALUES(%Q, %lld)",
                                sqlite3_column_text(row, 0), sqlite3_column_int64(row, 1));
    dibs_status s = sql ? sqlite_exec(target(r), sql, "writing what was readable", r->err)
                        : sqlite_error(target(r), SQLITE_NOMEM, "writing what was readable", r->err);

    sqlite3_free(sql);
    return s;
}

/* ---- all tables ---- */

/* In this order. The facts are missing: a controller writes them again. */
static const struct table {
    enum record_kind kind;  /* RECORD_KINDS: none */
    const char *name, *key; /* first column of the key: more would be sorted, not read from the back */
    dibs_status (*save)(struct salvage *r, sqlite3_stmt *row); /* NULL: copy the row unchanged */
} tables[] = {
    { CLAIMS, "claims", "id", save_claim },    { RECORD_KINDS, "meta", "key", copy_meta },
    { NAMES, "names", "principal", NULL },     { EVENTS, "events", "seq", NULL },
    { POOLS, "pools", "name", NULL },          { SIGHTINGS, "sightings", "claim", NULL },
    { ANSWERS, "answers", "principal", NULL }, { SLOTS, "slots", "proto", save_slot },
};

/* Return whether a row follows the one before in the order of the numbers in its key, and keep it in `last`.
 * Pages that point back to each other hide the rest, and go on almost for ever. */
static bool is_in_order(sqlite3_stmt *row, bool is_backward, bool is_first, int64_t last[2])
{
    bool is_equal = true;
    bool is_ok = true;

    for (int i = 0; i < 2 && sqlite3_column_type(row, i) == SQLITE_INTEGER; i++) {
        int64_t n = sqlite3_column_int64(row, i);

        is_ok = is_ok && (is_first || !is_equal || n == last[i] || (n < last[i]) == is_backward);
        is_equal = is_equal && n == last[i];
        last[i] = n;
    }
    return is_ok;
}

/* Save each row of a table; an error of the damaged ledger ends one pass, not the salvage. */
static dibs_status read_table(struct salvage *r, const struct table *table)
{
    dibs_status s = DIBS_OK;
    bool is_whole = false;

    for (int pass = 0; pass < 2 && !is_whole && s == DIBS_OK; pass++) {
        AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
        char sql[128];
        int rc = SQLITE_ERROR;
        int64_t last[2] = { 0 };
        size_t n_astray = 0;

        (void) snprintf(sql, sizeof sql, "SELECT * FROM %s ORDER BY %s%s", table->name, table->key,
                        pass == 0 ? "" : " DESC");
        if (sqlite3_prepare_v2(r->old.db, sql, -1, &stmt, NULL) == SQLITE_OK)
            for (size_t n = 0; n < ROWS_MAX && n_astray < ASTRAY_MAX && s == DIBS_OK &&
                               (rc = sqlite3_step(stmt)) == SQLITE_ROW;
                 n++) {
                n_astray += !is_in_order(stmt, pass > 0, n == 0, last);
                s = table->save ? table->save(r, stmt) : sqlite_copy(target(r), table->kind, stmt, r->err);
            }
        is_whole = (rc == SQLITE_DONE && n_astray == 0) || (!stmt && r->is_old);
    }
    r->unread |= is_whole ? 0 : 1u << table->kind;
    return s;
}

/* Keep the ports of claims of which only a name or an event is left: make slots of these, for all addresses,
 * and of a name for TCP and UDP. match_names() gives the names back. */
static dibs_status save_known(struct salvage *r)
{
    static const char known[] =
        "SELECT proto, port, zeroblob(16), claim, 1, 0 FROM (SELECT claim, port, 6 AS protos FROM names"
        " UNION ALL SELECT claim, port, protos FROM (SELECT *, max(seq) FROM events GROUP BY claim)"
        " WHERE kind NOT IN (2, 5, 8)) JOIN (SELECT 1 AS proto UNION VALUES(2), (3)) ON protos & (1<<proto)"
        " WHERE claim BETWEEN 1 AND 1<<62 AND port BETWEEN 1 AND 65535"
        " AND claim NOT IN (SELECT id FROM claims) ORDER BY claim, proto";
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(target(r)->db, known, -1, &stmt, NULL);
    dibs_status s = rc == SQLITE_OK ? DIBS_OK : sqlite_error(target(r), rc, "reading names", r->err);

    while (s == DIBS_OK && sqlite3_step(stmt) == SQLITE_ROW)
        s = save_slot(r, stmt);
    return s;
}
_Static_assert(DIBS_EV_RELEASED == 2 && DIBS_EV_REAPED == 5 && DIBS_EV_LEAKED == 8, "as the statement says");

/* Say what was lost. All claims are known if their table, or that of their ports, was read to its end. */
static void note_losses(struct salvage *r)
{
    const unsigned places = 1u << CLAIMS | 1u << SLOTS;
    char *out = r->result.unread;
    size_t n = 0;

    r->result.may_lack_claims = (r->unread & places) == places;
    if (!(r->unread & 1u << CLAIMS))
        r->unread &= ~(1u << SLOTS); /* they were written again from the claims */
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (r->unread & 1u << tables[i].kind)
            n += (size_t) snprintf(out + n, sizeof r->result.unread - n, "%s%s", n ? ", " : "",
                                   tables[i].name);
}

/* Record the salvage. Its number is above all lost ones, because followers of the events may know those. */
static dibs_status put_event(struct salvage *r)
{
    enum { MARGIN = 4096 };
    struct event_record row = { .event = *r->event };
    dibs_status s = r->store->ops->tail(r->store, &row.event.seq, &row.cursor, r->err);

    row.event.seq += 1u + (r->unread ? MARGIN : 0u);
    row.cursor++;
    return s == DIBS_OK ? r->store->ops->put(r->store, EVENTS, &row, r->err) : s;
}

/* Copy all readable records into the new ledger, in one transaction. */
static dibs_status salvage_records(struct salvage *r)
{
    dibs_status s = r->store->ops->begin(r->store, true, true, 0, r->err);

    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && s == DIBS_OK; i++)
        s = read_table(r, &tables[i]);
    note_losses(r);
    if (s == DIBS_OK && r->result.may_lack_claims)
        s = save_known(r);
    if (s == DIBS_OK)
        s = put_event(r);
    if (s == DIBS_OK)
        s = match_names(r);
    return s == DIBS_OK ? r->store->ops->commit(r->store, r->err) : s; /* closing it rolls back */
}

/* ---- the swap ---- */

/* Lock the new file against every process until the old log is gone: SQLite would apply that log to it. */
static dibs_status lock_new(const struct salvage *r, int *out)
{
    enum { PENDING_BYTE = 0x40000000, LOCK_BYTES = 512 }; /* SQLite's locks, fixed by its file format */
    struct flock all = { .l_type = F_WRLCK, .l_start = PENDING_BYTE, .l_len = LOCK_BYTES };
    AUTO(fd_auto) int fd = open(r->new_path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fcntl(fd, F_OFD_SETLK, &all) != 0)
        return os_error(r, "cannot lock the new one");
    *out = fd_take(&fd);
    return DIBS_OK;
}

/* Link the damaged file to a second name, with a number when that name is in use. */
static dibs_status link_aside(const struct salvage *r, char aside[1024])
{
    time_t seconds = (time_t) (r->event->time_ms / 1000);
    struct tm utc = { 0 };
    char stamp[32] = "";

    (void) gmtime_r(&seconds, &utc);
    (void) strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    for (int i = 1; i <= ASIDE_MAX; i++) {
        if (snprintf(aside, 1024, "%s.damaged-%s-%d", r->old.path, stamp, i) >= 1024)
            return err_set(r->err, DIBS_INVALID, "ledger %s: its path is too long to set it aside",
                           r->old.path);
        if (link(r->old.path, aside) == 0)
            return DIBS_OK;
        if (errno != EEXIST)
            break;
    }
    return os_error(r, "cannot set it aside");
}

/* Swap the files; the ledger's path is never empty. A log that could not be emptied into its file goes first,
 * because SQLite would apply it to the new file; without it an unusable file stays unusable. */
static dibs_status swap(struct salvage *r)
{
    AUTO(fd_auto) int lock = -1;
    char log[2][1024 + 8];
    dibs_status s = lock_new(r, &lock);

    if (s == DIBS_OK)
        s = link_aside(r, r->result.aside);
    (void) snprintf(log[0], sizeof log[0], "%s-wal", r->old.path);
    (void) snprintf(log[1], sizeof log[1], "%s-wal", r->result.aside);
    if (s == DIBS_OK && !r->is_held && rename(log[0], log[1]) != 0 && errno != ENOENT)
        s = os_error(r, "cannot set its log aside");
    if (s == DIBS_OK)
        s = sync_path(r, r->dir);
    if (s == DIBS_OK && rename(r->new_path, r->old.path) != 0)
        s = os_error(r, "cannot put the new one in its place");
    if (s == DIBS_OK)
        s = remove_files(r, r->old.path, 1);
    return s == DIBS_OK ? sync_path(r, r->dir) : s;
}

dibs_status sqlite_salvage(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                           dibs_err *err)
{
    static dibs_status (*const steps[])(struct salvage *) = { open_old, open_new, salvage_records, finish,
                                                              swap };
    AUTO(fd_auto) int lock = -1; /* released last */
    AUTO(salvage_auto) struct salvage r = { .event = event, .err = err };
    dibs_status s = sqlite_init(&r.old, rest, TIMEOUT_MS, err);

    if (s == DIBS_OK) {
        sqlite_resolve(r.old.path);
        (void) directory_of(r.old.path, r.dir, sizeof r.dir);
        s = sqlite_lock_directory(&r.old, r.dir, &lock, err);
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && s == DIBS_OK; i++)
        s = steps[i](&r);
    if (s == DIBS_OK)
        *out = r.result;
    return s;
}
