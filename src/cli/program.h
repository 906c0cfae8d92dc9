/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_PROGRAM_H
#define DIBS_CLI_PROGRAM_H
/* Common to all programs of dibs; each takes the command line of dibs. dibs executes the other programs for
 * their commands, so that it need not load their libraries. */
#include "cli/cli.h"

struct program {
    const char *name;
    /* Run a command whose row names this program; NULL: there is none. */
    dibs_status (*run)(struct cli *cli, dibs_err *err);
    bool opens_clusters; /* can open a ledger in etcd */
};

/* Write the path of another program of dibs. UNAVAILABLE: there is none. */
dibs_status program_find(const char *name, char *out, size_t size, dibs_err *err);

/* Run the whole program; returns its exit code. */
int program_main(const struct program *self, int argc, char **argv);
#endif
