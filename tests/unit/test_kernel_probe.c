/* SPDX-License-Identifier: MIT */
/* The bind probe against real sockets. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "host/kernel.h"
#include "support/child.h"

#define REBINDINGS 2000
/* A stranger may take a port between our close and our probe: a few tries, each with another port. */
#define TRIES 8

static const struct kind {
    const char *name;
    dibs_address address;
} kinds[] = {
    { "127.0.0.1", { .len = 4, .bytes = { 127, 0, 0, 1 } } },
    { "127.0.0.2", { .len = 4, .bytes = { 127, 0, 0, 2 } } },
    { "0.0.0.0", { .len = 4 } },
    { "::1", { .len = 16, .bytes = { [15] = 1 } } },
    { "*", { .len = 16 } },
    { "[::] without IPv4", { .len = 16, .v6only = true } }, /* a server's choice, never a claim's */
};
enum { LOOPBACK = 0, ANY4 = 2, LOOPBACK6 = 3, DUAL = 4, N_CLAIMS = 5, N_KINDS = 6 };

static socklen_t fill(struct sockaddr_storage *out, const dibs_address *address, uint16_t port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *) out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) out;

    memset(out, 0, sizeof *out);
    if (address->len == 4) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address->bytes, 4);
        return sizeof *v4;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, address->bytes, 16);
    return sizeof *v6;
}

/* A bound socket, TCP listening; *port 0: the kernel chooses. -1 and errno when it does not work. */
static int serve(dibs_proto proto, const dibs_address *address, int reuse, uint16_t *port)
{
    struct sockaddr_storage sa;
    socklen_t len = fill(&sa, address, *port);
    int type = proto == DIBS_UDP ? SOCK_DGRAM : SOCK_STREAM;
    int fd = socket(sa.ss_family, type | SOCK_CLOEXEC, proto == DIBS_SCTP ? IPPROTO_SCTP : 0);
    int v6only = address->v6only || !dibs_address_is_wildcard(address);

    if (fd < 0)
        return -1;
    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (sa.ss_family == AF_INET6)
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only);
    if (bind(fd, (struct sockaddr *) &sa, len) != 0 || (proto != DIBS_UDP && listen(fd, 5) != 0) ||
        getsockname(fd, (struct sockaddr *) &sa, &len) != 0) {
        int saved = errno;
        (void) close(fd);
        errno = saved;
        return -1;
    }
    *port = ntohs(sa.ss_family == AF_INET ? ((struct sockaddr_in *) &sa)->sin_port
                                          : ((struct sockaddr_in6 *) &sa)->sin6_port);
    return fd;
}

static enum kernel_probe_result probe(dibs_proto proto, size_t kind, uint16_t port)
{
    dibs_binding b = { proto, kinds[kind].address };

    return kernel_probe(&b, 1, port, NULL);
}

/* Probing `claim` while `server` is bound; how often is the port busy in TRIES tries? */
static int busy_count(dibs_proto proto, size_t server, size_t claim, int reuse)
{
    int busy = 0;

    for (int i = 0; i < TRIES; i++) {
        uint16_t port = 0;
        AUTO(fd_auto) int fd = serve(proto, &kinds[server].address, reuse, &port);

        assert_true(fd >= 0);
        enum kernel_probe_result r = probe(proto, claim, port);
        assert_int_not_equal(r, KERNEL_ABORT);
        busy += r == KERNEL_BUSY;
    }
    return busy;
}

static void a_port_is_busy_exactly_for_the_addresses_that_conflict(void **state)
{
    static const dibs_proto protos[] = { DIBS_TCP, DIBS_UDP };

    (void) state;
    if (!kernel_has_ipv6())
        SKIP_BECAUSE("this host has no IPv6");
    for (size_t p = 0; p < 2; p++) {
        for (size_t server = 0; server < N_KINDS; server++) {
            for (size_t claim = 0; claim < N_CLAIMS; claim++) {
                bool conflicts = dibs_address_conflict(&kinds[server].address, &kinds[claim].address);
                int busy = busy_count(protos[p], server, claim, 0);

                if (conflicts ? busy != TRIES : busy == TRIES)
                    fail_msg("%s: server on %s, probe of %s: busy %d of %d", dibs_proto_text(protos[p]),
                             kinds[server].name, kinds[claim].name, busy, TRIES);
            }
        }
    }
}

static void a_socket_that_allows_reuse_is_seen_all_the_same(void **state)
{
    (void) state;
    for (size_t kind = 0; kind <= ANY4; kind++) {
        assert_int_equal(busy_count(DIBS_TCP, kind, kind, 1), TRIES);
        assert_int_equal(busy_count(DIBS_UDP, kind, kind, 1), TRIES);
    }
}

