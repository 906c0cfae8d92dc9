/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_CLUSTER_H
#define DIBS_TESTS_STORM_CLUSTER_H
/* A real etcd of three members that die and stop, and daemons on it, each of which is a host of its own: by
 * its name, and where hosts are apart by its network, too, from which it can be cut off. */
#include "storm.h"

enum { MEMBERS = 3, HOSTS = 4, CUTS_MAX = 256 };
enum { NODE_TTL_MS = 3000 }; /* the least that etcd grants with the times of our members */
#define STORM_HUB "10.77.0.1"

/* A host was cut off. */
struct storm_cut {
    size_t host;
    int64_t from_ns, to_ns; /* CLOCK_BOOTTIME, as everywhere */
    int64_t lease_ns;       /* up to then at least etcd has its lease, by what its daemon says */
    bool is_long;           /* until others saw that lease end */
};

/* Seen by all processes of a storm. */
struct storm_cluster {
    char dir[200];
    const char *address; /* of all members */
    unsigned client[MEMBERS];
    pid_t member[MEMBERS]; /* children of the one that upsets them */
    pid_t upsetter;
    pid_t daemon[HOSTS];
    _Atomic int state;
    unsigned n_kills, n_leaders, n_stops, n_compactions;
    /* Hosts that are apart: */
    bool is_apart;
    int netns[HOSTS];
    pid_t cutter;
    _Atomic int is_cutting;
    _Atomic size_t n_claimed[HOSTS]; /* by its clients: does it go on? */
    unsigned n_leases_lost[HOSTS];
    bool has_stalled[HOSTS]; /* it has lost a lease although it was not cut off */
    size_t n_cuts;
    struct storm_cut cut[CUTS_MAX];
};

/* Below the directory of $DIBS_LEDGER, which names the cluster from then on. NULL: there is no etcd. Hosts
 * that are apart need root, and a network of the storm's own. */
struct storm_cluster *storm_cluster_begin(bool is_apart);
/* Members are there; at the second call: from now on they are killed, the one that leads first, stopped,
 * started again, and the log is compacted; at most one at a time is away. */
void storm_cluster_upset(struct storm_cluster *cluster, uint64_t seed);
/* All are there again. */
void storm_cluster_calm(struct storm_cluster *cluster);

/* For hosts that are apart, before anything else. */
void storm_networks_begin(struct storm_cluster *cluster);
void storm_hosts_begin(struct storm_cluster *cluster);
/* By SIGTERM: they end well. */
void storm_hosts_end(struct storm_cluster *cluster);
/* A handle through that host's daemon. */
dibs *storm_host_open(const struct storm_cluster *cluster, size_t host);
/* From now on we are on that host. */
void storm_host_enter(const struct storm_cluster *cluster, size_t host);

/* From now on hosts are cut off and joined again, one at a time: for a moment, or until their lease has ended
 * and others have their ports. */
void storm_hosts_cut(struct storm_cluster *cluster, uint64_t seed);
/* All are joined, and go on. */
void storm_hosts_join(struct storm_cluster *cluster);

/* ---- parts ---- */
void storm_path_of(const struct storm_cluster *cluster, const char *name, char *out, size_t size);
void storm_wait_for_file(const char *path);
/* A script of tests/support as a child that ends with us. */
pid_t storm_script(const char *name, const char *first, const char *second, const char *third);
#endif
