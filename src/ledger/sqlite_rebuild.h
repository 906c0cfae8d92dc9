/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_SQLITE_REBUILD_H
#define DIBS_LEDGER_SQLITE_REBUILD_H
/* What the files of the rebuild share: sqlite_copy.c makes the copy that is read, sqlite_rebuild.c saves the
 * rows, sqlite_swap.c changes the names. */
#include "ledger/sqlite.h"

enum { REBUILD_PATH_BYTES = 1024, REBUILD_SUFFIXES = 3 };
extern const char *const rebuild_suffixes[REBUILD_SUFFIXES]; /* of the files of one ledger; the first is "" */

struct rebuild {
    struct sqlite_rows damaged; /* the private copy; no ledger of its own */
    struct sqlite_rows live;    /* holds the damaged one */
    bool is_held;
    bool is_marked;  /* its header is that of a ledger, or says nothing */
    bool is_resumed; /* a rebuild before was killed while it changed the names */
    char path[REBUILD_PATH_BYTES];
    char source[REBUILD_PATH_BYTES];   /* where the damaged one lies: there, or set aside already */
    char dir[REBUILD_PATH_BYTES];      /* that it lies in */
    char work[REBUILD_PATH_BYTES];     /* the private directory */
    char new_path[REBUILD_PATH_BYTES]; /* in it */
    char name[REBUILD_PATH_BYTES];     /* of the damaged one, afterwards */
    struct rows *rows;                 /* the new ledger */
    const struct ledger_actor *actor;
    struct sqlite_keeper keeper;
    uint64_t highest; /* of all ids and event numbers seen */
    uint64_t cursor;
    bool lost_some;
    size_t n_saved, n_lost;
    dibs_err *err;
};

/* FAILURE with errno's text. */
dibs_status rebuild_os_error(const struct rebuild *r, const char *doing);
dibs_status rebuild_join(char out[REBUILD_PATH_BYTES], const char *a, const char *b);
/* Copies a file that may not be there. */
dibs_status rebuild_copy(const struct rebuild *r, const char *from, const char *to);
dibs_status rebuild_open_copy(struct rebuild *r);
/* Is there, in the ledger's place, a note of a rebuild that was killed? Then source and name are what it was
 * about. */
void rebuild_resume(struct rebuild *r);
/* Closes the new ledger: everything in the one file, on disk, with the old one's owner and mode. */
dibs_status rebuild_finish(struct rebuild *r);
/* Puts it in the damaged one's place, whose name is r->name then, and lets the hold go. */
dibs_status rebuild_swap(struct rebuild *r);
#endif
