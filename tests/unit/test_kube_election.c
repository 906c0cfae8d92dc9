/* SPDX-License-Identifier: MIT */
/* One leader by a Lease: a leader is certain for less time than others wait. */
#include "support/web.h"

#include "kube/client/election.h"

enum { TEXT_MAX = 2048 };

/* A server that has one Lease. */
struct store {
    pthread_t thread;
    int listening;
    pthread_mutex_t lock;
    char spec[TEXT_MAX]; /* "": there is none */
    int version;
    int n_puts, n_conflicts;
    bool is_silent; /* answers nothing */
};

struct fixture {
    struct store store;
    struct kubeapi *api;
    struct election *election;
    dibs_err err;
};

static void answer(int fd, const char *status, const char *body)
{
    char text[2 * TEXT_MAX];

    (void) snprintf(text, sizeof text,
                    "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
                    strlen(body), body);
    say(fd, text);
}

static void answer_lease(const struct store *s, int fd, const char *status)
{
    char body[TEXT_MAX + 128];

    (void) snprintf(body, sizeof body,
                    "{\"metadata\":{\"name\":\"l\",\"resourceVersion\":\"%d\"},\"spec\":%s}", s->version,
                    s->spec);
    answer(fd, status, body);
}

static void write_lease(struct store *s, const char *request, int fd, bool is_new)
{
    const char *spec = strstr(request, "\"spec\":");
    char version[64] = "";

    (void) snprintf(version, sizeof version, "\"resourceVersion\":\"%d\"", s->version);
    s->n_puts++;
    if (is_new ? s->spec[0] != '\0' : !strstr(request, version)) {
        s->n_conflicts++;
        answer(fd, "409 Conflict", "{\"code\":409,\"message\":\"the object has been modified\"}");
        return;
    }
    (void) snprintf(s->spec, sizeof s->spec, "%.*s", (int) (strrchr(spec, '}') - spec - 7), spec + 7);
    s->version++;
    answer_lease(s, fd, is_new ? "201 Created" : "200 OK");
}

static void serve_one(struct store *s, const char *request, int fd)
{
    if (s->is_silent)
        return;
    if (strncmp(request, "POST ", 5) == 0)
        write_lease(s, request, fd, true);
    else if (strncmp(request, "PUT ", 4) == 0)
        write_lease(s, request, fd, false);
    else if (s->spec[0])
        answer_lease(s, fd, "200 OK");
    else
        answer(fd, "404 Not Found", "{\"code\":404}");
}

static void *serve_leases(void *arg)
{
    struct store *s = arg;

    for (int fd = accept(s->listening, NULL, NULL); fd >= 0; fd = accept(s->listening, NULL, NULL)) {
        char *request = NULL;

        while ((request = read_request(fd))) {
            (void) pthread_mutex_lock(&s->lock);
            serve_one(s, request, fd);
            (void) pthread_mutex_unlock(&s->lock);
            free(request);
        }
        (void) close(fd);
    }
    return NULL;
}

static bool is_dead(void *ctx, const char *identity)
{
    (void) ctx;
    return strcmp(identity, "the dead") == 0;
}

static int begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct kubeapi_config config = { .ns = "n" };
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;

    assert_non_null(f);
    f->store.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->store.listening, (struct sockaddr *) &at, size), 0);
    assert_int_equal(listen(f->store.listening, 4), 0);
    assert_int_equal(getsockname(f->store.listening, (struct sockaddr *) &at, &size), 0);
    assert_int_equal(pthread_mutex_init(&f->store.lock, NULL), 0);
    assert_int_equal(pthread_create(&f->store.thread, NULL, serve_leases, &f->store), 0);
    (void) snprintf(config.server, sizeof config.server, "http://127.0.0.1:%u", ntohs(at.sin_port));
    ASSERT_OK(kubeapi_open(&config, &f->api, &f->err), &f->err);
    ASSERT_OK(election_open(f->api, "n", "l", &(struct election_self){ "me", is_dead, NULL }, &f->election,
                            &f->err),
              &f->err);
    *state = f;
    return 0;
}

