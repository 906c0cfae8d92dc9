/* SPDX-License-Identifier: MIT */
#include "runs/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/text.h"
#include "host/process.h"

#include "base/banned.h"

#define FORMAT "dibs-run 1\n"
#define MARK ".stop"

enum { STALE_S = 60 }; /* a file without a whole record is still being written, or older than this */

/* ---- places ---- */

static bool is_absolute(const char *path)
{
    return path && path[0] == '/';
}

/* Where the user's state is: as the default ledger, but XDG_STATE_HOME counts for root, too. */
static bool state_directory(char *out, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = -1;

    if (is_absolute(state))
        n = snprintf(out, size, "%s/dibs", state);
    else if (geteuid() == 0)
        n = snprintf(out, size, "/var/lib/dibs");
    else if (is_absolute(home))
        n = snprintf(out, size, "%s/.local/state/dibs", home);
    return n > 0 && (size_t) n < size;
}

dibs_status run_directory(const char *project, char *out, size_t size, dibs_err *err)
{
    char state[PATH_MAX];
    size_t len = strlen(project);
    uint64_t first = hash_fnv1a(HASH_FNV_BASIS, project, len);
    uint64_t second = hash_fnv1a(hash_fnv1a(first, "/", 1), project, len);

    if (!state_directory(state, sizeof state))
        return err_set(err, DIBS_NOT_FOUND, "there is no place for a note of it: set HOME or XDG_STATE_HOME");
    int n = snprintf(out, size, "%s/runs/%016llx%016llx", state, (unsigned long long) first,
                     (unsigned long long) second);
    return n > 0 && (size_t) n < size ? DIBS_OK
                                      : err_set(err, DIBS_NOT_FOUND, "the path of the state is too long");
}

dibs_status run_id(char out[RUN_ID_MAX + 1], dibs_err *err)
{
    unsigned char bytes[RUN_ID_MAX / 2];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t) sizeof bytes)
        return err_os(err, DIBS_FAILURE, errno, "cannot make a random number");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return DIBS_OK;
}

static bool is_id(const char *name)
{
    return strlen(name) == RUN_ID_MAX && strspn(name, "0123456789abcdef") == RUN_ID_MAX;
}

static void path_of(const char *directory, const char *id, const char *suffix, char out[PATH_MAX])
{
    (void) snprintf(out, PATH_MAX, "%s/%s%s", directory, id, suffix);
}

/* Make the directory and those above it, for this user alone. */
static bool make_directory(const char *directory)
{
    char path[PATH_MAX];

    if (mkdir(directory, 0700) == 0 || errno == EEXIST)
        return true;
    if (errno != ENOENT || !text_copy(path, sizeof path, directory))
        return false;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(directory, 0700) == 0 || errno == EEXIST;
}

/* ---- text ---- */

static int write_process(char *out, size_t size, const char *key, const dibs_process *process)
{
    return snprintf(out, size, "%s %s %llu %d %llu\n", key, process->boot_id,
                    (unsigned long long) process->pidns, process->pid,
                    (unsigned long long) process->start_ticks);
}

static size_t write_text(const struct run_record *record, char out[RUN_RECORD_MAX])
{
    size_t n = (size_t) snprintf(out, RUN_RECORD_MAX, FORMAT);

    n += (size_t) write_process(out + n, RUN_RECORD_MAX - n, "process", &record->process);
    n += (size_t) write_process(out + n, RUN_RECORD_MAX - n, "runner", &record->runner);
    n += (size_t) snprintf(out + n, RUN_RECORD_MAX - n, "group %d\ntitle %s\n", record->is_group,
                           record->title);
    return n;
}

/* Cut "KEY VALUE" off the text; NULL: the next line is another one. */
static char *take_line(char **text, const char *key)
{
    size_t n = strlen(key);
    char *line = *text;
    char *end = strchr(line, '\n');

    if (!end || strncmp(line, key, n) != 0 || line[n] != ' ')
        return NULL;
    *end = '\0';
    *text = end + 1;
    return line + n + 1;
}

static bool number(const char *word, uint64_t max, uint64_t *out)
{
    return word && text_number(word, strlen(word), max, out);
}

static bool take_process(char **text, const char *key, dibs_process *out)
{
    char *rest = take_line(text, key);
    const char *boot = rest ? strsep(&rest, " ") : NULL;
    const char *pidns = rest ? strsep(&rest, " ") : NULL;
    const char *pid = rest ? strsep(&rest, " ") : NULL;
    uint64_t value = 0;

    if (!boot || !text_is_boot_id(boot) || !number(pidns, UINT64_MAX, &out->pidns) ||
        !number(pid, INT32_MAX, &value) || value == 0 || !number(rest, UINT64_MAX, &out->start_ticks))
        return false;
    out->pid = (int32_t) value;
    return text_copy(out->boot_id, sizeof out->boot_id, boot);
}

