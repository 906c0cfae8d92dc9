/* SPDX-License-Identifier: MIT */
/* Any text as a kubeconfig: refused, or a server with what it needs. */
#include <stdlib.h>
#include <string.h>

#include "kube/client/config.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kubeapi_config config = { .ns = "untouched" };
    dibs_err err = { 0 };
    dibs_status s = kubeconfig_parse("fuzz", (const char *) data, size, "/nowhere", &config, &err);

    if (s != DIBS_OK) {
        CHECK(*err.msg && strcmp(config.ns, "untouched") == 0);
        return 0;
    }
    CHECK(strncmp(config.server, "https://", 8) == 0 || strncmp(config.server, "http://", 7) == 0);
    CHECK(!strpbrk(config.server, " ?#@") && config.server[strlen(config.server) - 1] != '/');
    CHECK(!config.credentials[KUBEAPI_CERT].text == !config.credentials[KUBEAPI_KEY].text);
    kubeapi_config_done(&config);
    return 0;
}
