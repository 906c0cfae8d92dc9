/* SPDX-License-Identifier: MIT */
#include "core/in_use.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

enum { SOCKETS_MAX = 65536, PUBLISHED_MAX = 65536 };

struct looking {
    struct in_use *found;
    const dibs_ranges *ranges;
    size_t n_published;
};

static bool add(struct in_use *to, const struct kernel_socket *socket, const struct nat_rule *rule)
{
    if (!grow((void **) &to->sockets, to->n, &to->max, sizeof *to->sockets) ||
        !grow((void **) &to->rules, to->n, &to->max_rules, sizeof(const struct nat_rule *)))
        return false;
    to->sockets[to->n] = *socket;
    to->rules[to->n++] = rule;
    return true;
}

static bool add_socket(void *ctx, const struct kernel_socket *socket)
{
    const struct looking *l = ctx;

    return add(l->found, socket, NULL) && l->found->n < SOCKETS_MAX;
}

static bool add_rule(void *ctx, const struct nat_rule *rule)
{
    struct looking *l = ctx;

    for (uint32_t port = rule->ports.first; port <= rule->ports.last; port++) {
        const struct kernel_socket socket = { .proto = rule->proto,
                                              .address = rule->address,
                                              .port = (uint16_t) port };

        if (!dibs_ranges_contain(l->ranges, socket.port))
            continue;
        if (l->n_published++ == PUBLISHED_MAX || !add(l->found, &socket, rule))
            return false;
    }
    return true;
}

dibs_status in_use_list(struct core *core, const struct call *call, const dibs_ranges *ranges,
                        struct in_use *out, dibs_err *err)
{
    struct looking l = { .found = out, .ranges = ranges };
    dibs_status s = DIBS_OK;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++)
        s = kernel_sockets(0, proto, 0, add_socket, &l, err);
    if (s != DIBS_OK)
        return s;
    nat_refresh(core->nat, call->now.boot_ms);
    nat_each(core->nat, add_rule, &l);
    return DIBS_OK;
}

void in_use_done(struct in_use *in_use)
{
    free(in_use->sockets);
    free(in_use->rules);
}
