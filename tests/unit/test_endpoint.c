/* SPDX-License-Identifier: MIT */
/* The router's rules and the pages that every endpoint has, over a real socket. */
#include "base/err.h"
#include "server/endpoint.h"
#include "support/http.h"

#define HOST "Host: x\r\n"
#define JSON "Content-Type: application/json\r\n"

struct fixture {
    struct world world; /* of its members only what clients and turns need */
    struct endpoint *endpoint;
    bool is_ready;
};

static void serve_page(void *ctx, struct http_request *r)
{
    size_t n = 0;

    assert_non_null(ctx);
    endpoint_answer_text(r, 200, http_body(r, &n));
}

static const struct page pages[] = {
    { { "POST", "/pages/{name}", "a bc", 0 }, serve_page },
    { { "DELETE", "/pages/{name}", "", 0 }, serve_page },
    { { "PUT", "/any", NULL, 0 }, serve_page },
};

static dibs_status check_ready(void *ctx, dibs_err *err)
{
    return ((struct fixture *) ctx)->is_ready ? DIBS_OK : err_set(err, DIBS_UNAVAILABLE, "not yet");
}

static void write_metrics(void *ctx, struct bytes *out)
{
    (void) ctx;
    bytes_add_text(out, "x 1\n");
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct world *w = &f->world;

    assert_non_null(f);
    ASSERT_OK(loop_open(&w->loop, &w->err), &w->err);
    ASSERT_OK(endpoint_open(w->loop,
                            &(struct endpoint_options){ .limits = { .max_body_bytes = 10 },
                                                        .pages = pages,
                                                        .n_pages = sizeof pages / sizeof *pages,
                                                        .hint = "see the manual",
                                                        .check_ready = check_ready,
                                                        .write_metrics = write_metrics,
                                                        .ctx = f },
                            &f->endpoint, &w->err),
              &w->err);
    w->server = endpoint_http(f->endpoint);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    w->address.sun_family = AF_UNIX; /* no path: the kernel gives it an abstract one */
    assert_int_equal(bind(fd, (struct sockaddr *) &w->address, sizeof(sa_family_t)), 0);
    w->address_size = sizeof w->address;
    assert_int_equal(getsockname(fd, (struct sockaddr *) &w->address, &w->address_size), 0);
    assert_int_equal(listen(fd, 8), 0);
    ASSERT_OK(http_listen(w->server, fd, NULL, false, &w->err), &w->err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    endpoint_close(f->endpoint);
    loop_close(f->world.loop);
    free(f);
    return 0;
}

static void every_request_has_a_row_or_a_reason(void **state)
{
    static const struct {
        const char *request, *answer, *also;
    } cases[] = {
        { "POST /pages/x HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "" },
        { "POST /pages/x?a=1&bc=2 HTTP/1.1\r\n" HOST JSON "Content-Length: 10\r\n\r\n{\"a\":\"bc\"}",
          "HTTP/1.1 200 ", "{\"a\":\"bc\"}\n" },
        { "POST /pages/x?b=1 HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 400 ",
          "no parameter 'b' here; known are: a bc" },
        { "DELETE /pages/x?a HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 400 ", "known are: none" },
        { "PUT /any?a=1 HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "" },
        { "POST /pages/x HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n", "HTTP/1.1 413 ", "" },
        { "PUT /any HTTP/1.1\r\n" HOST "Content-Length: 101\r\n\r\n", "HTTP/1.1 413 ", "" },
        { "PUT /any HTTP/1.1\r\n" HOST "Content-Type: text/xml\r\nContent-Length: 1\r\n\r\nx",
          "HTTP/1.1 415 ", "application/json" },
        { "GET /pages/x HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 ", "Allow: POST, DELETE\r\n" },
        { "POST /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 ", "Allow: GET\r\n" },
        { "GET /pages/ HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "see the manual" },
        { "GET /pages/x/y HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "application/problem+json" },
        { "GET /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "\r\nok\n" },
        { "GET /livez HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "\r\nok\n" },
        { "GET /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "text/plain; version=0.0.4" },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client *c = c_open(&f->world);

        c_send(&f->world, c, cases[i].request);
        W_UNTIL(&f->world, c_has(c, cases[i].answer));
        W_UNTIL(&f->world, c_has(c, cases[i].also));
        c_close(c);
    }
}

static void readiness_has_a_reason(void **state)
{
    struct fixture *f = *state;
    struct client *c = c_open(&f->world);

    c_send(&f->world, c, "GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    W_UNTIL(&f->world, c_has(c, "\r\n\r\nnot yet\n"));
    assert_true(c_has(c, "HTTP/1.1 503 "));
    f->is_ready = true;
    c_send(&f->world, c, "GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    W_UNTIL(&f->world, c_has(c, "\r\n\r\nok\n"));
    c_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_request_has_a_row_or_a_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(readiness_has_a_reason, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
