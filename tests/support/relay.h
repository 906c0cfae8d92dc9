/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_RELAY_H
#define DIBS_TESTS_RELAY_H
/* Proxies in front of a member of etcd: one that loses messages on request (relay.py), and one that
 * damages answers at random (unruly.py). */
#include "support/etcd.h"

struct relay {
    pid_t pid;
    unsigned port;
    FILE *to, *from;
    char said[4096];
};

struct relay_start {
    uint16_t upstream;
    int in, out;
};

void relay_open(struct relay *relay, uint16_t upstream);

/* The relay's answer to a command of relay.py. */
const char *relay_tell(struct relay *relay, char command);
unsigned relay_lost(struct relay *relay);
void relay_close(struct relay *relay);

/* ---- spoilt answers ---- */

struct unruly {
    char port[16], seed[16], path[300];
};

/* Printed, so that it can be repeated as far as the pieces come alike. */
unsigned unruly_seed(void);

/* In front of the cluster's first member; *config leads there. */
pid_t unruly_start(const struct cluster *cluster, struct etcd_config *config, unsigned seed);
#endif
