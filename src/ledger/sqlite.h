/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_SQLITE_H
#define DIBS_LEDGER_SQLITE_H
/* What the files of the SQLite store share. */
#include <sqlite3.h>

#include "ledger/rows.h"

/* Every statement is prepared when it is first used, and kept: a cold `dibs claim` needs seven of them. */
enum sqlite_sql {
    SQL_BEGIN_READ,
    SQL_BEGIN_WRITE,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_SAVE,
    SQL_UNDO,
    SQL_FORGET,
    SQL_SNAPSHOT,
    SQL_CLAIM_GET,
    SQL_CLAIM_PUT,
    SQL_CLAIM_DELETE,
    SQL_CLAIMS,
    SQL_CLAIMS_OF_PRINCIPAL,
    SQL_CLAIMS_OF_POOL,
    SQL_CLAIMS_OF_PROJECT,
    SQL_SLOTS_AT,
    SQL_SLOTS_ALL,
    SQL_SLOT_PUT,
    SQL_SLOT_DELETE,
    SQL_NAME_GET,
    SQL_NAME_PUT,
    SQL_NAME_FIRST,
    SQL_TAIL,
    SQL_TAIL_CLAIMS,
    SQL_EVENT_PUT,
    SQL_EVENTS,
    SQL_EVENTS_NEWEST,
    SQL_EVENTS_OLDEST,
    SQL_POOL_GET,
    SQL_POOL_PUT,
    SQL_POOL_DELETE,
    SQL_POOLS,
    SQL_SIGHTING_GET,
    SQL_SIGHTING_PUT,
    SQL_SIGHTING_DELETE,
    SQL_ANSWER_GET,
    SQL_ANSWER_PUT,
    SQL_TRIM_ANSWERS,
    SQL_TRIM_EVENTS,
    SQL_TRIM_NAMES,
    SQL_TRIM_SLOTS,
    SQL_TRIM_SIGHTINGS,
    SQL_QUARANTINE_PUT,
    SQL_SLOTS_OF_CLAIM,
    SQL_SLOTS_DAMAGED,
    SQL_COUNT,
};

/* How a ledger could be opened. */
enum sqlite_access {
    SQLITE_WRITES,
    SQLITE_READS,     /* beside those who write, through the log's index that they left */
    SQLITE_READS_FILE /* the bare file, which has no log: nothing else is possible where none can be made */
};

struct sqlite_beside;

struct sqlite_rows {
    struct rows base;
    sqlite3 *db;
    char path[1024];
    uint64_t salt;
    int64_t timeout_ms;
    int64_t deadline_ms;    /* CLOCK_MONOTONIC, of the call under way */
    int64_t waits_since_ms; /* for the lock that is awaited now */
    int64_t version;        /* of the ledger; 0: not made yet */
    int wal_frames;         /* after our last commit */
    enum sqlite_access access;
    dibs_err why_read_only;       /* unless it is SQLITE_WRITES */
    bool is_full;                 /* synchronous=FULL is set */
    bool is_spared;               /* ... and the next commit goes without */
    bool has_call;                /* the deadline is that of a whole call */
    struct sqlite_beside *beside; /* NULL: we carry the log over ourselves */
    int asked_frames;             /* of the log when it was last asked */
    sqlite3_stmt *stmt[SQL_COUNT];
};

extern const char *const sqlite_sql_text[SQL_COUNT];

/* Ledger versions are MAJOR * 1000 + MINOR in user_version; a newer major is refused untouched, a newer minor
 * is read and written. Add a migration at the end of the list in sqlite_schema.c. */
#define SQLITE_APPLICATION_ID 0x64696273 /* "dibs" */
#define SQLITE_LEDGER_MAJOR 1
#define SQLITE_LEDGER_VERSION 1003
#define SQLITE_READABLE_VERSION 1001 /* the oldest that has what our statements ask for */
#define SQLITE_WHAT_BYTES 160
#define SQLITE_UNKNOWN_PROJECT "?" /* of names that version 1.0 remembered; no directory is called so */

