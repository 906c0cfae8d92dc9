/* SPDX-License-Identifier: MIT */
/* Limits of clients, and that a client which exceeds them does not harm the others. */
#include <sys/resource.h>

#include "support/child.h"
#include "support/http.h"

#define HOST "Host: dibs\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"

enum { STEP_MS = 500, MANY = 1000 }; /* a busy machine stops for so long while another client is served */

static const struct http_limits quick = { .max_step_ms = STEP_MS };

/* ---- sizes ---- */

/* `before`, as much filling as makes `total` bytes of it, `after`. */
static char *filled(const char *before, const char *after, size_t total)
{
    size_t around = strlen(before) + strlen(after);
    char *text = malloc(total + 1);

    assert_non_null(text);
    assert_true(total >= around);
    memcpy(text, before, strlen(before));
    memset(text + strlen(before), 'x', total - around);
    memcpy(text + total - strlen(after), after, strlen(after) + 1);
    return text;
}

static void a_head_is_taken_up_to_its_limit(void **state)
{
    static const struct {
        const char *before, *after;
    } shapes[] = {
        { "POST /?a=", " HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n" },
        { "POST / HTTP/1.1\r\n" HOST "X: ", "\r\nContent-Length: 3\r\n\r\n" },
    };
    static const size_t sizes[] = { 1000, 4096, HTTP_HEAD_MAX_BYTES - 1, HTTP_HEAD_MAX_BYTES };
    static const size_t too_large[] = { HTTP_HEAD_MAX_BYTES + 1, 7000, 10000, 60000 };
    struct world *w = w_open(&(struct http_limits){ 0 });

    (void) state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            struct client *c = c_open(w);
            char *head = filled(shapes[i].before, shapes[i].after, sizes[k]);

            c_send(w, c, head);
            c_expect(w, c, "abc", "[abc]");
            free(head);
            head = filled(shapes[i].before, shapes[i].after, too_large[k]);
            c_expect(w, c, head, i == 0 && too_large[k] >= 10000 ? "HTTP/1.1 414 " : "HTTP/1.1 431 ");
            free(head);
            c_close(c);
        }
    }
    w_close(w);
}

