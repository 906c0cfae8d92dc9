/* SPDX-License-Identifier: MIT */
/* Check and resolve the path of a SQLite ledger. */
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
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

const char *sqlite_uri(const char *path, char out[SQLITE_URI_BYTES])
{
    size_t n = (size_t) snprintf(out, SQLITE_URI_BYTES, "file:");

    for (; *path; path++) {
        bool is_plain = *path != '%' && *path != '?' && *path != '#';

        n += (size_t) snprintf(out + n, SQLITE_URI_BYTES - n, is_plain ? "%c" : "%%%02x",
                               (unsigned char) *path);
    }
    (void) snprintf(out + n, SQLITE_URI_BYTES - n, "?immutable=1");
    return out;
}

void sqlite_resolve(char path[1024])
{
    AUTO(free_auto) char *resolved = realpath(path, NULL);

    if (resolved && strlen(resolved) < 1024)
        (void) text_copy(path, 1024, resolved);
}

void sqlite_directory(const char *path, char dir[1024])
{
    const char *slash = strrchr(path, '/');

    (void) text_copy(dir, 1024, slash ? path : ".");
    if (slash)
        dir[slash == path ? 1 : slash - path] = '\0';
}

static dibs_status make_parents(const struct sqlite_store *self, char dir[1024], dibs_err *err)
{
    struct stat st;

    sqlite_directory(self->path, dir);
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

/* Refuse a dangling link: the ledger would be made in a place that the user has not named. */
static dibs_status refuse_dangling(const struct sqlite_store *self, dibs_err *err)
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
 * needs shared memory. FUSE cannot be distinguished from sshfs, so it counts as one of them. */
static dibs_status refuse_remote(const struct sqlite_store *self, const char *dir, dibs_err *err)
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

dibs_status sqlite_prepare_place(const struct sqlite_store *self, char dir[1024], dibs_err *err)
{
    dibs_status s = refuse_dangling(self, err);

    if (s == DIBS_OK)
        s = make_parents(self, dir, err);
    return s == DIBS_OK ? refuse_remote(self, dir, err) : s;
}
