/* SPDX-License-Identifier: MIT */
/* Replicas of the webhook on one ledger in a real etcd: each has a queue of reviews, and they meet nowhere
 * else. */
#include "base/clock.h"
#include "base/err.h"
#include "kube/webhook/review_queue.h"
#include "ledger/step.h"
#include "lib/connection.h"
#include "store/memory/table.h"
#include "support/etcd_ledger.h"

#define HTTP "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}"

enum { MOST_TURNS = 1000, PATIENCE_MS = 20000 };

static const struct installation installation = { .id = "test",
                                                  .keys = { "0123456789abcdef0123456789abcdef" },
                                                  .n_keys = 1 };

struct replica {
    struct loop *loop;
    struct review_queue *queue;
};

struct asked {
    struct review_job job; /* first: a job is its review */
    bool is_done;
};

static void done(struct review_job *job)
{
    ((struct asked *) job)->is_done = true;
}

static struct replica open_replica_for(const struct t_ledger *t, const char *node, const char *timeout)
{
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, t->uri },
                                { DIBS_SET_NODE, node },
                                { DIBS_SET_TIMEOUT, timeout } };
    dibs_settings settings;
    struct replica r = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(dibs_settings_load(flags, 3, &settings, &err), &err);
    static const struct kube_pool_flags none = { 0 };
    struct kube_ledger_options ledger = {
        .settings = &settings, .listen = ":8443", .flags = &none, .installation = &installation
    };
    ASSERT_OK(kube_pool_parse(&none, &ledger.pool, &err), &err);
    ASSERT_OK(loop_open(&r.loop, &err), &err);
    ledger.loop = r.loop;
    r.queue = calloc(1, sizeof *r.queue);
    assert_non_null(r.queue);
    r.queue->admission.pending_ms = 300000;
    r.queue->admission.installation = &installation;
    ASSERT_OK(review_queue_open(r.queue, &ledger, &err), &err);
    return r;
}

static struct replica open_replica(const struct t_ledger *t, const char *node)
{
    return open_replica_for(t, node, "3s");
}

static void close_replica(struct replica *r)
{
    review_queue_close(r->queue);
    free(r->queue);
    loop_close(r->loop);
}

/* A review is under way. `pod`: the object. */
static struct asked *ask(struct replica *r, const char *pod)
{
    char text[8192];
    struct asked *asked = calloc(1, sizeof *asked);
    dibs_err err = { 0 };

    assert_non_null(asked);
    int n = snprintf(text, sizeof text,
                     "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{"
                     "\"uid\":\"u-1\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},"
                     "\"namespace\":\"shop\",\"operation\":\"CREATE\",\"object\":%s}}",
                     pod);
    assert_true(n > 0 && (size_t) n < sizeof text);
    ASSERT_OK(admission_begin(&(struct admission_options){ .installation = &installation }, text, (size_t) n,
                              &asked->job.admission, &err),
              &err);
    assert_true(asked->job.admission.needs_ledger);
    asked->job.decided = done;
    asked->job.job.deadline_ms = clock_monotonic_ms() + PATIENCE_MS;
    review_queue_add(r->queue, &asked->job);
    return asked;
}

static void turn_once(struct replica *r)
{
    dibs_err err = { 0 };

    ASSERT_OK(loop_turn(r->loop, review_queue_next_ms(r->queue), &err), &err);
    review_queue_turn(r->queue);
}

static void wait_until_done(struct replica *r, const struct asked *asked)
{
    for (int i = 0; i < MOST_TURNS && !asked->is_done; i++)
        turn_once(r);
    assert_true(asked->is_done);
}

static void wait_for(struct replica *r, const struct asked *asked)
{
    wait_until_done(r, asked);
    if (!asked->job.admission.verdict.is_allowed)
        fail_msg("%s", asked->job.admission.verdict.message);
}

static void end(struct asked *asked)
{
    admission_done(&asked->job.admission);
    free(asked);
}

