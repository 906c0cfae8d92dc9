/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_SQLITE_SQLITE_STORE_H
#define DIBS_STORE_SQLITE_SQLITE_STORE_H
/* Declarations shared by the files of the SQLite store. */
#include <sqlite3.h>

#include "store/store.h"

/* 2^62: no ledger counts that far; a damaged record must not make every later number invalid (INV-6). */
#define EVENT_SEQ_END "4611686018427387904"

/* Each statement is prepared at its first use and kept: a cold `dibs claim` needs seven of them. */
#define SQLITE_STATEMENTS(S)                                                                                 \
    S(BEGIN_READ, "BEGIN")                                                                                   \
    S(BEGIN_WRITE, "BEGIN IMMEDIATE")                                                                        \
    S(COMMIT, "COMMIT")                                                                                      \
    S(ROLLBACK, "ROLLBACK")                                                                                  \
    S(SAVE, "SAVEPOINT one")                                                                                 \
    S(UNDO, "ROLLBACK TO one")                                                                               \
    S(FORGET, "RELEASE one")                                                                                 \
    S(SNAPSHOT, "PRAGMA user_version")                                                                       \
    S(CLAIM_GET, "SELECT * FROM claims WHERE id=?1")                                                         \
    S(CLAIM_PUT,                                                                                             \
      "INSERT OR REPLACE INTO claims(id, generation, secret, port, kind, exclusive, kept, holder, boot_id,"  \
      " pidns, pid, start_ticks, ttl_ms, until_ms, uid, netns, created_ms, changed_ms, bindings, principal," \
      " name, pool, command, project, env, keeper, run, hold, as_port)"                                      \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,"        \
      " ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)")                                                  \
    S(CLAIM_DELETE, "DELETE FROM claims WHERE id=?1")                                                        \
    S(CLAIMS, "SELECT * FROM claims WHERE id>?1 ORDER BY id")                                                \
    S(CLAIMS_OF_PRINCIPAL, "SELECT * FROM claims WHERE id>?1 AND principal=?2 ORDER BY id")                  \
    S(CLAIMS_OF_POOL, "SELECT * FROM claims WHERE id>?1 AND pool=?2 ORDER BY id")                            \
    /* Names are the smaller table, and have the project. */                                                 \
    S(CLAIMS_OF_PROJECT, "SELECT * FROM claims WHERE id>?1 AND id IN"                                        \
                         " (SELECT claim FROM names WHERE principal=?2 AND project=?3) ORDER BY id")         \
    S(SLOTS_AT,                                                                                              \
      "SELECT proto, port, address, claim, exclusive, released_ms FROM slots WHERE proto=?1 AND port=?2")    \
    S(SLOTS_ALL, "SELECT proto, port, address, claim, exclusive, released_ms FROM slots")                    \
    S(SLOT_PUT, "INSERT OR REPLACE INTO slots(proto, port, address, claim, exclusive, released_ms)"          \
                " VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                                           \
    S(SLOT_DELETE, "DELETE FROM slots WHERE proto=?1 AND port=?2 AND address=?3 AND claim=?4")               \
    S(NAME_GET, "SELECT * FROM names WHERE principal=?1 AND name=?2")                                        \
    S(NAME_PUT, "INSERT OR REPLACE INTO names(principal, name, claim, port, used_ms, project)"               \
                " VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                                           \
    S(NAME_FIRST, "SELECT * FROM names WHERE principal=?1 AND name>=?2 AND name<?3"                          \
                  " AND (project=?4 OR ?4 IS NULL)"                                                          \
                  " ORDER BY name LIMIT 1")                                                                  \
    /* A claim may be newer than the newest event that is left: its id must not be used twice. */            \
    S(TAIL, "SELECT max(coalesce((SELECT max(seq) FROM events WHERE seq<" EVENT_SEQ_END "), 0),"             \
            " coalesce((SELECT max(id) FROM claims WHERE id<" EVENT_SEQ_END "), 0)),"                        \
            " (SELECT cursor FROM events WHERE seq<" EVENT_SEQ_END " ORDER BY seq DESC LIMIT 1)")            \
    S(EVENT_PUT, "INSERT INTO events(seq, cursor, time_ms, kind, claim, generation, port, protos, dynamic,"  \
                 " actor_uid, actor_pid, principal, name)"                                                   \
                 " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")                          \
    S(EVENTS, "SELECT * FROM events WHERE seq>?1 AND seq<" EVENT_SEQ_END " ORDER BY seq LIMIT ?2")           \
    S(EVENTS_NEWEST, "SELECT * FROM (SELECT * FROM events WHERE seq>?1 AND seq<" EVENT_SEQ_END               \
                     " ORDER BY seq DESC LIMIT ?2) ORDER BY seq")                                            \
    S(EVENTS_OLDEST, "SELECT min(seq) FROM events")                                                          \
    S(POOL_GET, "SELECT * FROM pools WHERE name=?1")                                                         \
    S(POOL_PUT, "INSERT OR REPLACE INTO pools(name, ranges, scope, band, cooldown_ms, ordering,"             \
                " rebuilt) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                              \
    S(POOL_DELETE, "DELETE FROM pools WHERE name=?1")                                                        \
    S(POOLS, "SELECT * FROM pools ORDER BY name")                                                            \
    S(SIGHTING_GET, "SELECT * FROM sightings WHERE claim=?1")                                                \
    S(SIGHTING_PUT, "INSERT OR REPLACE INTO sightings(claim, generation, count, since_ms)"                   \
                    " VALUES(?1, ?2, ?3, ?4)")                                                               \
    S(SIGHTING_DELETE, "DELETE FROM sightings WHERE claim=?1")                                               \
    S(ANSWER_GET, "SELECT * FROM answers WHERE principal=?1 AND key=?2 AND part=?3")                         \
    S(ANSWER_PUT, "INSERT OR REPLACE INTO answers(principal, key, part, n, seq, digest, claim, generation)"  \
                  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                                 \
    S(FACT_GET, "SELECT * FROM facts WHERE subject=?1")                                                      \
    S(FACT_PUT, "INSERT OR REPLACE INTO facts(subject, cluster, installation, quota)"                        \
                " VALUES(?1, ?2, ?3, ?4)")                                                                   \
    S(FACT_DELETE, "DELETE FROM facts WHERE subject=?1")                                                     \
    S(FACTS, "SELECT * FROM facts ORDER BY subject")                                                         \
    S(NAMES_COUNT, "SELECT count(*) FROM names WHERE principal=?1 AND claim<>0")                             \
    S(TRIM_ANSWERS, "DELETE FROM answers WHERE seq<=?1")                                                     \
    S(TRIM_EVENTS, "DELETE FROM events WHERE seq<=?1 OR seq>=" EVENT_SEQ_END)                                \
    S(TRIM_NAMES, "DELETE FROM names WHERE claim=0 AND used_ms <"                                            \
                  " (SELECT used_ms FROM names WHERE claim=0 ORDER BY used_ms DESC LIMIT 1 OFFSET ?2)")      \
    S(TRIM_SLOTS, "DELETE FROM slots WHERE claim=0 AND (released_ms<?3 OR released_ms>?4)")                  \
    S(TRIM_SIGHTINGS, "DELETE FROM sightings WHERE claim NOT IN (SELECT id FROM claims)")                    \
    S(SLOTS_OF_CLAIM, "SELECT proto, port, address, claim, exclusive, released_ms FROM slots WHERE "         \
                      "claim=?1")
enum sqlite_sql {
#define S(name, text) SQL_##name,
    SQLITE_STATEMENTS(S)
#undef S
        SQL_COUNT
};

/* How the ledger was opened. */
enum sqlite_access {
    SQLITE_WRITES,
    SQLITE_READS,     /* through the index of the log, which a writer left, while other processes write */
    SQLITE_READS_FILE /* the bare file: it has no log, and no index can be created */
};

struct sqlite_checkpoints;

struct sqlite_store {
    struct store base;
    sqlite3 *db;
    char path[1024];
    int64_t timeout_ms;
    int64_t deadline_ms;    /* CLOCK_MONOTONIC, of the current call */
    int64_t waits_since_ms; /* start of the current wait for a lock */
    int64_t version;        /* of the ledger; 0: not created yet */
    int wal_frames;         /* size of the log after our last commit */
    bool is_in_use;         /* it was opened before: if its file is missing now, it was removed */
    uint64_t log_inode;     /* of the log that this process writes, and of its index; 0: not known yet */
    uint64_t index_inode;
    bool is_check; /* as in the options */
    enum sqlite_access access;
    dibs_err why_read_only;                 /* set unless access is SQLITE_WRITES */
    bool is_full;                           /* synchronous=FULL is set */
    struct sqlite_checkpoints *checkpoints; /* the checkpoint thread; NULL: the writer makes checkpoints */
    sqlite3_stmt *stmt[SQL_COUNT];
};

extern const char *const sqlite_sql_text[SQL_COUNT];

/* user_version is MAJOR * 1000 + MINOR; dibs refuses a newer major untouched, and uses a newer minor. */
#define SQLITE_APPLICATION_ID 0x64696273 /* "dibs" */
#define SQLITE_LEDGER_MAJOR 1
#define SQLITE_LEDGER_VERSION 1008
#define SQLITE_OLDEST_VERSION 1003 /* of dibs 0.1 */

/* Apply the migrations since `version` (0: all), inside a transaction. */
dibs_status sqlite_migrate(struct sqlite_store *self, int64_t version, dibs_err *err);
/* Return whether the file has tables of ours, whatever its application id says. */
bool sqlite_is_ours(sqlite3 *db);
/* Return whether the file has exactly the tables and triggers that sqlite_migrate() creates. */
bool sqlite_is_as_made(sqlite3 *db);
/* Check that the tables and columns of our statements exist. A column that a user added is no damage. */
dibs_status sqlite_check_tables(struct sqlite_store *self, dibs_err *err);

dibs_status sqlite_open(const char *rest, const struct ledger_options *options, struct store **out,
                        dibs_err *err);
void sqlite_close(struct store *store);
dibs_status sqlite_salvage(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                           dibs_err *err);

/* Check that this process writes the log, and locks it by the index, that other processes find. */
dibs_status sqlite_check_log(struct sqlite_store *self, dibs_err *err);
/* Report that a file of the ledger was removed while this process used it. */
dibs_status sqlite_removed(const struct sqlite_store *self, const char *what, dibs_err *err);
/* Report why the ledger can only be read. */
dibs_status sqlite_refuse_writing(const struct sqlite_store *self, dibs_err *err);
/* Report a failure of SQLite; `doing` names the failed action. */
dibs_status sqlite_error(struct sqlite_store *self, int rc, const char *doing, dibs_err *err);
/* The same without a connection, with the errno as an argument. */
dibs_status sqlite_error_of(const struct sqlite_store *self, int rc, int os_errno, const char *doing,
                            dibs_err *err);
/* Report a failure of a system call. */
dibs_status sqlite_os_error(const struct sqlite_store *self, const char *doing, int os_errno, dibs_err *err);
dibs_status sqlite_damaged(const struct sqlite_store *self, const char *what, dibs_err *err);
/* Return advice for the user. */
const char *sqlite_advice(dibs_trouble trouble);
/* Set the deadline of the current call; 0: the timeout, from now on. */
void sqlite_set_deadline(struct sqlite_store *self, int64_t deadline_ms);
/* Return the name of the VFS for our connections (vfs.c). */
const char *sqlite_vfs(void);
/* Start a thread that makes the checkpoints (checkpoint.c). */
dibs_status sqlite_start_checkpoints(struct store *store, dibs_err *err);
void sqlite_stop_checkpoints(struct sqlite_checkpoints *self); /* NULL is fine */
/* After each commit: make a checkpoint when the log has grown, or request it from the thread. */
int sqlite_note_log(void *store, sqlite3 *db, const char *name, int frames);
/* Set until when this thread may sleep inside SQLite. */
void sqlite_vfs_deadline(int64_t deadline_ms);
/* Initialise a zeroed store without a connection. INVALID: the path is too long. */
dibs_status sqlite_init(struct sqlite_store *self, const char *path, int64_t timeout_ms, dibs_err *err);
/* Open only the connection, without checking or creating the file. */
dibs_status sqlite_connect(struct sqlite_store *self, dibs_err *err);
/* Close the connection and its statements. */
void sqlite_disconnect(struct sqlite_store *self);
/* Close the connection, and open the file that the path names now. */
dibs_status sqlite_reopen(struct sqlite_store *self, dibs_err *err);
/* NEWER: another major; DAMAGED: no ledger has that version. */
dibs_status sqlite_check_version(const struct sqlite_store *self, uint32_t version, dibs_err *err);
bool sqlite_has_log(const struct sqlite_store *self);
enum { SQLITE_HEADER_BYTES = 100 };
int sqlite_read_header(const struct sqlite_store *self, uint8_t header[SQLITE_HEADER_BYTES], int *os_errno);
/* Return whether the path no longer names the open file. Costs one stat(). */
bool sqlite_has_moved(struct sqlite_store *self);
/* Resolve symbolic links of an existing file: SQLite's file layer follows none. */
void sqlite_resolve(char path[1024]);
/* Wait for the lock on the ledger's directory, held while the ledger is created, migrated or salvaged. */
dibs_status sqlite_lock_directory(const struct sqlite_store *self, const char *dir, int *out, dibs_err *err);
/* Run statements without parameters. */
dibs_status sqlite_exec(struct sqlite_store *self, const char *sql, const char *doing, dibs_err *err);
/* Query one number. Returns SQLITE_ROW, SQLITE_DONE when there is none, or an error of SQLite. */
int sqlite_get_number(sqlite3 *db, const char *sql, int64_t *out);
/* Return a prepared and reset statement, ready to bind; NULL on failure with err filled. */
sqlite3_stmt *sqlite_stmt(struct sqlite_store *self, enum sqlite_sql which, dibs_err *err);
/* Run a statement that returns no rows. UNAVAILABLE also when stmt is NULL. */
dibs_status sqlite_run(struct sqlite_store *self, sqlite3_stmt *stmt, const char *doing, dibs_err *err);
/* Step to the first row. NOT_FOUND: there is none. UNAVAILABLE also when stmt is NULL. */
dibs_status sqlite_find(struct sqlite_store *self, sqlite3_stmt *stmt, const char *doing, dibs_err *err);

/* records.c */
/* Fill a record from a row of all its columns. False: a column was not valid, and reads as 0 or "". */
bool sqlite_load(sqlite3_stmt *stmt, enum record_kind kind, void *record);
/* The same for a claim; a damaged one is flagged and made harmless. */
void sqlite_load_claim(sqlite3_stmt *stmt, struct claim_record *row);
/* Find a damaged claim's port and bindings in its slots. Port 0: unknown. */
dibs_status sqlite_find_place(struct sqlite_store *self, dibs_claim *claim, dibs_err *err);
/* The same as sqlite_load() for a slot; false: not usable, it blocks nothing. */
bool sqlite_load_slot(sqlite3_stmt *stmt, struct ledger_slot *out);
dibs_status sqlite_get(struct store *store, enum record_kind kind, void *record, dibs_err *err);
dibs_status sqlite_put(struct store *store, enum record_kind kind, const void *record, dibs_err *err);
dibs_status sqlite_erase(struct store *store, enum record_kind kind, const void *record, dibs_err *err);
/* Copy a row of another ledger unchanged. A row that violates the constraints of the table is skipped. */
dibs_status sqlite_copy(struct sqlite_store *self, enum record_kind kind, sqlite3_stmt *from, dibs_err *err);

static inline struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *) store;
}

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
