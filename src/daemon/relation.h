/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_RELATION_H
#define DIBS_DAEMON_RELATION_H
/* What each socket of a table is to the claims of its port. */
#include "codec/wire.h"
#include "daemon/engine.h"
#include "host/socket_table.h"

struct relations { /* the claims on ports of the table */
    struct engine *engine;
    const struct call *call;
    const struct socket_table *table;
    struct engine_claim *claims; /* ascending by port */
    size_t n, max;
    unsigned n_read; /* claims that were read from the ledger */
    struct portbits ports;
};

/* Gather the claims. End it with relations_done(). */
void relations_load(struct relations *out, struct engine *engine, const struct call *call,
                    const struct socket_table *table);
void relations_done(struct relations *relations);
enum wire_relation relation_of(struct relations *relations, const struct table_socket *socket);
#endif
