/* SPDX-License-Identifier: MIT */
/* GET /claims: the pool's claims of pods and Services as the ledger has them. Any replica answers, also one
 * that does not lead. */
#include "base/pod_words.h"
#include "codec/wire.h"
#include "kube/controller/internal.h"

#include "base/banned.h"

static bool write_claim(void *ctx, const dibs_claim *claim)
{
    char words[512];

    if (pod_words_owner(claim, words, sizeof words)) /* a user's claim names directories and commands */
        wire_claim(ctx, claim, false);
    return true;
}

void controller_serve_claims(void *ctx, struct http_request *r)
{
    struct controller *c = ctx;
    struct bytes out = { 0 };
    struct jsonw w;
    dibs_err err = { 0 };

    jsonw_begin_bytes(&w, &out);
    jsonw_array(&w);
    dibs_status s = dibs_claim_list(&c->ledger.acting, &(dibs_filter){ .pool = c->ledger.pool.name },
                                    write_claim, &w, &err);
    jsonw_end_array(&w);
    if (s == DIBS_OK) {
        http_answer(r, 200, "application/json", &out, NULL, 0);
        return;
    }
    bytes_done(&out);
    router_refuse(r, 503, &err, NULL);
}