/* Makes what is missing since `version`, 0 for all; inside a transaction. */
dibs_status sqlite_migrate(struct sqlite_rows *self, int64_t version, dibs_err *err);
/* Whatever its marks say: has it tables of ours? */
bool sqlite_is_ours(sqlite3 *db);
/* Has it everything that we use? A few microseconds when it is as we made it. SQLITE_CORRUPT when not, and
 * `what` is missing; else SQLite's own trouble. */
int sqlite_check_tables(sqlite3 *db, int64_t version, char what[SQLITE_WHAT_BYTES]);

/* Are the triggers there that keep slots in their place? */
bool sqlite_has_guards(sqlite3 *db);
dibs_status sqlite_restore_guards(struct sqlite_rows *self, dibs_err *err);

dibs_status sqlite_open_rows(const char *rest, const struct ledger_options *options, struct rows **out,
                             dibs_err *err);
void sqlite_close_rows(struct rows *rows);
dibs_status sqlite_rebuild_rows(const char *rest, const struct ledger_actor *actor,
                                struct ledger_rebuilt *out, dibs_err *err);
/* Removes what killed rebuilds left beside the ledger, unless somebody makes or rebuilds it now. */
void sqlite_tidy(const struct sqlite_rows *self);
dibs_status sqlite_health_rows(struct rows *rows, struct ledger_health *out, dibs_err *err);
dibs_status sqlite_quarantine_rows(struct rows *rows, const struct ledger_actor *actor, size_t *n,
                                   dibs_err *err);

/* A failure of SQLite; `doing` is what failed. */
dibs_status sqlite_error(struct sqlite_rows *self, int rc, const char *doing, dibs_err *err);
/* The same where the connection cannot say errno itself. */
dibs_status sqlite_tell(const struct sqlite_rows *self, int rc, int os_errno, const char *doing,
                        dibs_err *err);
/* A failure of the system. */
dibs_status sqlite_os_error(const struct sqlite_rows *self, const char *doing, int os_errno, dibs_err *err);
dibs_status sqlite_damaged(const struct sqlite_rows *self, const char *what, dibs_err *err);
/* What to do about it. */
const char *sqlite_advice(dibs_trouble trouble);
void sqlite_start_deadline(struct sqlite_rows *self);
/* The name of our way to the system, to open a connection with (sqlite_vfs.c says what it is for). */
const char *sqlite_vfs(void);
/* The log as a file of ours (sqlite_log.c): its bytes beside the real one's, and opening it. */
int sqlite_log_size(void);
int sqlite_log_open(sqlite3_vfs *real, const char *name, sqlite3_file *file, int flags, int *got);
/* Every commit ends with a sync of it from now on. */
void sqlite_log_set_synced(sqlite3 *db);
/* The sync at the end of the next commit is left out, or not; no other one. */
void sqlite_log_spare_sync(sqlite3 *db, bool is_spared);
/* A thread that carries the log over into the file (sqlite_beside.c). */
dibs_status sqlite_care_beside(struct rows *rows, dibs_err *err);
void sqlite_beside_stop(struct sqlite_beside *beside); /* NULL is fine */
/* The log has so many frames now. True: the thread sees to it; false: it is time that the writer lets the log
 * begin anew. */
bool sqlite_beside_does(struct sqlite_beside *beside, int frames);
/* Until when this thread may sleep inside SQLite. */
void sqlite_vfs_deadline(int64_t deadline_ms);
/* Opens the connection alone: nothing is looked at or made. */
dibs_status sqlite_connect(struct sqlite_rows *self, dibs_err *err);
/* Closes it and opens the file that has its path now. */
dibs_status sqlite_reopen(struct sqlite_rows *self, dibs_err *err);
/* Is the open file no longer the one of its path? One stat(). */
bool sqlite_has_moved(struct sqlite_rows *self);
/* Connects, empties the log into the file and keeps the write lock, within the deadline. OK without *is_held:
 * so damaged that nobody can write to it. */
