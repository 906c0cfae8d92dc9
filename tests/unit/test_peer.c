/* SPDX-License-Identifier: MIT */
/* The peer of a connection: real sockets, users and namespaces. */
#include "host/peer.h"

#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/nsfs.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "support/child.h"
#include "support/process.h"

#define USER 12345

/* A listener without a place in the file system; the kernel chooses its name. */
static int listener(struct sockaddr_un *at, socklen_t *len)
{
    const struct timeval patience = { .tv_sec = 5 }; /* with a caller who fails */
    struct sockaddr_un any = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *len = sizeof *at;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        bind(fd, (struct sockaddr *) &any, sizeof any.sun_family) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *) at, len) != 0)
        return -1;
    return fd;
}

/* A process that connects, says its own pid, and stays until it is ended. */
struct caller {
    struct sockaddr_un at;
    socklen_t len;
    int listen_fd;
    int fd;     /* our end */
    pid_t pid;  /* our child: the caller, or its keeper in another namespace */
    pid_t says; /* its own pid, as it sees it */
    int (*prepare)(void);
    bool leaves; /* at once, after it has connected */
};

static int calls(void *arg)
{
    struct caller *c = arg;
    pid_t me = getpid();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(c->prepare == NULL || c->prepare() == 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *) &c->at, c->len) == 0);
    CHECK(write(fd, &me, sizeof me) == (ssize_t) sizeof me);
    return c->leaves ? 0 : child_idle(NULL);
}

static int calls_from_a_new_pidns(void *arg)
{
    return child_in_new_pidns(calls, arg);
}

static void start(struct caller *c, int (*fn)(void *))
{
    c->listen_fd = listener(&c->at, &c->len);
    assert_true(c->listen_fd >= 0);
    c->pid = child_fork(fn, c);
    c->fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(c->fd >= 0);
    assert_int_equal(read(c->fd, &c->says, sizeof c->says), sizeof c->says);
}

static void stop(struct caller *c)
{
    child_end(c->pid);
    (void) close(c->fd);
    (void) close(c->listen_fd);
}

static struct peer load(const struct process_view *view, int fd)
{
    struct peer peer = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(peer_load(view, fd, &peer, &err), &err);
    return peer;
}

static const char *principal(char out[64], uint32_t uid)
{
    (void) snprintf(out, 64, "uid:%" PRIu32, uid);
    return out;
}

static int becomes_a_user(void)
{
    return setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0 ? 0 : 1;
}

static void a_peer_of_our_own_namespaces_is_its_user(void **state)
{
    struct process_view view = here();
    struct caller c = { 0 };
    char text[64];
    pid_t pid = 0;

    (void) state;
    start(&c, calls);
    struct peer peer = load(&view, c.fd);
    assert_int_equal(peer.uid, facts_of(&view, getpid()).uid);
    assert_int_equal(peer.pid, c.pid);
    assert_true(peer.pidns == view.pidns);
    assert_true(peer.is_here);
    assert_true(peer.pidfd >= 0);
    assert_string_equal(peer.principal, principal(text, peer.uid));
    assert_int_equal(peer_pid(&view, &peer, 0, &pid, NULL), DIBS_OK);
    assert_int_equal(pid, c.pid);
    assert_int_equal(peer_pid(&view, &peer, 4711, &pid, NULL), DIBS_OK);
    assert_int_equal(pid, 4711); /* any process: the same number */
    assert_int_equal(peer_pid(&view, &peer, -1, &pid, NULL), DIBS_NOT_FOUND);
    assert_int_equal(pid, 4711);
    peer_done(&peer);
    assert_int_equal(peer.pidfd, -1);
    stop(&c);
}

static void another_user_is_another_principal(void **state)
{
    struct process_view view = here();
    struct caller c = { .prepare = becomes_a_user };

    (void) state;
    need_root();
    start(&c, calls);
    struct peer peer = load(&view, c.fd);
    assert_int_equal(peer.uid, USER);
    assert_true(peer.is_here);
    assert_string_equal(peer.principal, "uid:12345");
    peer_done(&peer);
    stop(&c);
}

/* A process that may not read others' namespaces can still see that they share its own. */
static int looks_at_root(void *arg)
{
    const struct caller *c = arg;
    struct process_view view = { 0 };
    struct peer peer = { 0 };

    CHECK(becomes_a_user() == 0);
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(peer_load(&view, c->fd, &peer, NULL) == DIBS_OK);
    CHECK(peer.is_here);
    CHECK(strcmp(peer.principal, "uid:0") == 0);
    return 0;
}

