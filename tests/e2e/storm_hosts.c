/* SPDX-License-Identifier: MIT */
/* Hosts of a storm: daemons, and the network between them. */
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "storm_cluster.h"

enum { START_MS = 30000, ANSWER_MS = 20000, CALM_MS = 60000, METRICS_MAX = 1 << 20, FEW_CLAIMS = 8 };

/* ---- daemons ---- */

static void socket_of(const struct storm_cluster *c, size_t host, char *out, size_t size)
{
    char name[] = "n0.sock";

    name[1] = (char) ('0' + host);
    storm_path_of(c, name, out, size);
}

void storm_host_enter(const struct storm_cluster *c, size_t host)
{
    if (c->is_apart && setns(c->netns[host], CLONE_NEWNET) != 0)
        storm_die("the network of host %zu cannot be entered: %s", host, strerror(errno));
}

/* A process that may not set a host name has the one that is set for it. */
static void be_host(const struct storm_cluster *c, size_t host)
{
    char name[] = "n0";

    name[1] = (char) ('0' + host);
    storm_host_enter(c, host);
    if (unshare(CLONE_NEWUTS) == 0 && sethostname(name, strlen(name)) != 0)
        _exit(125);
    if (setenv("DIBS_NODE", name, 1) != 0 || setenv("DIBS_SOCKET", "none", 1) != 0)
        _exit(126);
}

static void start_daemon(struct storm_cluster *c, size_t host)
{
    const char *program = getenv("DIBS");
    char path[256] = "";
    char ttl[16] = "";

    if (!program)
        storm_die("DIBS must be set");
    socket_of(c, host, path, sizeof path);
    /* If no host is cut off, a machine that stalls must not cost a lease. */
    (void) snprintf(ttl, sizeof ttl, "%dms", c->is_apart ? NODE_TTL_MS : 5 * NODE_TTL_MS);
    pid_t pid = storm_fork();
    if (pid == 0) {
        be_host(c, host);
        (void) execl(program, program, "serve", "--socket", path, "--quota", "1000000", "--rate",
                     "1000000000", "--node-ttl", ttl, (char *) NULL);
        _exit(127);
    }
    c->daemon[host] = pid;
}

void storm_hosts_end(struct storm_cluster *c)
{
    for (size_t i = 0; i < HOSTS; i++) {
        (void) kill(c->daemon[i], SIGTERM);
        int code = storm_wait(c->daemon[i]);
        if (code != 0)
            storm_violation("after SIGTERM the daemon of host %zu ended with %d", i, code);
    }
}

dibs *storm_host_open(const struct storm_cluster *c, size_t host)
{
    char path[256] = "";
    dibs *handle = NULL;
    dibs_err err = { 0 };

    socket_of(c, host, path, sizeof path);
    if (setenv("DIBS_SOCKET", path, 1) != 0)
        storm_die("the socket cannot be set");
    for (int64_t until = clock_monotonic_ms() + START_MS; dibs_open(NULL, &handle, &err) != DIBS_OK;) {
        if (clock_monotonic_ms() > until)
            storm_die("the daemon of host %zu does not open: %s", host, err.msg);
        storm_sleep_us(10000);
    }
    return handle;
}

/* ---- networks ---- */

static int open_network(void)
{
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        storm_die("no network namespace: %s", strerror(errno));
    return fd;
}

static void link_host(const char *what, size_t host, const char *network)
{
    char number[2] = { (char) ('0' + host), '\0' };

    if (storm_wait(storm_script("host-link", what, number, network)) != 0)
        storm_die("host-link %s %s does not work", what, number);
}

static void make_network(struct storm_cluster *c, size_t host)
{
    int hub = open_network();
    char path[64] = "";

    if (unshare(CLONE_NEWNET) != 0)
        storm_die("no network for host %zu: %s", host, strerror(errno));
    c->netns[host] = open_network();
    if (setns(hub, CLONE_NEWNET) != 0)
        storm_die("there is no way back to the hub: %s", strerror(errno));
    (void) close(hub);
    (void) snprintf(path, sizeof path, "/proc/%d/fd/%d", (int) getpid(), c->netns[host]);
    link_host("make", host, path);
}

