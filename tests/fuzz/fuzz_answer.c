/* SPDX-License-Identifier: MIT */
/* Any bytes as an HTTP answer: taken whole or byte by byte they are the same answer, or the same fault. */
#include <string.h>

#include "lib/answer.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *dribble(struct answer *a, const char *bytes, size_t n)
{
    const char *fault = NULL;

    for (size_t i = 0; i < n && !fault; i++)
        fault = answer_take(a, bytes + i, 1);
    return fault;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct answer whole = { 0 };
    struct answer drops = { 0 };
    const char *fault = answer_take(&whole, (const char *) data, size);
    const char *other = dribble(&drops, (const char *) data, size);

    CHECK(fault == other || (fault && other && strcmp(fault, other) == 0));
    if (!fault) {
        CHECK(whole.state == drops.state && whole.status == drops.status);
        CHECK(whole.body.n == drops.body.n && whole.is_closing == drops.is_closing);
        CHECK(whole.body.n == 0 || memcmp(whole.body.at, drops.body.at, whole.body.n) == 0);
        CHECK(whole.state != ANSWER_DONE || (whole.status >= 200 && whole.status <= 599));
    }
    answer_done(&whole);
    answer_done(&drops);
    return 0;
}
