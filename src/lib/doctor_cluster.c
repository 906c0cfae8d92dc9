/* SPDX-License-Identifier: MIT */
/* The doctor's checks of the etcd cluster and its hosts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include "base/auto.h"
#include "lib/doctor.h"

#include "base/banned.h"

enum {
    SLOW_US = 100000,  /* a commit waits for the disks of a majority; etcd warns from here on */
    BEHIND_MAX = 5000, /* changes that a member may lag */
    QUOTA_MIB = 2048,  /* etcd's default limit */
    LARGE_SHARE = 75,  /* percent of the limit from which to warn */
};

static const char check_entry[] =
    "check user, password, the user's rights below the prefix, and certificates";

static const char *name_of(const struct ledger_member *m)
{
    return m->name[0] ? m->name : "?";
}

/* Check the file size, not the size in use: only defragmentation returns the space that compaction frees. */
static void check_size(struct doctor *d, const struct ledger_member *m)
{
    int64_t quota_mib = m->quota_bytes ? m->quota_bytes >> 20 : QUOTA_MIB;
    bool is_used = m->used_bytes >> 20 > quota_mib * LARGE_SHARE / 100;

    if (m->bytes >> 20 > quota_mib * LARGE_SHARE / 100)
        doctor_say(d, DIBS_WARNING, "etcd",
                   is_used ? "allow it more (--quota-backend-bytes), and let it compact more often "
                             "(--auto-compaction-retention)"
                           : "nothing while it is stable; 'etcdctl defrag' gives back what is not in use",
                   "member '%s' has a database of %" PRId64 " MiB, %" PRId64 " of them in use; from %" PRId64
                   " MiB on nothing is written%s",
                   name_of(m), m->bytes >> 20, m->used_bytes >> 20, quota_mib,
                   m->quota_bytes ? "" : ", unless it has another limit");
}

static void check_member(struct doctor *d, const struct ledger_cluster *cluster,
                         const struct ledger_member *m)
{
    const char *role = m->is_leader ? "leads" : m->is_learner ? "learns" : "follows";

    if (!m->is_named) {
        doctor_say(d, DIBS_NOTE, "etcd", "name it in the ledger's URI, to be asked when others do not answer",
                   "member '%s' (%.200s) is not named", name_of(m), m->url[0] ? m->url : "not started");
        return;
    }
    if (!m->answers) {
        doctor_say(d, cluster->is_quorate ? DIBS_WARNING : DIBS_PROBLEM, "etcd",
                   m->is_refused ? check_entry : "start it, or name another one in the ledger's URI",
                   "%.200s %s: %s", m->url, m->is_refused ? "refuses us" : "does not answer", m->why);
        return;
    }
    doctor_say(d, m->has_leader ? DIBS_FINE : DIBS_PROBLEM, "etcd",
               "start members until more than half of them run, and look at their network",
               "%.200s: member '%s', etcd %s, %s, answers in %.1f ms, revision %" PRId64 ", %" PRId64
               " KiB of %" PRId64 " KiB in use",
               m->url, name_of(m), m->version, m->has_leader ? role : "knows no leader",
               (double) m->took_us / 1000, m->revision, m->used_bytes / 1024, m->bytes / 1024);
    check_size(d, m);
}

static void check_alarms(struct doctor *d, const struct ledger_member *m)
{
    if (m->is_full)
        doctor_say(
            d, DIBS_PROBLEM, "etcd",
            "etcdctl compact REVISION, etcdctl defrag, then etcdctl alarm disarm; and let etcd compact by "
            "itself",
            "member '%s' has the alarm NOSPACE: nothing can be claimed or released", name_of(m));
    if (m->is_corrupt)
        doctor_say(d, DIBS_PROBLEM, "etcd",
                   "take it out of the cluster, and let it join again without its data",
                   "member '%s' has the alarm CORRUPT: its data differ from those of the others", name_of(m));
}

static void check_agreement(struct doctor *d, const struct ledger_cluster *cluster)
{
    const struct ledger_member *first = NULL;
    int64_t newest = 0;

    for (size_t i = 0; i < cluster->n; i++)
        newest = cluster->member[i].revision > newest ? cluster->member[i].revision : newest;
    for (size_t i = 0; i < cluster->n; i++) {
        const struct ledger_member *m = &cluster->member[i];

        if (!m->answers)
            continue;
        if (newest - m->revision > BEHIND_MAX)
            doctor_say(d, DIBS_WARNING, "etcd", "look at its disk and its network",
                       "member '%s' is %" PRId64 " changes behind", name_of(m), newest - m->revision);
        if (first && strcmp(first->version, m->version) != 0)
            doctor_say(d, DIBS_NOTE, "etcd", "nothing, while it is being updated",
                       "member '%s' is etcd %s, and '%s' is %s", name_of(m), m->version, name_of(first),
                       first->version);
        first = first ? first : m;
    }
}

