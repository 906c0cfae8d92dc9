/* SPDX-License-Identifier: MIT */
/* Tokens, packed bindings and validity checks of records. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "dibs/settings.h"
#include "net/bindings.h"
#include "store/record.h"
#include "store/store.h"

#include "base/banned.h"

dibs_status record_secret(uint8_t out[STORE_SECRET_BYTES], dibs_err *err)
{
    return getrandom(out, STORE_SECRET_BYTES, 0) == STORE_SECRET_BYTES
               ? DIBS_OK
               : err_os(err, DIBS_FAILURE, errno, "cannot get random bytes for a token");
}

void record_token_format(const struct claim_record *row, char out[DIBS_TOKEN_MAX + 1])
{
    static const char hex[] = "0123456789abcdef";
    int used =
        snprintf(out, DIBS_TOKEN_MAX + 1, "%" PRIu64 ".%" PRIu64 ".", row->claim.id, row->claim.generation);
    char *p = out + used;

    for (size_t i = 0; i < STORE_SECRET_BYTES; i++) {
        *p++ = hex[row->secret[i] >> 4];
        *p++ = hex[row->secret[i] & 15];
    }
    *p = '\0';
}

/* Parse digits up to '.', at least one, below 2^63 (a row id). Return the text behind the '.', or NULL. */
static const char *parse_number(const char *p, uint64_t *out)
{
    const char *dot = strchr(p, '.');

    return dot && text_number(p, (size_t) (dot - p), INT64_MAX, out) && *out > 0 ? dot + 1 : NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool record_token_parse(const char *text, struct record_token *out)
{
    struct record_token token = { 0 };
    const char *p = parse_number(text, &token.id);

    if (p)
        p = parse_number(p, &token.generation);
    if (!p)
        return false;
    for (size_t i = 0; i < STORE_SECRET_BYTES; i++) {
        int high = hex_digit(p[0]);
        int low = high < 0 ? -1 : hex_digit(p[1]);

        if (low < 0)
            return false;
        token.secret[i] = (uint8_t) (high << 4 | low);
        p += 2;
    }
    if (*p != '\0')
        return false;
    *out = token;
    return true;
}

bool record_secret_equal(const uint8_t a[STORE_SECRET_BYTES], const uint8_t b[STORE_SECRET_BYTES])
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < STORE_SECRET_BYTES; i++)
        difference = difference | (uint8_t) (a[i] ^ b[i]);
    return difference == 0;
}

size_t record_bindings_pack(const dibs_claim *claim, uint8_t out[RECORD_BINDINGS_BYTES_MAX])
{
    size_t used = 0;

    for (size_t i = 0; i < claim->n_bindings; i++) {
        const dibs_binding *b = &claim->bindings[i];

        out[used++] = (uint8_t) b->proto;
        out[used++] = b->address.len;
        memcpy(out + used, b->address.bytes, b->address.len);
        used += b->address.len;
    }
    return used;
}

bool record_bindings_unpack(const uint8_t *bytes, size_t n, dibs_claim *claim)
{
    size_t at = 0;

    claim->n_bindings = 0;
    while (at < n) {
        if (claim->n_bindings == DIBS_BINDINGS_MAX || n - at < 2)
            return false;
        uint8_t proto = bytes[at];
        uint8_t len = bytes[at + 1];

        if (proto < DIBS_TCP || proto > DIBS_PROTO_MAX || (len != 4 && len != 16) || n - at - 2 < len)
            return false;
        dibs_binding *b = &claim->bindings[claim->n_bindings++];
        *b = (dibs_binding){ .proto = (dibs_proto) proto, .address.len = len };
        memcpy(b->address.bytes, bytes + at + 2, len);
        at += 2u + len;
    }
    return claim->n_bindings > 0;
}

void record_add_binding(dibs_claim *claim, const struct ledger_slot *slot)
{
    dibs_binding binding = { .proto = slot->proto, .address = slot->address };

    if (claim->n_bindings < DIBS_BINDINGS_MAX && !bindings_have(claim->bindings, claim->n_bindings, &binding))
        claim->bindings[claim->n_bindings++] = binding;
}

struct ledger_slot record_slot(const dibs_claim *claim, size_t i)
{
    return (struct ledger_slot){ .proto = claim->bindings[i].proto,
                                 .port = claim->port,
                                 .address = claim->bindings[i].address,
                                 .claim_id = claim->id,
                                 .is_exclusive = claim->is_exclusive };
}

void record_make_lost(struct claim_record *row, uint64_t id, uint16_t port)
{
    memset(row, 0, sizeof *row);
    row->claim.id = id;
    row->claim.port = port;
    row->claim.is_damaged = row->claim.is_exclusive = row->claim.is_kept = true;
}

void record_upgrade_keeper(dibs_claim *claim)
{
    if (claim->keeper[0] || strncmp(claim->principal, "uid:", 4) == 0)
        return;
    (void) text_copy(claim->keeper, sizeof claim->keeper, claim->command);
    claim->command[0] = '\0';
}

