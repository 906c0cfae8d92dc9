/* SPDX-License-Identifier: MIT */
/* Guards against real sockets, each case in a network namespace of its own. */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "hold/guard.h"
#include "host/kernel.h"
#include "support/child.h"
#include "support/sockets.h"

enum { FIRST = 35000, PORT = 35003, LAST = 35007, SENT = 20 };
enum { PLAIN = 0, ADDR = 1, PORTS = 2, BOTH = 3, N_OPTIONS = 4 }; /* SO_REUSEADDR, SO_REUSEPORT */

static const dibs_address dual = { .len = 16 };
static const dibs_address any4 = { .len = 4 };
static const dibs_address lo4 = { .len = 4, .bytes = { 127, 0, 0, 1 } };
static const dibs_address lo6 = { .len = 16, .bytes = { [15] = 1 } };

static int own_network(void)
{
    CHECK(unshare(CLONE_NEWNET) == 0);
    CHECK(system("ip link set lo up") == 0);
    CHECK(child_write_file("/proc/sys/net/ipv4/ip_local_port_range", "35000 35007") == 0);
    return 0;
}

static struct guard_place place_of(dibs_proto proto, const dibs_address *address)
{
    return (struct guard_place){
        .port = PORT, .uid = (uint32_t) geteuid(), .n_bindings = 1, .bindings = { { proto, *address } }
    };
}

static int type_of(dibs_proto proto)
{
    return proto == DIBS_UDP ? SOCK_DGRAM : SOCK_STREAM;
}

/* Bind a stranger's socket, TCP listening. -1 and errno. */
static int bind_as(dibs_proto proto, const dibs_address *address, int options, uint16_t port)
{
    union kernel_sockaddr to;
    socklen_t len = kernel_sockaddr(address, port, &to);
    AUTO(fd_auto)
    int fd = socket(address->len == 4 ? AF_INET : AF_INET6, type_of(proto) | SOCK_CLOEXEC, 0);
    int addr = (options & ADDR) != 0;
    int ports = (options & PORTS) != 0;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &addr, sizeof addr) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &ports, sizeof ports) != 0 || bind(fd, &to.any, len) != 0 ||
        (proto == DIBS_TCP && listen(fd, 8) != 0))
        return -1;
    return fd_take(&fd);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage at = { 0 };
    socklen_t len = sizeof at;

    if (getsockname(fd, (struct sockaddr *) &at, &len) != 0)
        return 0;
    return ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *) &at)->sin_port
                                         : ((struct sockaddr_in6 *) &at)->sin6_port);
}

/* ---- what the kernel chooses ---- */

/* Connect until the range is exhausted; return whether a connection got the port. */
static int connections_take(bool *is_taken)
{
    static const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = 0 };
    struct sockaddr_in server = to;
    int fds[LAST - FIRST + 1];
    size_t n = 0;
    AUTO(fd_auto) int listener = bind_as(DIBS_TCP, &lo4, PLAIN, 40000);

    CHECK(listener >= 0);
    server.sin_port = htons(40000);
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *is_taken = false;
    for (; n < sizeof fds / sizeof *fds; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fds[n], (struct sockaddr *) &server, sizeof server) != 0)
            break;
        *is_taken = *is_taken || port_of(fds[n]) == PORT;
    }
    CHECK(n >= LAST - FIRST); /* every other port of the range was used */
    while (n-- > 0)
        (void) close(fds[n]);
    return 0;
}

static int binds_to_0_take(dibs_proto proto, const dibs_address *address, bool *is_taken)
{
    int fds[LAST - FIRST + 1];
    size_t n = 0;

    *is_taken = false;
    for (; n < sizeof fds / sizeof *fds && (fds[n] = bind_as(proto, address, PLAIN, 0)) >= 0; n++)
        *is_taken = *is_taken || port_of(fds[n]) == PORT;
    CHECK(n >= LAST - FIRST);
    while (n-- > 0)
        (void) close(fds[n]);
    return 0;
}

