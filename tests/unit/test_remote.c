/* SPDX-License-Identifier: MIT */
/* libdibs against a server with scripted behaviour: every misbehaviour ends in a clear error within the
 * deadline, and what is lost is asked again when that does no harm. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "dibs/dibs.h"
#include "support/wire.h"

enum { STEPS_MAX = 16, SEEN_MAX = 8192, TIMEOUT_MS = 1500 };

/* The server's behaviour for one request. */
struct step {
    const char *reply; /* NULL: none */
    bool closes;       /* the connection, after that */
    bool dribbles;     /* byte by byte */
    bool stalls;       /* keeps the connection and says nothing, until the client goes */
};

struct server {
    char dir[64], path[96];
    int fd;
    pthread_t thread;
    struct step steps[STEPS_MAX];
    size_t n_steps;
    _Atomic size_t n_seen;
    char seen[STEPS_MAX][SEEN_MAX]; /* the requests */
    char claim[4096], claims[8192]; /* replies with one claim */
    dibs_settings settings;
    dibs *handle;
};

/* One whole request; false when the client has gone. */
static bool read_request(int fd, char *out)
{
    size_t n = 0;
    size_t whole = 0;

    while (n < SEEN_MAX - 1) {
        ssize_t got = recv(fd, out + n, SEEN_MAX - 1 - n, 0);

        if (got <= 0)
            return false;
        n += (size_t) got;
        out[n] = '\0';
        const char *end = strstr(out, "\r\n\r\n");

        if (!end)
            continue;
        const char *length = strstr(out, "Content-Length: ");

        whole = (size_t) (end + 4 - out) + (length ? (size_t) strtoul(length + 16, NULL, 10) : 0);
        if (n >= whole)
            return true;
    }
    return false;
}

static void reply(int fd, const struct step *step)
{
    size_t n = step->reply ? strlen(step->reply) : 0;
    size_t at_once = step->dribbles ? 1 : n;

    for (size_t at = 0; at < n; at += at_once)
        (void) send(fd, step->reply + at, at_once, MSG_NOSIGNAL);
}

static void *serve(void *ctx)
{
    struct server *s = ctx;

    while (s->n_seen < s->n_steps) {
        int fd = accept(s->fd, NULL, NULL);

        if (fd < 0)
            return NULL;
        while (s->n_seen < s->n_steps && read_request(fd, s->seen[s->n_seen])) {
            const struct step *step = &s->steps[s->n_seen++];
            char byte = 0;

            reply(fd, step);
            if (step->stalls)
                (void) recv(fd, &byte, 1, 0);
            if (step->closes || step->stalls)
                break;
        }
        (void) close(fd);
    }
    return NULL;
}

static void answer_with(char *out, size_t size, int status, const char *body)
{
    int n = snprintf(out, size, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body);

    assert_true(n > 0 && (size_t) n < size);
}

static int setup(void **state)
{
    struct server *s = calloc(1, sizeof *s);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    dibs_claim claim = { .id = 7,
                         .generation = 1,
                         .port = 20007,
                         .is_exclusive = true,
                         .is_kept = true,
                         .n_bindings = 1,
                         .bindings = { { DIBS_TCP, { .len = 16 } } },
                         .principal = "uid:1000@7",
                         .token = "7.1.00" };
    struct written t;
    dibs_err err = { 0 };

    assert_non_null(s);
    (void) snprintf(s->dir, sizeof s->dir, "/tmp/dibs-remote-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    (void) snprintf(s->path, sizeof s->path, "%s/socket", s->dir);
    memcpy(at.sun_path, s->path, strlen(s->path) + 1);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *) &at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    const dibs_flag flags[] = { { DIBS_SET_SOCKET, s->path }, { DIBS_SET_LEDGER, "memory:" } };

    ASSERT_OK(dibs_settings_load(flags, 2, &s->settings, &err), &err);
    s->settings.timeout_ms = TIMEOUT_MS;
    wire_claim(written_begin(&t), &claim, true);
    bytes_add(&t.bytes, "", 1);
    answer_with(s->claim, sizeof s->claim, 201, t.bytes.at);
    written_done(&t);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct server *s = *state;

    dibs_close(s->handle);
    (void) shutdown(s->fd, SHUT_RDWR); /* ends accept() */
    if (s->n_steps > 0)
        (void) pthread_join(s->thread, NULL);
    (void) close(s->fd);
    (void) unlink(s->path);
    (void) rmdir(s->dir);
    free(s);
    return 0;
}

