/* SPDX-License-Identifier: MIT */
#include "kube/webhook/occupant.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/pod_words.h"
#include "base/text.h"
#include "kube/identity.h"
#include "kube/protocol.h"
#include "lib/handle.h"

#include "base/banned.h"

struct occupant {
    const char *principal, *name; /* of the port's own claim */
    uint8_t protos;
    bool is_own;                  /* that claim has the number */
    bool is_foreign;              /* an object uses it without a claim */
    char text[OCCUPANT_TEXT_MAX]; /* who has it: "port 'http' of pod 'web-0' in ...", "Service/web"; "":
                                     nobody else */
};

static bool note_claim(void *ctx, const dibs_claim *claim)
{
    struct occupant *o = ctx;
    bool conflicts = false;

    for (size_t i = 0; i < claim->n_bindings; i++)
        conflicts = conflicts || (o->protos & 1u << claim->bindings[i].proto);
    if (!conflicts || o->is_foreign)
        return true;
    if (strcmp(claim->principal, o->principal) == 0 && strcmp(claim->name, o->name) == 0) {
        o->is_own = true;
    } else if (strcmp(claim->principal, IDENTITY_OBSERVED) == 0) {
        o->is_foreign = true;
        (void) pod_words_owner(claim, o->text, sizeof o->text);
    } else if (!pod_words_port(claim, o->text, sizeof o->text)) {
        (void) snprintf(o->text, sizeof o->text, "the claim '%s' of %s", claim->name, claim->principal);
    }
    return true;
}

static dibs_status find(dibs *handle, uint8_t protos, const dibs_request *request, struct occupant *out,
                        dibs_err *err)
{
    const struct call call = handle_call(handle);

    *out = (struct occupant){ .principal = call.principal, .name = request->name, .protos = protos };
    return dibs_claim_list(handle, &(dibs_filter){ .port = request->port }, note_claim, out, err);
}

dibs_status occupant_avoid(dibs *handle, const struct workload_port *port, dibs_request *request,
                           struct review_warnings *warnings, dibs_err *err)
{
    struct occupant o;

    if (request->mode == DIBS_RANDOM)
        return DIBS_OK;
    dibs_status s = find(handle, protocols_of(port), request, &o, err);
    if (s != DIBS_OK || !o.is_foreign)
        return s;
    if (request->mode == DIBS_REQUIRED && !o.is_own)
        return err_set(
            err, DIBS_TAKEN,
            "allocations '%s': port %u is used by %s without a claim; choose another number, or use "
            "'prefer'",
            port->name, request->port, o.text);
    review_warn(warnings, "allocations '%.63s': port %u is used by %.63s without a claim%s", port->name,
                request->port, o.text, o.is_own ? ", and is this pod's" : "; the pod gets another one");
    if (!o.is_own)
        request->mode = DIBS_RANDOM;
    return DIBS_OK;
}

void occupant_blame(dibs *handle, const struct workload_port *port, const dibs_request *request,
                    dibs_err *err)
{
    bool is_by_name = err->blocker.relation == DIBS_REL_SAME_NAME;
    struct occupant o;

    if (request->mode != DIBS_REQUIRED || is_by_name || err->blocker.port != request->port ||
        find(handle, protocols_of(port), request, &o, NULL) != DIBS_OK || !o.text[0])
        return;
    (void) err_set(err, DIBS_TAKEN,
                   "allocations '%s': port %u is claimed: it is %s; choose another number, or use 'prefer'",
                   port->name, request->port, o.text);
}

dibs_status occupant_find(dibs *handle, uint8_t protos, const dibs_request *request, bool *is_foreign,
                          char out[OCCUPANT_TEXT_MAX], dibs_err *err)
{
    struct occupant o;
    dibs_status s = find(handle, protos, request, &o, err);

    *is_foreign = s == DIBS_OK && o.is_foreign && !o.is_own;
    (void) text_copy(out, OCCUPANT_TEXT_MAX, s == DIBS_OK ? o.text : "");
    return s;
}
