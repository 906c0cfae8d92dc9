/* SPDX-License-Identifier: MIT */
#include "server/certificate.h"

#include <gnutls/x509.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash_table.h"
#include "base/secret.h"
#include "server/log.h"

#include "base/banned.h"

enum { PEM_MAX_BYTES = 1 << 20 };

/* Note how long all certificates of the file are valid: the server sends them together. */
static void note_validity(struct certificate *c, char *pem)
{
    const gnutls_datum_t text = { (unsigned char *) pem, (unsigned) strlen(pem) };
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;

    c->from_ms = 0;
    c->until_ms = INT64_MAX;
    if (gnutls_x509_crt_list_import2(&list, &n, &text, GNUTLS_X509_FMT_PEM, 0) < 0)
        return; /* the server accepted it */
    for (unsigned i = 0; i < n; i++) {
        int64_t from_ms = 1000 * (int64_t) gnutls_x509_crt_get_activation_time(list[i]);
        int64_t until_ms = 1000 * (int64_t) gnutls_x509_crt_get_expiration_time(list[i]);

        c->from_ms = from_ms > c->from_ms ? from_ms : c->from_ms;
        c->until_ms = until_ms < c->until_ms ? until_ms : c->until_ms;
        gnutls_x509_crt_deinit(list[i]);
    }
    gnutls_free(list);
}

dibs_status certificate_load(struct certificate *c, struct http_server *server, dibs_err *err)
{
    AUTO(free_auto) char *cert = NULL;
    AUTO(secret_done) struct bytes key = { 0 };
    dibs_status s = file_read_text("certificate", c->cert, PEM_MAX_BYTES, &cert, err);

    if (s == DIBS_OK)
        s = secret_read("private key", c->key, PEM_MAX_BYTES, &key, err);
    if (s != DIBS_OK)
        return s;
    uint64_t hash = hash_table_hash(cert, key.at);
    if (hash == c->loaded)
        return DIBS_OK;
    s = http_set_tls(server, cert, key.at, err);
    if (s != DIBS_OK)
        return s;
    c->loaded = hash;
    c->is_invalid_logged = false;
    note_validity(c, cert);
    return DIBS_OK;
}

dibs_status certificate_check(const struct certificate *c, dibs_err *err)
{
    int64_t now_ms = clock_now(0).wall_ms;
    char when[32];

    clock_wall_format(now_ms < c->from_ms ? c->from_ms : c->until_ms, when);
    if (now_ms < c->from_ms)
        return err_set(err, DIBS_INVALID, "certificate %s is not valid before %s: clients refuse it", c->cert,
                       when);
    if (now_ms > c->until_ms)
        return err_set(err, DIBS_INVALID, "certificate %s expired at %s: clients refuse it; replace it",
                       c->cert, when);
    return DIBS_OK;
}

void certificate_log_end(struct certificate *c)
{
    dibs_err err = { 0 };

    if (c->is_invalid_logged || c->loaded == 0 || certificate_check(c, &err) == DIBS_OK)
        return;
    LOG(LOG_ERROR, "the certificate is not valid", "why", err.msg);
    c->is_invalid_logged = true;
}

void certificate_turn(struct certificate *c, struct http_server *server, int64_t now_ms)
{
    uint64_t before = c->loaded;
    dibs_err err = { 0 };

    if (!c->is_due && now_ms < c->look_ms)
        return;
    c->look_ms = now_ms + CERTIFICATE_LOOK_MS;
    if (certificate_load(c, server, &err) == DIBS_OK) {
        if (c->is_due || c->loaded != before)
            LOG(LOG_INFO, "the certificate was read again");
        c->is_logged = false;
    } else {
        if (!c->is_logged)
            LOG(LOG_ERROR, "the certificate cannot be read again, the one before stays", "why", err.msg);
        c->is_logged = true;
    }
    c->is_due = false;
    certificate_log_end(c);
}