dibs_status sqlite_hold(struct sqlite_rows *live, bool *is_held, dibs_err *err);
dibs_status sqlite_copy_held(struct sqlite_rows *live, int to, dibs_err *err);
/* Lets the hold go. NULL connection is fine. */
void sqlite_release(struct sqlite_rows *live);
/* Nobody can begin to use the database at `path` until *out is closed. */
dibs_status sqlite_lock_whole(const char *path, int *out, dibs_err *err);
/* `path` of at most 1023 bytes for SQLITE_OPEN_URI; answers `out`. */
#define SQLITE_URI_BYTES (3 * 1024 + 64)
const char *sqlite_uri(const char *path, const char *parameters, char out[SQLITE_URI_BYTES]);
/* Directories that are missing are made private; those that are there are left as they are. `dir` is the
 * ledger's. */
dibs_status sqlite_make_parents(const struct sqlite_rows *self, char dir[1024], dibs_err *err);
dibs_status sqlite_refuse_dangling(const struct sqlite_rows *self, dibs_err *err);
dibs_status sqlite_refuse_remote(const struct sqlite_rows *self, const char *dir, dibs_err *err);
/* Out of all symbolic links, when the file is there: SQLite's file layer follows none. */
void sqlite_resolve(char path[1024]);
/* Waits for the lock on the ledger's directory, within the deadline; who makes, migrates or rebuilds it has
 * this. */
dibs_status sqlite_lock_directory(const struct sqlite_rows *self, const char *dir, int *out, dibs_err *err);
/* Prepared and reset, ready to bind; NULL on failure with err filled. */
sqlite3_stmt *sqlite_stmt(struct sqlite_rows *self, enum sqlite_sql which, dibs_err *err);
/* Runs a statement that gives no rows. */
dibs_status sqlite_run(struct sqlite_rows *self, sqlite3_stmt *stmt, const char *doing, dibs_err *err);
/* A claims row of the SQL_CLAIM_GET column order; damaged values are flagged and made harmless. */
void sqlite_load_claim(sqlite3_stmt *stmt, struct row_claim *row);
/* What can be known of the place of a damaged claim, the row of `stmt`: from its record, else from its slots.
 * Port 0: nothing. */
dibs_status sqlite_find_place(struct sqlite_rows *self, sqlite3_stmt *stmt, dibs_claim *claim, dibs_err *err);
/* A slots row of the SQL_SLOTS_AT column order; false: not usable, it blocks nothing. */
bool sqlite_load_slot(sqlite3_stmt *stmt, struct ledger_slot *out);
dibs_status sqlite_put_claim(struct rows *rows, const struct row_claim *row, dibs_err *err);
dibs_status sqlite_put_slot(struct rows *rows, const struct ledger_slot *slot, dibs_err *err);
/* The claim, and a slot for each of its bindings. */
dibs_status sqlite_put_with_slots(struct rows *rows, const struct row_claim *row, dibs_err *err);
dibs_status sqlite_put_slots(struct rows *rows, const struct row_claim *row, dibs_err *err);
/* Who makes placeholders, and whose those are of which nothing else is known: the owner of the file at
 * `path`. */
struct sqlite_keeper {
    const struct instant *now;
    char principal[DIBS_PRINCIPAL_MAX + 1];
};
void sqlite_keeper_of(const char *path, const struct ledger_actor *actor, struct sqlite_keeper *out);
/* What is set of name, project, principal and pool stays. */
void sqlite_become_placeholder(struct row_claim *row, const struct sqlite_keeper *keeper);
/* Placeholders without a name get the one that leads to them, with its principal and project; then every name
 * is made to lead to the claim that carries it, or to none. */
dibs_status sqlite_match_names(struct rows *rows, dibs_err *err);
/* Keeps the port of a slot blocked whose claim is lost: makes a placeholder claim of its id, or adds the slot
 * to one made before. *is_new when one was made; a slot that another claim excludes is passed over. */
