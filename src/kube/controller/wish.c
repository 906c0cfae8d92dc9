/* SPDX-License-Identifier: MIT */
#include "kube/controller/wish.h"

#include <stdio.h>

#include "base/text.h"
#include "kube/protocol.h"

#include "base/banned.h"

void wish_number_name(const struct wish *wish, char out[DIBS_NAME_MAX + 1])
{
    unsigned proto = DIBS_TCP;

    while (proto + 1 < PROTOCOLS_END && wish->protos != 1u << proto)
        proto++;
    (void) snprintf(out, DIBS_NAME_MAX + 1, "observed/%s/%u", dibs_proto_text((dibs_proto) proto),
                    wish->port);
}

void wish_claim(const struct wish *wish, const char *pool, dibs_claim *c)
{
    const struct inventory_object *o = wish->object;

    *c = (dibs_claim){ .is_kept = true, .port = wish->port };
    (void) text_copy(c->pool, sizeof c->pool, pool);
    protocols_bind(wish->protos, c->bindings, &c->n_bindings);
    if (wish->claim) {
        c->kind = DIBS_DYNAMIC;
        c->is_exclusive = true;
        (void) text_copy(c->principal, sizeof c->principal, o->principal);
        (void) text_copy(c->name, sizeof c->name, wish->claim->name);
        (void) text_copy(c->keeper, sizeof c->keeper, wish->claim->keeper);
        c->run = wish->claim->run;
        return;
    }
    c->kind = DIBS_STATIC;
    (void) text_copy(c->principal, sizeof c->principal, IDENTITY_OBSERVED);
    wish_number_name(wish, c->name);
    (void) snprintf(c->keeper, sizeof c->keeper, "%s/%.40s", o->is_pod ? "Pod" : "Service", o->name);
}