static void begin(struct server *s, const struct step *steps, size_t n)
{
    dibs_err err = { 0 };

    memcpy(s->steps, steps, n * sizeof *steps);
    s->n_steps = n;
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    ASSERT_OK(dibs_open(&s->settings, &s->handle, &err), &err);
}
#define BEGIN(s, ...)                                \
    begin((s), (const struct step[]){ __VA_ARGS__ }, \
          sizeof((const struct step[]){ __VA_ARGS__ }) / sizeof(struct step))

static dibs_status claim_one(struct server *s, dibs_claim *out, dibs_err *err)
{
    dibs_request request = { .keep = true, .name = "shop/web" };

    return dibs_claim_ports(s->handle, &(dibs_batch){ .requests = &request, .n = 1 }, out, err);
}

/* A request that the server got. */
static const char *seen(struct server *s, size_t i)
{
    assert_true(i < s->n_seen);
    return s->seen[i];
}

/* Its key. */
static const char *key_of(struct server *s, size_t i)
{
    const char *key = strstr(seen(s, i), "Idempotency-Key: ");

    assert_non_null(key);
    return key + strlen("Idempotency-Key: ");
}

static void a_claim_is_asked_for_and_answered(void **state)
{
    struct server *s = *state;
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    BEGIN(s, { .reply = s->claim }, { .reply = s->claim, .dribbles = true });
    for (int i = 0; i < 2; i++) { /* both over one connection */
        ASSERT_OK(claim_one(s, &claim, &err), &err);
        assert_int_equal(claim.port, 20007);
        assert_string_equal(claim.token, "7.1.00");
    }
    assert_int_equal(strncmp(seen(s, 0), "POST /v1/claims HTTP/1.1\r\n", 26), 0);
    assert_memory_not_equal(key_of(s, 0), key_of(s, 1), 32); /* another claim, another key */
}

static void nobody_is_asked_for_port_0(void **state)
{
    struct server *s = *state;
    const dibs_request requests[3] = { { .keep = true, .mode = DIBS_REQUIRED },
                                       { .keep = true, .port = 20007 }, /* random: the port says nothing */
                                       { .keep = true, .mode = DIBS_PREFERRED } };
    dibs_claim claims[3] = { { .port = 7 }, { .port = 7 }, { .port = 7 } };
    dibs_err err = { 0 };

    BEGIN(s, { .reply = s->claim });
    ASSERT_OK(dibs_claim_ports(s->handle, &(dibs_batch){ .requests = requests, .n = 1 }, claims, &err), &err);
    assert_int_equal(claims[0].port, 0);
    assert_int_equal(s->n_seen, 0);
    ASSERT_OK(dibs_claim_ports(s->handle, &(dibs_batch){ .requests = requests, .n = 3 }, claims, &err), &err);
    assert_int_equal(claims[0].port, 0);
    assert_int_equal(claims[1].port, 20007);
    assert_int_equal(claims[2].port, 0);
    assert_null(strstr(seen(s, 0), "\"port\""));
}

static void a_key_of_the_caller_is_the_key_of_the_request(void **state)
{
    struct server *s = *state;
    const dibs_request request = { .keep = true };
    const char *bad[] = { "", "a\r\nX-Y: z", " a", "a ", s->claims };
    dibs_batch batch = { .requests = &request, .n = 1, .key = "build 4711" };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    BEGIN(s, { .reply = s->claim });
    ASSERT_OK(dibs_claim_ports(s->handle, &batch, &claim, &err), &err);
    assert_memory_equal(key_of(s, 0), "build 4711\r\n", 12);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        batch.key = bad[i];
        assert_int_equal(dibs_claim_ports(s->handle, &batch, &claim, &err), DIBS_INVALID);
    }
    assert_int_equal(s->n_seen, 1);
}

