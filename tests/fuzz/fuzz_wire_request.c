/* SPDX-License-Identifier: MIT */
/* Any bytes as the body of a claim, a batch, a repair or a snapshot: what is taken is within its bounds, and
 * written down it reads back the same. */
#include <stdlib.h>
#include <string.h>

#include "codec/wire.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const dibs_request *r)
{
    CHECK(r->n_bindings <= DIBS_BINDINGS_MAX);
    CHECK(r->mode <= DIBS_DECLARED && r->holder <= DIBS_HELD_BY_LEASE);
    CHECK(r->ttl_ms >= 0 && r->ttl_ms <= DIBS_TTL_MAX_MS);
    CHECK(!r->ranges || r->ranges->n > 0);
}

static void write_again(const dibs_batch *batch, struct bytes *out)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    wire_batch(&w, batch, NULL);
}

static void reads_back(const dibs_batch *batch)
{
    struct bytes once = { 0 };
    struct bytes twice = { 0 };
    struct wire_asked again = { 0 };

    for (size_t i = 0; i < batch->n; i++)
        check_request(&batch->requests[i]);
    write_again(batch, &once);
    CHECK(!once.is_lost);
    CHECK(wire_batch_read(once.at, once.n, 1, &again, NULL) == DIBS_OK);
    write_again(&again.batch, &twice);
    CHECK(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0);
    wire_asked_done(&again);
    bytes_done(&once);
    bytes_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_asked request = { 0 };
    struct wire_asked batch = { 0 };
    struct wire_plan plan = { 0 };
    struct wire_snapshot snapshot = { 0 };
    jsonr_doc *doc = NULL;
    dibs_err err = { 0 };
    char *text = malloc(size ? size : 1); /* no NUL behind it: the length must be enough */

    if (!text)
        return 0;
    memcpy(text, data, size);
    if (wire_request_read(text, size, 1, &request, &err) == DIBS_OK)
        reads_back(&request.batch);
    else
        CHECK(err.msg[0] != '\0');
    if (wire_batch_read(text, size, 1, &batch, NULL) == DIBS_OK)
        reads_back(&batch.batch);
    (void) wire_plan_read(text, size, &plan, NULL);
    if (jsonr_parse(text, size, &doc, NULL) == DIBS_OK)
        (void) wire_snapshot_read(jsonr_root(doc), &snapshot, NULL);
    jsonr_free(doc);
    wire_snapshot_done(&snapshot);
    wire_plan_done(&plan);
    wire_asked_done(&batch);
    wire_asked_done(&request);
    free(text);
    return 0;
}