static void a_body_is_taken_up_to_its_limit(void **state)
{
    struct world *w = w_open(&(struct http_limits){ .max_body_bytes = 20000 });
    struct client *c = c_open(w);
    char *body = filled("", "", 20000);
    char *chunk = filled("4e20\r\n", "\r\n", 20000 + 8);

    (void) state;
    c_send(w, c, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 20000\r\n\r\n");
    c_expect(w, c, body, "HTTP/1.1 200 ");
    c_send(w, c, "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    c_send(w, c, chunk);
    c_expect(w, c, "0\r\n\r\n", "HTTP/1.1 200 ");
    c_send(w, c, "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    c_send(w, c, chunk);
    c_expect(w, c, "1\r\nx\r\n0\r\n\r\n", "HTTP/1.1 413 ");
    c_expect(w, c, GET("/y"), "GET /y []");
    assert_int_equal(w->n_requested, 3);
    c_expect(w, c, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 20001\r\n\r\n", "HTTP/1.1 413 ");
    free(body);
    free(chunk);
    c_close(c);
    w_close(w);
}

/* ---- time ---- */

/* Says `text` byte by byte, over and over, until it is cut off. */
static void trickle(struct world *w, const char *begin, const char *text)
{
    struct client *slow = c_open(w);
    int64_t began = clock_monotonic_ms();
    int64_t last = began;
    size_t i = 0;

    c_send(w, slow, begin);
    while (!c_is_over(slow) && clock_monotonic_ms() < began + W_WAIT_MS) {
        if (*text && clock_monotonic_ms() >= last + 5) {
            c_send_bytes(w, slow, text + i++ % strlen(text), 1);
            last = clock_monotonic_ms();
        }
        struct client *other = c_open(w);

        c_expect(w, other, GET("/y"), "GET /y []");
        c_close(other);
    }
    assert_true(slow->is_over);
    assert_string_equal(slow->got, "");
    assert_true(clock_monotonic_ms() - began >= STEP_MS);
    c_close(slow);
}

static void a_client_that_sends_too_slowly_is_disconnected(void **state)
{
    struct world *w = w_open(&quick);

    (void) state;
    trickle(w, "", "");
    trickle(w, "GET /", "x");
    trickle(w, "GET / HTTP/1.1\r\n", "X: y\r\n");
    trickle(w, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n", "z");
    trickle(w, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", "1\r\nz\r\n");
    trickle(w, "\r\n", "\r\n");
    assert_int_equal(w->n_abandoned, 0);
    w_close(w);
}

static void a_client_that_does_not_read_its_answer_is_disconnected(void **state)
{
    struct world *w = w_open(&quick);
    struct client *c = c_open(w);
    size_t n = 4u << 20;
    struct bytes body = { .at = calloc(1, n), .n = n, .capacity = n };

    (void) state;
    c_send(w, c, GET("/later"));
    W_UNTIL(w, w->n_held == 1);
    http_answer(w->held[--w->n_held], 200, NULL, &body, NULL, 0);
    W_UNTIL(w, w->n_disconnected == 1);
    c_close(c);
    w_close(w);
}

static void a_request_under_work_may_take_its_time(void **state)
{
    struct world *w = w_open(&quick);
    struct client *c = c_open(w);
    struct client *idle = c_open(w);

    (void) state;
    c_send(w, c, GET("/later"));
    W_UNTIL(w, c_is_over(idle)); /* as long as a step may take */
    assert_int_equal(w->n_held, 1);
    assert_int_equal(http_next_ms(w->server), -1); /* nothing left to watch the clock for */
    w_answer(w->held[--w->n_held], 200, "done");
    c_expect(w, c, "", "done");
    c_close(c);
    c_close(idle);
    w_close(w);
}

/* ---- connections ---- */

static void more_connections_than_allowed_wait_their_turn(void **state)
{
    struct world *w = w_open(&(struct http_limits){ .max_connections = 2 });
    struct client *c[4] = { 0 };

    (void) state;
    for (int i = 0; i < 4; i++) {
        c[i] = c_open(w);
        c_send(w, c[i], GET("/x"));
    }
    W_UNTIL(w, c_has(c[0], "GET /x []") && c_has(c[1], "GET /x []"));
    for (int i = 0; i < 5; i++)
        w_turn(w, 0);
    assert_true(http_next_ms(w->server) > 500); /* a waiting client costs no turns */
    assert_int_equal(http_connections(w->server), 2);
    assert_false(c_has(c[2], "GET") || c_has(c[3], "GET"));
    c_close(c[0]);
    W_UNTIL(w, c_has(c[2], "GET /x []"));
    assert_false(c_has(c[3], "GET"));
    c_close(c[1]);
    c_close(c[2]);
    W_UNTIL(w, c_has(c[3], "GET /x []"));
    c_close(c[3]);
    w_close(w);
}

static void a_reserved_listener_has_places_when_all_others_are_taken(void **state)
{
    struct world *w = w_open(&(struct http_limits){ .max_connections = 2, .max_per_user = 2 });
    const struct sockaddr_un any = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct client *c[4] = { c_open(w), c_open(w), c_open(w) };

    (void) state;
    c_send(w, c[0], GET("/later"));
    c_send(w, c[1], GET("/later"));
    c_send(w, c[2], GET("/x"));
    W_UNTIL(w, w->n_held == 2);
    assert_int_equal(bind(fd, (const struct sockaddr *) &any, sizeof any.sun_family), 0);
    assert_int_equal(listen(fd, 1), 0);
    w->address_size = sizeof w->address;
    assert_int_equal(getsockname(fd, (struct sockaddr *) &w->address, &w->address_size), 0);
    ASSERT_OK(http_listen(w->server, fd, w, HTTP_RESERVED, &w->err), &w->err);
    c[3] = c_open(w);
    c_expect(w, c[3], GET("/x"), "GET /x []");
    assert_false(c_has(c[2], "GET"));
    while (w->n_held > 0)
        w_answer(w->held[--w->n_held], 200, "done");
    c_close(c[0]);
    c_close(c[1]);
    W_UNTIL(w, c_has(c[2], "GET /x []"));
    c_close(c[2]);
    c_close(c[3]);
    w_close(w);
}

/* ---- idle connections ---- */

/* A connection is idle after a thirtieth of this. */
static const struct http_limits two_connections = { .max_connections = 2, .max_step_ms = 3000 };

/* "/?as=7" is a request of user 7. */
static void identify(void *ctx, struct http_request *r)
{
    const char *uid = http_query(r, "as", 0);

    (void) ctx;
    if (uid)
        assert_true(http_identify(r, (uint32_t) strtoul(uid, NULL, 10)));
}

static void an_idle_connection_is_closed_for_one_that_waits(void **state)
{
    struct world *w = w_open(&two_connections);
    struct client *c[4] = { c_open(w), c_open(w) };

    (void) state;
    c_expect(w, c[0], GET("/x"), "GET /x []");
    c_expect(w, c[1], GET("/x"), "GET /x []");
    c[2] = c_open(w);
    c_expect(w, c[2], GET("/x"), "GET /x []");
    assert_true(c_is_over(c[0])); /* it was idle for longest */
    assert_false(c_is_over(c[1]));
    c_send(w, c[1], GET("/later"));
    W_UNTIL(w, w->n_held == 1);
    c[3] = c_open(w);
    c_expect(w, c[3], GET("/x"), "GET /x []");
    assert_true(c_is_over(c[2]));
    w_answer(w->held[--w->n_held], 200, "done");
    c_expect(w, c[1], "", "done"); /* a request under work is none of them */
    for (int i = 0; i < 4; i++)
        c_close(c[i]);
    w_close(w);
}

static void the_user_with_the_most_connections_loses_an_idle_one(void **state)
{
    static const struct http_limits limits = { .max_connections = 3, .max_step_ms = 3000 };
    struct world *w = w_open(&limits);
    struct client *c[4] = { 0 };

    (void) state;
    w->handler.arriving = identify;
    for (int i = 0; i < 3; i++) {
        c[i] = c_open(w);
        c_expect(w, c[i], i == 0 ? GET("/x?as=1") : GET("/x?as=2"), "GET /x");
    }
    c[3] = c_open(w);
    c_expect(w, c[3], GET("/x?as=3"), "GET /x");
    assert_true(c_is_over(c[1])); /* its user has two; the other's is older */
    assert_false(c_is_over(c[0]) || c_is_over(c[2]));
    for (int i = 0; i < 4; i++)
        c_close(c[i]);
    w_close(w);
}

static void a_user_at_the_limit_loses_an_idle_connection_of_its_own(void **state)
{
    static const struct http_limits limits = { .max_per_user = 2, .max_step_ms = 3000 };
    struct world *w = w_open(&limits);
    struct client *other = c_open(w);
    struct client *c[2] = { 0 };
    bool is_served = false;

    (void) state;
    w->handler.arriving = identify;
    c_expect(w, other, GET("/x?as=77"), "GET /x");
    for (int i = 0; i < 2; i++) {
        c[i] = c_open(w);
        c_expect(w, c[i], GET("/x"), "GET /x []");
    }
    for (int64_t until = clock_monotonic_ms() + W_WAIT_MS; !is_served && clock_monotonic_ms() < until;) {
        struct client *fresh = c_open(w);

        c_send(w, fresh, GET("/x"));
        W_UNTIL(w, c_has(fresh, "HTTP/1.1 "));
        is_served = c_has(fresh, "GET /x []"); /* 429 until one is idle */
        c_close(fresh);
    }
    assert_true(is_served && c_is_over(c[0]));
    assert_false(c_is_over(c[1]) || c_is_over(other));
    c_close(c[0]);
    c_close(c[1]);
    c_close(other);
    w_close(w);
}

static int ask_as_somebody_else(void *arg)
{
    const struct world *w = arg;
    char got[1000] = "";

    CHECK(setuid(CHILD_NOBODY) == 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (const struct sockaddr *) &w->address, w->address_size) == 0);
    CHECK(write(fd, GET("/mine"), strlen(GET("/mine"))) > 0);
    CHECK(read(fd, got, sizeof got - 1) > 0);
    CHECK(strstr(got, "GET /mine []"));
    return 0;
}

static void one_user_cannot_take_all_connections(void **state)
{
    struct client *c[4] = { 0 };
    int status = 0;
    bool has_ended = false;

    (void) state;
    need_root();
    struct world *w = w_open(&(struct http_limits){ .max_connections = 10, .max_per_user = 3 });

    for (int i = 0; i < 4; i++)
        c[i] = c_open(w);
    for (int i = 0; i < 3; i++)
        c_expect(w, c[i], GET("/x"), "GET /x []");
    W_UNTIL(w, c_is_over(c[3]));
    assert_true(c_has(c[3], "HTTP/1.1 429 ") && c_has(c[3], "Retry-After: 1\r\n"));
    assert_true(c_has(c[3], "\"code\":6}"));
    pid_t other = child_fork(ask_as_somebody_else, w);
    W_UNTIL(w, (has_ended = has_ended || waitpid(other, &status, WNOHANG) == other));
    assert_int_equal(status, 0);
    c_close(c[0]);
    W_UNTIL(w, http_connections(w->server) == 2);
    struct client *again = c_open(w);
    c_expect(w, again, GET("/x"), "GET /x []");
    c_close(again);
    for (int i = 1; i < 4; i++)
        c_close(c[i]);
    w_close(w);
}

static void one_user_has_a_few_large_requests_under_way(void **state)
{
    struct world *w = w_open(&(struct http_limits){ .max_large = 2 });
    char *large = filled("POST /later HTTP/1.1\r\n" HOST "Content-Length: 65537\r\n\r\n", "",
                         sizeof "POST /later HTTP/1.1\r\n" HOST "Content-Length: 65537\r\n\r\n" + 65536);
    char *chunk = filled("10001\r\n", "\r\n0\r\n\r\n", 7 + 65537 + 7);
    struct client *c[3] = { c_open(w), c_open(w), c_open(w) };

    (void) state;
    c_send(w, c[0], large);
    c_send(w, c[1], "POST /later HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    c_send(w, c[1], chunk);
    W_UNTIL(w, w->n_held == 2);
    c_send(w, c[2], large);
    W_UNTIL(w, c_has(c[2], "\"code\":6}"));
    assert_true(c_has(c[2], "HTTP/1.1 429 ") && c_has(c[2], "Retry-After: 1\r\n"));
    c_expect(w, c[2], GET("/x"), "GET /x []"); /* small ones go on */
    c_send(w, c[2], "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    c_expect(w, c[2], chunk, "HTTP/1.1 429 ");
    c_expect(w, c[2], GET("/x"), "GET /x []"); /* small ones go on */
    w_answer(w->held[--w->n_held], 200, "done");
    W_UNTIL(w, c_has(c[0], "done") || c_has(c[1], "done"));
    c_send(w, c[2], large); /* one connection is free again */
    W_UNTIL(w, w->n_held == 2);
    c_close(c[2]);
    W_UNTIL(w, http_connections(w->server) == 2); /* a client that leaves frees one, too */
    c[2] = c_open(w);
    size_t held = w->n_held;
    c_send(w, c[2], large);
    W_UNTIL(w, w->n_held == held + 1);
    free(large);
    free(chunk);
    for (int i = 0; i < 3; i++)
        c_close(c[i]);
    w_close(w);
}

static void a_refused_client_is_closed(void **state)
{
    struct world *w = w_open(&(struct http_limits){ 0 });
    struct client *c = c_open(w);

    (void) state;
    w->refuses = true;
    W_UNTIL(w, c_is_over(c));
    assert_int_equal(http_connections(w->server), 0);
    c_close(c);
    w_close(w);
}

static void without_descriptors_accepting_waits_and_goes_on(void **state)
{
    struct world *w = w_open(&(struct http_limits){ 0 });
    struct client *served = c_open(w);
    struct rlimit before = { 0 };

    (void) state;
    c_expect(w, served, GET("/x"), "GET /x []");
    struct client *waiting = c_open(w);
    c_send(w, waiting, GET("/x"));
    int lowest = dup(0); /* the next that would be given away */
    assert_true(lowest >= 0);
    (void) close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = { .rlim_cur = (rlim_t) lowest, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    w->n_turns = 0;
    for (int64_t until = clock_monotonic_ms() + 250; clock_monotonic_ms() < until;)
        w_turn(w, 1000);
    assert_true(w->n_turns < 20); /* a few attempts, no busy loop */
    c_expect(w, served, GET("/y"), "GET /y []");
    assert_false(c_has(waiting, "GET"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    W_UNTIL(w, c_has(waiting, "GET /x []"));
    c_close(served);
    c_close(waiting);
    w_close(w);
}

/* ---- many at once ---- */

static void need_descriptors(rlim_t n)
{
    struct rlimit limit = { 0 };

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < n)
        SKIP_BECAUSE("needs %u descriptors", (unsigned) n);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void a_thousand_active_connections_are_all_answered(void **state)
{
    struct client **c = NULL;

    (void) state;
    need_descriptors(2 * MANY + 100);
    struct world *w = w_open(&(struct http_limits){ .max_per_user = MANY });
    c = calloc(MANY, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < MANY; i++)
        c[i] = c_open(w);
    W_UNTIL(w, http_connections(w->server) == MANY);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++)
            c_send(w, c[i], GET("/x"));
        for (size_t i = 0; i < MANY; i++)
            c_expect(w, c[i], "", "GET /x []");
    }
    for (size_t i = 0; i < MANY; i++)
        c_send(w, c[i], GET("/later"));
    W_UNTIL(w, w->n_held == MANY);
    w_turn(w, 0); /* now they are all suspended */
    while (w->n_held > 0)
        w_answer(w->held[--w->n_held], 200, "finally");
    for (size_t i = 0; i < MANY; i++)
        c_expect(w, c[i], "", "finally");
    assert_int_equal(w->n_requested, 4 * MANY);
    for (size_t i = 0; i < MANY; i++)
        c_close(c[i]);
    W_UNTIL(w, w->n_disconnected == MANY);
    free(c);
    w_close(w);
}

/* ---- nonsense ---- */

static uint64_t next_random(uint64_t *seed) /* xorshift */
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* A valid request with up to four of its bytes changed, lost, doubled, or the rest of it cut off. */
static size_t mutated(uint64_t *seed, char *out, size_t max)
{
    static const char *const valid[] = {
        GET("/v1/claims?prefix=a&limit=10"),
        "POST /v1/claims HTTP/1.1\r\n" HOST "Content-Length: 12\r\n\r\n{\"name\":\"a\"}",
        "POST /v1/batch HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "DELETE /v1/claims/1.2.abc?force=true HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
        "PUT /v1/pools/x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    };
    const char *from = valid[next_random(seed) % (sizeof valid / sizeof valid[0])];
    size_t n = strlen(from);

    assert_true(n + 4 < max);
    memcpy(out, from, n);
    for (uint64_t k = 1 + next_random(seed) % 4; k > 0 && n > 1; k--) {
        size_t at = next_random(seed) % n;

        switch (next_random(seed) % 5) {
        case 0: out[at] = (char) next_random(seed); break;
        case 1: out[at] = "\0\r\n %:?"[next_random(seed) % 7]; break;
        case 2: memmove(out + at, out + at + 1, --n - at); break;
        case 3:
            memmove(out + at + 1, out + at, n - at);
            n++;
            break;
        default: n = at + 1; break;
        }
    }
    return n;
}

static void nonsense_keeps_nobody_else_from_being_served(void **state)
{
    struct world *w = w_open(&(struct http_limits){ 0 });
    struct client *good = c_open(w);
    uint64_t seed = 20261115;
    char bytes[400];

    (void) state;
    for (int i = 0; i < 2000; i++) {
        struct client *bad = c_open(w);
        size_t n = mutated(&seed, bytes, sizeof bytes);

        c_send_bytes(w, bad, bytes, n);
        c_expect(w, good, GET("/good"), "GET /good []");
        if (i % 2)
            c_read(bad);
        c_close(bad);
    }
    W_UNTIL(w, http_connections(w->server) <= 1);
    c_expect(w, good, GET("/good"), "GET /good []");
    c_close(good);
    w_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_taken_up_to_its_limit),
        cmocka_unit_test(a_body_is_taken_up_to_its_limit),
        cmocka_unit_test(a_client_that_sends_too_slowly_is_disconnected),
        cmocka_unit_test(a_client_that_does_not_read_its_answer_is_disconnected),
        cmocka_unit_test(a_request_under_work_may_take_its_time),
        cmocka_unit_test(more_connections_than_allowed_wait_their_turn),
        cmocka_unit_test(a_reserved_listener_has_places_when_all_others_are_taken),
        cmocka_unit_test(an_idle_connection_is_closed_for_one_that_waits),
        cmocka_unit_test(the_user_with_the_most_connections_loses_an_idle_one),
        cmocka_unit_test(a_user_at_the_limit_loses_an_idle_connection_of_its_own),
        cmocka_unit_test(one_user_cannot_take_all_connections),
        cmocka_unit_test(one_user_has_a_few_large_requests_under_way),
        cmocka_unit_test(a_refused_client_is_closed),
        cmocka_unit_test(without_descriptors_accepting_waits_and_goes_on),
        cmocka_unit_test(a_thousand_active_connections_are_all_answered),
        cmocka_unit_test(nonsense_keeps_nobody_else_from_being_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