static void tcp_and_udp_do_not_hinder_each_other(void **state)
{
    int free_count = 0;

    (void) state;
    for (int i = 0; i < TRIES; i++) {
        uint16_t port = 0;
        AUTO(fd_auto) int fd = serve(DIBS_TCP, &kinds[LOOPBACK].address, 0, &port);

        assert_true(fd >= 0);
        free_count += probe(DIBS_UDP, LOOPBACK, port) == KERNEL_FREE;
    }
    assert_true(free_count > 0);
}

static void a_closed_port_is_free_and_the_probe_leaves_nothing_open(void **state)
{
    int free_count = 0;
    int before = dup(0);

    (void) state;
    (void) close(before);
    for (int i = 0; i < TRIES; i++) {
        uint16_t port = 0;
        int fd = serve(DIBS_TCP, &kinds[LOOPBACK].address, 0, &port);

        assert_true(fd >= 0);
        (void) close(fd);
        free_count +=
            probe(DIBS_TCP, LOOPBACK, port) == KERNEL_FREE && probe(DIBS_UDP, LOOPBACK, port) == KERNEL_FREE;
    }
    assert_true(free_count > 0);
    int after = dup(0);
    (void) close(after);
    assert_int_equal(after, before);
}

static void one_busy_binding_makes_the_port_busy(void **state)
{
    uint16_t port = 0;
    AUTO(fd_auto) int fd = serve(DIBS_UDP, &kinds[LOOPBACK].address, 0, &port);
    const dibs_binding bindings[] = { { DIBS_TCP, kinds[1].address },
                                      { DIBS_UDP, kinds[1].address },
                                      { DIBS_UDP, kinds[LOOPBACK].address } };

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(kernel_probe(bindings, 2, port, NULL), KERNEL_FREE);
    assert_int_equal(kernel_probe(bindings, 3, port, NULL), KERNEL_BUSY);
    assert_int_equal(kernel_probe(bindings, 0, port, NULL), KERNEL_FREE);
}

/* A port of ours whose last connection is in TIME_WAIT; 0 when it did not work out. */
static uint16_t make_time_wait(void)
{
    uint16_t port = 0;
    struct sockaddr_storage sa;
    char c = 0;
    AUTO(fd_auto) int server = serve(DIBS_TCP, &kinds[LOOPBACK].address, 1, &port);
    AUTO(fd_auto) int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = fill(&sa, &kinds[LOOPBACK].address, port);

    if (server < 0 || connect(client, (struct sockaddr *) &sa, len) != 0)
        return 0;
    int accepted = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    if (accepted < 0)
        return 0;
    (void) close(accepted); /* who closes first keeps TIME_WAIT */
    return read(client, &c, 1) == 0 ? port : 0;
}

/* Can a plain server have the port? errno says why not. */
static bool can_serve(uint16_t port)
{
    int fd = serve(DIBS_TCP, &kinds[LOOPBACK].address, 0, &port);

    if (fd >= 0)
        (void) close(fd);
    return fd >= 0;
}

static void time_wait_does_not_make_a_port_busy(void **state)
{
    uint16_t port = make_time_wait();

    (void) state;
    assert_int_not_equal(port, 0);
    UNTIL(!can_serve(port)); /* the client's FIN is on its way */
    assert_false(can_serve(port));
    assert_int_equal(errno, EADDRINUSE); /* a real TIME_WAIT: a plain bind trips over it */
    assert_int_equal(probe(DIBS_TCP, LOOPBACK, port), KERNEL_FREE);
    assert_int_equal(probe(DIBS_TCP, ANY4, port), KERNEL_FREE);
}

struct disturber {
    uint16_t port;
    atomic_bool is_over;
    atomic_uint n_free, n_busy, n_abort;
};

static void *probe_all_the_time(void *arg)
{
    struct disturber *d = arg;

    while (!atomic_load(&d->is_over)) {
        switch (probe(DIBS_TCP, LOOPBACK, d->port)) {
        case KERNEL_FREE: d->n_free++; break;
        case KERNEL_BUSY: d->n_busy++; break;
        case KERNEL_ABORT: d->n_abort++; break;
        }
    }
    return NULL;
}

/* Until the prober has seen it once more: it is then in the middle of its work. */
static void wait_for_more(const atomic_uint *count)
{
    unsigned before = atomic_load(count);

    UNTIL(atomic_load(count) != before);
}

