/* SPDX-License-Identifier: MIT */
#include "ledger/mru.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

/* Some 10,000 records: with the usual lifetime more than a machine can use up. */
enum { FILE_MAX_BYTES = 1 << 20, LINE_MAX_BYTES = 192, PATH_BYTES = 1024, LOCK_PAUSE_NS = 2000000 };

/* ---- records ---- */

/* The next field: ends at a blank or at the end, 1 to size - 1 printable bytes. */
static bool take_field(const char **at, const char *end, char *out, size_t size)
{
    const char *p = *at;
    size_t n = 0;

    for (; p < end && *p != ' '; p++) {
        if (*p <= 0x20 || *p >= 0x7f || n + 1 >= size)
            return false;
        out[n++] = *p;
    }
    out[n] = '\0';
    *at = p < end ? p + 1 : NULL; /* NULL: that was the last */
    return n > 0;
}

static bool parse_ms(const char *text, int64_t *out)
{
    int64_t value = 0;

    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, (int64_t) 10, &value) ||
            __builtin_add_overflow(value, (int64_t) (*p - '0'), &value))
            return false;
    *out = value;
    return true;
}

bool mru_record_parse(const char *line, size_t len, struct mru_record *out)
{
    enum { VERSION, PROTO, ADDRESS, PORT, USED, FIELDS };
    char field[FIELDS][DIBS_ADDRESS_TEXT_MAX + 1];
    struct mru_record record = { .port = 0 };
    dibs_address address[2];
    const char *at = line;
    size_t n = 0;

    for (size_t i = 0; i < FIELDS; i++)
        if (!at || !take_field(&at, line + len, field[i], sizeof field[i]))
            return false;
    if (!at || !take_field(&at, line + len, record.boot_id, sizeof record.boot_id))
        return false;
    if (!at || !take_field(&at, line + len, record.instance, sizeof record.instance) || at)
        return false;
    if (strcmp(field[VERSION], "v1") != 0 ||
        dibs_proto_parse(field[PROTO], &record.binding.proto, NULL) != DIBS_OK ||
        dibs_address_parse(field[ADDRESS], address, &n, NULL) != DIBS_OK || n != 1 ||
        dibs_port_parse(field[PORT], &record.port, NULL) != DIBS_OK ||
        !parse_ms(field[USED], &record.used_ms))
        return false;
    record.binding.address = address[0];
    *out = record;
    return true;
}

/* A field must not be empty or break the line: what people pass as an instance is theirs. */
static const char *plain(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; text[n] && n + 1 < size; n++)
        out[n] = (char) (text[n] <= 0x20 || text[n] >= 0x7f ? '_' : text[n]);
    if (n == 0)
        out[n++] = '-';
    out[n] = '\0';
    return out;
}

void mru_record_format(const struct mru_record *record, char out[192])
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1];
    char boot_id[sizeof record->boot_id];
    char instance[sizeof record->instance];

    dibs_address_format(&record->binding.address, address);
    (void) snprintf(out, LINE_MAX_BYTES, "v1 %s %s %u %" PRId64 " %s %s\n",
                    dibs_proto_text(record->binding.proto), address, record->port, record->used_ms,
                    plain(record->boot_id, boot_id, sizeof boot_id),
                    plain(record->instance, instance, sizeof instance));
}

/* ---- where the file lies ---- */

struct mru {
    const char *path;
    const struct mru_want *want;
    int64_t deadline_ms;
    int dir; /* fd of its directory: nothing is looked up by path after it was checked */
    int lock;
    char base[256]; /* the file's name in it */
    struct mru_record *record;
    size_t n, cap;
    dibs_err *err;
};

static void mru_auto(struct mru *m)
{
    fd_auto(&m->lock); /* closing ends the flock */
    fd_auto(&m->dir);
    free(m->record);
}

