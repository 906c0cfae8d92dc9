/* SPDX-License-Identifier: MIT */
/* Any text as a compose file: the file with other host ports has the same ports with these numbers, and
 * without other ports it is the same text; a refusal is safe to print. */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "workload/compose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NEW_HOST = 20000 };

static char *copy(const void *from, size_t n)
{
    char *text = malloc(n + 1);

    CHECK(text);
    if (n)
        memcpy(text, from, n);
    text[n] = '\0';
    return text;
}

static void check_same(const struct compose *compose, const uint8_t *data, size_t size)
{
    uint16_t *hosts = calloc(compose->n + 1, sizeof *hosts);
    struct bytes text = { 0 };

    CHECK(hosts);
    compose_write(compose, hosts, &text);
    CHECK(text.n == size && (size == 0 || memcmp(text.at, data, size) == 0));
    bytes_done(&text);
    free(hosts);
}

static void check_replaced(const struct compose *compose)
{
    uint16_t *hosts = calloc(compose->n + 1, sizeof *hosts);
    struct bytes text = { 0 };
    struct compose again = { 0 };
    dibs_err err = { .code = DIBS_OK };

    CHECK(hosts);
    for (size_t i = 0; i < compose->n; i++)
        hosts[i] = NEW_HOST;
    compose_write(compose, hosts, &text);
    CHECK(!text.is_lost);
    CHECK(compose_parse("new", copy(text.at, text.n), text.n, &again, &err) == DIBS_OK);
    CHECK(again.n == compose->n);
    for (size_t i = 0; i < again.n; i++) {
        CHECK(again.ports[i].host == NEW_HOST && again.ports[i].proto == compose->ports[i].proto);
        CHECK(again.ports[i].container == compose->ports[i].container);
        CHECK(again.ports[i].count == compose->ports[i].count);
        CHECK(strcmp(again.ports[i].service, compose->ports[i].service) == 0);
    }
    compose_free(&again);
    bytes_done(&text);
    free(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct compose compose = { 0 };
    dibs_err err = { .code = DIBS_OK };

    if (compose_parse("file", copy(data, size), size, &compose, &err) == DIBS_OK) {
        check_same(&compose, data, size);
        check_replaced(&compose);
    } else {
        CHECK(err.code == DIBS_INVALID && strncmp(err.msg, "file:", 5) == 0);
        for (const char *at = err.msg; *at; at++)
            CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
    }
    compose_free(&compose);
    return 0;
}
