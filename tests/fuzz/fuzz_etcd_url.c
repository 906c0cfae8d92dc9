/* SPDX-License-Identifier: MIT */
/* Any text as the URL of a cluster: refused, or taken apart into parts that keep their bounds. */
#include <stdlib.h>
#include <string.h>

#include "store/etcd/client/config.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct etcd_config *c)
{
    CHECK(c->n_origins >= 1 && c->n_origins <= ETCD_ENDPOINTS_MAX);
    for (size_t i = 0; i < c->n_origins; i++) {
        CHECK(strncmp(c->origin[i], c->is_tls ? "https://" : "http://", c->is_tls ? 8 : 7) == 0);
        CHECK(!strpbrk(c->origin[i], " @?#%"));
    }
    CHECK(c->prefix[0] == '/' && c->prefix[1] != '\0' && !strstr(c->prefix, "//"));
    CHECK(c->prefix[strlen(c->prefix) - 1] != '/');
    CHECK(c->is_tls == (*c->cacert != '\0') && !*c->cert == !*c->key);
    CHECK(!*c->user && !*c->password);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct etcd_config config = { .n_origins = 77 };
    dibs_err err = { 0 };

    CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (etcd_config_parse(text, &config, &err) == DIBS_OK)
        check(&config);
    else
        CHECK(config.n_origins == 77 && err.code == DIBS_INVALID && *err.msg);
    free(text);
    return 0;
}