static dibs_status unusable(const struct mru *m, int os_errno, const char *doing)
{
    char text[128];
    dibs_trouble why = os_errno == ENOENT || os_errno == ENOTDIR ? DIBS_TROUBLE_MISSING
                       : os_errno == ENOSPC || os_errno == EDQUOT || os_errno == EFBIG
                           ? DIBS_TROUBLE_FULL
                           : DIBS_TROUBLE_UNWRITABLE;

    (void) err_trouble(m->err, why, "recently used ports %s: %s: %s", m->path, doing,
                       strerror_r(os_errno, text, sizeof text));
    if (m->err)
        m->err->os_errno = os_errno;
    return DIBS_UNAVAILABLE;
}

static dibs_status unsafe(const struct mru *m, const char *what)
{
    return err_trouble(m->err, DIBS_TROUBLE_UNWRITABLE, "recently used ports %s: %s; it is not used", m->path,
                       what);
}

/* Nobody else may put a file or a link where ours is expected: the directory is ours alone to write, and
 * whoever may write the one above cannot swap it (sticky, as /tmp is). */
static dibs_status check_directory(const struct mru *m)
{
    struct stat here = { 0 };
    struct stat above = { 0 };

    if (fstat(m->dir, &here) != 0 || fstatat(m->dir, "..", &above, AT_SYMLINK_NOFOLLOW) != 0)
        return unusable(m, errno, "cannot look at its directory");
    if (here.st_uid != geteuid())
        return unsafe(m, "its directory belongs to somebody else");
    if (here.st_mode & (S_IWGRP | S_IWOTH))
        return unsafe(m, "others may write to its directory");
    if ((above.st_mode & (S_IWGRP | S_IWOTH)) && !(above.st_mode & S_ISVTX))
        return unsafe(m, "others may replace its directory");
    return DIBS_OK;
}

static dibs_status open_directory(struct mru *m)
{
    char dir[PATH_BYTES];

    if (!text_copy(dir, sizeof dir, m->path))
        return err_set(m->err, DIBS_INVALID, "recently used ports: the path is longer than %d bytes",
                       PATH_BYTES - 1);
    char *slash = strrchr(dir, '/');
    if (!text_copy(m->base, sizeof m->base - 8, slash ? slash + 1 : dir) || !m->base[0])
        return err_set(m->err, DIBS_INVALID, "recently used ports %s: not a file's name", m->path);
    if (!slash)
        (void) text_copy(dir, sizeof dir, ".");
    else
        slash[slash == dir ? 1 : 0] = '\0';
    for (char *p = dir + 1; slash && p <= slash; p++) {
        char end = *p;

        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        if (mkdir(dir, 0700) != 0 && errno != EEXIST)
            return unusable(m, errno, "cannot make its directory");
        *p = end;
    }
    m->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return m->dir >= 0 ? check_directory(m) : unusable(m, errno, "cannot open its directory");
}

static int open_in(const struct mru *m, const char *suffix, int flags)
{
    char name[sizeof m->base + 8];

    (void) snprintf(name, sizeof name, "%s%s", m->base, suffix);
    return openat(m->dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
}

static dibs_status take_lock(struct mru *m)
{
    struct stat st = { 0 };

    m->lock = open_in(m, ".lock", O_RDWR | O_CREAT);
    if (m->lock < 0 || fstat(m->lock, &st) != 0)
        return unusable(m, errno, "cannot open its lock");
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return unsafe(m, "its lock is not a file of ours");
    while (flock(m->lock, LOCK_EX | LOCK_NB) != 0) {
        struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };

        if (errno != EWOULDBLOCK && errno != EINTR)
            return unusable(m, errno, "cannot lock it");
        if (clock_monotonic_ms() >= m->deadline_ms)
            return err_trouble(m->err, DIBS_TROUBLE_LOCKED,
                               "recently used ports %s: another process holds its lock", m->path);
        (void) nanosleep(&pause, NULL);
    }
    return DIBS_OK;
}

/* ---- reading ---- */

static bool is_current(const struct mru *m, const struct mru_record *record)
{
    int64_t age = m->want->now.boot_ms - record->used_ms;

    /* Somewhat in the future: taken while we waited for the lock. Far in it: not written by us. */
    return strcmp(record->boot_id, m->want->boot_id) == 0 && age < m->want->lifetime_ms &&
           -age < m->want->lifetime_ms;
}

