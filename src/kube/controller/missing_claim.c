/* SPDX-License-Identifier: MIT */
#include "kube/controller/missing_claim.h"

#include <stdio.h>

#include "base/text.h"
#include "kube/protocol.h"

#include "base/banned.h"

void missing_claim_number_name(const struct missing_claim *missing, char out[DIBS_NAME_MAX + 1])
{
    unsigned proto = DIBS_TCP;

    while (proto + 1 < PROTOCOLS_END && missing->protos != 1u << proto)
        proto++;
    (void) snprintf(out, DIBS_NAME_MAX + 1, "observed/%s/%u", dibs_proto_text((dibs_proto) proto),
                    missing->port);
}

void missing_claim_make(const struct missing_claim *missing, const char *pool, dibs_claim *c)
{
    const struct inventory_object *o = missing->object;

    *c = (dibs_claim){ .is_kept = true, .port = missing->port };
    (void) text_copy(c->pool, sizeof c->pool, pool);
    protocols_bind(missing->protos, c->bindings, &c->n_bindings);
    if (missing->claim) {
        c->kind = DIBS_DYNAMIC;
        c->is_exclusive = true;
        (void) text_copy(c->principal, sizeof c->principal, o->principal);
        (void) text_copy(c->name, sizeof c->name, missing->claim->name);
        (void) text_copy(c->keeper, sizeof c->keeper, missing->claim->keeper);
        c->run = missing->claim->run;
        return;
    }
    c->kind = DIBS_STATIC;
    (void) text_copy(c->principal, sizeof c->principal, IDENTITY_OBSERVED);
    missing_claim_number_name(missing, c->name);
    (void) snprintf(c->keeper, sizeof c->keeper, "%s/%.40s", o->is_pod ? "Pod" : "Service", o->name);
}
