/* SPDX-License-Identifier: MIT */
/* Any JSON as an object of a cluster: it is counted or passed over, and taken away again it leaves nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "kube/controller/inventory.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(void *ctx, struct hash_table_item *item)
{
    const struct inventory_object *object = (const struct inventory_object *) item;
    size_t *n = ctx;

    CHECK(object->uid[0] && object->name);
    for (size_t i = 0; i < object->n_claims; i++) {
        const struct assigned_claim *claim = &object->claims[i];

        CHECK(claim->port > 0 && claim->protos && claim->keeper[0]);
        CHECK(dibs_name_check(claim->name, NULL) == DIBS_OK);
    }
    *n += !object->is_gone;
}

static void put_and_drop(struct inventory *inventory, const char *kind, const jsonr_value *object)
{
    size_t n = 0;
    dibs_claim claim = { .port = 20000, .principal = "ns:a", .name = "a/b/0/-/c", .keeper = "StatefulSet/a" };

    CHECK(inventory_put(inventory, 1, kind, object));
    hash_table_each(&inventory->objects, look, &n);
    CHECK(n <= 1 && inventory->n_pods <= 1);
    (void) (inventory_has_pod(inventory, &claim) || inventory_is_kept(inventory, &claim));
    uint64_t before = inventory->n_changes;
    CHECK(inventory_put(inventory, 1, kind, object)); /* once more is no news */
    CHECK(inventory->n_changes == before);
    inventory_begin(inventory, 1);
    inventory_end(inventory, 1);
    n = 0;
    hash_table_each(&inventory->objects, look, &n);
    CHECK(n == 0 && inventory->n_pods == 0 && !inventory_has_pod(inventory, &claim) &&
          !inventory_is_kept(inventory, &claim));
    for (uint32_t port = 1; port <= DIBS_PORT_MAX; port += 97)
        CHECK(!inventory_is_used(inventory, DIBS_TCP, (uint16_t) port));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = { "Pod",          "Service",         "StatefulSet",
                                         "Deployment",   "LeaderWorkerSet", "ReplicaSet",
                                         "RoleInstance", "RoleBasedGroup" };
    struct inventory inventory = { 0 };
    jsonr_doc *doc = NULL;

    if (jsonr_parse((const char *) data, size, &doc, NULL) != DIBS_OK)
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        put_and_drop(&inventory, kinds[i], jsonr_root(doc));
    inventory_done(&inventory);
    jsonr_free(doc);
    return 0;
}
