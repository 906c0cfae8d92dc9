/* SPDX-License-Identifier: MIT */
#include "support/etcd.h"

#include <ftw.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "store/etcd/client/etcd.h"

struct cluster *shared;

int64_t in_ms(int64_t ms)
{
    return clock_monotonic_ms() + ms;
}

uint16_t etcd_guard_open(int *fd)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    int on = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(*fd, (struct sockaddr *) &at, size), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *) &at, &size), 0);
    return ntohs(at.sin_port);
}

int support_exec(char **argv)
{
    const char *source = getenv("SOURCE");
    char path[1024] = "";

    (void) snprintf(path, sizeof path, "%s/tests/support/%s", source ? source : ".", argv[0]);
    argv[0] = path;
    (void) execv(path, argv);
    return 127;
}

static int member_main(void *arg)
{
    const struct member_start *m = arg;
    char dir[sizeof m->cluster->dir] = "";
    char index[16] = "";
    char *argv[4 + CLUSTER_FLAGS_MAX] = { (char[]){ "etcd-member" }, dir, index };

    (void) snprintf(dir, sizeof dir, "%s", m->cluster->dir);
    (void) snprintf(index, sizeof index, "%zu", m->index);
    for (size_t i = 0; i < CLUSTER_FLAGS_MAX && m->cluster->flags[i]; i++)
        argv[3 + i] = strdup(m->cluster->flags[i]);
    return support_exec(argv);
}

void member_begin(struct cluster *c, size_t i)
{
    struct member_start start = { c, i };

    c->pid[i] = child_fork(member_main, &start);
    assert_true(c->pid[i] > 0);
}

void member_kill(struct cluster *c, size_t i)
{
    if (c->pid[i] > 0)
        child_end(c->pid[i]);
    c->pid[i] = 0;
}

void member_freeze(const struct cluster *c, size_t i)
{
    siginfo_t info = { 0 };

    assert_int_equal(kill(c->pid[i], SIGSTOP), 0);
    /* Not before all of its threads stand still: one of them could answer yet. */
    assert_int_equal(waitid(P_PID, (id_t) c->pid[i], &info, WSTOPPED | WNOWAIT), 0);
}

void member_thaw(const struct cluster *c, size_t i)
{
    assert_int_equal(kill(c->pid[i], SIGCONT), 0);
}

static int certificates_main(void *arg)
{
    char *argv[] = { (char[]){ "etcd-certificates" }, arg, NULL };

    return support_exec(argv);
}

void cluster_url(const struct cluster *c, const char *tail, char *out, size_t size)
{
    size_t used = (size_t) snprintf(out, size, "etcd://");

    for (size_t i = 0; i < c->n; i++)
        used += (size_t) snprintf(out + used, size - used, "%s127.0.0.1:%u", i ? "," : "", c->client[i]);
    (void) snprintf(out + used, size - used, "%s", tail);
}

static void cluster_configure(struct cluster *c)
{
    char url[4096] = "";
    char tail[2048] = "";
    dibs_err err = { 0 };

    if (c->is_tls)
        (void) snprintf(tail, sizeof tail,
                        "/t?cacert=%s/tls/ca.cert&cert=%s/tls/client.cert&key=%s/tls/client.key", c->dir,
                        c->dir, c->dir);
    cluster_url(c, c->is_tls ? tail : "/t", url, sizeof url);
    ASSERT_OK(etcd_config_parse(url, &c->config, &err), &err);
}

void cluster_wait(const struct etcd_config *config)
{
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = { "x", 1 } };
    struct etcd_call call = { .deadline_ms = in_ms(CLUSTER_START_MS) };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(etcd_open(config, &etcd, &err), &err);
    ASSERT_OK(etcd_do(etcd, &call, &look, &answer, &err), &err);
    etcd_answer_done(&answer);
    etcd_close(etcd);
}

static void cluster_write_ports(const struct cluster *c)
{
    char path[sizeof c->dir + 16] = "";

    (void) snprintf(path, sizeof path, "%s/ports", c->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < c->n; i++)
        (void) fprintf(file, "%u %u\n", c->client[i], c->peer[i]);
    assert_int_equal(fclose(file), 0);
}

bool has_etcd(void)
{
    return access("/usr/bin/etcd", X_OK) == 0;
}

struct cluster *cluster_open(size_t n, bool is_tls, const char *const *flags)
{
    struct cluster *c = calloc(1, sizeof *c);
    const char *base = getenv("TMPDIR");

    assert_non_null(c);
    c->n = n;
    c->is_tls = is_tls;
    for (size_t i = 0; flags && flags[i] && i + 1 < CLUSTER_FLAGS_MAX; i++)
        c->flags[i] = flags[i];
    (void) snprintf(c->dir, sizeof c->dir, "%s/dibs-etcd-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(c->dir));
    for (size_t i = 0; i < n; i++) {
        c->client[i] = etcd_guard_open(&c->guards[2 * i]);
        c->peer[i] = etcd_guard_open(&c->guards[2 * i + 1]);
    }
    cluster_write_ports(c);
    if (is_tls) {
        char tls[sizeof c->dir + 16] = "";

        (void) snprintf(tls, sizeof tls, "%s/tls", c->dir);
        assert_int_equal(child_run(certificates_main, tls), 0);
    }
    cluster_configure(c);
    for (size_t i = 0; i < n; i++)
        member_begin(c, i);
    return c;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st;
    (void) kind;
    (void) at;
    return remove(path);
}

void member_lose_data(struct cluster *c, size_t i)
{
    char data[sizeof c->dir + 16] = "";

    member_kill(c, i);
    (void) snprintf(data, sizeof data, "%s/m%zu", c->dir, i);
    assert_int_equal(nftw(data, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    member_begin(c, i);
    cluster_wait(&c->config);
}

void cluster_close(struct cluster *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++) {
        member_kill(c, i);
        (void) close(c->guards[2 * i]);
        (void) close(c->guards[2 * i + 1]);
    }
    (void) nftw(c->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(c);
}

/* ---- one cluster for all cases of a program, and a client for each ---- */

int shared_open(size_t n)
{
    if (has_etcd()) {
        shared = cluster_open(n, false, NULL);
        cluster_wait(&shared->config);
    }
    return 0;
}

int shared_open_one(void **state)
{
    (void) state;
    return shared_open(1);
}

int shared_open_three(void **state)
{
    (void) state;
    return shared_open(3);
}

int shared_close(void **state)
{
    (void) state;
    cluster_close(shared);
    return 0;
}

int asker_open(void **state)
{
    struct asker *a = calloc(1, sizeof *a);

    assert_non_null(a);
    *state = a;
    a->call.deadline_ms = in_ms(CLUSTER_START_MS);
    if (shared)
        ASSERT_OK(etcd_open(&shared->config, &a->etcd, &a->err), &a->err);
    return 0;
}

int asker_close(void **state)
{
    struct asker *a = *state;

    etcd_answer_done(&a->answer);
    etcd_close(a->etcd);
    free(a);
    return 0;
}

size_t cluster_leader(const struct cluster *c, struct etcd *etcd)
{
    struct etcd_status status = { 0 };
    dibs_err err = { 0 };

    for (int64_t until = in_ms(CLUSTER_START_MS); clock_monotonic_ms() < until;) {
        for (size_t i = 0; i < c->n; i++) { /* each answer takes a moment: nobody is flooded */
            struct etcd_call call = { .deadline_ms = in_ms(2000) };

            if (etcd_status(etcd, &call, i, &status, &err) == DIBS_OK && status.leader == status.member)
                return i;
        }
    }
    fail_msg("no leader: %s", err.msg);
    return 0;
}