static void a_name_that_json_cannot_carry_is_not_sent(void **state)
{
    struct server *s = *state;
    dibs_request request = { .keep = true, .name = "shop/\xff" };
    dibs_claim claim = { .port = 7 };
    dibs_err err = { 0 };

    BEGIN(s, { .reply = s->claim });
    assert_int_equal(dibs_claim_ports(s->handle, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, &err),
                     DIBS_INVALID);
    assert_non_null(strstr(err.msg, "UTF-8"));
    assert_int_equal(claim.port, 7);
    assert_int_equal(s->n_seen, 0);
    request.name = NULL;
    ASSERT_OK(dibs_claim_ports(s->handle, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, &err), &err);
}

static void a_request_that_is_too_long_for_http_is_invalid(void **state)
{
    struct server *s = *state;
    dibs_pool pool;
    dibs_err err = { 0 };

    BEGIN(s, { .reply = "HTTP/1.1 414 URI Too Long\r\nContent-Length: 6\r\n\r\n<html>" },
          { .reply = "HTTP/1.1 431 Too Large\r\nContent-Length: 6\r\n\r\n<html>" });
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dibs_pool_get(s->handle, "long", &pool, &err), DIBS_INVALID);
        assert_non_null(strstr(err.msg, "too long"));
    }
}

static void a_lost_claim_is_asked_for_again_with_the_same_key(void **state)
{
    struct server *s = *state;
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    char half[1024];

    (void) snprintf(half, sizeof half, "%.200s", s->claim);
    BEGIN(s, { .closes = true }, { .reply = half, .closes = true }, { .reply = s->claim });
    ASSERT_OK(claim_one(s, &claim, &err), &err);
    assert_int_equal(claim.port, 20007);
    assert_int_equal(s->n_seen, 3);
    assert_memory_equal(key_of(s, 0), key_of(s, 1), 32);
    assert_memory_equal(key_of(s, 0), key_of(s, 2), 32);
}

static void a_connection_that_was_closed_meanwhile_is_opened_again(void **state)
{
    struct server *s = *state;
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY, .keep = true };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    BEGIN(s, { .reply = s->claim, .closes = true }, { .reply = s->claim });
    ASSERT_OK(claim_one(s, &claim, &err), &err);
    UNTIL(s->n_seen == 1);
    /* Also what is never asked twice: nothing was sent on the old one. */
    ASSERT_OK(dibs_claim_transfer(s->handle, &(dibs_which){ .token = claim.token }, &heir, &claim, &err),
              &err);
    assert_int_equal(s->n_seen, 2);
}

static void a_transfer_is_not_asked_for_twice(void **state)
{
    struct server *s = *state;
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY, .keep = true };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    BEGIN(s, { .closes = true }, { .reply = s->claim });
    assert_int_equal(dibs_claim_transfer(s->handle, &(dibs_which){ .token = "7.1.00" }, &heir, &claim, &err),
                     DIBS_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "not known whether it was done"));
    assert_int_equal(claim.port, 0);
    ASSERT_OK(dibs_claim_find(s->handle, &(dibs_which){ .token = "7.1.00" }, &claim, &err), &err);
}

static void too_many_requests_are_waited_for(void **state)
{
    struct server *s = *state;
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    char busy[256];
    char busier[256];

    (void) snprintf(busy, sizeof busy, "HTTP/1.1 429 X\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n");
    (void) snprintf(busier, sizeof busier,
                    "HTTP/1.1 429 X\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n");
    BEGIN(s, { .reply = busy }, { .reply = busy }, { .reply = s->claim }, { .reply = busier });
    ASSERT_OK(claim_one(s, &claim, &err), &err);
    assert_memory_equal(key_of(s, 0), key_of(s, 2), 32);
    int64_t before = clock_monotonic_ms();

    assert_int_equal(claim_one(s, &claim, &err), DIBS_UNAVAILABLE); /* not within the deadline, so at once */
    assert_non_null(strstr(err.msg, "too many"));
    assert_true(clock_monotonic_ms() - before < STALL_MS);
}

