/* SPDX-License-Identifier: MIT */
#include "support/ledger.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger/ledger.h"

const char *t_scheme = "memory";
const char *t_given = "memory:";

void t_remove_directory(const char *path)
{
    DIR *dir = opendir(path);

    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void) unlinkat(dirfd(dir), entry->d_name, 0);
    (void) closedir(dir);
    (void) rmdir(path);
}

void t_make_directory(char out[256])
{
    const char *base = getenv("TMPDIR");

    (void) snprintf(out, 256, "%s/dibs-ledger-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(out));
}

int t_open(void **state)
{
    struct t_ledger *t = calloc(1, sizeof *t);
    const struct ledger_options options = { .timeout_ms = 5000 };

    assert_non_null(t);
    t->call = (struct call){ .now = { 1000000, 5000000 }, .uid = 1000, .pid = 10, .principal = "uid:1000" };
    t->other = (struct call){ .now = { 1000000, 5000000 }, .uid = 2000, .pid = 20, .principal = "uid:2000" };
    if (strcmp(t_scheme, "sqlite") == 0) {
        t_make_directory(t->dir);
        (void) snprintf(t->uri, sizeof t->uri, "sqlite:%s/ledger.db", t->dir);
    } else if (strcmp(t_given, "etcd:missing") == 0) {
        free(t);
        SKIP_BECAUSE("etcd-server: not installed");
    } else if (strcmp(t_scheme, "etcd") == 0) {
        static unsigned n_cases;

        (void) snprintf(t->uri, sizeof t->uri, "%s/case%u", t_given, ++n_cases);
    } else {
        (void) snprintf(t->uri, sizeof t->uri, "%s:", t_scheme);
    }
    ASSERT_OK(ledger_open(t->uri, &options, &t->ledger, &t->err), &t->err);
    *state = t;
    return 0;
}

int t_close(void **state)
{
    struct t_ledger *t = *state;

    ledger_close(t->ledger);
    if (t->dir[0])
        t_remove_directory(t->dir);
    free(t);
    return 0;
}

void t_begin(struct t_ledger *t, struct ledger *ledger)
{
    t->call.tx = t->other.tx = ledger_begin(ledger, true);
    t->shared = ledger;
}

void t_begin_unsynced(struct t_ledger *t, struct ledger *ledger)
{
    t->call.tx = t->other.tx = ledger_begin(ledger, false);
    t->shared = ledger;
}

dibs_status t_commit(struct t_ledger *t, struct ledger_span *out)
{
    struct ledger_tx *tx = t->call.tx;

    t->call.tx = t->other.tx = NULL;
    return ledger_commit(tx, out, &t->err);
}

struct call t_call(const struct t_ledger *t, const struct ledger *ledger)
{
    struct call call = t->call;

    call.tx = ledger == t->shared ? call.tx : NULL;
    return call;
}

dibs_address t_address(const char *text)
{
    dibs_address out[2] = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    ASSERT_OK(dibs_address_parse(text, out, &n, &err), &err);
    assert_int_equal(n, 1);
    return out[0];
}

struct ledger_want t_want(const char *name, const char *address)
{
    struct ledger_want want = { 0 };
    dibs_claim *c = &want.claim;

    c->kind = DIBS_STATIC;
    c->is_exclusive = true;
    c->holder = DIBS_HELD_BY_LEASE;
    c->lease_ttl_ms = 600000;
    c->uid = 1000;
    c->n_bindings = 1;
    c->bindings[0] = (dibs_binding){ .proto = DIBS_TCP, .address = t_address(address) };
    (void) snprintf(c->process.boot_id, sizeof c->process.boot_id, "%s", T_BOOT);
    (void) snprintf(c->principal, sizeof c->principal, "uid:1000");
    (void) snprintf(c->name, sizeof c->name, "%s", name ? name : "");
    (void) snprintf(c->pool, sizeof c->pool, "default");
    (void) snprintf(c->command, sizeof c->command, "test");
    return want;
}

struct ledger_want t_dynamic(const char *name, const uint16_t *candidates, size_t n)
{
    struct ledger_want want = t_want(name, "*");

    want.claim.kind = DIBS_DYNAMIC;
    want.is_choice = true;
    want.cooldown_ms = 5000;
    want.candidates = candidates;
    want.n_candidates = n;
    return want;
}

void t_by_process(struct ledger_want *want, int32_t pid)
{
    want->claim.holder = DIBS_HELD_BY_PROCESS;
    want->claim.lease_ttl_ms = 0;
    want->claim.process.pid = pid;
    want->claim.process.pidns = 77;
    want->claim.process.start_ticks = (uint64_t) pid * 100;
}

void t_kept(struct ledger_want *want)
{
    want->claim.holder = DIBS_HELD_BY_NOBODY;
    want->claim.is_kept = true;
    want->claim.lease_ttl_ms = 0;
    want->claim.process = (dibs_process){ 0 };
}

void t_of_other(struct ledger_want *want)
{
    (void) snprintf(want->claim.principal, sizeof want->claim.principal, "uid:2000");
    want->claim.uid = 2000;
}

dibs_status t_claim_over(struct t_ledger *t, const struct ledger_want *want, uint16_t port,
                         const struct ledger_seen *dead, dibs_claim *out)
{
    struct ledger_want copy = *want;
    struct ledger_batch batch = { .wants = &copy, .n = 1, .dead = dead, .n_dead = dead ? 1 : 0 };

    if (port) {
        copy.candidates = &port;
        copy.n_candidates = 1;
    }
    return ledger_claim(t->ledger, strcmp(want->claim.principal, "uid:2000") == 0 ? &t->other : &t->call,
                        &batch, out, &t->refusal, &t->err);
}

dibs_status t_claim(struct t_ledger *t, const struct ledger_want *want, uint16_t port, dibs_claim *out)
{
    return t_claim_over(t, want, port, NULL, out);
}

dibs_claim t_must(struct t_ledger *t, const struct ledger_want *want, uint16_t port)
{
    dibs_claim out = { 0 };

    ASSERT_OK(t_claim(t, want, port, &out), &t->err);
    return out;
}

struct ledger_seen t_seen(const dibs_claim *claim)
{
    return (struct ledger_seen){
        .id = claim->id,
        .generation = claim->generation,
        .lease_until_ms = claim->lease_until_ms,
    };
}

size_t t_end(struct t_ledger *t, const dibs_claim *claim, enum ledger_end_how how)
{
    struct ledger_seen seen = t_seen(claim);
    size_t n = 99;

    ASSERT_OK(ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &seen, 1, how }, &n, &t->err),
              &t->err);
    return n;
}

