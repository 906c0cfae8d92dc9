/* SPDX-License-Identifier: MIT */
/* Any bytes as the file of an installation: an accepted file has an id, and each of its keys alone proves
 * what the first one signed only if it is the same key. */
#include <stdlib.h>
#include <string.h>

#include "kube/install/installation.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_keys(const struct installation *all)
{
    const struct installation_statement statement = { "ns:shop", "id", "[]" };
    const struct installation_statement other = { "ns:other", "id", "[]" };
    char signature[INSTALLATION_SIGNATURE_MAX + 1] = "";

    CHECK(installation_sign(all, &statement, signature, NULL) == DIBS_OK);
    CHECK(installation_has_signed(all, &statement, signature));
    CHECK(!installation_has_signed(all, &other, signature));
    for (size_t i = 0; i < all->n_keys; i++) {
        struct installation one = { .n_keys = 1 };

        memcpy(one.id, all->id, sizeof one.id);
        memcpy(one.keys[0], all->keys[i], sizeof one.keys[0]);
        CHECK(installation_has_signed(&one, &statement, signature) ==
              (strcmp(all->keys[i], all->keys[0]) == 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct installation found = { 0 };
    dibs_err err = { 0 };
    char *text = malloc(size + 1);

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    dibs_status s = installation_parse("fuzz", text, &found, &err);
    if (s == DIBS_OK) {
        CHECK(found.id[0] && found.n_keys > 0 && found.n_keys <= INSTALLATION_KEYS_MAX);
        for (size_t i = 0; i < found.n_keys; i++)
            CHECK(strlen(found.keys[i]) >= INSTALLATION_KEY_MIN);
        check_keys(&found);
    } else {
        CHECK(err.msg[0] && found.n_keys == 0);
    }
    installation_done(&found);
    free(text);
    return 0;
}
