/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_CLUSTER_H
#define DIBS_TESTS_STORM_CLUSTER_H
/* A real etcd of three members that die and hang, and daemons on it, each of which is a host of its own. */
#include "storm.h"

enum { MEMBERS = 3, HOSTS = 4 };

/* Seen by all processes of a storm. */
struct storm_cluster {
    char dir[200];
    unsigned client[MEMBERS];
    pid_t member[MEMBERS]; /* children of the one that upsets them */
    pid_t upsetter;
    pid_t daemon[HOSTS];
    _Atomic int state;
    unsigned n_kills, n_leaders, n_stops, n_compactions;
};

/* Below the directory of $DIBS_LEDGER, which names the cluster from then on. NULL: there is no etcd. */
struct storm_cluster *storm_cluster_begin(void);
/* From now on members are killed, the one that leads first, stopped, started again, and the log is compacted;
 * at most one at a time is away. */
void storm_cluster_upset(struct storm_cluster *cluster, uint64_t seed);
/* All are there again. */
void storm_cluster_calm(struct storm_cluster *cluster);

void storm_hosts_begin(struct storm_cluster *cluster);
/* By SIGTERM: they end well. */
void storm_hosts_end(struct storm_cluster *cluster);
/* A handle through that host's daemon. */
dibs *storm_host_open(const struct storm_cluster *cluster, size_t host);
#endif