void storm_hosts_begin(struct storm_cluster *c)
{
    char path[256] = "";

    for (size_t i = 0; i < HOSTS; i++)
        start_daemon(c, i);
    for (size_t i = 0; i < HOSTS; i++) {
        socket_of(c, i, path, sizeof path);
        storm_wait_for_file(path);
    }
}

void storm_networks_begin(struct storm_cluster *c)
{
    /* A host that is cut off answers before its lease ends, not after the longer timeout of other storms. */
    if (setenv("DIBS_TIMEOUT", "1s", 1) != 0)
        storm_die("the settings cannot be made");
    for (size_t i = 0; i < HOSTS; i++)
        make_network(c, i);
}

/* ---- cutting ---- */

static int call_daemon(const struct storm_cluster *c, size_t host)
{
    static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: dibs\r\nConnection: close\r\n\r\n";
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct timeval most = { .tv_sec = ANSWER_MS / 1000 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    socket_of(c, host, at.sun_path, sizeof at.sun_path);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) != 0 ||
        connect(fd, (struct sockaddr *) &at, sizeof at) != 0 ||
        send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) != (ssize_t) sizeof ask - 1)
        storm_die("the daemon of host %zu cannot be asked: %s", host, strerror(errno));
    return fd;
}

/* The state of a host's lease, by its metrics. */
struct lease {
    int64_t margin_ns; /* for how long it counts on it */
    unsigned n_lost;   /* those that have ended so far */
};

static double metric(const char *metrics, const char *name)
{
    const char *at = strstr(metrics, name);

    if (!at)
        storm_die("no %s in the metrics", name + 1);
    return strtod(at + strlen(name), NULL);
}

/* The whole answer. */
static const char *metrics_of(const struct storm_cluster *c, size_t host)
{
    static char text[METRICS_MAX];
    int64_t began_ns = storm_now_ns();
    int fd = call_daemon(c, host);
    size_t n = 0;
    ssize_t got = 1;

    while (got > 0 && n + 1 < sizeof text) {
        got = recv(fd, text + n, sizeof text - 1 - n, 0);
        n += got > 0 ? (size_t) got : 0;
    }
    text[n] = '\0';
    if (got < 0)
        storm_die("host %zu does not tell of its lease for %lld ms: %s", host,
                  (long long) (storm_now_ns() - began_ns) / 1000000, strerror(errno));
    (void) close(fd);
    return text;
}

static struct lease lease_of(const struct storm_cluster *c, size_t host)
{
    const char *text = metrics_of(c, host);

    return (struct lease){ .margin_ns =
                               (int64_t) (metric(text, "\ndibs_cluster_lease_margin_seconds ") * 1e9),
                           .n_lost = (unsigned) metric(text, "\ndibs_cluster_leases_lost_total ") };
}

/* A machine that stalls for longer than the TTL costs hosts their leases that nobody has cut off. When they
 * may say so is not known then. */
static void note_losses(struct storm_cluster *c, size_t host, unsigned n_expected)
{
    unsigned n_lost = lease_of(c, host).n_lost;

    if (n_lost - c->n_leases_lost[host] > n_expected)
        c->has_stalled[host] = true;
    c->n_leases_lost[host] = n_lost;
}

/* The daemon counts on nine tenths of its TTL since it asked; etcd has the lease for all of it. */
static int64_t lease_end_ns(const struct storm_cluster *c, size_t host)
{
    int64_t asked_ns = storm_now_ns();
    int64_t margin = lease_of(c, host).margin_ns;

    return margin > 0 ? asked_ns + margin + NODE_TTL_MS * INT64_C(1000000) / 10 : 0;
}

static bool note_holder(void *ctx, const dibs_claim *claim)
{
    const char **name = ctx;

    if (strcmp(claim->node, *name) != 0 || claim->life == DIBS_DEAD)
        return true;
    *name = "";
    return false;
}

