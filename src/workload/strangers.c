/* SPDX-License-Identifier: MIT */
#include "workload/strangers.h"

#include <stdlib.h>
#include <string.h>

#include "host/kernel.h"
#include "net/bindings.h"
#include "net/portbits.h"

#include "base/banned.h"

struct strangers {
    bool is_known[DIBS_PROTO_MAX + 1];
    struct portbits used[DIBS_PROTO_MAX + 1];
    dibs_port_report report;
};

struct strangers *strangers_new(void)
{
    return calloc(1, sizeof(struct strangers));
}

void strangers_free(struct strangers **self)
{
    free(*self);
}

static bool note_port(void *ctx, const struct kernel_socket *socket)
{
    portbits_add(ctx, socket->port);
    return true;
}

bool strangers_is_used(struct strangers *self, const dibs_claim *claim)
{
    for (size_t i = 0; i < claim->n_bindings; i++) {
        dibs_proto proto = claim->bindings[i].proto;

        if (!self->is_known[proto])
            self->is_known[proto] =
                kernel_sockets(0, proto, 0, note_port, &self->used[proto], NULL) == DIBS_OK;
        if (self->is_known[proto] && portbits_has(&self->used[proto], claim->port))
            return true;
    }
    return false;
}

static bool is_container(const struct workload_group *group, const dibs_claim *claim)
{
    const char *slash = strchr(claim->name, '/');
    struct workload_need need;

    return group && slash && workload_need_parse(group, slash + 1, &need, NULL, NULL) == DIBS_OK &&
           need.port->container != 0;
}

static bool is_strange(const struct workload_group *group, const dibs_claim *claim, const dibs_socket *socket)
{
    const dibs_binding used = { socket->proto, socket->address };

    if (!socket->serves || !bindings_conflict(claim->bindings, claim->n_bindings, &used, 1))
        return false;
    if (socket->is_holders)
        return false;
    if (socket->uid != claim->uid)
        return socket->uid != 0 || !is_container(group, claim);
    return claim->holder == DIBS_HELD_BY_NOBODY && claim->project[0] && socket->pid != 0;
}

bool strangers_find(struct strangers *self, dibs *handle, const struct workload_group *group,
                    const dibs_claim *claim, dibs_socket *out)
{
    const dibs_port_question question = { claim->port, NULL, claim->bindings, claim->n_bindings };

    if (!claim->is_exclusive || claim->is_damaged || claim->is_degraded || !strangers_is_used(self, claim) ||
        dibs_port_explain(handle, &question, &self->report, NULL) != DIBS_OK)
        return false;
    for (size_t i = 0; i < self->report.n_sockets; i++)
        if (is_strange(group, claim, &self->report.sockets[i])) {
            *out = self->report.sockets[i];
            return true;
        }
    return false;
}