bool t_note_event(void *ctx, const dibs_event *event)
{
    struct t_events *events = ctx;

    if (events->n < T_EVENTS_MAX)
        events->item[events->n] = *event;
    events->n++;
    return true;
}

struct t_events t_events_since(struct t_ledger *t, uint64_t since)
{
    struct t_events events = { 0 };

    ASSERT_OK(ledger_events(t->ledger, &t->call, &(struct ledger_feed){ { since, 0, false }, NULL },
                            t_note_event, &events, &t->err),
              &t->err);
    return events;
}

uint64_t t_tail(struct t_ledger *t)
{
    uint64_t seq = 0;
    uint64_t cursor = 0;

    ASSERT_OK(ledger_tail(t->ledger, &t->call, &seq, &cursor, &t->err), &t->err);
    return seq;
}

bool t_note_claim(void *ctx, const dibs_claim *claim)
{
    struct t_ids *ids = ctx;

    if (ids->n < sizeof ids->id / sizeof ids->id[0])
        ids->id[ids->n] = claim->id;
    ids->n++;
    ids->last = *claim;
    return true;
}

struct t_ids t_list(struct t_ledger *t, struct ledger_filter filter)
{
    struct t_ids ids = { 0 };

    ASSERT_OK(ledger_list(t->ledger, &t->call, &filter, t_note_claim, &ids, &t->err), &t->err);
    return ids;
}

static bool t_copy_claim(void *ctx, const dibs_claim *claim)
{
    *(dibs_claim *) ctx = *claim;
    return false;
}

dibs_claim t_stored(struct t_ledger *t, uint64_t id)
{
    const struct ledger_filter from = { .after_id = id - 1 };
    dibs_claim found = { 0 };

    ASSERT_OK(ledger_list(t->ledger, &t->call, &from, t_copy_claim, &found, &t->err), &t->err);
    assert_int_equal(found.id, id);
    return found;
}

int t_backend(int argc, char **argv)
{
    static char scheme[16];

    if (argc != 2 || !strchr(argv[1], ':')) {
        (void) fprintf(stderr, "usage: %s memory:|sqlite:|etcd://HOST:PORT\n", argv[0]);
        return 1;
    }
    (void) snprintf(scheme, sizeof scheme, "%.*s", (int) strcspn(argv[1], ":"), argv[1]);
    t_scheme = scheme;
    t_given = argv[1];
    return 0;
}
