/* SPDX-License-Identifier: MIT */
/* Listening sockets, and the processes that have them open. Other network namespaces: test_kernel_netns.c. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "host/kernel.h"
#include "host/procnet.h"
#include "support/child.h"
#include "support/process.h"
#include "support/sockets.h"

/* More than fit into one answer of the kernel. */
#define MANY 700

static pid_t owner_of(uint64_t inode)
{
    pid_t pid = -1;

    kernel_socket_owners(&inode, &pid, 1, NULL);
    return pid;
}

static const struct {
    const char *name, *address;
    size_t len;
    int type, flags;
    dibs_address want;
} rows[] = {
    { "tcp 127.0.0.1", "\x7f\0\0\1", 4, SOCK_STREAM, LISTENING, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
    { "tcp 0.0.0.0", "\0\0\0\0", 4, SOCK_STREAM, LISTENING, { .len = 4 } },
    { "tcp dual-stack", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, SOCK_STREAM, LISTENING, { .len = 16 } },
    { "tcp [::] alone",
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      16,
      SOCK_STREAM,
      LISTENING | V6ONLY,
      { .len = 16, .v6only = true } },
    { "tcp ::1",
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1",
      16,
      SOCK_STREAM,
      LISTENING | V6ONLY,
      { .len = 16, .v6only = true, .bytes = { [15] = 1 } } },
    { "tcp mapped",
      "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1",
      16,
      SOCK_STREAM,
      LISTENING,
      { .len = 4, .bytes = { 127, 0, 0, 1 } } },
    { "udp 127.0.0.1", "\x7f\0\0\1", 4, SOCK_DGRAM, 0, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
    { "udp dual-stack", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, SOCK_DGRAM, 0, { .len = 16 } },
    { "udp [::] alone",
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      16,
      SOCK_DGRAM,
      V6ONLY,
      { .len = 16, .v6only = true } },
    { "udp mapped",
      "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1",
      16,
      SOCK_DGRAM,
      0,
      { .len = 4, .bytes = { 127, 0, 0, 1 } } },
};

static void our_sockets_are_found_with_address_uid_inode_and_process(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dibs_proto proto = rows[i].type == SOCK_STREAM ? DIBS_TCP : DIBS_UDP;
        uint16_t port = 0;

        if (rows[i].len == 16 && !kernel_has_ipv6())
            continue;
        AUTO(fd_auto) int fd = serve(rows[i].type, rows[i].address, rows[i].len, rows[i].flags, &port);
        assert_true(fd >= 0);
        struct finding f = find(i % 2 ? kernel_netns() : 0, proto, port, inode_of(fd));
        if (f.n_wanted != 1)
            fail_msg("%s was found %zu times", rows[i].name, f.n_wanted);
        assert_int_equal(f.last.proto, proto);
        assert_int_equal(f.last.port, port);
        assert_int_equal(f.last.uid, geteuid());
        assert_int_equal(f.last.address.len, rows[i].want.len);
        assert_int_equal(f.last.address.v6only, rows[i].want.v6only);
        assert_memory_equal(f.last.address.bytes, rows[i].want.bytes, 16);
        assert_int_equal(find(0, proto, 0, inode_of(fd)).n_wanted, 1); /* among all ports */
        assert_int_equal(find(0, proto == DIBS_TCP ? DIBS_UDP : DIBS_TCP, port, inode_of(fd)).n_wanted, 0);
        assert_int_equal(owner_of(inode_of(fd)), getpid());
    }
}

static void only_listening_tcp_and_every_bound_udp_socket_is_listed(void **state)
{
    uint16_t port = 0;
    uint16_t port_udp = 0;
    AUTO(fd_auto) int bound = serve(SOCK_STREAM, "\x7f\0\0\1", 4, 0, &port);
    AUTO(fd_auto) int udp = serve(SOCK_DGRAM, "\x7f\0\0\1", 4, 0, &port_udp);
    struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(9) };

    (void) state;
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(find(0, DIBS_TCP, port, inode_of(bound)).n_wanted, 0);
    assert_int_equal(connect(udp, (struct sockaddr *) &peer, sizeof peer), 0); /* now "established" */
    assert_int_equal(find(0, DIBS_UDP, port_udp, inode_of(udp)).n_wanted, 1);
}

