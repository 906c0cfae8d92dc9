/* SPDX-License-Identifier: MIT */
#include "server/certificate.h"

#include "base/auto.h"
#include "base/hash_table.h"
#include "base/secret.h"
#include "server/log.h"

#include "base/banned.h"

enum { PEM_MAX_BYTES = 1 << 20 };

dibs_status certificate_load(struct certificate *c, struct http_server *server, dibs_err *err)
{
    AUTO(free_auto) char *cert = NULL;
    AUTO(free_auto) char *key = NULL;
    dibs_status s = file_read_text("certificate", c->cert, PEM_MAX_BYTES, &cert, err);

    if (s == DIBS_OK)
        s = file_read_text("key", c->key, PEM_MAX_BYTES, &key, err);
    if (s != DIBS_OK)
        return s;
    uint64_t hash = hash_table_hash(cert, key);
    if (hash == c->loaded)
        return DIBS_OK;
    s = http_set_tls(server, cert, key, err);
    if (s == DIBS_OK)
        c->loaded = hash;
    return s;
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
}
