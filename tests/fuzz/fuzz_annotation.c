/* SPDX-License-Identifier: MIT */
/* Any text as RBG's port-allocator annotation, in both dialects, and as its component-discovery: what is read
 * has every required part, what is refused has a reason that is safe to print, and keys of storage are valid.
 */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "workload/annotation.h"
#include "workload/discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const dibs_err *err)
{
    CHECK(err->code == DIBS_INVALID);
    CHECK(err->msg[0] != '\0');
    for (const char *at = err->msg; *at; at++)
        CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
}

static void check_port(const struct workload_port *port)
{
    CHECK(port->name && *port->name);
    CHECK(workload_is_env_name(port->env));
    CHECK(!port->annotation || workload_is_annotation_key(port->annotation));
    CHECK(port->count >= 1 && port->count <= WORKLOAD_COUNT_MAX);
    CHECK(port->n_bindings <= DIBS_BINDINGS_MAX);
    CHECK((port->mode == DIBS_RANDOM) == (port->port == 0));
}

static void check_annotation(const char *text, enum workload_dialect dialect)
{
    AUTO(workload_free_auto) struct workload_group *group = workload_new();
    struct workload_component got = { 0 };
    dibs_err err = { .code = DIBS_OK };

    CHECK(group);
    if (workload_annotation_parse(group, dialect, text, &got, &err) != DIBS_OK) {
        check_refusal(&err);
        CHECK(!got.ports && !got.references);
        return;
    }
    for (size_t i = 0; i < got.n_ports; i++)
        check_port(&got.ports[i]);
    for (size_t i = 0; i < got.n_references; i++) {
        CHECK(workload_is_env_name(got.references[i].env));
        CHECK(*got.references[i].role && *got.references[i].port);
        CHECK(!got.references[i].component || *got.references[i].component);
    }
}

static void check_discovery(const char *text)
{
    AUTO(workload_free_auto) struct workload_group *group = workload_new();
    struct workload_discovery got = { 0 };
    dibs_err err = { .code = DIBS_OK };

    CHECK(group);
    if (workload_discovery_parse(group, (struct workload_place){ 0 }, text, &got, &err) != DIBS_OK) {
        check_refusal(&err);
        return;
    }
    for (size_t i = 0; i < got.n_ports; i++)
        CHECK(workload_is_env_name(got.ports[i].env) && *got.ports[i].component && *got.ports[i].port);
    for (size_t i = 0; i < got.n_addresses; i++)
        CHECK(workload_is_env_name(got.addresses[i].env) && *got.addresses[i].component);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    check_annotation(text, WORKLOAD_RBG);
    check_annotation(text, WORKLOAD_OWN);
    check_discovery(text);
    free(text);
    return 0;
}
