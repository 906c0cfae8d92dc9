/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_ETCD_H
#define DIBS_TESTS_ETCD_H
/* A real cluster of etcd on loopback: one member or three, that can be killed, stopped and started again. It
 * ends with the test program, whatever happens to that.
 *
 * Each port is kept by a socket that is bound and never listens: the kernel gives it to no other process, and
 * the member can listen there, because both say SO_REUSEADDR. */
#include <ftw.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "store/etcd/client/etcd.h"
#include "support/child.h"

enum { CLUSTER_MAX = 3, CLUSTER_START_MS = 30000, CLUSTER_FLAGS_MAX = 8 };

struct cluster {
    char dir[256];
    size_t n;
    bool is_tls;
    uint16_t client[CLUSTER_MAX], peer[CLUSTER_MAX];
    int guards[2 * CLUSTER_MAX];
    pid_t pid[CLUSTER_MAX];
    const char *flags[CLUSTER_FLAGS_MAX]; /* more of etcd's; NULL at the end */
    struct etcd_config config;
};

int64_t in_ms(int64_t ms);
uint16_t etcd_guard_open(int *fd);

/* A script of tests/support with arguments; becomes it. */
int support_exec(char **argv);

struct member_start {
    const struct cluster *cluster;
    size_t index;
};

void member_begin(struct cluster *c, size_t i);
void member_kill(struct cluster *c, size_t i);
void member_freeze(const struct cluster *c, size_t i);
void member_thaw(const struct cluster *c, size_t i);
/* Start the only member of a cluster again, without its data. */
void member_lose_data(struct cluster *c, size_t i);

/* The URL of all members, and what is behind them. */
void cluster_url(const struct cluster *c, const char *tail, char *out, size_t size);

/* One of them answers what only a leader and a majority can. */
void cluster_wait(const struct etcd_config *config);
bool has_etcd(void);

/* In front of every case: a cluster that could not be started is not there. */
#define NEED_ETCD()                                     \
    do {                                                \
        if (!has_etcd())                                \
            SKIP_BECAUSE("etcd-server: not installed"); \
    } while (0)

/* With `is_tls` clients must have a certificate. The flags are etcd's, up to a NULL; NULL: none. */
struct cluster *cluster_open(size_t n, bool is_tls, const char *const *flags);
void cluster_close(struct cluster *c);

/* ---- one cluster for all cases of a program, and a client for each ---- */

extern struct cluster *shared; /* NULL: there is no etcd here. Each case leaves it whole */

int shared_open(size_t n);
int shared_open_one(void **state);
int shared_open_three(void **state);
int shared_close(void **state);

struct asker {
    struct etcd *etcd;
    struct etcd_call call;
    struct etcd_answer answer;
    dibs_err err;
};

int asker_open(void **state);
int asker_close(void **state);

#define ASKER_TEST(name) cmocka_unit_test_setup_teardown(name, asker_open, asker_close)

/* Return the member that leads, as that member reports. */
size_t cluster_leader(const struct cluster *c, struct etcd *etcd);
#endif