dibs_status sqlite_block_slot(struct rows *rows, const struct ledger_slot *slot,
                              const struct sqlite_keeper *keeper, bool *is_new, dibs_err *err);
/* Does an exclusive claim other than claim->id conflict with it? */
dibs_status sqlite_is_excluded(struct rows *rows, const dibs_claim *claim, bool *out, dibs_err *err);
/* Binding and reading single values; a value that is not what it must be clears is_ok and reads as `low` or
 * nothing. */
struct sqlite_reader {
    sqlite3_stmt *stmt;
    bool is_ok;
};
void sqlite_bind_string(sqlite3_stmt *stmt, int at, const char *text);
void sqlite_bind_number(sqlite3_stmt *stmt, int at, int64_t value);
int64_t sqlite_read_number(struct sqlite_reader *r, int at, int64_t low, int64_t high);
void sqlite_read_string(struct sqlite_reader *r, int at, char *out, size_t max);
void sqlite_read_bytes(struct sqlite_reader *r, int at, const void **out, size_t *n);

/* Rows that live in sqlite_answers.c. */
dibs_status sqlite_rows_save(struct rows *rows, dibs_err *err);
dibs_status sqlite_rows_undo(struct rows *rows, dibs_err *err);
dibs_status sqlite_rows_forget(struct rows *rows, dibs_err *err);
uint64_t sqlite_rows_changes(struct rows *rows);
dibs_status sqlite_rows_answer_get(struct rows *rows, struct row_answer *answer, dibs_err *err);
dibs_status sqlite_rows_answer_put(struct rows *rows, const struct row_answer *answer, dibs_err *err);

/* Rows that live in sqlite_claims.c. */
dibs_status sqlite_rows_claim_get(struct rows *rows, uint64_t id, struct row_claim *out, dibs_err *err);
dibs_status sqlite_rows_claim_delete(struct rows *rows, uint64_t id, dibs_err *err);
dibs_status sqlite_rows_claims(struct rows *rows, const struct ledger_filter *filter, row_claim_fn fn,
                               void *ctx, dibs_err *err);

/* Rows that live in sqlite_history.c. */
dibs_status sqlite_rows_tail(struct rows *rows, uint64_t *seq, uint64_t *cursor, dibs_err *err);
dibs_status sqlite_rows_event_put(struct rows *rows, const dibs_event *e, uint64_t cursor, dibs_err *err);
dibs_status sqlite_rows_events(struct rows *rows, const dibs_event_query *query, uint64_t *oldest,
                               bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err);
dibs_status sqlite_rows_pool_get(struct rows *rows, const char *name, dibs_pool *out, dibs_err *err);
dibs_status sqlite_rows_pool_put(struct rows *rows, const dibs_pool *pool, dibs_err *err);
dibs_status sqlite_rows_pool_delete(struct rows *rows, const char *name, dibs_err *err);
dibs_status sqlite_rows_pools(struct rows *rows, bool (*fn)(void *, const dibs_pool *), void *ctx,
                              dibs_err *err);
dibs_status sqlite_rows_sighting_get(struct rows *rows, struct ledger_seen seen, uint32_t *count,
                                     dibs_err *err);
dibs_status sqlite_rows_sighting_put(struct rows *rows, struct ledger_seen seen, uint32_t count,
                                     dibs_err *err);
dibs_status sqlite_rows_trim(struct rows *rows, uint64_t oldest_seq, size_t names_kept,
                             int64_t cooled_before_ms, const struct instant *now, dibs_err *err);

enum { SQLITE_HEADER_BYTES = 100 };
static inline uint32_t sqlite_big_endian(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

static inline void sqlite_reset_auto(sqlite3_stmt **stmt)
{
    if (*stmt)
        (void) sqlite3_reset(*stmt);
}
static inline void sqlite_finalize_auto(sqlite3_stmt **stmt)
{
    (void) sqlite3_finalize(*stmt);
}
#endif