static int makes_many(void *arg)
{
    static int fds[MANY];
    struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    struct finding f = { 0 };
    uint16_t port = 0;

    (void) arg;
    CHECK(unshare(CLONE_NEWNET) == 0);
    AUTO(fd_auto) int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(ioctl(control, SIOCSIFFLAGS, &up) == 0);
    for (int i = 0; i < MANY; i++) {
        fds[i] = serve(SOCK_STREAM, "\x7f\0\0\1", 4, LISTENING, &port);
        CHECK(fds[i] >= 0);
    }
    CHECK(kernel_sockets(0, DIBS_TCP, 0, note, &f, NULL) == DIBS_OK);
    CHECK(f.n == MANY);
    struct socket_list list = { 0 };
    CHECK(procnet_list(
              &(struct socket_query){ .proto = DIBS_TCP, .port = 0, .states = SOCKETS_SERVING(DIBS_TCP) },
              &list, NULL) == DIBS_OK);
    CHECK(list.n == MANY);
    socket_list_done(&list);
    f = (struct finding){ .stop_after = 3 };
    CHECK(kernel_sockets(0, DIBS_TCP, 0, note, &f, NULL) == DIBS_OK);
    CHECK(f.n == 3); /* the callback said stop */

    static uint64_t inodes[MANY + 3];
    static pid_t pids[MANY + 3];
    for (int i = 0; i < MANY; i++)
        inodes[i] = inode_of(fds[i]);
    inodes[MANY] = inodes[0]; /* asked for twice */
    inodes[MANY + 1] = 0;
    inodes[MANY + 2] = UINT64_MAX;
    kernel_socket_owners(inodes, pids, MANY + 3, NULL);
    for (int i = 0; i <= MANY; i++)
        CHECK(pids[i] == getpid());
    CHECK(pids[MANY + 1] == 0 && pids[MANY + 2] == 0);
    return 0;
}

static void a_long_list_comes_whole_and_owners_of_all_in_one_walk(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(makes_many, NULL), 0);
}

static void of_several_owners_the_lowest_pid_is_returned_and_none_is_not_found(void **state)
{
    uint16_t port = 0;
    int fd = serve(SOCK_STREAM, "\x7f\0\0\1", 4, LISTENING, &port);
    uint64_t inode = inode_of(fd);
    pid_t child = child_fork(child_idle, NULL);

    (void) state;
    pid_t owner = owner_of(inode);
    assert_int_equal(owner, child < getpid() ? child : getpid());
    /* Also when the walk must go on, for a socket that nobody has. */
    const uint64_t inodes[] = { UINT64_MAX, inode };
    pid_t owners[2] = { 7, 7 };
    kernel_socket_owners(inodes, owners, 2, NULL);
    assert_int_equal(owners[0], 0);
    assert_int_equal(owners[1], owner);
    (void) close(fd);
    assert_int_equal(owner_of(inode), child); /* inherited: an orphan */
    child_end(child);
    assert_int_equal(owner_of(inode), 0);
    kernel_socket_owners(NULL, NULL, 0, NULL);
}

static void *thread_serves(void *arg)
{
    struct shared *s = arg;
    int fd = serve(SOCK_STREAM, "\x7f\0\0\1", 4, LISTENING, &s->port);

    s->inode = inode_of(fd);
    UNTIL(state_of(getpid()) == 'Z'); /* the first thread has ended */
    (void) !write(s->ready[1], s, sizeof *s);
    (void) child_idle(NULL);
    return NULL;
}

static int leader_leaves(void *arg)
{
    pthread_t thread = 0;

    if (pthread_create(&thread, NULL, thread_serves, arg) != 0)
        return 1;
    pthread_exit(NULL);
}

static void the_socket_of_a_process_whose_first_thread_has_ended_is_found(void **state)
{
    static struct shared s; /* not on the stack of the thread that ends */

    (void) state;
    assert_int_equal(pipe(s.ready), 0);
    pid_t pid = child_fork(leader_leaves, &s);
    (void) close(s.ready[1]); /* a child that dies must not leave us waiting */
    int ready = s.ready[0];
    assert_int_equal(read(ready, &s, sizeof s), sizeof s);
    assert_int_equal(owner_of(s.inode), pid);
    child_end(pid);
    (void) close(ready);
}

