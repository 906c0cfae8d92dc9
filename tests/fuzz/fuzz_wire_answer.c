/* SPDX-License-Identifier: MIT */
/* Any bytes as an answer of a daemon: what a client takes of it is within its bounds, and a claim that was
 * taken is written and read as the same. */
#include <stdlib.h>
#include <string.h>

#include "codec/wire.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_claim(const jsonr_value *v)
{
    struct bytes once = { 0 };
    struct bytes twice = { 0 };
    struct jsonw w;
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };
    jsonr_doc *doc = NULL;

    if (wire_claim_read(v, WIRE_ANSWERED, &claim, NULL) != DIBS_OK)
        return;
    CHECK(claim.n_bindings <= DIBS_BINDINGS_MAX);
    jsonw_begin_bytes(&w, &once);
    wire_claim(&w, &claim, true);
    CHECK(jsonr_parse(once.at, once.n, &doc, NULL) == DIBS_OK);
    CHECK(wire_claim_read(jsonr_root(doc), WIRE_ANSWERED, &again, NULL) == DIBS_OK);
    jsonw_begin_bytes(&w, &twice);
    wire_claim(&w, &again, true);
    CHECK(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0);
    jsonr_free(doc);
    bytes_done(&once);
    bytes_done(&twice);
}

static void check_value(const jsonr_value *v)
{
    uint8_t bytes[WIRE_RANGE_BYTES_MAX];
    struct wire_daemon daemon = { 0 };
    dibs_err err = { 0 };
    dibs_event event = { 0 };
    dibs_pool pool = { 0 };
    dibs_pool_usage usage = { 0 };
    dibs_socket socket = { 0 };
    dibs_repair_item item = { 0 };
    dibs_finding finding = { 0 };
    dibs_range_snapshot range = { 0 };
    dibs_port_report *report = calloc(1, sizeof *report);

    check_claim(v);
    if (wire_problem_read(v, &err))
        CHECK(err.code >= DIBS_FAILURE && err.code <= DIBS_DENIED && memchr(err.msg, 0, sizeof err.msg));
    (void) wire_event_read(v, &event, NULL);
    if (wire_pool_read(v, WIRE_ANSWERED, &pool, NULL) == DIBS_OK)
        CHECK(pool.ranges.n > 0 && pool.ranges.n <= DIBS_RANGES_MAX);
    (void) wire_usage_read(v, &usage, NULL);
    (void) wire_socket_read(v, &socket, NULL);
    (void) wire_repair_item_read(v, &item, NULL);
    (void) wire_finding_read(v, &finding, NULL);
    (void) wire_daemon_read(v, &daemon, NULL);
    if (wire_range_read(v, bytes, &range, NULL) == DIBS_OK)
        CHECK(range.n <= WIRE_RANGE_BYTES_MAX && range.range);
    if (report && wire_report_read(v, report, NULL) == DIBS_OK)
        CHECK(report->n_claims <= DIBS_REPORT_CLAIMS_MAX && report->n_sockets <= DIBS_REPORT_SOCKETS_MAX);
    free(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jsonr_doc *doc = NULL;
    char *text = malloc(size ? size : 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    if (jsonr_parse(text, size, &doc, NULL) == DIBS_OK) {
        const jsonr_value *root = jsonr_root(doc);

        check_value(root);
        for (size_t i = 0; i < jsonr_array_size(root); i++)
            check_value(jsonr_array_at(root, i));
    }
    jsonr_free(doc);
    free(text);
    return 0;
}