bool run_record_parse(const char *text, size_t len, struct run_record *out)
{
    char copy[RUN_RECORD_MAX];
    struct run_record record = { .id = "" };
    char *rest = copy + strlen(FORMAT);

    if (len >= sizeof copy || memchr(text, '\0', len))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strncmp(copy, FORMAT, strlen(FORMAT)) != 0 || !take_process(&rest, "process", &record.process) ||
        !take_process(&rest, "runner", &record.runner))
        return false;
    const char *group = take_line(&rest, "group");
    const char *title = take_line(&rest, "title");
    if (!group || !title || *rest || (strcmp(group, "0") != 0 && strcmp(group, "1") != 0))
        return false;
    record.is_group = group[0] == '1';
    if (!text_copy(record.title, sizeof record.title, title))
        return false;
    *out = record;
    return true;
}

/* ---- files ---- */

static dibs_status write_file(const char *directory, const char *id, const char *suffix, const char *text,
                              size_t len, dibs_err *err)
{
    char path[PATH_MAX];

    path_of(directory, id, suffix, path);
    AUTO(fd_auto) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT && make_directory(directory)) /* another run may just have removed it */
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot write %.300s", path);
    if (write(fd, text, len) == (ssize_t) len)
        return DIBS_OK;
    int why = errno;
    (void) unlink(path);
    return err_os(err, DIBS_FAILURE, why, "cannot write %.300s", path);
}

dibs_status run_record_write(const char *directory, struct run_record *record, pid_t pid, dibs_err *err)
{
    struct process_view view;
    struct process_facts facts;
    char text[RUN_RECORD_MAX];
    dibs_status s = process_view_load(&view, err);

    if (s == DIBS_OK)
        s = process_identify(&view, pid, &facts, err);
    if (s != DIBS_OK)
        return s;
    record->process = facts.process;
    s = process_identify(&view, getpid(), &facts, err);
    if (s != DIBS_OK)
        return s;
    record->runner = facts.process;
    return write_file(directory, record->id, "", text, write_text(record, text), err);
}

void run_record_remove(const char *directory, const char *id)
{
    char path[PATH_MAX];

    path_of(directory, id, MARK, path);
    (void) unlink(path);
    path_of(directory, id, "", path);
    (void) unlink(path);
}

dibs_status run_record_mark(const char *directory, const char *id, dibs_err *err)
{
    dibs_status s = write_file(directory, id, MARK, "", 0, err);

    return s != DIBS_OK && run_record_is_marked(directory, id) ? DIBS_OK : s;
}

static bool is_there(const char *directory, const char *id, const char *suffix)
{
    char path[PATH_MAX];

    path_of(directory, id, suffix, path);
    return access(path, F_OK) == 0;
}

bool run_record_is_marked(const char *directory, const char *id)
{
    return is_there(directory, id, MARK);
}

bool run_record_is_there(const char *directory, const char *id)
{
    return is_there(directory, id, "");
}

static bool is_of(const dibs_process *process, const struct process_view *view)
{
    return strcmp(process->boot_id, view->boot_id) == 0 && process->pidns == view->pidns;
}

/* Read one file. Remove it if nobody can use it any more: it is of an earlier boot of this host, or has been
 * without a whole record for a while. (In a shared home it may belong to another host, which has another
 * boot id, too: a file of this day stays.) */
static bool read_record(const struct process_view *view, int dir, const char *id, struct run_record *out)
{
    enum { DAY_S = 24 * 60 * 60 };
    AUTO(fd_auto) int fd = openat(dir, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[RUN_RECORD_MAX];
    struct stat st = { 0 };
    struct timespec now = { 0 };

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    ssize_t n = read(fd, text, sizeof text);
    bool is_whole = n > 0 && run_record_parse(text, (size_t) n, out);
    if (is_whole && is_of(&out->process, view))
        return text_copy(out->id, sizeof out->id, id);
    (void) clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec - st.st_mtime > (is_whole ? DAY_S : STALE_S))
        (void) unlinkat(dir, id, 0);
    return false;
}

dibs_status run_records_list(const char *directory, struct run_record **out, size_t *n, dibs_err *err)
{
    AUTO(free_auto) struct run_record *all = NULL;
    struct process_view view;
    size_t max = 0;
    dibs_status s = process_view_load(&view, err);

    *n = 0;
    *out = NULL;
    if (s != DIBS_OK)
        return s;
    DIR *dir = opendir(directory);
    if (!dir)
        return errno == ENOENT ? DIBS_OK : err_os(err, DIBS_FAILURE, errno, "cannot read %.300s", directory);
    for (const struct dirent *entry = readdir(dir); entry && *n < RUN_RECORDS_MAX; entry = readdir(dir)) {
        if (!is_id(entry->d_name))
            continue;
        if (!grow((void **) &all, *n, &max, sizeof *all)) {
            (void) closedir(dir);
            return err_set(err, DIBS_FAILURE, "out of memory");
        }
        *n += read_record(&view, dirfd(dir), entry->d_name, &all[*n]);
    }
    (void) closedir(dir);
    *out = TAKE(all);
    return DIBS_OK;
}