#ifdef __NR_socket
static int forbid_netlink(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                                                       : -1;
}

static int lists_without_netlink(void *arg)
{
    (void) arg;
    CHECK(forbid_netlink() == 0);
    CHECK(socket(AF_NETLINK, SOCK_RAW, 4) < 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint16_t port = 0;
        dibs_proto proto = rows[i].type == SOCK_STREAM ? DIBS_TCP : DIBS_UDP;

        if (rows[i].len == 16 && !kernel_has_ipv6())
            continue;
        AUTO(fd_auto) int fd = serve(rows[i].type, rows[i].address, rows[i].len, rows[i].flags, &port);
        struct finding f = { .inode = inode_of(fd) };
        CHECK(kernel_sockets(0, proto, port, note, &f, NULL) == DIBS_OK);
        CHECK(f.n_wanted == 1 && f.last.uid == geteuid() && f.last.port == port);
        CHECK(f.last.address.len == rows[i].want.len && !f.last.address.v6only);
        CHECK(memcmp(f.last.address.bytes, rows[i].want.bytes, 16) == 0);
    }
    return 0;
}
#endif

static void without_netlink_proc_has_the_same_sockets(void **state)
{
    (void) state;
#ifdef __NR_socket
    assert_int_equal(child_run(lists_without_netlink, NULL), 0);
#else
    SKIP_BECAUSE("no socket() system call of its own on this machine");
#endif
}

static void lines_of_proc_net_are_read_or_refused(void **state)
{
    static const struct {
        const char *line;
        bool is_v6, is_good;
        dibs_proto proto;
    } lines[] = {
        { "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1", false,
          true, DIBS_TCP },
        { "   0: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000 0 4711 2", false,
          true, DIBS_UDP },
        { "   0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000 0 4711 2", false,
          true, DIBS_UDP },
        { "   0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000 0 4711 1", false,
          false, DIBS_TCP },
        { "   0: 0100007F:0000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1", false,
          false, DIBS_TCP },
        { "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0", false, false,
          DIBS_TCP },
        { "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4294967296 0 4711 1",
          false, false, DIBS_TCP },
        { "   0: 0100007G:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1", false,
          false, DIBS_TCP },
        { "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1", true,
          false, DIBS_TCP },
        { "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
          false, false, DIBS_TCP },
        { "", false, false, DIBS_TCP },
    };

    (void) state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct kernel_socket socket = { .port = 7 };

        assert_int_equal(
            procnet_line_parse(lines[i].line, lines[i].is_v6,
                               &(struct socket_query){ .proto = lines[i].proto,
                                                       .port = 0,
                                                       .states = SOCKETS_SERVING(lines[i].proto) },
                               &socket),
            lines[i].is_good);
        assert_int_equal(socket.port, lines[i].is_good ? 0x1F90 : 7);
        if (lines[i].is_good)
            assert_true(socket.inode == 4711 && socket.uid == 1000);
    }
}

static void a_protocol_that_the_kernel_does_not_have_has_no_sockets(void **state)
{
    struct finding f = { 0 };
    struct socket_list list = { 0 };
    dibs_err err = { 0 };

    (void) state;
    if (kernel_has_proto(DIBS_SCTP))
        SKIP_BECAUSE("this kernel has SCTP");
    assert_int_equal(kernel_sockets(0, DIBS_SCTP, 0, note, &f, &err), DIBS_OK);
    assert_int_equal(f.n, 0);
    /* And the refusal that ends a dump is not taken for an empty list. */
    AUTO(fd_auto) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 4 /* NETLINK_SOCK_DIAG */);
    assert_int_equal(
        sock_diag_list(
            fd, &(struct socket_query){ .proto = DIBS_SCTP, .port = 0, .states = SOCKETS_SERVING(DIBS_SCTP) },
            &list, &err),
        DIBS_FAILURE);
    assert_int_equal(err.os_errno, ENOENT);
    socket_list_done(&list);
}