static bool add(struct mru *m, const struct mru_record *record)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        struct mru_record *bigger = reallocarray(m->record, cap, sizeof *bigger);

        if (!bigger)
            return false;
        m->record = bigger;
        m->cap = cap;
    }
    m->record[m->n++] = *record;
    return true;
}

static dibs_status read_lines(struct mru *m, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *line = text + at;
        const char *newline = memchr(line, '\n', n - at);
        size_t len = newline ? (size_t) (newline - line) : n - at;
        struct mru_record record;

        at += len + 1;
        /* A line without its newline was cut: its number may be, too. */
        if (!newline || !mru_record_parse(line, len, &record) || !is_current(m, &record))
            continue;
        if (!add(m, &record))
            return err_set(m->err, DIBS_FAILURE, "recently used ports: out of memory");
    }
    return DIBS_OK;
}

static dibs_status read_text(struct mru *m, int fd, off_t size, char *text)
{
    off_t from = size > FILE_MAX_BYTES ? size - FILE_MAX_BYTES : 0;
    size_t want = (size_t) (size - from);
    size_t n = 0;
    size_t skip = 0;

    while (n < want) {
        ssize_t got = pread(fd, text + n, want - n, from + (off_t) n);

        if (got < 0)
            return unusable(m, errno, "cannot read it");
        if (got == 0)
            break;
        n += (size_t) got;
    }
    if (from > 0) { /* the first line is cut; the newest are at the end */
        const char *newline = memchr(text, '\n', n);

        skip = newline ? (size_t) (newline - text) + 1 : n;
    }
    return read_lines(m, text + skip, n - skip);
}

static dibs_status read_file(struct mru *m)
{
    AUTO(fd_auto) int fd = open_in(m, "", O_RDONLY);
    struct stat st = { 0 };

    if (fd < 0 && errno == ENOENT)
        return DIBS_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        return unusable(m, errno, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return unsafe(m, "it is not a regular file");
    char *text = malloc(FILE_MAX_BYTES);
    if (!text)
        return err_set(m->err, DIBS_FAILURE, "recently used ports: out of memory");
    dibs_status s = read_text(m, fd, st.st_size, text);
    free(text);
    return s;
}

/* ---- choosing ---- */

static void remove_recorded(const struct mru *m, struct portbits *choosable)
{
    const dibs_claim *claim = m->want->claim;

    for (size_t i = 0; i < m->n; i++)
        for (size_t b = 0; b < claim->n_bindings; b++)
            if (m->record[i].binding.proto == claim->bindings[b].proto &&
                dibs_address_conflict(&m->record[i].binding.address, &claim->bindings[b].address))
                portbits_remove(choosable, m->record[i].port);
}

static bool record_port(struct mru *m, uint16_t port)
{
    const struct mru_want *want = m->want;
    struct mru_record record = { .port = port, .used_ms = want->now.boot_ms };
    bool is_ok = true;

    (void) text_copy(record.boot_id, sizeof record.boot_id, want->boot_id);
    (void) text_copy(record.instance, sizeof record.instance, want->instance ? want->instance : "");
    for (size_t i = 0; i < want->claim->n_bindings && is_ok; i++) {
        record.binding = want->claim->bindings[i];
        is_ok = add(m, &record);
    }
    return is_ok;
}

/* The k-th port that may be chosen: a start that favours none of them. */
static uint32_t start_at(const struct portbits *choosable, uint64_t entropy)
{
    uint32_t count = portbits_count(choosable);
    uint64_t k = count ? entropy % count : 0;
    uint32_t port = 1;

    for (; port < DIBS_PORT_MAX; port++)
        if (portbits_has(choosable, (uint16_t) port) && k-- == 0)
            break;
    return port - 1;
}

static dibs_status choose(struct mru *m, uint16_t *out)
{
    const struct mru_want *want = m->want;
    struct portbits left = *want->choosable;
    uint32_t start = start_at(&left, want->entropy);
    size_t n = 0;

    remove_recorded(m, &left);
    for (uint32_t i = 0; i < DIBS_PORT_MAX && n < want->n; i++) {
        uint16_t port = (uint16_t) ((start + i) % DIBS_PORT_MAX + 1);

        if (!portbits_has(&left, port))
            continue;
        if (clock_monotonic_ms() >= m->deadline_ms)
            return err_trouble(m->err, DIBS_TROUBLE_LOCKED,
                               "recently used ports %s: no time left to look for a port", m->path);
        enum ledger_probe found = want->probe(want->probe_ctx, want->claim, port, m->err);
        if (found == LEDGER_PROBE_ABORT)
            return m->err && m->err->code != DIBS_OK ? m->err->code : DIBS_FAILURE;
        if (found == LEDGER_PROBE_BUSY)
            continue;
        if (!record_port(m, port))
            return err_set(m->err, DIBS_FAILURE, "recently used ports: out of memory");
        out[n++] = port;
    }
    if (n < want->n)
        return err_set(m->err, DIBS_EXHAUSTED, "only %zu of %zu ports are free and were not used recently", n,
                       want->n);
    return DIBS_OK;
}

/* ---- writing ---- */

static dibs_status write_all(const struct mru *m, int fd, const char *text, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, text + done, n - done);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return unusable(m, errno, "cannot write it");
        done += (size_t) put;
    }
    return fsync(fd) == 0 ? DIBS_OK : unusable(m, errno, "cannot write it");
}

