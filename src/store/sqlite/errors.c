/* SPDX-License-Identifier: MIT */
/* Translate SQLite's codes and errno into our errors. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

/* Is it a state of this process or machine, and not of the ledger? */
static bool is_passing(int os_errno)
{
    return os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOMEM || os_errno == EIO;
}

static dibs_trouble trouble_of(int rc, int os_errno)
{
    if (((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) && is_passing(os_errno))
        return DIBS_TROUBLE_NONE;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_PROTOCOL: /* a process was stopped while it held a lock of the log's index */
    case SQLITE_LOCKED: return DIBS_TROUBLE_LOCKED;
    case SQLITE_FULL: return DIBS_TROUBLE_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return DIBS_TROUBLE_DAMAGED;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return DIBS_TROUBLE_UNWRITABLE;
    default: break;
    }
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return DIBS_TROUBLE_FULL;
    case EACCES:
    case EPERM:
    case EROFS: return DIBS_TROUBLE_UNWRITABLE;
    case ENOENT:
    case ENOTDIR: return DIBS_TROUBLE_MISSING;
    default: return (rc & 0xff) == SQLITE_CANTOPEN ? DIBS_TROUBLE_UNWRITABLE : DIBS_TROUBLE_NONE;
    }
}

const char *sqlite_advice(dibs_trouble trouble)
{
    switch (trouble) {
    case DIBS_TROUBLE_LOCKED:
        return "another process holds it; look for a stopped one with 'fuser -v' on the file";
    case DIBS_TROUBLE_FULL: return "free some space, or name another place with DIBS_LEDGER";
    case DIBS_TROUBLE_DAMAGED:
        return "run 'dibs doctor --fix': it is set aside and rebuilt from what is readable";
    case DIBS_TROUBLE_UNWRITABLE: return "make it writable for you, or name another place with DIBS_LEDGER";
    case DIBS_TROUBLE_MISSING: return "create its directory, or name another place with DIBS_LEDGER";
    case DIBS_TROUBLE_NONE:
    case DIBS_TROUBLE_NEWER:
    case DIBS_TROUBLE_REMOTE: break;
    }
    return "see 'dibs doctor'";
}

dibs_status sqlite_error_of(const struct sqlite_store *self, int rc, int os_errno, const char *doing,
                            dibs_err *err)
{
    dibs_trouble trouble = trouble_of(rc, os_errno);
    const char *text = self->db ? sqlite3_errmsg(self->db) : sqlite3_errstr(rc);

    (void) err_trouble(err, trouble, "ledger %s: %s: %s (SQLite %d); %s", self->path, doing, text, rc,
                       sqlite_advice(trouble));
    if (err)
        err->os_errno = os_errno;
    return DIBS_UNAVAILABLE;
}

dibs_status sqlite_error(struct sqlite_store *self, int rc, const char *doing, dibs_err *err)
{
    return sqlite_error_of(self, rc, self->db ? sqlite3_system_errno(self->db) : 0, doing, err);
}

dibs_status sqlite_os_error(const struct sqlite_store *self, const char *doing, int os_errno, dibs_err *err)
{
    dibs_trouble trouble = trouble_of(SQLITE_OK, os_errno);
    char text[128];

    (void) err_trouble(err, trouble, "ledger %s: %s: %s; %s", self->path, doing,
                       strerror_r(os_errno, text, sizeof text), sqlite_advice(trouble));
    if (err)
        err->os_errno = os_errno;
    return DIBS_UNAVAILABLE;
}

dibs_status sqlite_damaged(const struct sqlite_store *self, const char *what, dibs_err *err)
{
    return err_trouble(err, DIBS_TROUBLE_DAMAGED, "ledger %s: it is damaged (%s); %s", self->path, what,
                       sqlite_advice(DIBS_TROUBLE_DAMAGED));
}