static const char bare[] = "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"" HTTP
                           "\"}},\"spec\":{\"containers\":[{\"name\":\"main\"}]}}";

static void a_commit_rests_half_as_long_as_it_took(void **state)
{
    dibs_err err = { 0 };

    NEED_ETCD();
    struct replica r = open_replica(*state, "a");
    for (int i = 0; i < 10; i++) { /* several: a commit can take longer than any rest */
        struct asked *first = ask(&r, bare);

        while (review_queue_next_ms(r.queue) > 0)
            ASSERT_OK(loop_turn(r.loop, review_queue_next_ms(r.queue), &err), &err);
        int64_t began_us = clock_monotonic_us();
        wait_for(&r, first);
        int64_t took_us = clock_monotonic_us() - began_us;
        struct asked *second = ask(&r, bare);
        assert_true(review_queue_next_ms(r.queue) * 1000 < took_us / 2 + 1000);
        wait_for(&r, second);
        assert_true(review_queue_next_ms(r.queue) < 0);
        end(first);
        end(second);
    }
    close_replica(&r);
}

/* Its time was what the request before left: none, when everything has to be read again. */
static void a_request_after_a_pause_has_its_whole_time(void **state)
{
    dibs_pool pool = { .name = "other",
                       .order = "stride",
                       .ranges = { .item = { { 40000, 40001 } }, .n = 1 } };
    bool is_allowed = false;
    dibs_err err = { 0 };

    NEED_ETCD();
    struct replica r = open_replica_for(*state, "a", "1s");
    struct replica other = open_replica(*state, "b");
    struct asked *first = ask(&r, bare);
    wait_until_done(&r, first);
    end(first);
    for (unsigned i = 0; i < 3 && !is_allowed; i++) { /* a machine may stand still for that second */
        pool.ranges.item[0].last++;
        ASSERT_OK(dibs_pool_put(other.queue->ledger.server.handle, &pool, &err), &err);
        int64_t until_ms = clock_monotonic_ms() + 1100;
        while (clock_monotonic_ms() < until_ms) /* meanwhile the watch reports the pool */
            ASSERT_OK(loop_turn(r.loop, until_ms - clock_monotonic_ms(), &err), &err);
        struct asked *asked = ask(&r, bare);
        wait_until_done(&r, asked);
        is_allowed = asked->job.admission.verdict.is_allowed;
        end(asked);
    }
    assert_true(is_allowed);
    close_replica(&r);
    close_replica(&other);
}

/* The value of a variable in the patch; "" when it is not there. */
static void variable(const struct asked *asked, const char *name, char out[8])
{
    const struct bytes *patch = &asked->job.admission.verdict.patch;
    char before[64];
    int n = snprintf(before, sizeof before, "{\"name\":\"%s\",\"value\":\"", name);
    const char *at = patch->n > 0 ? memmem(patch->at, patch->n, before, (size_t) n) : NULL;
    const char *value = at ? at + n : "";
    const char *end = at ? memchr(value, '"', (size_t) (patch->at + patch->n - value)) : NULL;

    (void) snprintf(out, 8, "%.*s", end ? (int) (end - value) : 0, value);
}

/* Of the set `set` in the group `group`, with this configuration. */
static struct asked *ask_grouped(struct replica *r, unsigned group, const char *set, const char *config)
{
    char pod[2048];

    (void) snprintf(
        pod, sizeof pod,
        "{\"metadata\":{\"name\":\"%s-0\",\"labels\":{\"dibs.dev/group\":\"g%u\"},"
        "\"ownerReferences\":[{\"kind\":\"StatefulSet\",\"name\":\"%s\",\"controller\":true}],"
        "\"annotations\":{\"dibs.dev/ports\":\"%s\"}},\"spec\":{\"containers\":[{\"name\":\"main\"}]}}",
        set, group, set, config);
    return ask(r, pod);
}

