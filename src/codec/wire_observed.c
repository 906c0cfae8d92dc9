/* SPDX-License-Identifier: MIT */
/* Observed ports in use, and the plan of a repair, as JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "codec/wire_fields.h"

#include "base/banned.h"

static void observed_auto(struct wire_observed *list)
{
    free(list->item);
}

dibs_status wire_observed_add(struct wire_observed *list, const char *proto, const char *address,
                              uint16_t port, const char *name, dibs_err *err)
{
    dibs_observed entry = { .port = port };
    dibs_address addresses[2] = { 0 };
    size_t n = 0;
    dibs_status status = dibs_proto_parse(proto, &entry.binding.proto, err);

    if (status == DIBS_OK)
        status = dibs_address_parse(address, addresses, &n, err);
    if (status == DIBS_OK && name) {
        name += name[0] == '/';
        status = dibs_name_check(name, err);
        if (status == DIBS_OK)
            (void) text_copy(entry.name, sizeof entry.name, name);
    }
    for (size_t i = 0; i < n && status == DIBS_OK; i++) {
        entry.binding.address = addresses[i];
        if (list->n == WIRE_OBSERVED_MAX)
            return err_set(err, DIBS_INVALID, "more than %d entries", WIRE_OBSERVED_MAX);
        if (!grow((void **) &list->item, list->n, &list->capacity, sizeof *list->item))
            return err_set(err, DIBS_FAILURE, "out of memory");
        list->item[list->n++] = entry;
    }
    return status;
}

static dibs_status read_entry(const jsonr_value *v, struct wire_observed *list, dibs_err *err)
{
    static const char *const known[] = { "proto", "address", "port", "name", NULL };
    struct fields f = { 0 };
    const char *proto = "tcp";
    const char *address = "*";
    const char *name = NULL;
    uint32_t port = DIBS_PORT_MAX + 1;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    FIELDS_NUMBER(&f, "port", 0, DIBS_PORT_MAX, &port);
    if (port > DIBS_PORT_MAX)
        fields_bad(&f, "port", "a whole number from 0 to 65535");
    fields_borrow(&f, "proto", &proto);
    fields_borrow(&f, "address", &address);
    fields_borrow(&f, "name", &name);
    if (f.status != DIBS_OK || port == 0) /* 0: a service without a port */
        return f.status;
    return wire_observed_add(list, proto, address, (uint16_t) port, name && name[0] ? name : NULL, err);
}

dibs_status wire_observed_read(const jsonr_value *array, dibs_observed **list, size_t *n, dibs_err *err)
{
    AUTO(observed_auto) struct wire_observed found = { 0 };

    if (!jsonr_is_array(array))
        return err_set(err, DIBS_INVALID, "not a list");
    for (size_t i = 0; i < jsonr_array_size(array); i++) {
        dibs_status status = read_entry(jsonr_array_at(array, i), &found, err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "item %zu", i + 1);
    }
    *list = TAKE(found.item);
    *n = found.n;
    return DIBS_OK;
}

static const struct field observed_fields[] = {
    FIELD(PROTO, dibs_observed, binding.proto, "proto", 0),
    FIELD(ADDRESS, dibs_observed, binding.address, "address", 0),
    FIELD(PORT, dibs_observed, port, "port", 0),
    FIELD(TEXT, dibs_observed, name, "name", 0),
    { 0 },
};

static void write_observed(struct jsonw *w, const void *object)
{
    const dibs_repair_plan *plan = object;

    if (plan->observed) {
        field_list(w, "observed", observed_fields, plan->observed, sizeof *plan->observed, plan->n);
        return;
    }
    jsonw_key(w, "observed");
    jsonw_null(w); /* null: use the live sockets; an empty list means that no port is in use */
}

static void read_observed(struct fields *f, void *object)
{
    static const dibs_observed nothing = { 0 };
    dibs_repair_plan *plan = object;
    struct wire_plan *out = f->ctx;

    if (!fields_has(f, "observed"))
        return;
    f->status = wire_observed_read(jsonr_get(f->object, "observed"), &out->observed, &plan->n, f->err);
    if (f->status != DIBS_OK)
        (void) err_wrap(f->err, f->status, "\"observed\"");
    plan->observed = out->observed ? out->observed : &nothing;
}

static void write_grace(struct jsonw *w, const void *object)
{
    const dibs_repair_plan *plan = object;

    if (plan->grace_ms) /* an older daemon refuses it */
        field_ttl(w, "grace", plan->grace_ms);
}

static void read_grace(struct fields *f, void *object)
{
    dibs_repair_plan *plan = object;

    fields_ttl(f, "grace", &plan->grace_ms);
    if (fields_has(f, "grace") && plan->grace_ms == 0)
        fields_bad(f, "grace", "at least 1ms");
}

static const struct field plan_fields[] = {
    FIELD(SHOWN, dibs_repair_plan, pool, "pool", FIELD_BRIEF),
    FIELD_OWNED("observed", 0, observed),
    FIELD(BOOL, dibs_repair_plan, is_dry_run, "dry_run", 0),
    FIELD_OWNED("grace", 0, grace),
    { 0 },
};

void wire_repair_plan(struct jsonw *w, const dibs_repair_plan *plan)
{
    fields_object(w, plan_fields, plan);
}

dibs_status wire_plan_read(const char *text, size_t n, struct wire_plan *out, dibs_err *err)
{
    struct fields f = { .from = WIRE_ASKED, .err = err, .ctx = out };
    dibs_status status = jsonr_parse(text, n, &out->doc, err);

    if (status != DIBS_OK)
        return status;
    fields_read(&f, jsonr_root(out->doc), plan_fields, &out->plan);
    return f.status;
}

void wire_plan_done(struct wire_plan *plan)
{
    jsonr_free(plan->doc);
    free(plan->observed);
    *plan = (struct wire_plan){ 0 };
}
