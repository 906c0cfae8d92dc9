/* SPDX-License-Identifier: MIT */
/* Where a SQLite ledger may lie, and what its place is called. */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

const char *sqlite_uri(const char *path, const char *parameters, char out[SQLITE_URI_BYTES])
{
    size_t n = (size_t) snprintf(out, SQLITE_URI_BYTES, "file:");

    for (; *path; path++) {
        bool is_plain = *path != '%' && *path != '?' && *path != '#';

        n += (size_t) snprintf(out + n, SQLITE_URI_BYTES - n, is_plain ? "%c" : "%%%02x",
                               (unsigned char) *path);
    }
    (void) snprintf(out + n, SQLITE_URI_BYTES - n, "?%s", parameters);
    return out;
}

void sqlite_resolve(char path[1024])
{
    AUTO(free_auto) char *resolved = realpath(path, NULL);

    if (resolved && strlen(resolved) < 1024)
        (void) text_copy(path, 1024, resolved);
}

dibs_status sqlite_make_parents(const struct sqlite_rows *self, char dir[1024], dibs_err *err)
{
    const char *slash = strrchr(self->path, '/');

    (void) text_copy(dir, 1024, slash ? self->path : ".");
    if (!slash)
        return DIBS_OK;
    dir[slash == self->path ? 1 : slash - self->path] = '\0';
    struct stat st;
    if (stat(dir, &st) == 0)
        return DIBS_OK;
    for (char *p = dir + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;

        *p = '\0';
        if (mkdir(dir, 0700) != 0 && errno != EEXIST)
            return sqlite_os_error(self, "cannot make its directory", errno, err);
        *p = end;
        if (end == '\0')
            return DIBS_OK;
    }
}

/* Made through the link it would be somewhere that nobody has named. */
dibs_status sqlite_refuse_dangling(const struct sqlite_rows *self, dibs_err *err)
{
    struct stat st = { 0 };

    if (lstat(self->path, &st) != 0 || !S_ISLNK(st.st_mode) || stat(self->path, &st) == 0 || errno != ENOENT)
        return DIBS_OK;
    return err_trouble(
        err, DIBS_TROUBLE_MISSING,
        "ledger %s: it is a symbolic link to something that is not there; make that, or remove "
        "the link",
        self->path);
}

/* File systems that several hosts may share: another host's boot id would look like our dead past, and WAL
 * needs shared memory. FUSE cannot be told from sshfs, so it counts as one of them. */
dibs_status sqlite_refuse_remote(const struct sqlite_rows *self, const char *dir, dibs_err *err)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } remote[] = {
        { NFS_SUPER_MAGIC, "NFS" },   { SMB_SUPER_MAGIC, "SMB" },     { 0xff534d42ul, "CIFS" },
        { 0xfe534d42ul, "SMB2" },     { CODA_SUPER_MAGIC, "Coda" },   { AFS_SUPER_MAGIC, "AFS" },
        { AFS_FS_MAGIC, "AFS" },      { CEPH_SUPER_MAGIC, "Ceph" },   { V9FS_MAGIC, "9p" },
        { FUSE_SUPER_MAGIC, "FUSE" }, { OCFS2_SUPER_MAGIC, "OCFS2" }, { 0x01161970ul, "GFS2" },
        { 0x0bd00bd0ul, "Lustre" },   { 0x47504653ul, "GPFS" },       { 0x19830326ul, "BeeGFS" },
    };
    struct statfs fs;

    if (statfs(dir, &fs) != 0)
        return sqlite_os_error(self, "cannot look at its file system", errno, err);
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++)
        if ((unsigned long) fs.f_type == remote[i].magic)
            return err_trouble(
                err, DIBS_TROUBLE_REMOTE,
                "ledger %s: it lies on a network file system (%s), which other hosts may share; "
                "name a local place with DIBS_LEDGER",
                self->path, remote[i].name);
    return DIBS_OK;
}
