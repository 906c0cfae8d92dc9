/* SPDX-License-Identifier: MIT */
#include "kube/assigned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/name_part.h"
#include "base/text.h"
#include "kube/protocol.h"

#include "base/banned.h"

static bool read_protocols(const jsonr_value *list, uint8_t *out)
{
    *out = 0;
    for (size_t i = 0; i < jsonr_array_size(list); i++) {
        const char *text = NULL;
        uint8_t bit = jsonr_as_string(jsonr_array_at(list, i), &text) ? protocol_bit(text) : 0;

        if (!bit)
            return false;
        *out |= bit;
    }
    return *out != 0;
}

static dibs_status read_one(const jsonr_value *entry, struct assigned_claim *out, dibs_err *err)
{
    const char *name = NULL;
    const char *keeper = NULL;
    int64_t port = 0;
    int64_t run = 0;

    if (!jsonr_get_string(entry, "claim", &name) || dibs_name_check(name, NULL) != DIBS_OK ||
        !jsonr_get_int(entry, "port", &port) || port < 1 || port > DIBS_PORT_MAX ||
        !jsonr_get_string(entry, "kind", &keeper) || !*keeper ||
        !text_copy(out->keeper, sizeof out->keeper, keeper) ||
        !read_protocols(jsonr_get(entry, "protocols"), &out->protos))
        return err_set(err, DIBS_INVALID, "%s is not as dibs writes it", IDENTITY_KEY_ASSIGNED);
    out->port = (uint16_t) port;
    if (jsonr_get_int(entry, "run", &run) && run > 0 && run <= WORKLOAD_COUNT_MAX)
        out->run = (uint16_t) run;
    out->name = strdup(name);
    return out->name ? DIBS_OK : err_set(err, DIBS_FAILURE, "reading pods: out of memory");
}

void assigned_free(struct assigned_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(claims[i].name);
    free(claims);
}

dibs_status assigned_read(const char *text, struct assigned_claim **out, size_t *n, dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_status s = jsonr_parse(text, strlen(text), &doc, err);
    const jsonr_value *list = s == DIBS_OK ? jsonr_root(doc) : NULL;
    size_t count = jsonr_array_size(list);

    if (s == DIBS_OK && (!jsonr_is_array(list) || count > ASSIGNED_MAX))
        s = err_set(err, DIBS_INVALID, "%s is not a list, or is too long", IDENTITY_KEY_ASSIGNED);
    if (s != DIBS_OK || count == 0)
        return s;
    struct assigned_claim *claims = calloc(count, sizeof *claims);
    if (!claims)
        return err_set(err, DIBS_FAILURE, "reading pods: out of memory");
    size_t got = 0;
    while (got < count && s == DIBS_OK) {
        s = read_one(jsonr_array_at(list, got), &claims[got], err);
        got += s == DIBS_OK;
    }
    if (s != DIBS_OK) {
        assigned_free(claims, got);
        return s;
    }
    *out = claims;
    *n = count;
    return DIBS_OK;
}

void assigned_describe(const struct assigned_claim *claims, size_t n, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *name = name_part_at(claims[i].name, DIBS_NAME_PARTS_MAX - 1);
        char one[DIBS_NAME_PART_MAX + 32];

        name = name ? name : ""; /* foreign text may be any name */
        size_t len = (size_t) snprintf(one, sizeof one, "%s%.*s %u", i ? ", " : "", (int) strcspn(name, "/"),
                                       name, claims[i].port);

        for (unsigned proto = DIBS_TCP; proto < PROTOCOLS_END && claims[i].protos != 1u << DIBS_TCP; proto++)
            if (claims[i].protos & 1u << proto)
                len +=
                    (size_t) snprintf(one + len, sizeof one - len, " %s", protocol_name((dibs_proto) proto));
        bool fits = used + len + sizeof ", ..." <= size;
        (void) snprintf(out + used, size - used, "%s", fits ? one : i ? ", ..." : "...");
        if (!fits)
            return;
        used += len;
    }
}

static void write_one(struct jsonw *w, const struct identity *identity, const struct workload_port *port,
                      uint32_t number, uint16_t claimed)
{
    char name[DIBS_NAME_MAX + 1];

    identity_claim_name(identity, port, number, name);
    jsonw_object(w);
    jsonw_key_string(w, "claim", name);
    jsonw_key_int(w, "port", claimed);
    protocols_write(w, protocols_of(port));
    jsonw_key_string(w, "kind",
                     port->scope == WORKLOAD_ROLE_SCOPED ? identity->role_keeper : identity->keeper);
    if (number == 0 && port->count > 1)
        jsonw_key_int(w, "run", port->is_contiguous ? port->count : 1);
    jsonw_end_object(w);
}

void assigned_write(const struct identity *identity, const struct workload_component *config,
                    const dibs_claim *claims, struct bytes *out)
{
    struct jsonw w = { 0 };

    jsonw_begin_bytes(&w, out);
    jsonw_array(&w);
    for (size_t i = 0; i < config->n_ports; i++)
        for (uint32_t number = 0; number < config->ports[i].count; number++)
            write_one(&w, identity, &config->ports[i], number, (claims++)->port);
    jsonw_end_array(&w);
    bytes_add(out, "", 1);
}
