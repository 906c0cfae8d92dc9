/* SPDX-License-Identifier: MIT */
/* A batch that carries a key is decided once: who asks again because the answer was lost gets the same
 * claims, not others (INV-4 for callers that cannot know what became of their request). */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "ledger/claiming.h"

#include "base/banned.h"

static dibs_status look(struct claiming *k, uint32_t part, struct row_answer *out)
{
    *out = (struct row_answer){ .part = part };
    (void) text_copy(out->principal, sizeof out->principal, k->tx->actor->principal);
    if (!text_copy(out->key, sizeof out->key, k->batch->key->text))
        return err_set(k->err, DIBS_INVALID, "a key has at most %d bytes", LEDGER_KEY_MAX);
    return k->tx->rows->ops->answer_get(k->tx->rows, out, k->err);
}

static dibs_status answer_again(struct claiming *k, const struct row_answer *known, dibs_claim *out)
{
    struct row_claim row;
    dibs_status s = k->tx->rows->ops->claim_get(k->tx->rows, known->claim_id, &row, k->err);

    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && row.claim.generation != known->generation))
        return err_set(k->err, DIBS_NOT_FOUND, "what was claimed with key '%s' has ended since",
                       k->batch->key->text);
    if (s == DIBS_OK)
        s = ledger_certain(&row.claim, k->err);
    if (s == DIBS_OK)
        claiming_answer(&row, false, out);
    return s;
}

dibs_status claiming_answered(struct claiming *k, dibs_claim *out, bool *is_known)
{
    struct row_answer known;
    dibs_status s = look(k, 0, &known);

    *is_known = s == DIBS_OK;
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK;
    if (s == DIBS_OK && (known.digest != k->batch->key->digest || known.n != k->batch->n))
        return err_set(k->err, DIBS_INVALID, "key '%s' was used before, for something else",
                       k->batch->key->text);
    for (uint32_t i = 0; i < k->batch->n && s == DIBS_OK; i++) {
        s = i == 0 ? DIBS_OK : look(k, i, &known);
        if (s == DIBS_OK)
            s = answer_again(k, &known, &out[i]);
    }
    return s;
}

dibs_status claiming_remember(struct claiming *k, const dibs_claim *out)
{
    dibs_status s = DIBS_OK;

    for (uint32_t i = 0; i < k->batch->n && s == DIBS_OK; i++) {
        struct row_answer answer = {
            .part = i,
            .n = (uint32_t) k->batch->n,
            .seq = k->tx->seq,
            .digest = k->batch->key->digest,
            .claim_id = out[i].id,
            .generation = out[i].generation,
        };

        (void) text_copy(answer.principal, sizeof answer.principal, k->tx->actor->principal);
        (void) text_copy(answer.key, sizeof answer.key, k->batch->key->text);
        s = k->tx->rows->ops->answer_put(k->tx->rows, &answer, k->err);
    }
    return s;
}