static void the_daemons_errors_come_out_as_they_were_there(void **state)
{
    struct server *s = *state;
    dibs_err sent = {
        .code = DIBS_TAKEN,
        .os_errno = 98,
        .blocker = { .relation = DIBS_REL_OTHER_HOLDER, .port = 8080, .pid = 7, .name = "shop/api" },
        .msg = "port 8080 is held by 'shop/api'"
    };
    dibs_claim claim;
    dibs_err err = { 0 };
    struct written t;
    char text[4096];

    memset(&claim, 0x5a, sizeof claim);
    wire_problem(written_begin(&t), &sent, wire_http_status(&sent));
    bytes_add(&t.bytes, "", 1);
    answer_with(text, sizeof text, 409, t.bytes.at);
    written_done(&t);
    BEGIN(s, { .reply = text });
    assert_int_equal(claim_one(s, &claim, &err), DIBS_TAKEN);
    assert_string_equal(err.msg, sent.msg);
    assert_int_equal(err.code, DIBS_TAKEN);
    assert_int_equal(err.os_errno, 98);
    assert_int_equal(err.blocker.relation, DIBS_REL_OTHER_HOLDER);
    assert_string_equal(err.blocker.name, "shop/api");
    for (size_t i = 0; i < sizeof claim; i++) /* outputs are written only on success */
        assert_int_equal(((const unsigned char *) &claim)[i], 0x5a);
}

static void a_wrong_answer_is_recognised_at_once(void **state)
{
    static const struct {
        const char *reply, *says;
    } rows[] = {
        { "SSH-2.0-OpenSSH_9.2\r\n", "no dibs daemon" },
        { "HTTP/1.1 200 OK\r\n\r\n", "no dibs daemon" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "no dibs daemon" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "bad JSON" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "\"id\"" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "not an object" },
        { "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", "404" },
        { "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nOops", "bad JSON" },
    };
    struct server *s = *state;
    struct step steps[STEPS_MAX] = { 0 };
    size_t n = sizeof rows / sizeof rows[0];
    int64_t before = clock_monotonic_ms();

    for (size_t i = 0; i < n; i++)
        steps[i] = (struct step){ .reply = rows[i].reply, .closes = true };
    begin(s, steps, n);
    for (size_t i = 0; i < n; i++) {
        dibs_claim claim = { 0 };
        dibs_err err = { 0 };
        dibs_status status = claim_one(s, &claim, &err);

        if (status != DIBS_UNAVAILABLE || !strstr(err.msg, rows[i].says) || !strstr(err.msg, s->path))
            fail_msg("%s -> %d '%s', without '%s'", rows[i].reply, (int) status, err.msg, rows[i].says);
        assert_int_equal(claim.port, 0);
    }
    assert_true(clock_monotonic_ms() - before < STALL_MS);
}

static void silence_ends_with_the_deadline(void **state)
{
    struct server *s = *state;
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    s->settings.timeout_ms = 100;
    BEGIN(s, { .stalls = true },
          { .reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", .stalls = true });
    for (int i = 0; i < 2; i++) {
        int64_t before = clock_monotonic_ms();

        assert_int_equal(claim_one(s, &claim, &err), DIBS_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "no answer within 100ms"));
        assert_true(clock_monotonic_ms() - before >= 100);
    }
}

/* Nobody accepts, the queue is full, or the file is left over. */
static void a_socket_where_nobody_is_ends_with_the_deadline_too(void **state)
{
    struct server *s = *state;
    int fds[16] = { 0 };
    dibs_err err = { 0 };

    s->settings.timeout_ms = 100;
    assert_int_equal(listen(s->fd, 0), 0);
    for (size_t i = 0; i < 2; i++) { /* fills the queue */
        struct sockaddr_un at = { .sun_family = AF_UNIX };

        memcpy(at.sun_path, s->path, strlen(s->path) + 1);
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void) connect(fds[i], (struct sockaddr *) &at, sizeof at);
    }
    assert_int_equal(dibs_open(&s->settings, &s->handle, &err), DIBS_UNAVAILABLE);
    assert_null(s->handle);
    assert_non_null(strstr(err.msg, "no answer within 100ms"));
    (void) close(fds[0]), (void) close(fds[1]);
    (void) close(s->fd);
    assert_int_equal(dibs_open(&s->settings, &s->handle, &err), DIBS_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "Connection refused"));
    assert_non_null(strstr(err.msg, "DIBS_SOCKET=none"));
    s->fd = -1;
}