/* Proved here: a server that sets SO_REUSEADDR, as servers do, never fails to bind or to listen
 * because somebody probes its port at that moment. (One without the option may: bind() then sees the
 * probe's socket. That is why a port with an unreleased claim is never probed.) */
static void probing_does_not_disturb_a_server_that_rebinds(void **state)
{
    struct disturber d = { 0 };
    pthread_t thread = 0;
    int failed = 0;
    uint16_t port = 0;
    int fd = serve(DIBS_TCP, &kinds[LOOPBACK].address, 1, &port);

    (void) state;
    assert_true(fd >= 0);
    d.port = port;
    assert_int_equal(pthread_create(&thread, NULL, probe_all_the_time, &d), 0);
    for (int i = 0; i < REBINDINGS; i++) {
        if (fd >= 0)
            (void) close(fd);
        if (i % 64 == 32)
            wait_for_more(&d.n_free);
        fd = serve(DIBS_TCP, &kinds[LOOPBACK].address, 1, &port);
        failed += fd < 0;
        if (i % 64 == 0)
            wait_for_more(&d.n_busy);
    }
    atomic_store(&d.is_over, true);
    (void) pthread_join(thread, NULL);
    if (fd >= 0)
        (void) close(fd);
    print_message("%d rebindings, %d failed; probes: %u free, %u busy\n", REBINDINGS, failed, d.n_free,
                  d.n_busy);
    assert_int_equal(failed, 0);
    assert_int_equal(d.n_abort, 0);
    assert_true(d.n_free > 0);
    assert_true(d.n_busy > 0);
}

static int privileged_start(void)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int start = 0;

    if (!file || fscanf(file, "%d", &start) != 1) // NOLINT(cert-err34-c)
        start = 0;
    if (file)
        (void) fclose(file);
    return start;
}