static void check_majority(struct doctor *d, const struct ledger_cluster *cluster)
{
    bool is_slow = cluster->quorum_us > SLOW_US;

    if (!cluster->is_quorate)
        doctor_say(d, DIBS_PROBLEM, "etcd",
                   cluster->is_refused ? check_entry
                                       : "start members until more than half of them run; what is held stays "
                                         "held meanwhile",
                   "%s, so nothing can be claimed or released: %s",
                   cluster->is_refused ? "the cluster refuses us" : "no majority answers", cluster->why);
    else
        doctor_say(d, is_slow ? DIBS_WARNING : DIBS_FINE, "etcd",
                   "etcd needs a fast disk of its own and a network of a few milliseconds",
                   "a majority answers in %.1f ms", (double) cluster->quorum_us / 1000);
    if (cluster->has_other_alarm)
        doctor_say(d, DIBS_WARNING, "etcd", "see 'etcdctl alarm list'", "the cluster has an alarm");
}

/* Report whether the clock is synchronised; no other finding depends on it. */
static void check_clock(struct doctor *d)
{
    struct timex now = { .modes = 0 };

    if (adjtimex(&now) < 0)
        return;
    if (now.status & STA_UNSYNC)
        doctor_say(d, DIBS_NOTE, "etcd", "nothing: only times that are shown depend on it",
                   "this host's clock is not synchronised");
    else
        doctor_say(d, DIBS_FINE, "etcd", "", "this host's clock is synchronised, within %ld ms",
                   now.maxerror / 1000);
}

static void check_node(struct doctor *d)
{
    uint32_t rank = 0;
    uint32_t n = 0;
    uint64_t seq = 0;
    uint64_t cursor = 0;
    dibs_status s = ledger_tail(d->core->ledger, &d->call, &seq, &cursor, NULL); /* refreshes the cache */
    bool is_known = ledger_place(d->core->ledger, &rank, &n);

    if (s == DIBS_OK && n > 0)
        doctor_say(d, is_known ? DIBS_FINE : DIBS_NOTE, "etcd",
                   "nothing: it gets its number with the first claim",
                   is_known ? "this host is one of %u nodes of the ledger"
                            : "this host is not among the %u nodes of the ledger",
                   is_known ? n : n - 1);
}

struct leases {
    bool is_known, is_alive; /* of this host's lease */
    size_t n, n_alive;
};

static bool count_lease(void *ctx, const dibs_node *node)
{
    struct leases *leases = ctx;

    if (strchr(node->name, '/')) /* a webhook or controller: it holds no ports */
        return true;
    leases->n++;
    leases->n_alive += node->is_alive;
    leases->is_known = leases->is_known || node->is_here;
    leases->is_alive = leases->is_alive || (node->is_here && node->is_alive);
    return true;
}

/* Report whether this host has a lease: without it, its processes cannot hold ports of cluster pools. */
static void check_leases(struct doctor *d)
{
    struct leases leases = { 0 };

    if (ledger_nodes(d->core->ledger, &d->call, count_lease, &leases, NULL) != DIBS_OK || leases.n == 0)
        return;
    if (leases.is_known)
        doctor_say(d, leases.is_alive ? DIBS_FINE : DIBS_NOTE, "etcd", "'dibs serve' makes and renews one",
                   leases.is_alive
                       ? "this host has a lease in the cluster"
                       : "this host has no lease in the cluster: no process of it holds ports of its pools");
    if (leases.n_alive < leases.n)
        doctor_say(d, DIBS_NOTE, "etcd",
                   "'dibs node' shows them; 'dibs node remove' forgets one that will not come back",
                   "%zu of %zu hosts have no lease in the cluster", leases.n - leases.n_alive, leases.n);
}

void doctor_check_cluster(struct doctor *d)
{
    AUTO(free_auto) struct ledger_cluster *cluster = calloc(1, sizeof *cluster);

    if (!cluster || ledger_cluster(d->settings->ledger, d->settings->timeout_ms, cluster, NULL) != DIBS_OK)
        return; /* not a cluster, or the ledger reports the error itself */
    for (size_t i = 0; i < cluster->n; i++)
        check_member(d, cluster, &cluster->member[i]);
    for (size_t i = 0; i < cluster->n; i++)
        check_alarms(d, &cluster->member[i]);
    check_majority(d, cluster);
    check_agreement(d, cluster);
    check_clock(d);
    if (d->core && d->core->ledger) {
        check_node(d);
        check_leases(d);
    }
}
