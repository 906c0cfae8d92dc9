/* SPDX-License-Identifier: MIT */
/* Tokens, packed bindings, and what makes a record valid. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "dibs/settings.h"
#include "ledger/rows.h"
#include "net/bindings.h"

#include "base/banned.h"

dibs_status codec_secrets(uint8_t out[][ROWS_SECRET_BYTES], size_t n, dibs_err *err)
{
    ssize_t got = getrandom(out, n * ROWS_SECRET_BYTES, 0);

    if (got != (ssize_t) (n * ROWS_SECRET_BYTES))
        return err_os(err, DIBS_FAILURE, errno, "cannot get random bytes for a token");
    return DIBS_OK;
}

dibs_status codec_secret(uint8_t out[ROWS_SECRET_BYTES], dibs_err *err)
{
    return codec_secrets((uint8_t(*)[ROWS_SECRET_BYTES]) out, 1, err);
}

void codec_token_format(const struct row_claim *row, char out[DIBS_TOKEN_MAX + 1])
{
    static const char hex[] = "0123456789abcdef";
    int used =
        snprintf(out, DIBS_TOKEN_MAX + 1, "%" PRIu64 ".%" PRIu64 ".", row->claim.id, row->claim.generation);
    char *p = out + used;

    for (size_t i = 0; i < ROWS_SECRET_BYTES; i++) {
        *p++ = hex[row->secret[i] >> 4];
        *p++ = hex[row->secret[i] & 15];
    }
    *p = '\0';
}

/* Digits up to '.', at least one, below 2^63 (a row id); NULL otherwise. */
static const char *parse_number(const char *p, uint64_t *out)
{
    uint64_t value = 0;
    const char *start = p;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (value > (INT64_MAX - 9) / 10)
            return NULL;
        value = value * 10 + (uint64_t) (*p - '0');
    }
    if (p == start || *p != '.' || value == 0)
        return NULL;
    *out = value;
    return p + 1;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool codec_token_parse(const char *text, struct codec_token *out)
{
    struct codec_token token = { 0 };
    const char *p = parse_number(text, &token.id);

    if (p)
        p = parse_number(p, &token.generation);
    if (!p)
        return false;
    for (size_t i = 0; i < ROWS_SECRET_BYTES; i++) {
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

bool codec_secret_equal(const uint8_t a[ROWS_SECRET_BYTES], const uint8_t b[ROWS_SECRET_BYTES])
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < ROWS_SECRET_BYTES; i++)
        difference = difference | (uint8_t) (a[i] ^ b[i]);
    return difference == 0;
}

size_t codec_bindings_pack(const dibs_claim *claim, uint8_t out[CODEC_BINDINGS_BYTES_MAX])
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

bool codec_bindings_unpack(const uint8_t *bytes, size_t n, dibs_claim *claim)
{
    size_t at = 0;

    claim->n_bindings = 0;
    while (at < n) {
        if (claim->n_bindings == DIBS_BINDINGS_MAX || n - at < 2)
            return false;
        uint8_t proto = bytes[at];
        uint8_t len = bytes[at + 1];

        if (proto < DIBS_TCP || proto > DIBS_SCTP || (len != 4 && len != 16) || n - at - 2 < len)
            return false;
        dibs_binding *b = &claim->bindings[claim->n_bindings++];
        *b = (dibs_binding){ .proto = (dibs_proto) proto, .address.len = len };
        memcpy(b->address.bytes, bytes + at + 2, len);
        at += 2u + len;
    }
    return claim->n_bindings > 0;
}

void codec_add_binding(dibs_claim *claim, const struct ledger_slot *slot)
{
    dibs_binding binding = { .proto = slot->proto, .address = slot->address };

    if (claim->n_bindings < DIBS_BINDINGS_MAX && !bindings_have(claim->bindings, claim->n_bindings, &binding))
        claim->bindings[claim->n_bindings++] = binding;
}

void codec_make_lost(struct row_claim *row, uint64_t id, uint16_t port)
{
    memset(row, 0, sizeof *row);
    row->claim.id = id;
    row->claim.port = port;
    row->claim.is_damaged = row->claim.is_exclusive = row->claim.is_kept = true;
}

bool codec_is_named(const dibs_claim *claim, const char *principal, const char *name)
{
    return strcmp(claim->principal, principal) == 0 && strcmp(claim->name, name) == 0;
}

bool codec_same_bindings(const dibs_claim *a, const dibs_claim *b)
{
    return bindings_same(a->bindings, a->n_bindings, b->bindings, b->n_bindings);
}

bool codec_claim_valid(const dibs_claim *c, const char **why)
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
    else if (c->holder == DIBS_HELD_BY_PROCESS && (c->process.pid <= 0 || !c->process.boot_id[0]))
        reason = "process holder without identity";
    else if (c->holder == DIBS_HELD_BY_LEASE && (c->lease_ttl_ms <= 0 || !c->process.boot_id[0]))
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
