/* SPDX-License-Identifier: MIT */
#include "operator/certificate.h"

#include <string.h>

#include "base/auto.h"
#include "daemon/log.h"
#include "daemon/sockets.h"

#include "base/banned.h"

static bool look_at(const char *path, struct certificate_stamp *out)
{
    struct stat st = { 0 };

    if (stat(path, &st) != 0)
        return false;
    *out = (struct certificate_stamp){ st.st_dev, st.st_ino, st.st_mtim, st.st_size };
    return true;
}

static bool is_same(const struct certificate_stamp *a, const struct certificate_stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->time.tv_sec == b->time.tv_sec &&
           a->time.tv_nsec == b->time.tv_nsec;
}

/* The files are looked at before they are read: what is written meanwhile is noticed the next time. */
dibs_status certificate_load(struct certificate *c, struct http_server *server, dibs_err *err)
{
    AUTO(free_auto) char *cert = NULL;
    AUTO(free_auto) char *key = NULL;
    struct certificate_stamp stamps[2] = { 0 };

    (void) look_at(c->cert, &stamps[0]);
    (void) look_at(c->key, &stamps[1]);
    dibs_status s = socket_read_pem(c->cert, &cert, err);
    if (s == DIBS_OK)
        s = socket_read_pem(c->key, &key, err);
    if (s == DIBS_OK)
        s = http_set_tls(server, cert, key, err);
    if (s == DIBS_OK)
        memcpy(c->stamps, stamps, sizeof stamps);
    return s;
}

static bool is_changed(const struct certificate *c)
{
    struct certificate_stamp now[2] = { 0 };

    return look_at(c->cert, &now[0]) && look_at(c->key, &now[1]) &&
           !(is_same(&now[0], &c->stamps[0]) && is_same(&now[1], &c->stamps[1]));
}

/* A pair is written one file after the other: what does not fit together yet is looked at again. */
void certificate_mind(struct certificate *c, struct http_server *server, int64_t now_ms)
{
    dibs_err err = { 0 };

    if (!c->is_due && now_ms < c->look_ms)
        return;
    c->look_ms = now_ms + CERTIFICATE_LOOK_MS;
    if (!c->is_due && !is_changed(c))
        return;
    c->is_due = false;
    if (certificate_load(c, server, &err) == DIBS_OK) {
        LOG(LOG_INFO, "the certificate was read anew");
        c->is_told = false;
        return;
    }
    if (!c->is_told)
        LOG(LOG_ERROR, "the certificate cannot be read anew, the one before stays", "why", err.msg);
    c->is_told = true;
}