static int finish(void **state)
{
    struct fixture *f = *state;

    election_close(f->election);
    kubeapi_close(f->api);
    (void) shutdown(f->store.listening, SHUT_RDWR);
    (void) pthread_join(f->store.thread, NULL);
    (void) close(f->store.listening);
    (void) pthread_mutex_destroy(&f->store.lock);
    free(f);
    return 0;
}

static void turn(struct fixture *f)
{
    election_turn(f->election, clock_monotonic_ms());
    kubeapi_turn(f->api);
}

static int64_t margin(const struct fixture *f, int64_t later_ms)
{
    return election_margin_ms(f->election, clock_monotonic_ms() + later_ms);
}

/* Until when it leads (clock_monotonic_ms()). */
static int64_t end_of(const struct fixture *f)
{
    int64_t now_ms = clock_monotonic_ms();

    return now_ms + election_margin_ms(f->election, now_ms);
}

/* Turns until it leads. */
static void until_leading(struct fixture *f)
{
    UNTIL((turn(f), margin(f, 0) > 0));
    assert_true(margin(f, 0) > 0);
}

/* Somebody else writes it. */
static void put(struct fixture *f, const char *spec)
{
    (void) pthread_mutex_lock(&f->store.lock);
    (void) snprintf(f->store.spec, sizeof f->store.spec, "%s", spec);
    f->store.version++;
    (void) pthread_mutex_unlock(&f->store.lock);
}

static bool spec_has(struct fixture *f, const char *text)
{
    (void) pthread_mutex_lock(&f->store.lock);
    bool has = strstr(f->store.spec, text) != NULL;
    (void) pthread_mutex_unlock(&f->store.lock);
    return has;
}

static int count(struct fixture *f, const int *of)
{
    (void) pthread_mutex_lock(&f->store.lock);
    int n = *of;
    (void) pthread_mutex_unlock(&f->store.lock);
    return n;
}

static void a_lease_that_nobody_has_is_taken_and_certain_for_its_duration_at_most(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(margin(f, 0), 0);
    int64_t before_ms = clock_monotonic_ms();
    until_leading(f);
    assert_string_equal(election_holder(f->election), "me");
    int64_t until_ms = end_of(f);
    assert_true(until_ms >= before_ms + ELECTION_DURATION_MS &&
                until_ms <= clock_monotonic_ms() + ELECTION_DURATION_MS);
    assert_int_equal(margin(f, ELECTION_DURATION_MS), 0);
    assert_true(spec_has(f, "\"holderIdentity\":\"me\""));
    assert_true(spec_has(f, "\"leaseDurationSeconds\":15"));
    assert_true(spec_has(f, "\"leaseTransitions\":0"));
}

static void it_is_renewed_before_it_ends(void **state)
{
    struct fixture *f = *state;

    until_leading(f);
    UNTIL((turn(f), count(f, &f->store.n_puts) >= 2));
    assert_true(count(f, &f->store.n_puts) >= 2);
    assert_int_equal(count(f, &f->store.n_conflicts), 0);
}

#define OTHERS(renewed, seconds)                                                                  \
    "{\"holderIdentity\":\"other\",\"leaseDurationSeconds\":" seconds ",\"renewTime\":\"" renewed \
    "\",\"leaseTransitions\":4}"

static void anothers_is_taken_when_it_has_not_changed_for_its_duration(void **state)
{
    struct fixture *f = *state;

    /* By its own clock it ended long ago: that says nothing here. */
    put(f, OTHERS("1970-01-01T00:00:00.000000Z", "3600"));
    UNTIL((turn(f), strcmp(election_holder(f->election), "other") == 0));
    assert_string_equal(election_holder(f->election), "other");
    assert_int_equal(margin(f, 0), 0);
    assert_int_equal(count(f, &f->store.n_puts), 0);
    put(f, OTHERS("2999-01-01T00:00:00.000000Z", "1"));
    until_leading(f);
    assert_true(spec_has(f, "\"leaseTransitions\":5"));
}