/* A connection over loopback: ends[0] is the one that connected. */
static void connect_to(int listening, int ends[2])
{
    struct sockaddr_storage to = { 0 };
    socklen_t len = sizeof to;

    assert_int_equal(getsockname(listening, (struct sockaddr *) &to, &len), 0);
    ends[0] = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *) &to, len), 0);
    ends[1] = accept(listening, NULL, NULL);
    assert_true(ends[1] >= 0);
}

static int becomes_nobody_and_connects(void *arg)
{
    const int *pipe_and_listening = arg;
    struct sockaddr_storage to = { 0 };
    socklen_t len = sizeof to;
    char c = 0;

    CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(getsockname(pipe_and_listening[1], (struct sockaddr *) &to, &len) == 0);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *) &to, len) == 0);
    CHECK(read(pipe_and_listening[0], &c, 1) == 0); /* until we must end */
    return 0;
}

static void the_peer_of_a_connection_is_found_from_both_ends(void **state)
{
    static const char loopbacks[2][16] = { { 127, 0, 0, 1 }, { [15] = 1 } };

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        uint16_t port = 0;
        uint32_t uid = 7;
        int ends[2] = { -1, -1 };
        dibs_err err = { 0 };
        AUTO(fd_auto) int listening = serve(SOCK_STREAM, loopbacks[i], i == 0 ? 4 : 16, LISTENING, &port);

        if (listening < 0)
            SKIP_BECAUSE("needs IPv6");
        connect_to(listening, ends);
        ASSERT_OK(kernel_peer_uid(ends[1], &uid, &err), &err);
        assert_int_equal(uid, geteuid());
        ASSERT_OK(kernel_peer_uid(ends[0], &uid, &err), &err);
        /* A closed socket has no owner any more, and root least of all. */
        (void) close(ends[0]);
        uid = 7;
        assert_int_equal(kernel_peer_uid(ends[1], &uid, &err), DIBS_NOT_FOUND);
        assert_int_equal(uid, 7);
        (void) close(ends[1]);
    }
}

static void another_users_connection_has_that_uid(void **state)
{
    int pipe_fd[2];
    uint16_t port = 0;
    uint32_t uid = 7;
    dibs_err err = { 0 };

    (void) state;
    need_root();
    AUTO(fd_auto) int listening = serve(SOCK_STREAM, "\x7f\0\0\1", 4, LISTENING, &port);
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    int arg[2] = { pipe_fd[0], listening };
    pid_t pid = child_fork(becomes_nobody_and_connects, arg);
    AUTO(fd_auto) int fd = accept(listening, NULL, NULL);
    ASSERT_OK(kernel_peer_uid(fd, &uid, &err), &err);
    assert_int_equal(uid, CHILD_NOBODY);
    child_end(pid);
    (void) close(pipe_fd[0]);
    (void) close(pipe_fd[1]);
}

static void a_socket_that_is_no_tcp_connection_has_no_peer(void **state)
{
    int pair[2];
    uint16_t port = 0;
    uint32_t uid = 7;

    (void) state;
    AUTO(fd_auto) int listening = serve(SOCK_STREAM, "\x7f\0\0\1", 4, LISTENING, &port);
    assert_int_equal(kernel_peer_uid(listening, &uid, NULL), DIBS_NOT_FOUND);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(kernel_peer_uid(pair[0], &uid, NULL), DIBS_INVALID);
    assert_int_equal(uid, 7);
    (void) close(pair[0]);
    (void) close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_sockets_are_found_with_address_uid_inode_and_process),
        cmocka_unit_test(only_listening_tcp_and_every_bound_udp_socket_is_listed),
        cmocka_unit_test(a_long_list_comes_whole_and_owners_of_all_in_one_walk),
        cmocka_unit_test(of_several_owners_the_lowest_pid_is_returned_and_none_is_not_found),
        cmocka_unit_test(the_socket_of_a_process_whose_first_thread_has_ended_is_found),
        cmocka_unit_test(without_netlink_proc_has_the_same_sockets),
        cmocka_unit_test(lines_of_proc_net_are_read_or_refused),
        cmocka_unit_test(the_peer_of_a_connection_is_found_from_both_ends),
        cmocka_unit_test(another_users_connection_has_that_uid),
        cmocka_unit_test(a_socket_that_is_no_tcp_connection_has_no_peer),
        cmocka_unit_test(a_protocol_that_the_kernel_does_not_have_has_no_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
