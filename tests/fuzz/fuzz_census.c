/* SPDX-License-Identifier: MIT */
/* Any JSON as an object of a cluster: it is counted or passed over, and taken away again it leaves nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "operator/census.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(void *ctx, struct census_object *object)
{
    size_t *n = ctx;

    CHECK(object->uid[0] && object->name && (object->kind == CENSUS_POD || object->kind == CENSUS_SERVICE));
    for (size_t i = 0; i < object->n_claims; i++) {
        const struct census_claim *claim = &object->claims[i];

        CHECK(claim->port > 0 && claim->protos && claim->keeper[0]);
        CHECK(dibs_name_check(claim->name, NULL) == DIBS_OK);
    }
    ++*n;
}

static void put_and_drop(struct census *census, const char *kind, const json_value *object)
{
    size_t n = 0;
    dibs_claim claim = {
        .port = 20000, .principal = "ns:a", .name = "a/b/0/-/c", .command = "StatefulSet/a"
    };

    CHECK(census_put(census, 1, kind, object));
    census_each(census, look, &n);
    CHECK(n <= 1 && census_pods(census) <= 1);
    (void) (census_has_pod(census, &claim) || census_is_kept(census, &claim));
    uint64_t before = census_changes(census);
    CHECK(census_put(census, 1, kind, object)); /* once more is no news */
    CHECK(census_changes(census) == before);
    census_begin(census, 1);
    census_end(census, 1);
    n = 0;
    census_each(census, look, &n);
    CHECK(n == 0 && census_pods(census) == 0 && !census_has_pod(census, &claim) &&
          !census_is_kept(census, &claim));
    for (uint32_t port = 1; port <= DIBS_PORT_MAX; port += 97)
        CHECK(!census_is_used(census, DIBS_TCP, (uint16_t) port));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = { "Pod",          "Service",         "StatefulSet",
                                         "Deployment",   "LeaderWorkerSet", "ReplicaSet",
                                         "RoleInstance", "RoleBasedGroup" };
    struct census *census = NULL;
    json_doc *doc = NULL;

    if (json_parse((const char *) data, size, &doc, NULL) != DIBS_OK)
        return 0;
    CHECK(census_open(&census, NULL) == DIBS_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        put_and_drop(census, kinds[i], json_root(doc));
    census_close(census);
    json_free(doc);
    return 0;
}