static bool count_claim(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    return ++*(size_t *) ctx < 3;
}

static void a_list_goes_from_page_to_page_and_stops_on_request(void **state)
{
    struct server *s = *state;
    dibs_claim claim = { .port = 1, .principal = "uid:0" };
    struct bytes page = { 0 };
    struct jsonw w;
    size_t n = 0;
    dibs_err err = { 0 };

    jsonw_begin_bytes(&w, &page);
    jsonw_object(&w);
    jsonw_key(&w, "claims");
    jsonw_array(&w);
    for (claim.id = 1; claim.id <= 2; claim.id++)
        wire_claim(&w, &claim, false);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    bytes_add(&page, "", 1);
    answer_with(s->claims, sizeof s->claims, 200, page.at);
    bytes_done(&page);
    BEGIN(s, { .reply = s->claims },
          { .reply = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"claims\":[]}" }, { .reply = s->claims },
          { .reply = s->claims });
    ASSERT_OK(dibs_claim_list(s->handle, &(dibs_filter){ 0 }, count_claim, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_non_null(strstr(seen(s, 0), "GET /v1/claims?limit=1000 "));
    ASSERT_OK(dibs_claim_list(s->handle, &(dibs_filter){ .limit = 2 }, count_claim, &n, &err), &err);
    ASSERT_OK(dibs_claim_list(s->handle, &(dibs_filter){ .limit = 5, .pool = "a b" }, count_claim, &n, &err),
              &err);
    assert_non_null(strstr(seen(s, 2), "GET /v1/claims?pool=a%20b&limit=5 "));
    assert_int_equal(n, 3); /* stopped at the third */
    /* More than were asked for. */
    assert_int_equal(dibs_claim_list(s->handle, &(dibs_filter){ .limit = 1 }, count_claim, &n, &err),
                     DIBS_UNAVAILABLE);
}

static void the_own_principal_is_requested_once(void **state)
{
    static const char me[] =
        "{\"version\":\"9\",\"principal\":\"uid:1000@7\",\"boot_ms\":1,\"enforces\":true}";
    struct server *s = *state;
    char text[512];

    answer_with(text, sizeof text, 200, me);
    BEGIN(s, { .reply = text }, { .reply = text });
    assert_string_equal(dibs_principal_of(s->handle), "uid:1000@7");
    assert_string_equal(dibs_principal_of(s->handle), "uid:1000@7");
    assert_int_equal(s->n_seen, 1);
    assert_true(dibs_is_enforced(s->handle)); /* as it is now */
    assert_string_equal(dibs_settings_of(s->handle)->socket, s->path);
    assert_true(dibs_boot_ms(s->handle) > 0);
}

static void a_callback_and_a_child_cannot_use_the_handle(void **state)
{
    struct server *s = *state;
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    BEGIN(s, { .reply = s->claim });
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        bool is_refused = claim_one(s, &claim, &err) == DIBS_INVALID;

        dibs_close(s->handle);
        _exit(is_refused ? 0 : 1);
    }
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ASSERT_OK(claim_one(s, &claim, &err), &err); /* the parent's connection is as it was */
    assert_int_equal(s->n_seen, 1);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_claim_is_asked_for_and_answered),
        T(nobody_is_asked_for_port_0),
        T(a_key_of_the_caller_is_the_key_of_the_request),
        T(a_name_that_json_cannot_carry_is_not_sent),
        T(a_request_that_is_too_long_for_http_is_invalid),
        T(a_lost_claim_is_asked_for_again_with_the_same_key),
        T(a_connection_that_was_closed_meanwhile_is_opened_again),
        T(a_transfer_is_not_asked_for_twice),
        T(too_many_requests_are_waited_for),
        T(the_daemons_errors_come_out_as_they_were_there),
        T(a_wrong_answer_is_recognised_at_once),
        T(silence_ends_with_the_deadline),
        T(a_socket_where_nobody_is_ends_with_the_deadline_too),
        T(a_list_goes_from_page_to_page_and_stops_on_request),
        T(the_own_principal_is_requested_once),
        T(a_callback_and_a_child_cannot_use_the_handle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