/* Does anybody of that host live, as another host sees it? */
static bool is_anything_held(const struct storm_cluster *c, size_t host)
{
    dibs *handle = storm_host_open(c, (host + 1) % HOSTS);
    char node[] = "n0";
    const char *name = node;
    dibs_err err = { 0 };

    node[1] = (char) ('0' + host);
    dibs_status s = dibs_claim_list(handle, &(dibs_filter){ .judge = true }, note_holder, &name, &err);
    dibs_close(handle);
    return s != DIBS_OK || !*name;
}

static void wait_until_others_have_it(const struct storm_cluster *c, size_t host)
{
    int64_t until = clock_monotonic_ms() + CALM_MS;

    while (is_anything_held(c, host)) {
        if (clock_monotonic_ms() > until) {
            storm_violation("host %zu was cut off, and its ports do not come back", host);
            return;
        }
        storm_sleep_us(20000);
    }
}

static void wait_until_it_goes_on(const struct storm_cluster *c, size_t host)
{
    int64_t until = clock_monotonic_ms() + CALM_MS;
    size_t n = atomic_load(&c->n_claimed[host]);

    while (lease_of(c, host).margin_ns == 0 || atomic_load(&c->n_claimed[host]) == n) {
        if (clock_monotonic_ms() > until)
            storm_die("host %zu was joined again, and does not go on", host);
        storm_sleep_us(20000);
    }
}

static void wait_until_it_has_something(const struct storm_cluster *c, size_t host)
{
    int64_t until = clock_monotonic_ms() + CALM_MS;

    while (atomic_load(&c->n_claimed[host]) < FEW_CLAIMS && clock_monotonic_ms() < until)
        storm_sleep_us(10000);
}

static void cut_off(struct storm_cluster *c, struct storm_cut cut, uint32_t away_ms)
{
    struct storm_cut *noted = &c->cut[c->n_cuts];

    wait_until_it_has_something(c, cut.host);
    note_losses(c, cut.host, 0);
    cut.lease_ns = lease_end_ns(c, cut.host);
    cut.from_ns = storm_now_ns();
    link_host("down", cut.host, NULL);
    int64_t later_ns = lease_end_ns(c, cut.host); /* it may have been renewed just before */
    if (later_ns > cut.lease_ns)
        cut.lease_ns = later_ns;
    storm_sleep_us(away_ms * 1000L);
    if (cut.is_long)
        wait_until_others_have_it(c, cut.host);
    cut.to_ns = storm_now_ns();
    *noted = cut;
    c->n_cuts++;
    link_host("up", cut.host, NULL);
    wait_until_it_goes_on(c, cut.host);
    note_losses(c, cut.host, 1);
}

_Noreturn static void cut_and_join(struct storm_cluster *c, uint64_t seed)
{
    struct storm_random random = storm_random_of(seed, 66);

    while (atomic_load(&c->is_cutting) == 1 && c->n_cuts < CUTS_MAX) {
        uint32_t away_ms = 100 + storm_below(&random, NODE_TTL_MS);
        struct storm_cut cut = { .host = storm_below(&random, HOSTS) };

        cut.is_long = c->n_cuts == 0 || storm_below(&random, 2);
        storm_sleep_us((200 + (long) storm_below(&random, 800)) * 1000);
        cut_off(c, cut, away_ms);
    }
    for (size_t i = 0; i < HOSTS; i++)
        note_losses(c, i, 0);
    atomic_store(&c->is_cutting, 0);
    storm_stay(600);
}

void storm_hosts_cut(struct storm_cluster *c, uint64_t seed)
{
    atomic_store(&c->is_cutting, 1);
    pid_t pid = storm_fork();
    if (pid == 0)
        cut_and_join(c, seed);
    c->cutter = pid;
}

void storm_hosts_join(struct storm_cluster *c)
{
    int64_t until = clock_monotonic_ms() + INT64_C(3) * CALM_MS;
    int cutting = 1;

    (void) atomic_compare_exchange_strong(&c->is_cutting, &cutting, 2);
    while (atomic_load(&c->is_cutting) != 0) {
        if (clock_monotonic_ms() > until || waitpid(c->cutter, NULL, WNOHANG) != 0)
            storm_die("who cuts hosts off is stuck, or has given up");
        storm_sleep_us(1000);
    }
}
