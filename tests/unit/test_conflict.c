/* SPDX-License-Identifier: MIT */
/* dibs_address_conflict against the kernel that runs the test: INV-1 says "the kernel's
 * own rule", so the kernel is asked. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "dibs/net.h"
#include "support/t.h"

/* A stranger can make a free port look busy, never a busy one free: a pair counts as
 * conflicting only when it does so on this many different ports. */
#define TRIES 8

static const struct kind {
    const char *name;
    dibs_address address;
} kinds[] = {
    { "127.0.0.1", { .len = 4, .bytes = { 127, 0, 0, 1 } } },
    { "127.0.0.2", { .len = 4, .bytes = { 127, 0, 0, 2 } } },
    { "0.0.0.0", { .len = 4 } },
    { "::1", { .len = 16, .bytes = { [15] = 1 } } },
    { "dual-stack ::", { .len = 16 } },
    { "IPv6-only ::", { .len = 16, .v6only = true } },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static socklen_t to_sockaddr(const dibs_address *address, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    if (address->len == 4) {
        memcpy(&v4.sin_addr, address->bytes, 4);
        memcpy(out, &v4, sizeof v4);
        return sizeof v4;
    }
    memcpy(&v6.sin6_addr, address->bytes, 16);
    memcpy(out, &v6, sizeof v6);
    return sizeof v6;
}

/* A socket that is bound (and, for TCP, listens), or -1. */
static int bound(int type, const dibs_address *address, uint16_t port)
{
    struct sockaddr_storage to = { 0 };
    int only = address->v6only;
    AUTO(fd_auto) int fd = socket(address->len == 4 ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (address->len == 16 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) != 0)
        return -1;
    if (bind(fd, (const struct sockaddr *) &to, to_sockaddr(address, port, &to)) != 0)
        return -1;
    if (type == SOCK_STREAM && listen(fd, 1) != 0)
        return -1;
    return fd_take(&fd);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage at = { 0 };
    struct sockaddr_in6 v6 = { 0 };
    struct sockaddr_in v4 = { 0 };
    socklen_t len = sizeof at;

    assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    if (at.ss_family == AF_INET) {
        memcpy(&v4, &at, sizeof v4);
        return ntohs(v4.sin_port);
    }
    memcpy(&v6, &at, sizeof v6);
    return ntohs(v6.sin6_port);
}

static bool kernel_conflict(int type, const struct kind *a, const struct kind *b)
{
    for (int i = 0; i < TRIES; i++) {
        AUTO(fd_auto) int first = bound(type, &a->address, 0);

        if (first < 0)
            fail_msg("%s cannot be bound on any port", a->name);
        AUTO(fd_auto) int second = bound(type, &b->address, port_of(first));
        if (second >= 0)
            return false;
    }
    return true;
}

static bool host_has_ipv6(void)
{
    AUTO(fd_auto) int fd = bound(SOCK_STREAM, &kinds[3].address, 0);

    return fd >= 0;
}

static void compare_with_kernel(int type)
{
    int conflicts = 0;

    if (!host_has_ipv6()) {
        print_message("# no IPv6 on this host: ::1 cannot be bound, so the truth table cannot be asked\n");
        skip();
    }
    for (size_t a = 0; a < KINDS; a++) {
        for (size_t b = 0; b < KINDS; b++) {
            bool ours = dibs_address_conflict(&kinds[a].address, &kinds[b].address);
            bool theirs = kernel_conflict(type, &kinds[a], &kinds[b]);

            conflicts += theirs;
            if (ours != theirs)
                fail_msg("%s then %s: the kernel says %s, dibs %s", kinds[a].name, kinds[b].name,
                         theirs ? "conflict" : "fine", ours ? "conflict" : "fine");
        }
    }
    /* Neither "always" nor "never" may pass: 22 of the 36 pairs conflict. */
    assert_int_equal(conflicts, 22);
}

static void the_kernel_agrees_on_every_pair_for_tcp(void **state)
{
    (void) state;
    compare_with_kernel(SOCK_STREAM);
}

static void the_kernel_agrees_on_every_pair_for_udp(void **state)
{
    (void) state;
    compare_with_kernel(SOCK_DGRAM);
}

static void the_stated_truth_table_holds(void **state)
{
    enum { LO1, LO2, ANY4, LO6, DUAL, ONLY6 };
    static const struct {
        int a, b;
        bool conflict;
    } rows[] = {
        { ANY4, LO1, true },    { LO1, LO2, false },   { ANY4, LO6, false }, { ANY4, DUAL, true },
        { DUAL, LO1, true },    { DUAL, LO6, true },   { DUAL, DUAL, true }, { LO6, LO1, false },
        { ONLY6, ANY4, false }, { ONLY6, LO1, false }, { ONLY6, LO6, true }, { ONLY6, DUAL, true },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(dibs_address_conflict(&kinds[rows[i].a].address, &kinds[rows[i].b].address),
                         rows[i].conflict);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Few different bytes, so that equal addresses and wildcards are frequent. */
static dibs_address random_address(uint64_t *seed)
{
    dibs_address address = { .len = next_random(seed) % 2 ? 4 : 16 };

    address.bytes[address.len - 1] = (uint8_t) (next_random(seed) % 3);
    address.bytes[0] = next_random(seed) % 4 ? 0 : 10;
    address.v6only = address.len == 16 && next_random(seed) % 3 == 0;
    return address;
}

static void conflict_is_symmetric_and_includes_equality(void **state)
{
    uint64_t seed = 20260821;

    (void) state;
    print_message("# seed %llu\n", (unsigned long long) seed);
    for (int i = 0; i < 100000; i++) {
        dibs_address a = random_address(&seed);
        dibs_address b = random_address(&seed);

        assert_int_equal(dibs_address_conflict(&a, &b), dibs_address_conflict(&b, &a));
        assert_true(dibs_address_conflict(&a, &a));
        if (dibs_address_equal(&a, &b))
            assert_true(dibs_address_conflict(&a, &b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_agrees_on_every_pair_for_tcp),
        cmocka_unit_test(the_kernel_agrees_on_every_pair_for_udp),
        cmocka_unit_test(the_stated_truth_table_holds),
        cmocka_unit_test(conflict_is_symmetric_and_includes_equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
