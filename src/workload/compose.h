/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_COMPOSE_H
#define DIBS_WORKLOAD_COMPOSE_H
/* The host ports that a compose file publishes, and the same file with other ones: every other byte stays. */
#include "base/bytes.h"
#include "codec/yaml.h"
#include "dibs/dibs.h"

enum { COMPOSE_PORTS_MAX = 4096 }; /* published in one file; far above what a host runs */

/* One published port, or a range of them. */
struct compose_port {
    const char *service;
    uint16_t container; /* the first in the container */
    uint16_t host;      /* the first on the host; 0: a variable without a default */
    uint16_t count;
    dibs_proto proto;
    const yaml_node *node; /* what is replaced: the short form, or the long form's `published` */
    /* bytes of a short form before and after the host's port: "127.0.0.1:" and ":5432/tcp" */
    size_t before, after;
    bool is_short;
};

struct compose {
    yaml_text *yaml;
    char *text; /* owned */
    size_t len;
    struct compose_port *ports; /* in the order of the text */
    size_t n, max;
};
void compose_free(struct compose *compose); /* a zeroed one is fine */

/* Read the published ports of a text, which *out takes over also on failure. INVALID names the place: ports
 * that an alias or a merge key brings in cannot be replaced at one place without changing another. */
dibs_status compose_parse(const char *name, char *text, size_t len, struct compose *out, dibs_err *err);
/* Append the text with these first host ports (0: unchanged), one for each of compose->ports. */
void compose_write(const struct compose *compose, const uint16_t *hosts, struct bytes *out);
/* Return the names that `docker compose` looks for, in its order; NULL ends them. */
extern const char *const compose_file_names[];
#endif