static void the_lease_of_the_dead_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    put(f, "{\"holderIdentity\":\"the dead\",\"leaseDurationSeconds\":3600,\"leaseTransitions\":4}");
    until_leading(f);
    assert_true(spec_has(f, "\"leaseTransitions\":5"));
}

static void an_overruled_candidate_does_not_lead(void **state)
{
    struct fixture *f = *state;

    until_leading(f);
    put(f, OTHERS("2026-01-01T00:00:00.000000Z", "3600"));
    size_t n_troubles = 0;
    UNTIL((turn(f), n_troubles += election_trouble(f->election)[0] != '\0', margin(f, 0) == 0));
    assert_int_equal(margin(f, 0), 0);
    assert_true(count(f, &f->store.n_conflicts) >= 1); /* found by its version */
    assert_int_equal(n_troubles, 0);                   /* the API server works */
    assert_string_equal(election_holder(f->election), "other");
    assert_string_equal(election_loss(f->election), "another process has the Lease");
}

static void without_an_answer_nothing_is_renewed(void **state)
{
    struct fixture *f = *state;

    until_leading(f);
    (void) pthread_mutex_lock(&f->store.lock);
    f->store.is_silent = true;
    (void) pthread_mutex_unlock(&f->store.lock);
    int64_t until_ms = end_of(f);
    for (int i = 0; i < 250; i++) {
        turn(f);
        (void) usleep(10000);
    }
    assert_true(margin(f, 0) == 0 || end_of(f) == until_ms);
}

/* A process that was stopped for longer than the Lease lasts finds itself as its holder. */
static void a_lease_that_ended_by_itself_is_explained(void **state)
{
    struct fixture *f = *state;

    until_leading(f);
    assert_int_equal(margin(f, ELECTION_DURATION_MS), 0);
    assert_string_equal(election_holder(f->election), "me");
    assert_string_equal(election_trouble(f->election), "");
    assert_non_null(strstr(election_loss(f->election), "the Lease was not renewed in time"));
    put(f, "{\"leaseDurationSeconds\":1}");
    UNTIL((turn(f), !election_holder(f->election)[0]));
    assert_string_equal(election_loss(f->election), "the Lease was released");
}

static void a_leader_that_resigns_leaves_it_to_the_next_one(void **state)
{
    struct fixture *f = *state;

    until_leading(f);
    UNTIL((kubeapi_turn(f->api), !election_resign(f->election)));
    assert_false(election_resign(f->election));
    assert_int_equal(margin(f, 0), 0);
    assert_false(spec_has(f, "holderIdentity"));
    assert_true(spec_has(f, "\"leaseDurationSeconds\":1,"));
}

static void a_renewal_under_way_is_waited_for(void **state)
{
    struct fixture *f = *state;

    until_leading(f);
    int64_t now_ms = clock_monotonic_ms() + ELECTION_RETRY_MS; /* it is due by then */
    election_turn(f->election, now_ms);
    assert_int_equal(election_next_ms(f->election, now_ms), -1);
    UNTIL((kubeapi_turn(f->api), !election_resign(f->election)));
    assert_false(spec_has(f, "holderIdentity"));
    assert_int_equal(count(f, &f->store.n_conflicts), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_lease_that_nobody_has_is_taken_and_certain_for_its_duration_at_most),
        CASE(it_is_renewed_before_it_ends),
        CASE(anothers_is_taken_when_it_has_not_changed_for_its_duration),
        CASE(the_lease_of_the_dead_is_not_waited_for),
        CASE(an_overruled_candidate_does_not_lead),
        CASE(without_an_answer_nothing_is_renewed),
        CASE(a_lease_that_ended_by_itself_is_explained),
        CASE(a_leader_that_resigns_leaves_it_to_the_next_one),
        CASE(a_renewal_under_way_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
