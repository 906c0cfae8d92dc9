/* SPDX-License-Identifier: MIT */
/* Ports that an observer saw in use, and the plan of a repair. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "wire/fields.h"

#include "base/banned.h"

static void observed_auto(struct wire_observed *list)
{
    free(list->item);
}

static dibs_status append(struct wire_observed *list, const dibs_observed *entry, dibs_err *err)
{
    if (list->n == WIRE_OBSERVED_MAX)
        return err_set(err, DIBS_INVALID, "more than %d entries", WIRE_OBSERVED_MAX);
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        dibs_observed *item = reallocarray(list->item, room, sizeof *item);

        if (!item)
            return err_set(err, DIBS_FAILURE, "out of memory");
        list->item = item;
        list->room = room;
    }
    list->item[list->n++] = *entry;
    return DIBS_OK;
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
        status = append(list, &entry, err);
    }
    return status;
}

static dibs_status read_entry(const json_value *v, struct wire_observed *list, dibs_err *err)
{
    static const char *const known[] = { "proto", "address", "port", "name", NULL };
    struct fields f = { 0 };
    const char *proto = "tcp";
    const char *address = "*";
    const char *name = NULL;
    uint16_t port = 0;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_port(&f, "port", &port);
    if (port == 0)
        fields_bad(&f, "port", "a whole number from 1 to 65535");
    fields_borrow(&f, "proto", &proto);
    fields_borrow(&f, "address", &address);
    fields_borrow(&f, "name", &name);
    if (f.status != DIBS_OK)
        return f.status;
    return wire_observed_add(list, proto, address, port, name && name[0] ? name : NULL, err);
}

dibs_status wire_observed_read(const json_value *array, dibs_observed **list, size_t *n, dibs_err *err)
{
    AUTO(observed_auto) struct wire_observed found = { 0 };

    if (!json_is_array(array))
        return err_set(err, DIBS_INVALID, "not a list");
    for (size_t i = 0; i < json_array_size(array); i++) {
        dibs_status status = read_entry(json_array_at(array, i), &found, err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "item %zu", i + 1);
    }
    *list = TAKE(found.item);
    *n = found.n;
    return DIBS_OK;
}

void wire_repair_plan(struct json_writer *w, const dibs_repair_plan *plan)
{
    json_object(w);
    if (plan->pool)
        json_key_string(w, "pool", plan->pool);
    json_key(w, "observed");
    if (!plan->observed)
        json_null(w); /* the live sockets; an empty list says that nothing is in use */
    else
        json_array(w);
    for (size_t i = 0; plan->observed && i < plan->n; i++) {
        const dibs_observed *o = &plan->observed[i];

        json_object(w);
        field_binding(w, o->binding.proto, &o->binding.address);
        json_key_uint(w, "port", o->port);
        field_text_or_null(w, "name", o->name);
        json_end_object(w);
    }
    if (plan->observed)
        json_end_array(w);
    json_key_bool(w, "dry_run", plan->is_dry_run);
    json_end_object(w);
}

dibs_status wire_plan_read(const char *text, size_t n, struct wire_plan *out, dibs_err *err)
{
    static const char *const known[] = { "pool", "observed", "dry_run", NULL };
    static const dibs_observed nothing = { 0 };
    struct fields f = { 0 };
    dibs_status status = json_parse(text, n, &out->doc, err);

    if (status != DIBS_OK)
        return status;
    fields_begin(&f, json_root(out->doc), known, WIRE_ASKED, err);
    fields_borrow(&f, "pool", &out->plan.pool);
    fields_bool(&f, "dry_run", &out->plan.is_dry_run);
    if (!fields_has(&f, "observed"))
        return f.status;
    status = wire_observed_read(json_get(f.object, "observed"), &out->observed, &out->plan.n, err);
    if (status != DIBS_OK)
        return err_wrap(err, status, "\"observed\"");
    out->plan.observed = out->observed ? out->observed : &nothing;
    return DIBS_OK;
}

void wire_plan_done(struct wire_plan *plan)
{
    json_free(plan->doc);
    free(plan->observed);
    *plan = (struct wire_plan){ 0 };
}