#define REFERENCE "{\\\"references\\\":[{\\\"env\\\":\\\"API\\\",\\\"from\\\":\\\"api.http\\\"}]}"
#define SCOPED(scope)                                                                                    \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\",\\\"scope\\\":\\\"" scope \
    "\\\"}]}"

/* Each replica decides before it knows of the other: the commit of the second one conflicts. */
static void a_reference_gets_the_targets_port_from_every_replica(void **state)
{
    static const char *const scopes[] = { SCOPED("RoleScoped"), SCOPED("PodScoped") };

    NEED_ETCD();
    struct replica replicas[] = { open_replica(*state, "a"), open_replica(*state, "b") };
    for (unsigned i = 0; i < 24; i++) {
        struct replica *here = &replicas[i % 2];
        struct replica *there = &replicas[1 - i % 2];
        const char *scope = scopes[i / 2 % 2];
        bool is_target_first = i % 3 == 0;
        struct asked *target = is_target_first ? ask_grouped(here, i, "api", scope) : NULL;

        if (target)
            wait_for(here, target);
        struct asked *web = ask_grouped(is_target_first ? there : here, i, "web", REFERENCE);
        wait_for(is_target_first ? there : here, web);
        if (!target) {
            target = ask_grouped(there, i, "api", scope);
            wait_for(there, target);
        }
        struct asked *late = ask_grouped(here, i, "late", REFERENCE);
        wait_for(here, late);
        char numbers[3][8];
        variable(target, "PORT", numbers[0]);
        variable(web, "API", numbers[1]);
        variable(late, "API", numbers[2]);
        assert_string_not_equal(numbers[0], "");
        assert_string_equal(numbers[0], numbers[1]);
        assert_string_equal(numbers[0], numbers[2]);
        end(target);
        end(web);
        end(late);
    }
    close_replica(&replicas[0]);
    close_replica(&replicas[1]);
}

#define RBG_POD(instance, component, config)                                                          \
    "{\"metadata\":{\"name\":\"pd-x-" instance "-" component "-0\",\"ownerReferences\":[{\"kind\":"   \
    "\"RoleInstance\",\"name\":\"pd-x-" instance "\",\"controller\":true}],\"labels\":{"              \
    "\"rbg.workloads.x-k8s.io/group-name\":\"pd\",\"rbg.workloads.x-k8s.io/role-name\":\"x\","        \
    "\"rbg.workloads.x-k8s.io/component-name\":\"" component                                          \
    "\",\"rbg.workloads.x-k8s.io/component-id\":\"0\"},\"annotations\":{\"dibs.dev/ports\":\"" config \
    "\"}},\"spec\":{\"containers\":[{\"name\":\"main\"}]}}"
#define TO_LEADER "{\\\"references\\\":[{\\\"env\\\":\\\"API\\\",\\\"from\\\":\\\"x.leader.http\\\"}]}"

/* Two workers before both leaders: whether these share their port is known when one of them has come, a
 * moment later and through another replica. */
static void an_early_request_waits_for_the_others(void **state)
{
    NEED_ETCD();
    struct replica a = open_replica(*state, "a");
    struct replica b = open_replica(*state, "b");
    char numbers[3][8];
    struct asked *first = ask(&a, RBG_POD("0", "worker", TO_LEADER));
    wait_for(&a, first);
    struct asked *second = ask(&a, RBG_POD("1", "worker", TO_LEADER));
    turn_once(&a);
    assert_true(second->is_done ||
                review_queue_next_ms(a.queue) >= 0); /* a machine may stand still meanwhile */
    struct asked *leader = ask(&b, RBG_POD("1", "leader", SCOPED("RoleScoped")));
    wait_for(&b, leader);
    wait_until_done(&a, second);
    if (!second->job.admission.verdict.is_allowed) { /* for so long that it was refused */
        end(second);
        second = ask(&a, RBG_POD("1", "worker", TO_LEADER));
        wait_for(&a, second);
    }
    variable(first, "API", numbers[0]);
    variable(second, "API", numbers[1]);
    variable(leader, "PORT", numbers[2]);
    assert_string_not_equal(numbers[0], "");
    assert_string_equal(numbers[0], numbers[1]);
    assert_string_equal(numbers[0], numbers[2]);

    /* A request that waits when the replica ends is answered. */
    struct asked *third =
        ask(&a, RBG_POD("0", "worker",
                        "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"x.router.none\\\"}]}"));
    wait_for(&a, third);
    struct asked *fourth =
        ask(&a, RBG_POD("1", "worker",
                        "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"x.router.none\\\"}]}"));
    turn_once(&a);
    close_replica(&a);
    assert_true(fourth->is_done);
    assert_false(fourth->job.admission.verdict.is_allowed);
    close_replica(&b);
    end(first);
    end(second);
    end(leader);
    end(third);
    end(fourth);
}

