/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_CLIENT_CONFIG_H
#define DIBS_STORE_ETCD_CLIENT_CONFIG_H
/* The address of etcd, and the user to log in as:
 *
 *     etcd://HOST[:PORT][,HOST[:PORT]]...[/PREFIX][?cacert=FILE&cert=FILE&key=FILE&passfile=FILE]
 *
 * With `cacert` the client uses TLS and trusts that authority alone. User and password are never written
 * in the URL, which is seen in process lists and logs. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"

enum {
    ETCD_ENDPOINTS_MAX = 9, /* etcd advises at most seven members; the rest is for proxies */
    ETCD_PREFIX_MAX = 128,  /* it is part of every key */
    ETCD_ORIGIN_MAX = 271,  /* "https://", a host of 255 bytes with its brackets, ":65535" */
    ETCD_FILE_MAX = 1023,   /* bytes of a path */
    ETCD_LOGIN_MAX = 255,   /* bytes of a user or a password */
    ETCD_PORT = 2379,
};
#define ETCD_PREFIX_DEFAULT "/dibs"

struct etcd_config {
    char origin[ETCD_ENDPOINTS_MAX][ETCD_ORIGIN_MAX + 1]; /* "http://[::1]:2379" */
    size_t n_origins;
    char prefix[ETCD_PREFIX_MAX + 1]; /* begins with '/', does not end with one */
    bool is_tls;
    char cacert[ETCD_FILE_MAX + 1], cert[ETCD_FILE_MAX + 1], key[ETCD_FILE_MAX + 1]; /* "": none */
    char passfile[ETCD_FILE_MAX + 1];
    char user[ETCD_LOGIN_MAX + 1], password[ETCD_LOGIN_MAX + 1]; /* "": no login */
};

/* Parse the URL without opening a file. INVALID: the message names the wrong part. */
dibs_status etcd_config_parse(const char *url, struct etcd_config *out, dibs_err *err);

/* Check the URL only. */
dibs_status etcd_config_check(const char *url, dibs_err *err);

/* Set user and password: one line "USER:PASSWORD" of the passfile when the URL names one, else the arguments
 * (from DIBS_ETCD_USER and DIBS_ETCD_PASSWORD; NULL and "" are none). INVALID: one without the other; DENIED:
 * other users can read that file, or the private key that the URL names. */
dibs_status etcd_config_login(struct etcd_config *config, const char *user, const char *password,
                              dibs_err *err);

void etcd_config_wipe(struct etcd_config *config); /* overwrites the password */
#endif