bool record_is_named(const dibs_claim *claim, const char *principal, const char *name)
{
    return strcmp(claim->principal, principal) == 0 && strcmp(claim->name, name) == 0;
}

bool record_same_bindings(const dibs_claim *a, const dibs_claim *b)
{
    return bindings_same(a->bindings, a->n_bindings, b->bindings, b->n_bindings);
}

bool record_claim_valid(const dibs_claim *c, const char **why)
{
    const char *reason = NULL;

    if (c->id == 0 || c->id > INT64_MAX)
        reason = "id out of range";
    else if (c->generation == 0 || c->generation > INT64_MAX)
        reason = "generation out of range";
    else if (c->port == 0)
        reason = "port out of range";
    else if (c->n_bindings == 0)
        reason = "no valid bindings";
    else if (c->kind != DIBS_STATIC && c->kind != DIBS_DYNAMIC)
        reason = "unknown kind";
    else if (c->holder != DIBS_HELD_BY_NOBODY && c->holder != DIBS_HELD_BY_PROCESS &&
             c->holder != DIBS_HELD_BY_LEASE)
        reason = "unknown holder kind";
    else if (c->holder == DIBS_HELD_BY_PROCESS &&
             (c->process.pid <= 0 || !text_is_boot_id(c->process.boot_id)))
        reason = "process holder without identity";
    else if (c->holder == DIBS_HELD_BY_LEASE &&
             (c->lease_ttl_ms <= 0 || !text_is_boot_id(c->process.boot_id)))
        reason = "lease without length or boot id";
    else if (c->holder == DIBS_HELD_BY_NOBODY && !c->is_kept)
        reason = "neither kept nor held";
    else if (!c->principal[0])
        reason = "no principal";
    else if (c->name[0] && dibs_name_check(c->name, NULL) != DIBS_OK)
        reason = "invalid name";
    if (why)
        *why = reason;
    return !reason;
}

/* ---- the ids of the claims on one port: mostly none, at most one for each address ---- */

enum { IDS_MAX = 1 << 20 }; /* more addresses than any host has */

void id_list_auto(struct id_list *list)
{
    free(list->id);
}

bool id_list_add(struct id_list *list, uint64_t id)
{
    if (id == 0 || (list->n > 0 && list->id[list->n - 1] == id))
        return true;
    list->is_failed = list->is_failed || list->n == IDS_MAX ||
                      !grow((void **) &list->id, list->n, &list->max, sizeof *list->id);
    if (!list->is_failed)
        list->id[list->n++] = id;
    return !list->is_failed;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a;
    uint64_t y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

void id_list_sort(struct id_list *list)
{
    size_t n = 0;

    if (list->n == 0)
        return;
    qsort(list->id, list->n, sizeof list->id[0], by_id);
    for (size_t i = 0; i < list->n; i++)
        if (n == 0 || list->id[n - 1] != list->id[i])
            list->id[n++] = list->id[i];
    list->n = n;
}

dibs_status store_get_claim(struct store *store, uint64_t id, struct claim_record *out, dibs_err *err)
{
    out->claim.id = id;
    return store->ops->get(store, CLAIMS, out, err);
}

dibs_status store_get_name(struct store *store, const char *principal, const char *name,
                           struct name_record *out, dibs_err *err)
{
    *out = (struct name_record){ 0 };
    if (!text_copy(out->principal, sizeof out->principal, principal) ||
        !text_copy(out->name, sizeof out->name, name))
        return DIBS_NOT_FOUND;
    return store->ops->get(store, NAMES, out, err);
}

dibs_status store_get_pool(struct store *store, const char *name, dibs_pool *out, dibs_err *err)
{
    dibs_pool found = { 0 };
    dibs_status s = text_copy(found.name, sizeof found.name, name)
                        ? store->ops->get(store, POOLS, &found, err)
                        : DIBS_NOT_FOUND;

    if (s == DIBS_OK) /* write only on success: `out` may belong to a caller of the library */
        *out = found;
    return s;
}

dibs_status store_put_claim(struct store *store, const struct claim_record *row, dibs_err *err)
{
    dibs_status s = store->ops->put(store, CLAIMS, row, err);

    for (size_t i = 0; i < row->claim.n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = record_slot(&row->claim, i);

        s = store->ops->put(store, SLOTS, &slot, err);
    }
    return s;
}

dibs_status record_check_node(const char *name, bool may_have_part, dibs_err *err)
{
    const char *slash = may_have_part ? strchr(name, '/') : NULL;
    bool is_plain = !slash || (slash > name && slash[1]);

    for (const char *p = name; *p; p++)
        is_plain = is_plain && *p > ' ' && *p <= '~' && (*p != '/' || p == slash) && *p != '@';
    if (is_plain && name[0] && strlen(name) <= DIBS_NODE_MAX)
        return DIBS_OK;
    return err_set(err, DIBS_INVALID,
                   "'%.80s' cannot be a host's name in a cluster: it has 1 to %d printable ASCII characters, "
                   "without '/', '@' and spaces; set 'node'",
                   name, DIBS_NODE_MAX);
}