/* ---- groups that lose races ---- */

enum { GROUP = 16, FITS = 4 };

static struct {
    struct store_ops ops;
    struct cluster_state state;
    unsigned n_conflicts;
} crowded;

/* A ledger where others are first whenever more is to be changed than a few claims. */
static dibs_status commit_few(struct store *rows, dibs_err *err)
{
    const struct memory_tables *tables = &((const struct memory_store *) rows)->tables;
    size_t n = 0;

    for (size_t i = 0; i < tables->n_journal; i++)
        n += tables->journal[i].table == CLAIMS;
    crowded.state.had_conflict = n > FITS;
    crowded.n_conflicts += crowded.state.had_conflict;
    if (crowded.state.had_conflict)
        return err_trouble(err, DIBS_TROUBLE_LOCKED, "others were first");
    return store_memory_ops.commit(rows, err);
}

static dibs_status begin_again(struct store *rows, bool is_write, bool is_full, int64_t deadline_ms,
                               dibs_err *err)
{
    crowded.state.had_conflict = false;
    return store_memory_ops.begin(rows, is_write, is_full, deadline_ms, err);
}

static void take_no_notices(struct store *rows)
{
    (void) rows;
}

static void has_no_lease(const struct store *rows, struct ledger_lease *out)
{
    (void) rows;
    (void) out;
}

static const struct cluster_ops crowded_cluster = { .take_notices = take_no_notices, .lease = has_no_lease };

static void a_group_that_loses_every_race_is_decided_by_halves(void **state)
{
    struct t_ledger memory = { .uri = "memory:" };
    struct replica r = open_replica(&memory, "a");
    struct store *rows = handle_ledger(r.queue->ledger.server.handle)->store;
    struct asked *asked[GROUP];

    (void) state;
    crowded.ops = *rows->ops;
    crowded.ops.begin = begin_again;
    crowded.ops.commit = commit_few;
    crowded.ops.cluster = &crowded_cluster;
    rows->ops = &crowded.ops;
    rows->cluster = &crowded.state;
    for (size_t i = 0; i < GROUP; i++)
        asked[i] = ask(&r, bare);
    turn_once(&r); /* all of them are one group */
    for (size_t i = 0; i < GROUP; i++) {
        assert_true(asked[i]->is_done);
        wait_for(&r, asked[i]);
        end(asked[i]);
    }
    assert_int_equal(group_commit_count(r.queue->group)->jobs, GROUP);
    assert_int_equal(group_commit_count(r.queue->group)->commits, GROUP / FITS);
    assert_true(crowded.n_conflicts >= 3); /* sixteen, and twice eight */
    rows->ops = &store_memory_ops;
    rows->cluster = NULL;
    close_replica(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_commit_rests_half_as_long_as_it_took),
        CASE(a_request_after_a_pause_has_its_whole_time),
        CASE(a_reference_gets_the_targets_port_from_every_replica),
        CASE(an_early_request_waits_for_the_others),
        CASE(a_group_that_loses_every_race_is_decided_by_halves),
    };

    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