static int the_kernel_passes_by(void *arg)
{
    const dibs_proto protos[] = { DIBS_TCP, DIBS_UDP };
    const dibs_address *const addresses[] = { &lo4, &any4, &lo6, &dual };

    (void) arg;
    CHECK(own_network() == 0);
    for (int guarded = 0; guarded < 2; guarded++) {
        for (size_t p = 0; p < 2; p++) {
            struct guard_place place = place_of(protos[p], &dual);
            AUTO(guard_close) struct guard guard = { .n = 0 };
            bool is_taken = false;

            CHECK(!guarded || guard_open(&place, &guard, NULL) == DIBS_OK);
            for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
                CHECK(binds_to_0_take(protos[p], addresses[i], &is_taken) == 0);
                CHECK(is_taken == !guarded); /* without a guard the storm really reaches the port */
            }
            if (protos[p] == DIBS_TCP)
                CHECK(connections_take(&is_taken) == 0 && is_taken == !guarded);
        }
    }
    return 0;
}

static void connections_and_binds_to_port_0_pass_by_a_guarded_port(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(the_kernel_passes_by, NULL), 0);
}

/* ---- what a program may do ---- */

static int programs_bind(void *arg)
{
    const dibs_proto protos[] = { DIBS_TCP, DIBS_UDP };
    const dibs_address *const addresses[] = { &lo4, &any4, &lo6, &dual };

    CHECK(own_network() == 0);
    if (arg) /* the guard's user */
        CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    for (size_t p = 0; p < 2; p++) {
        struct guard_place place = place_of(protos[p], &dual);
        AUTO(guard_close) struct guard guard = { .n = 0 };

        CHECK(guard_open(&place, &guard, NULL) == DIBS_OK && guard.n == 1);
        for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
            for (int options = PLAIN; options < N_OPTIONS; options++) {
                AUTO(fd_auto) int fd = bind_as(protos[p], addresses[i], options, PORT);

                CHECK((fd >= 0) == (options != PLAIN));
                CHECK(fd >= 0 || errno == EADDRINUSE);
            }
    }
    return 0;
}

static void a_program_with_a_reuse_option_binds_a_guarded_port_and_one_without_is_refused(void **state)
{
    static char as_nobody[] = "yes";

    (void) state;
    need_root();
    assert_int_equal(child_run(programs_bind, NULL), 0);
    assert_int_equal(child_run(programs_bind, as_nobody), 0);
}

static int another_user_binds(void *arg)
{
    const bool *is_own = arg;
    struct guard_place place = place_of(DIBS_TCP, &dual);
    AUTO(guard_close) struct guard guard = { .n = 0 };

    CHECK(own_network() == 0);
    place.uid = *is_own ? CHILD_NOBODY : 1;
    CHECK(guard_open(&place, &guard, NULL) == DIBS_OK);
    CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    AUTO(fd_auto) int fd = bind_as(DIBS_TCP, &lo4, PORTS, PORT);
    CHECK((fd >= 0) == *is_own);
    return 0;
}

static void a_guard_made_by_root_belongs_to_the_user_of_its_claim(void **state)
{
    bool is_own = true;

    (void) state;
    need_root();
    assert_int_equal(child_run(another_user_binds, &is_own), 0);
    is_own = false;
    assert_int_equal(child_run(another_user_binds, &is_own), 0);
}

/* ---- datagrams ---- */

static int received(int fd)
{
    char byte = 0;
    int n = 0;

    while (recv(fd, &byte, 1, MSG_DONTWAIT) == 1)
        n++;
    return n;
}

