/* SPDX-License-Identifier: MIT */
/* The port numbers of a command as JSON. */
#include "codec/wire_fields.h"

#include "base/banned.h"

static const struct field number_fields[] = {
    FIELD(PROTO, dibs_number, proto, "proto", FIELD_NEEDED),
    FIELD(PORT, dibs_number, inside, "inside", FIELD_NEEDED),
    FIELD(PORT, dibs_number, outside, "outside", FIELD_NEEDED),
    FIELD(BOOL, dibs_number, is_own, "own", 0),
    { 0 },
};

struct address_item {
    dibs_address address;
};
static const struct field address_fields[] = {
    FIELD(ADDRESS, struct address_item, address, "address", FIELD_NEEDED),
    { 0 },
};

static void write_numbers(struct jsonw *w, const void *object)
{
    const struct wire_numbers *numbers = object;

    field_list(w, "numbers", number_fields, numbers->number, sizeof *numbers->number, numbers->n);
}

static void read_numbers(struct fields *f, void *object)
{
    struct wire_numbers *numbers = object;
    size_t n = 0;

    (void) fields_list(f, "numbers", DIBS_NUMBERS_MAX, &n);
    fields_items(f, "numbers", number_fields, numbers->number, sizeof *numbers->number);
    numbers->n = (uint32_t) n;
    for (size_t i = 0; i < n && f->status == DIBS_OK; i++)
        if (!numbers->number[i].inside || !numbers->number[i].outside ||
            (numbers->number[i].proto != DIBS_TCP && numbers->number[i].proto != DIBS_UDP))
            fields_bad(f, "numbers", "a list of ports of tcp and udp");
}

static void write_addresses(struct jsonw *w, const void *object)
{
    const struct wire_numbers *numbers = object;

    field_list(w, "addresses", address_fields, numbers->address, sizeof *numbers->address,
               numbers->n_addresses);
}

static void read_addresses(struct fields *f, void *object)
{
    struct wire_numbers *numbers = object;
    size_t n = 0;

    (void) fields_list(f, "addresses", WIRE_ADDRESSES_MAX, &n);
    fields_items(f, "addresses", address_fields, numbers->address, sizeof *numbers->address);
    numbers->n_addresses = (uint32_t) n;
}

static const struct field numbers_fields[] = {
    FIELD(PID, struct wire_numbers, pid, "pid", FIELD_NEEDED),
    FIELD_OWNED("numbers", FIELD_NEEDED, numbers),
    FIELD_OWNED("addresses", 0, addresses),
    { 0 },
};

void wire_numbers(struct jsonw *w, const struct wire_numbers *value)
{
    fields_object(w, numbers_fields, value);
}

dibs_status wire_numbers_read(const jsonr_value *v, struct wire_numbers *out, dibs_err *err)
{
    struct fields f = { .from = WIRE_ASKED, .err = err };

    *out = (struct wire_numbers){ 0 };
    fields_read(&f, v, numbers_fields, out);
    return f.status;
}
