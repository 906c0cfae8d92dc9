/* SPDX-License-Identifier: MIT */
#include "operator/assigned.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

static bool read_protocols(const json_value *list, uint8_t *out)
{
    *out = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = NULL;
        dibs_proto proto = 0;

        if (!json_as_string(json_array_at(list, i), &text))
            return false;
        if (strcmp(text, "TCP") == 0)
            proto = DIBS_TCP;
        else if (strcmp(text, "UDP") == 0)
            proto = DIBS_UDP;
        else if (strcmp(text, "SCTP") == 0)
            proto = DIBS_SCTP;
        else
            return false;
        *out |= (uint8_t) (1u << proto);
    }
    return *out != 0;
}

static dibs_status read_one(const json_value *entry, struct census_claim *out, dibs_err *err)
{
    const char *name = NULL;
    const char *keeper = NULL;
    int64_t port = 0;

    if (!json_get_string(entry, "claim", &name) || dibs_name_check(name, NULL) != DIBS_OK ||
        !json_get_int(entry, "port", &port) || port < 1 || port > DIBS_PORT_MAX ||
        !json_get_string(entry, "kind", &keeper) || !*keeper ||
        !text_copy(out->keeper, sizeof out->keeper, keeper) ||
        !read_protocols(json_get(entry, "protocols"), &out->protos))
        return err_set(err, DIBS_INVALID, "%s is not as dibs writes it", IDENTITY_KEY_ASSIGNED);
    out->port = (uint16_t) port;
    out->name = strdup(name);
    return out->name ? DIBS_OK : err_set(err, DIBS_FAILURE, "reading pods: out of memory");
}

dibs_status assigned_read(const char *text, struct census_claim **out, size_t *n, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    dibs_status s = json_parse(text, strlen(text), &doc, err);
    const json_value *list = s == DIBS_OK ? json_root(doc) : NULL;
    size_t count = json_array_size(list);

    if (s == DIBS_OK && (!json_is_array(list) || count > ASSIGNED_MAX))
        s = err_set(err, DIBS_INVALID, "%s is no list, or too long a one", IDENTITY_KEY_ASSIGNED);
    if (s != DIBS_OK || count == 0)
        return s;
    struct census_claim *claims = calloc(count, sizeof *claims);
    if (!claims)
        return err_set(err, DIBS_FAILURE, "reading pods: out of memory");
    size_t got = 0;
    while (got < count && s == DIBS_OK) {
        s = read_one(json_array_at(list, got), &claims[got], err);
        got += s == DIBS_OK;
    }
    if (s != DIBS_OK) {
        while (got > 0)
            free(claims[--got].name);
        free(claims);
        return s;
    }
    *out = claims;
    *n = count;
    return DIBS_OK;
}