static int looks_at_another_namespace(void *arg)
{
    const struct caller *c = arg;
    struct process_view view = { 0 };
    struct peer peer = { 0 };
    pid_t pid = 0;

    CHECK(becomes_a_user() == 0);
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(peer_load(&view, c->fd, &peer, NULL) == DIBS_OK);
    CHECK(!peer.is_here);
    CHECK(strcmp(peer.principal, "uid:0@unknown") == 0);
    CHECK(peer_pid(&view, &peer, 1, &pid, NULL) == DIBS_DENIED);
    return 0;
}

static void a_users_daemon_knows_peers_of_its_own_namespace(void **state)
{
    struct caller near = { 0 };
    struct caller far = { 0 };

    (void) state;
    need_root();
    start(&near, calls);
    assert_int_equal(child_run(looks_at_root, &near), 0);
    stop(&near);
    start(&far, calls_from_a_new_pidns);
    assert_int_equal(child_run(looks_at_another_namespace, &far), 0);
    stop(&far);
}

/* fn(arg) as root of a user namespace, who is nobody else than the caller outside. Not by unshare(2), which a
 * process with a thread of the sanitizer's may not do. */
static int in_new_userns(int (*fn)(void *), void *arg)
{
    char map[64];

    (void) snprintf(map, sizeof map, "0 %u 1", (unsigned) geteuid());
    pid_t pid = (pid_t) syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(child_write_file("/proc/self/uid_map", map) == 0 && geteuid() == 0 ? fn(arg) : 2);
    }
    return pid < 0 ? 3 : child_join(pid);
}

static int calls_from_a_new_userns(void *arg)
{
    CHECK(becomes_a_user() == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0); /* else its own /proc files are root's */
    return in_new_userns(calls, arg);
}

static void root_of_a_user_namespace_is_the_same_user_as_outside(void **state)
{
    struct process_view view = here();
    struct caller c = { 0 };

    (void) state;
    need_root();
    start(&c, calls_from_a_new_userns);
    struct peer peer = load(&view, c.fd);
    assert_string_equal(peer.principal, "uid:12345");
    peer_done(&peer);
    stop(&c);
}

/* From within a user namespace: a peer that has a number there, and one that has none. */
static int looks_from_a_user_namespace(void *arg)
{
    const struct caller *c = arg;
    struct process_view view = { 0 };
    struct peer peer = { .uid = 7 };

    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(peer_load(&view, c[0].fd, &peer, NULL) == DIBS_OK);
    CHECK(peer.uid == 0 && strcmp(peer.principal, "uid:0") == 0);
    peer_done(&peer);
    CHECK(peer_load(&view, c[1].fd, &peer, NULL) == DIBS_DENIED);
    return 0;
}

static int looks_from_there(void *arg)
{
    return in_new_userns(looks_from_a_user_namespace, arg);
}

static void a_user_without_a_number_here_is_refused(void **state)
{
    struct caller c[2] = { { .prepare = NULL }, { .prepare = becomes_a_user } };

    (void) state;
    need_root();
    start(&c[0], calls);
    start(&c[1], calls);
    assert_int_equal(child_run(looks_from_there, c), 0);
    stop(&c[0]);
    stop(&c[1]);
}

static void a_peer_that_has_ended_is_nobody_known(void **state)
{
    struct process_view view = here();
    struct caller c = { .leaves = true };
    char wanted[64];
    pid_t pid = 7;

    (void) state;
    start(&c, calls);
    child_await_end(c.pid);
    for (int i = 0; i < 2; i++) { /* a zombie first, then no process at all */
        struct peer peer = load(&view, c.fd);

        assert_int_equal(peer.pid, 0);
        assert_false(peer.is_here);
        (void) snprintf(wanted, sizeof wanted, "uid:%" PRIu32 "@unknown", peer.uid);
        assert_string_equal(peer.principal, wanted);
        assert_int_equal(peer_pid(&view, &peer, 0, &pid, NULL), DIBS_NOT_FOUND);
        assert_int_equal(peer_pid(&view, &peer, getpid(), &pid, NULL), DIBS_DENIED);
        assert_int_equal(pid, 7);
        peer_done(&peer);
        if (i == 0)
            assert_int_equal(child_join(c.pid), 0);
    }
    (void) close(c.fd);
    (void) close(c.listen_fd);
}

static void a_peer_that_ends_later_is_no_longer_there(void **state)
{
    struct process_view view = here();
    struct caller c = { 0 };
    pid_t pid = 7;

    (void) state;
    start(&c, calls);
    struct peer peer = load(&view, c.fd);
    child_end(c.pid);
    assert_int_equal(peer_pid(&view, &peer, 0, &pid, NULL), DIBS_NOT_FOUND);
    assert_int_equal(pid, 7);
    peer_done(&peer);
    (void) close(c.fd);
    (void) close(c.listen_fd);
}