static int send_to(const dibs_address *address)
{
    union kernel_sockaddr to;
    socklen_t len = kernel_sockaddr(address, PORT, &to);

    for (int i = 0; i < SENT; i++) { /* each from a port of its own: SO_REUSEPORT chooses by it */
        AUTO(fd_auto) int fd = socket(address->len == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        CHECK(sendto(fd, "x", 1, 0, &to.any, len) == 1);
    }
    return 0;
}

static int program_receives(const dibs_address *guarded, const dibs_address *bound, int options, bool is_late)
{
    struct guard_place place = place_of(DIBS_UDP, guarded);
    AUTO(guard_close) struct guard guard = { .n = 0 };
    AUTO(fd_auto) int program = is_late ? bind_as(DIBS_UDP, bound, options, PORT) : -1;
    bool may_join = !is_late || guarded != &lo6;

    CHECK((guard_open(&place, &guard, NULL) == DIBS_OK) == may_join);
    if (!may_join) /* this guard could receive before it has its device: it stays away */
        return 0;
    if (!is_late)
        program = bind_as(DIBS_UDP, bound, options, PORT);
    CHECK(program >= 0);
    CHECK(send_to(bound->len == 4 ? &lo4 : &lo6) == 0);
    CHECK(received(program) == SENT);
    CHECK(received(guard.fd[0]) == 0);
    return 0;
}

static int every_datagram_arrives(void *arg)
{
    (void) arg;
    CHECK(own_network() == 0);
    for (int is_late = 0; is_late < 2; is_late++)
        for (int options = ADDR; options < N_OPTIONS; options++) {
            CHECK(program_receives(&dual, &dual, options, is_late) == 0);
            CHECK(program_receives(&dual, &lo4, options, is_late) == 0);
            CHECK(program_receives(&any4, &any4, options, is_late) == 0);
            CHECK(program_receives(&lo4, &lo4, options, is_late) == 0);
            CHECK(program_receives(&lo6, &lo6, options, is_late) == 0);
        }
    return 0;
}

static void a_guard_for_udp_takes_no_datagram_whichever_was_bound_first(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(every_datagram_arrives, NULL), 0);
}

/* ---- refusals ---- */

static int refusals(void *arg)
{
    struct guard_place place = place_of(DIBS_TCP, &dual);
    AUTO(guard_close) struct guard guard = { .n = 0 };
    dibs_err err = { 0 };

    (void) arg;
    CHECK(own_network() == 0);
    AUTO(fd_auto) int listener = bind_as(DIBS_TCP, &lo4, ADDR, PORT);
    CHECK(listener >= 0);
    CHECK(guard_open(&place, &guard, &err) == DIBS_TAKEN && guard.n == 0 && strstr(err.msg, "35003/tcp"));
    fd_auto(&listener);
    place.bindings[0].proto = DIBS_SCTP;
    CHECK(guard_open(&place, &guard, &err) == DIBS_FAILURE && strstr(err.msg, "sctp"));
    place = place_of(DIBS_TCP, &(dibs_address){ .len = 4, .bytes = { 192, 0, 2, 1 } });
    CHECK(guard_open(&place, &guard, &err) == DIBS_FAILURE && guard.n == 0);
    place = place_of(DIBS_TCP, &dual);
    place.netns = KERNEL_NETNS_UNKNOWN;
    CHECK(guard_open(&place, &guard, &err) == DIBS_UNAVAILABLE && guard.n == 0);
    return 0;
}

static void a_guard_that_cannot_be_had_says_why_and_leaves_no_socket(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(refusals, NULL), 0);
}

static int guards_unseen(void *arg)
{
    struct guard_place place = place_of(DIBS_TCP, &dual);
    AUTO(guard_close) struct guard guard = { .n = 0 };

    (void) arg;
    CHECK(own_network() == 0);
    CHECK(guard_open(&place, &guard, NULL) == DIBS_OK);
    struct finding f = { 0 };
    CHECK(kernel_blocking_sockets(0, DIBS_TCP, PORT, note, &f, NULL) == DIBS_OK && f.n == 0);
    AUTO(fd_auto) int plain = bind_as(DIBS_TCP, &lo4, PLAIN, PORT);
    CHECK(plain < 0 && errno == EADDRINUSE);
    return 0;
}

static void a_list_of_sockets_leaves_guards_out(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(guards_unseen, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_and_binds_to_port_0_pass_by_a_guarded_port),
        cmocka_unit_test(a_program_with_a_reuse_option_binds_a_guarded_port_and_one_without_is_refused),
        cmocka_unit_test(a_guard_made_by_root_belongs_to_the_user_of_its_claim),
        cmocka_unit_test(a_guard_for_udp_takes_no_datagram_whichever_was_bound_first),
        cmocka_unit_test(a_guard_that_cannot_be_had_says_why_and_leaves_no_socket),
        cmocka_unit_test(a_list_of_sockets_leaves_guards_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