static int probes_port_80_as_nobody(void *arg)
{
    dibs_binding b = { DIBS_TCP, kinds[LOOPBACK].address };
    dibs_err err = { 0 };

    (void) arg;
    CHECK(setresgid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0 &&
          setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(kernel_probe(&b, 1, 80, &err) == KERNEL_ABORT);
    CHECK(err.code == DIBS_DENIED && err.os_errno == EACCES);
    CHECK(strstr(err.msg, "tcp 127.0.0.1:80"));
    return 0;
}

static void a_privileged_port_is_denied_not_busy(void **state)
{
    (void) state;
    need_root();
    if (privileged_start() <= 80)
        SKIP_BECAUSE("ip_unprivileged_port_start is not above 80 here");
    assert_int_equal(child_run(probes_port_80_as_nobody, NULL), 0);
}

static void an_address_of_another_host_is_a_failure_that_names_the_binding(void **state)
{
    const dibs_binding v4 = { DIBS_UDP, { .len = 4, .bytes = { 192, 0, 2, 1 } } };
    const dibs_binding v6 = { DIBS_TCP, { .len = 16, .bytes = { 0x20, 1, 0x0d, 0xb8, [15] = 1 } } };
    const dibs_binding none = { DIBS_TCP, { .len = 7 } };
    dibs_err err = { 0 };

    (void) state;
    assert_int_equal(kernel_probe(&v4, 1, 8080, &err), KERNEL_ABORT);
    assert_int_equal(err.code, DIBS_FAILURE);
    assert_int_equal(err.os_errno, EADDRNOTAVAIL);
    assert_non_null(strstr(err.msg, "udp 192.0.2.1:8080"));
    assert_int_equal(kernel_probe(&none, 1, 8080, &err), KERNEL_ABORT);
    assert_int_equal(err.code, DIBS_FAILURE);
    if (kernel_has_ipv6()) {
        assert_int_equal(kernel_probe(&v6, 1, 8080, &err), KERNEL_ABORT);
        assert_int_equal(err.os_errno, EADDRNOTAVAIL);
        assert_non_null(strstr(err.msg, "tcp [2001:db8::1]:8080"));
    }
}

static int has_no_descriptor_left(void *arg)
{
    dibs_binding b = { DIBS_TCP, kinds[LOOPBACK].address };
    dibs_err err = { 0 };
    int lowest = dup(0);

    (void) arg;
    (void) close(lowest);
    struct rlimit limit = { (rlim_t) lowest, (rlim_t) lowest };
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(kernel_probe(&b, 1, 8080, &err) == KERNEL_ABORT);
    CHECK(err.code == DIBS_FAILURE && err.os_errno == EMFILE);
    CHECK(kernel_has_proto(DIBS_TCP)); /* want of descriptors says nothing about the protocol */
    return 0;
}

static void want_of_descriptors_is_a_failure_not_busy(void **state)
{
    (void) state;
    assert_int_equal(child_run(has_no_descriptor_left, NULL), 0);
}

static int fresh_network(void)
{
    struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

    CHECK(unshare(CLONE_NEWNET) == 0);
    AUTO(fd_auto) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return ioctl(fd, SIOCSIFFLAGS, &up);
}

static int loses_ipv6(void *arg)
{
    dibs_binding b = { DIBS_TCP, kinds[LOOPBACK6].address };
    dibs_err err = { 0 };

    (void) arg;
    CHECK(fresh_network() == 0);
    CHECK(kernel_has_ipv6());
    CHECK(child_write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1") == 0);
    CHECK(!kernel_has_ipv6());
    CHECK(kernel_probe(&b, 1, 8080, &err) == KERNEL_ABORT && err.code == DIBS_FAILURE);
    CHECK(probe(DIBS_TCP, LOOPBACK, 8080) == KERNEL_FREE);
    return 0;
}

static void a_network_without_ipv6_is_recognised(void **state)
{
    (void) state;
    need_root();
    if (access("/proc/sys/net/ipv6/conf/all/disable_ipv6", F_OK) != 0)
        SKIP_BECAUSE("this kernel has no IPv6");
    assert_int_equal(child_run(loses_ipv6, NULL), 0);
}

static int prefers_v6only(void *arg)
{
    uint16_t port = 0;

    (void) arg;
    CHECK(fresh_network() == 0);
    CHECK(child_write_file("/proc/sys/net/ipv6/bindv6only", "1") == 0);
    AUTO(fd_auto) int fd = serve(DIBS_TCP, &kinds[LOOPBACK].address, 0, &port);
    CHECK(fd >= 0);
    CHECK(probe(DIBS_TCP, DUAL, port) == KERNEL_BUSY);
    CHECK(probe(DIBS_TCP, LOOPBACK6, port) == KERNEL_FREE);
    return 0;
}

static void the_wildcard_is_dual_stack_whatever_the_host_prefers(void **state)
{
    (void) state;
    need_root();
    if (!kernel_has_ipv6())
        SKIP_BECAUSE("this host has no IPv6");
    assert_int_equal(child_run(prefers_v6only, NULL), 0);
}

static void sctp_is_probed_like_tcp(void **state)
{
    (void) state;
    if (!kernel_has_proto(DIBS_SCTP))
        SKIP_BECAUSE("SCTP: not in this kernel");
    assert_int_equal(busy_count(DIBS_SCTP, LOOPBACK, LOOPBACK, 0), TRIES);
    assert_true(busy_count(DIBS_SCTP, LOOPBACK, 1, 0) < TRIES);
}

static void a_kernel_without_sctp_says_so(void **state)
{
    dibs_binding b = { DIBS_SCTP, kinds[LOOPBACK].address };
    dibs_err err = { 0 };

    (void) state;
    assert_true(kernel_has_proto(DIBS_TCP));
    assert_true(kernel_has_proto(DIBS_UDP));
    if (kernel_has_proto(DIBS_SCTP))
        SKIP_BECAUSE("this kernel has SCTP");
    assert_int_equal(kernel_probe(&b, 1, 8080, &err), KERNEL_ABORT);
    assert_int_equal(err.code, DIBS_FAILURE);
    assert_non_null(strstr(err.msg, "this kernel does not have the protocol"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_is_busy_exactly_for_the_addresses_that_conflict),
        cmocka_unit_test(a_socket_that_allows_reuse_is_seen_all_the_same),
        cmocka_unit_test(tcp_and_udp_do_not_hinder_each_other),
        cmocka_unit_test(a_closed_port_is_free_and_the_probe_leaves_nothing_open),
        cmocka_unit_test(one_busy_binding_makes_the_port_busy),
        cmocka_unit_test(time_wait_does_not_make_a_port_busy),
        cmocka_unit_test(probing_does_not_disturb_a_server_that_rebinds),
        cmocka_unit_test(a_privileged_port_is_denied_not_busy),
        cmocka_unit_test(an_address_of_another_host_is_a_failure_that_names_the_binding),
        cmocka_unit_test(want_of_descriptors_is_a_failure_not_busy),
        cmocka_unit_test(a_network_without_ipv6_is_recognised),
        cmocka_unit_test(the_wildcard_is_dual_stack_whatever_the_host_prefers),
        cmocka_unit_test(sctp_is_probed_like_tcp),
        cmocka_unit_test(a_kernel_without_sctp_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
