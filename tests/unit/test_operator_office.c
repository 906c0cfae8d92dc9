/* SPDX-License-Identifier: MIT */
/* Replicas of the webhook on one ledger in a real etcd: each is an office, and they meet nowhere else. */
#include "base/clock.h"
#include "operator/office.h"
#include "support/etcd_ledger.h"

#define HTTP "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}"

enum { MOST_TURNS = 1000, PATIENCE_MS = 20000 };

struct replica {
    struct loop *loop;
    struct office *office;
};

struct asked {
    struct office_job job; /* first: a job is its review */
    bool is_done;
};

static void done(struct office_job *job)
{
    ((struct asked *) job)->is_done = true;
}

static struct replica open_replica(const struct t_ledger *t, const char *node)
{
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, t->uri }, { DIBS_SET_NODE, node } };
    dibs_settings settings;
    struct replica r = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(dibs_settings_load(flags, 2, &settings, &err), &err);
    struct office_options options = { .settings = &settings, .admission = { .pending_ms = 300000 } };
    ASSERT_OK(operator_pool_parse(&(struct operator_pool_flags){ 0 }, &options.pool, &err), &err);
    ASSERT_OK(loop_open(&r.loop, &err), &err);
    options.loop = r.loop;
    ASSERT_OK(office_open(&options, &r.office, &err), &err);
    return r;
}

static void close_replica(struct replica *r)
{
    office_close(r->office);
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
    ASSERT_OK(
        admission_begin(&(struct admission_options){ 0 }, text, (size_t) n, &asked->job.admission, &err),
        &err);
    assert_true(asked->job.admission.needs_ledger);
    asked->job.done = done;
    asked->job.deadline_ms = clock_monotonic_ms() + PATIENCE_MS;
    office_queue(r->office, &asked->job);
    return asked;
}

static void wait_for(struct replica *r, const struct asked *asked)
{
    dibs_err err = { 0 };

    for (int i = 0; i < MOST_TURNS && !asked->is_done; i++) {
        ASSERT_OK(loop_turn(r->loop, office_next_ms(r->office), &err), &err);
        office_turn(r->office);
    }
    assert_true(asked->is_done);
    if (!asked->job.admission.verdict.is_allowed)
        fail_msg("%s", asked->job.admission.verdict.message);
}

static void end(struct asked *asked)
{
    admission_done(&asked->job.admission);
    free(asked);
}

static void nobody_waits_for_others(void **state)
{
    static const char pod[] = "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"" HTTP
                              "\"}},\"spec\":{\"containers\":[{\"name\":\"main\"}]}}";

    NEED_ETCD();
    struct replica r = open_replica(*state, "a");
    for (int i = 0; i < 10; i++) { /* several: a commit can take longer than any wait */
        struct asked *asked = ask(&r, pod);

        assert_int_equal(office_next_ms(r.office), 0);
        wait_for(&r, asked);
        assert_true(office_next_ms(r.office) < 0);
        end(asked);
    }
    close_replica(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nobody_waits_for_others),
    };

    return cmocka_run_group_tests(tests, start_etcd, end_etcd);
}