static void a_descriptor_that_is_no_connection_has_no_peer(void **state)
{
    struct process_view view = here();
    struct peer peer = { .uid = 7 };
    int lonely = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void) state;
    assert_int_equal(peer_load(&view, lonely, &peer, NULL), DIBS_DENIED);
    assert_int_equal(peer_load(&view, null, &peer, NULL), DIBS_FAILURE);
    assert_int_equal(peer.uid, 7);
    (void) close(lonely);
    (void) close(null);
}

static void without_a_descriptor_nobody_is_taken_for_somebody_else(void **state)
{
    struct process_view view = here();
    struct peer peer = { .uid = 7 };
    struct caller c = { 0 };
    struct rlimit limit = { 0 };

    (void) state;
    start(&c, calls);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = { .rlim_cur = 1, .rlim_max = limit.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    dibs_status s = peer_load(&view, c.fd, &peer, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(s, DIBS_UNAVAILABLE);
    assert_int_equal(peer.uid, 7);
    stop(&c);
}

/* ---- another pid namespace ---- */

/* A namespace whose init connects, with a process of its own, one of another user, and one a namespace below.
 */
struct colony {
    struct caller caller;
    int report[2];
    struct {
        pid_t mine, other, deeper;
    } pid; /* as init sees them */
};

static int waits_as_a_user(void *arg)
{
    (void) arg;
    return becomes_a_user() == 0 ? child_idle(NULL) : 1;
}

static bool is_user(pid_t pid)
{
    struct process_view view = { 0 };
    struct process_facts facts = { 0 };

    return process_view_load(&view, NULL) == DIBS_OK &&
           process_identify(&view, pid, &facts, NULL) == DIBS_OK && facts.uid == USER;
}

static int founds_a_colony(void *arg)
{
    struct colony *colony = arg;

    colony->pid.mine = child_fork(child_idle, NULL);
    colony->pid.other = child_fork(waits_as_a_user, NULL);
    UNTIL(is_user(colony->pid.other));
    CHECK(unshare(CLONE_NEWPID) == 0);
    colony->pid.deeper = child_fork(child_idle, NULL);
    CHECK(write(colony->report[1], &colony->pid, sizeof colony->pid) == (ssize_t) sizeof colony->pid);
    return calls(&colony->caller);
}

static int founds_it_below(void *arg)
{
    return child_in_new_pidns(founds_a_colony, arg);
}

static void found(struct colony *colony)
{
    assert_int_equal(pipe2(colony->report, O_CLOEXEC), 0);
    struct caller *c = &colony->caller;
    c->listen_fd = listener(&c->at, &c->len);
    c->pid = child_fork(founds_it_below, colony);
    c->fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(c->fd >= 0);
    assert_int_equal(read(colony->report[0], &colony->pid, sizeof colony->pid), sizeof colony->pid);
    assert_int_equal(read(c->fd, &c->says, sizeof c->says), sizeof c->says);
}

static void abandon(struct colony *colony)
{
    stop(&colony->caller);
    (void) close(colony->report[0]);
    (void) close(colony->report[1]);
}

/* The whole of it, in a child that may have to do without what the kernel has. */
static int translates(void *arg)
{
    const struct colony *colony = arg;
    const struct caller *c = &colony->caller;
    struct process_view view = { 0 };
    struct peer peer = { 0 };
    struct process_facts facts = { 0 };
    char text[64];
    pid_t pid = 0;

    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(peer_load(&view, c->fd, &peer, NULL) == DIBS_OK);
    CHECK(c->says == 1);
    CHECK(peer.uid == 0 && peer.pid > 1 && peer.pidfd >= 0);
    CHECK(peer.pidns != 0 && peer.pidns != view.pidns && !peer.is_here);
    CHECK(process_identify(&view, peer.pid, &facts, NULL) ==
          DIBS_OK); /* it is the namespace's first process */
    (void) snprintf(text, sizeof text, "uid:0@%" PRIu64 ".%" PRIu64, peer.pidns, facts.process.start_ticks);
    CHECK(strcmp(peer.principal, text) == 0);

    CHECK(peer_pid(&view, &peer, 0, &pid, NULL) == DIBS_OK);
    CHECK(pid == peer.pid);
    CHECK(peer_pid(&view, &peer, 1, &pid, NULL) == DIBS_OK);
    CHECK(pid == peer.pid); /* not our own init */
    CHECK(peer_pid(&view, &peer, colony->pid.mine, &pid, NULL) == DIBS_OK);
    CHECK(process_identify(&view, pid, &facts, NULL) == DIBS_OK);
    CHECK(facts.ppid == peer.pid);
    pid = 7;
    CHECK(peer_pid(&view, &peer, colony->pid.other, &pid, NULL) == DIBS_DENIED);
    CHECK(peer_pid(&view, &peer, getpid() + 1000000, &pid, NULL) == DIBS_NOT_FOUND);
    CHECK(peer_pid(&view, &peer, INT32_MAX, &pid, NULL) == DIBS_NOT_FOUND);
    CHECK(peer_pid(&view, &peer, INT32_MIN, &pid, NULL) == DIBS_NOT_FOUND);
    /* Found by who can ask the kernel, but it is in a namespace of its own. */
    dibs_status s = peer_pid(&view, &peer, colony->pid.deeper, &pid, NULL);
    CHECK(s == DIBS_DENIED || s == DIBS_NOT_FOUND);
    CHECK(pid == 7);
    peer_done(&peer);
    return 0;
}

static void pids_of_another_namespace_are_translated_for_its_own_processes_alone(void **state)
{
    struct colony colony = { .report = { -1, -1 } };

    (void) state;
    need_the_host();
    found(&colony);
    assert_int_equal(child_run(translates, &colony), 0);
    abandon(&colony);
}

/* ---- an older kernel ---- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH
#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define REFUSE(with) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (with))

/* From here on the kernel answers as one that has neither SO_PEERPIDFD nor NS_GET_PID_FROM_PIDNS. */
static int ages(void)
{
    struct sock_filter filter[] = {
        LOAD(arch),
        UNLESS(ARCH, 9),
        LOAD(nr),
        UNLESS(SYS_getsockopt, 3),
        LOAD(args[2]),
        UNLESS(77, 5),
        REFUSE(ENOPROTOOPT),
        UNLESS(SYS_ioctl, 3),
        LOAD(args[1]),
        UNLESS(_IOR(NSIO, 0x6, int), 1),
        REFUSE(ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof filter / sizeof filter[0], .filter = filter };
    int pidfd = -1;
    socklen_t len = sizeof pidfd;
    int pair[2];

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(getsockopt(pair[0], SOL_SOCKET, 77, &pidfd, &len) != 0 && errno == ENOPROTOOPT);
    return 0;
}

static int translates_on_an_older_kernel(void *arg)
{
    CHECK(ages() == 0);
    return translates(arg);
}

static void an_older_kernel_leads_to_the_same_answers(void **state)
{
    struct colony colony = { .report = { -1, -1 } };

    (void) state;
    need_the_host();
    found(&colony);
    assert_int_equal(child_run(translates_on_an_older_kernel, &colony), 0);
    abandon(&colony);
}

/* Its number belongs to another user now: none of its facts may be taken for the peer's. */
static int looks_at_a_reused_pid(void *arg)
{
    struct caller c = { .leaves = true };
    struct process_view view = { 0 };
    struct peer peer = { 0 };
    char text[32];

    (void) arg;
    CHECK(ages() == 0);
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    c.listen_fd = listener(&c.at, &c.len);
    CHECK(c.listen_fd >= 0);
    c.pid = child_fork(calls, &c);
    c.fd = accept4(c.listen_fd, NULL, NULL, SOCK_CLOEXEC);
    CHECK(c.fd >= 0);
    CHECK(child_join(c.pid) == 0);
    (void) snprintf(text, sizeof text, "%d", (int) c.pid - 1);
    CHECK(child_write_file("/proc/sys/kernel/ns_last_pid", text) == 0);
    pid_t other = child_fork(waits_as_a_user, NULL);
    CHECK(other == c.pid); /* the same number again, for real */
    UNTIL(is_user(other));
    CHECK(peer_load(&view, c.fd, &peer, NULL) == DIBS_OK);
    CHECK(peer.pid == 0 && !peer.is_here && peer.pidfd == -1);
    CHECK(strcmp(peer.principal, "uid:0@unknown") == 0);
    child_end(other);
    return 0;
}

static int looks_at_a_reused_pid_elsewhere(void *arg)
{
    return child_in_new_pidns(looks_at_a_reused_pid, arg);
}

static void on_an_older_kernel_a_reused_pid_is_not_the_peer(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(looks_at_a_reused_pid_elsewhere, NULL), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_of_our_own_namespaces_is_its_user),
        cmocka_unit_test(another_user_is_another_principal),
        cmocka_unit_test(a_users_daemon_knows_peers_of_its_own_namespace),
        cmocka_unit_test(root_of_a_user_namespace_is_the_same_user_as_outside),
        cmocka_unit_test(a_user_without_a_number_here_is_refused),
        cmocka_unit_test(a_peer_that_has_ended_is_nobody_known),
        cmocka_unit_test(a_peer_that_ends_later_is_no_longer_there),
        cmocka_unit_test(a_descriptor_that_is_no_connection_has_no_peer),
        cmocka_unit_test(without_a_descriptor_nobody_is_taken_for_somebody_else),
        cmocka_unit_test(pids_of_another_namespace_are_translated_for_its_own_processes_alone),
#ifdef ARCH
        cmocka_unit_test(an_older_kernel_leads_to_the_same_answers),
        cmocka_unit_test(on_an_older_kernel_a_reused_pid_is_not_the_peer),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