/* The newest records that fit, oldest first; the length. `text` has room for one line more. */
static size_t format_all(const struct mru *m, char *text)
{
    char line[LINE_MAX_BYTES];
    size_t bytes = 0;
    size_t first = m->n;
    size_t used = 0;

    for (; first > 0; first--) {
        mru_record_format(&m->record[first - 1], line);
        if (bytes + strlen(line) > FILE_MAX_BYTES)
            break;
        bytes += strlen(line);
    }
    for (size_t i = first; i < m->n; i++) {
        mru_record_format(&m->record[i], text + used);
        used += strlen(text + used);
    }
    return used;
}

static dibs_status write_file(const struct mru *m)
{
    char name[sizeof m->base + 8];

    (void) snprintf(name, sizeof name, "%s.tmp", m->base);
    (void) unlinkat(m->dir, name, 0); /* of one that died here; we hold the lock */
    AUTO(fd_auto) int fd = open_in(m, ".tmp", O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return unusable(m, errno, "cannot write beside it");
    char *text = malloc(FILE_MAX_BYTES + LINE_MAX_BYTES);
    if (!text)
        return err_set(m->err, DIBS_FAILURE, "recently used ports: out of memory");
    dibs_status s = write_all(m, fd, text, format_all(m, text));
    free(text);
    if (s == DIBS_OK && renameat(m->dir, name, m->dir, m->base) != 0)
        s = unusable(m, errno, "cannot replace it");
    if (s != DIBS_OK)
        (void) unlinkat(m->dir, name, 0);
    return s;
}

static dibs_status choose_and_write(struct mru *m, uint16_t *out)
{
    uint16_t *chosen = calloc(m->want->n, sizeof *chosen);

    if (!chosen)
        return err_set(m->err, DIBS_FAILURE, "recently used ports: out of memory");
    dibs_status s = choose(m, chosen);
    if (s == DIBS_OK)
        s = write_file(m);
    if (s == DIBS_OK)
        memcpy(out, chosen, m->want->n * sizeof *out);
    free(chosen);
    return s;
}

dibs_status mru_claim(const char *path, const struct mru_want *want, uint16_t *out, dibs_err *err)
{
    AUTO(mru_auto)
    struct mru m = {
        .path = path,
        .want = want,
        .deadline_ms = clock_monotonic_ms() + want->timeout_ms,
        .dir = -1,
        .lock = -1,
        .err = err,
    };

    if (want->n == 0)
        return DIBS_OK;
    if (want->n > DIBS_PORT_MAX)
        return err_set(err, DIBS_EXHAUSTED, "there are no %zu ports", want->n);
    dibs_status s = open_directory(&m);
    if (s == DIBS_OK)
        s = take_lock(&m);
    if (s == DIBS_OK)
        s = read_file(&m);
    return s == DIBS_OK ? choose_and_write(&m, out) : s;
}
