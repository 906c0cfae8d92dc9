/* SPDX-License-Identifier: MIT */
/* dibs_listen(), and sockets that are passed to another process. */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "hold/listen.h"
#include "support/child.h"
#include "support/core.h"

static dibs *open_for(struct engine *e)
{
    dibs *handle = NULL;

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    return handle;
}

static void close_all(dibs_sockets *sockets)
{
    while (sockets->n > 0)
        (void) close(sockets->fd[--sockets->n]);
}

static dibs_request local(dibs_proto second)
{
    dibs_request r = { .holder = DIBS_HELD_BY_PROCESS,
                       .n_bindings = 2,
                       .bindings = { { DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
                                     { second, { .len = 4, .bytes = { 127, 0, 0, 1 } } } } };

    if (second == DIBS_TCP)
        r.bindings[1].address.bytes[3] = 2;
    return r;
}

static int connects_to(uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    AUTO(fd_auto) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd, (struct sockaddr *) &to, sizeof to);
}

static void one_call_claims_binds_and_listens(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e);
    dibs_request r = local(DIBS_UDP);
    dibs_sockets sockets = { .n = 0 };

    ASSERT_OK(dibs_listen(handle, &r, &sockets, &e->err), &e->err);
    assert_int_equal(sockets.n, 2);
    assert_int_equal(sockets.claim.hold, DIBS_HOLD_FD);
    assert_int_equal(connects_to(sockets.claim.port), 0);
    assert_true(fcntl(sockets.fd[0], F_GETFD) & FD_CLOEXEC);
    close_all(&sockets);
    dibs_close(handle);
}

static bool count_claim(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    ++*(size_t *) ctx;
    return true;
}

static void a_port_that_cannot_be_bound_leaves_no_claim(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e);
    dibs_request r = local(DIBS_UDP);
    dibs_sockets first = { .n = 0 };
    dibs_sockets second = { .n = 0 };
    size_t n = 0;

    ASSERT_OK(dibs_listen(handle, &r, &first, &e->err), &e->err);
    r.mode = DIBS_REQUIRED;
    r.port = first.claim.port;
    ASSERT_OK(dibs_claim_release(handle, &(dibs_which){ .token = first.claim.token }, 0, NULL, &e->err),
              &e->err);
    assert_int_equal(dibs_listen(handle, &r, &second, &e->err), DIBS_TAKEN);
    assert_int_equal(second.n, 0);
    ASSERT_OK(dibs_claim_list(handle, &(dibs_filter){ 0 }, count_claim, &n, &e->err), &e->err);
    assert_int_equal(n, 0);
    close_all(&first);
    dibs_close(handle);
}

static void another_process_receives_the_sockets_with_port_and_name(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e);
    dibs_request r = local(DIBS_UDP);
    dibs_sockets sockets = { .n = 0 };
    const int types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };

    r.name = "shop/web";
    ASSERT_OK(dibs_listen(handle, &r, &sockets, &e->err), &e->err);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        dibs_sockets got = { .n = 0 };
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, pair), 0);
        ASSERT_OK(dibs_sockets_send(pair[0], &sockets, &e->err), &e->err);
        ASSERT_OK(dibs_sockets_receive(pair[1], &got, &e->err), &e->err);
        assert_int_equal(got.n, 2);
        assert_int_equal(got.claim.port, sockets.claim.port);
        assert_string_equal(got.claim.name, "shop/web");
        assert_memory_equal(got.claim.bindings, sockets.claim.bindings, 2 * sizeof got.claim.bindings[0]);
        assert_true(fcntl(got.fd[1], F_GETFD) & FD_CLOEXEC);
        close_all(&got);
        (void) close(pair[0]);
        (void) close(pair[1]);
    }
    close_all(&sockets);
    dibs_close(handle);
}

/* Send these bytes and descriptors in place of a claim's sockets. */
static void assert_refused(const char *text, int fd, dibs_status status)
{
    size_t before = count_entries("/proc/self/fd");
    dibs_sockets got = { .n = 0 };
    dibs_err err = { 0 };
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    if (text)
        ASSERT_OK(listen_send(pair[0], &(struct listen_parcel){ text, strlen(text), &fd, fd >= 0 }, &err),
                  &err);
    (void) close(pair[0]);
    assert_int_equal(dibs_sockets_receive(pair[1], &got, &err), status);
    assert_true(err.msg[0] && got.n == 0);
    (void) close(pair[1]);
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

static void what_is_no_sockets_of_a_claim_is_refused_and_closed(void **state)
{
    AUTO(fd_auto) int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    AUTO(fd_auto) int unbound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) state;
    assert_refused(NULL, -1, DIBS_UNAVAILABLE);
    assert_refused("20001 shop/web", file, DIBS_INVALID);
    assert_refused("20001 shop/web", unbound, DIBS_INVALID); /* of another port */
    assert_refused("0 shop/web", -1, DIBS_INVALID);
    assert_refused("20001", -1, DIBS_INVALID);
    assert_refused("20001 a//b", -1, DIBS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(one_call_claims_binds_and_listens),
        E_TEST(a_port_that_cannot_be_bound_leaves_no_claim),
        E_TEST(another_process_receives_the_sockets_with_port_and_name),
        cmocka_unit_test(what_is_no_sockets_of_a_claim_is_refused_and_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
