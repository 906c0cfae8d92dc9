/* SPDX-License-Identifier: MIT */
#include "store/etcd/client/config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "dibs/net.h"

#include "base/banned.h"

#define SCHEME "etcd://"
enum { HOST_MAX = 253, LABEL_MAX = 63, PASSFILE_MAX_BYTES = 1024, KEY_MAX_BYTES = 1 << 20 };

static dibs_status refuse(dibs_err *err, const char *part, const char *why)
{
    return err_set(err, DIBS_INVALID, "etcd URL: '%.50s': %s", part, why);
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Check for labels of letters, digits and '-'. A name that ends in a number must be a valid IPv4 address. */
static bool is_host_name(const char *host)
{
    const char *last = strrchr(host, '.');
    struct in_addr v4 = { 0 };
    size_t label = 0;

    last = last ? last + 1 : host;
    if (*last >= '0' && *last <= '9')
        return inet_pton(AF_INET, host, &v4) == 1;
    for (const char *p = host; *p; p++) {
        bool is_edge = label == 0 || p[1] == '.' || p[1] == '\0';

        if (*p == '.' ? label == 0 : !is_alnum(*p) && (*p != '-' || is_edge))
            return false;
        label = *p == '.' ? 0 : label + 1;
        if (label > LABEL_MAX)
            return false;
    }
    return label > 0;
}

static dibs_status parse_endpoint(struct etcd_config *c, const char *whole, dibs_err *err)
{
    const char *bracket = whole[0] == '[' ? strchr(whole, ']') : NULL;
    const char *end = bracket ? bracket + 1 : whole + strcspn(whole, ":");
    size_t n = (size_t) (end - whole);
    char host[HOST_MAX + 3] = "";
    dibs_address v6[2];
    size_t n_v6 = 0;
    uint64_t port = ETCD_PORT;

    if (strchr(whole, '@'))
        return err_set(
            err, DIBS_INVALID,
            "etcd URL: user and password do not belong in it; use DIBS_ETCD_USER and DIBS_ETCD_PASSWORD, "
            "or ?passfile=FILE");
    if (whole[0] == '[' && !bracket)
        return refuse(err, whole, "the bracket of the IPv6 address is not closed");
    if (*end && *end != ':')
        return refuse(err, whole, "only ':' and a port may follow the bracket");
    if (n == 0)
        return refuse(err, whole, "the host is missing");
    if (n >= sizeof host)
        return refuse(err, whole, "the host is too long");
    memcpy(host, whole, n);
    if (bracket && dibs_address_parse(host, v6, &n_v6, NULL) != DIBS_OK)
        return refuse(err, whole, "no IPv6 address in the brackets");
    if (!bracket && !is_host_name(host))
        return refuse(err, whole, "the host must be a name, an IPv4 address, or an IPv6 address in brackets");
    if (*end && (!text_number(end + 1, strlen(end + 1), DIBS_PORT_MAX, &port) || port == 0))
        return refuse(err, whole, "the port must be a number from 1 to 65535");
    if (c->n_origins == ETCD_ENDPOINTS_MAX)
        return err_set(err, DIBS_INVALID, "etcd URL: more than %d endpoints", ETCD_ENDPOINTS_MAX);
    char *origin = c->origin[c->n_origins];
    (void) snprintf(origin, sizeof c->origin[0], "%s://%s:%u", c->is_tls ? "https" : "http", host,
                    (unsigned) port);
    for (size_t i = 0; i < c->n_origins; i++)
        if (strcmp(c->origin[i], origin) == 0)
            return refuse(err, whole, "this endpoint is named twice");
    c->n_origins++;
    return DIBS_OK;
}

static dibs_status parse_prefix(struct etcd_config *c, const char *text, dibs_err *err)
{
    size_t n = strlen(text);

    if (n >= ETCD_PREFIX_MAX)
        return refuse(err, text, "the prefix is too long");
    for (size_t i = 0; i < n; i++) {
        if (!is_alnum(text[i]) && !strchr("._-/", text[i]))
            return refuse(err, text, "a prefix has letters, digits, '.', '_', '-' and '/'");
        if (text[i] == '/' && (i == 0 || i + 1 == n || text[i + 1] == '/'))
            return refuse(err, text, "a part of the prefix is empty");
    }
    (void) snprintf(c->prefix, sizeof c->prefix, "/%s", n > 0 ? text : &ETCD_PREFIX_DEFAULT[1]);
    return DIBS_OK;
}

static dibs_status parse_parameter(struct etcd_config *c, const char *whole, dibs_err *err)
{
    const struct {
        const char *name;
        char *to;
    } known[] = {
        { "cacert", c->cacert }, { "cert", c->cert }, { "key", c->key }, { "passfile", c->passfile }
    };
    size_t n = strcspn(whole, "=");
    const char *value = whole[n] ? whole + n + 1 : "";

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char *to = known[i].to;

        if (strlen(known[i].name) != n || memcmp(known[i].name, whole, n) != 0)
            continue;
        if (*to)
            return refuse(err, whole, "this parameter is given twice");
        if (!*value)
            return refuse(err, whole, "the name of a file is missing");
        if (!text_copy(to, ETCD_FILE_MAX + 1, value))
            return refuse(err, whole, "the name of the file is too long");
        return text_percent_decode(to, false) ? DIBS_OK : refuse(err, whole, "broken percent escape");
    }
    return refuse(err, whole, "no such parameter; there are cacert, cert, key and passfile");
}

static dibs_status check_files(struct etcd_config *c, dibs_err *err)
{
    if (!*c->cert != !*c->key)
        return err_set(err, DIBS_INVALID, "etcd URL: cert and key go together; %s is missing",
                       *c->cert ? "key" : "cert");
    if (*c->cert && !*c->cacert)
        return err_set(err, DIBS_INVALID, "etcd URL: cert and key need cacert, the authority of the servers");
    c->is_tls = *c->cacert != '\0';
    return DIBS_OK;
}

dibs_status etcd_config_parse(const char *url, struct etcd_config *out, dibs_err *err)
{
    AUTO(free_auto) char *copy = strdup(url);
    struct etcd_config c = { 0 };
    dibs_status s = DIBS_OK;

    if (!copy)
        return err_set(err, DIBS_FAILURE, "etcd URL: out of memory");
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0)
        return refuse(err, url, "it must begin with " SCHEME);
    for (const char *p = url; *p; p++)
        if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f || *p == '#')
            return refuse(err, url, "blanks, '#' and special characters must be written %XX");
    char *parameters = copy + strlen(SCHEME);
    char *path = strsep(&parameters, "?");
    char *hosts = strsep(&path, "/");

    while (s == DIBS_OK && parameters && *parameters)
        s = parse_parameter(&c, strsep(&parameters, "&"), err);
    if (s == DIBS_OK)
        s = check_files(&c, err);
    while (s == DIBS_OK && hosts)
        s = parse_endpoint(&c, strsep(&hosts, ","), err);
    if (s == DIBS_OK)
        s = parse_prefix(&c, path ? path : "", err);
    if (s == DIBS_OK)
        *out = c;
    return s;
}

dibs_status etcd_config_check(const char *url, dibs_err *err)
{
    struct etcd_config config;

    return etcd_config_parse(url, &config, err);
}

static dibs_status take_login(struct etcd_config *config, const char *user, const char *password,
                              dibs_err *err)
{
    if (!*user != !*password)
        return err_set(err, DIBS_INVALID, "etcd: %s was given without %s", *user ? "a user" : "a password",
                       *user ? "a password" : "a user");
    if (!text_copy(config->user, sizeof config->user, user) ||
        !text_copy(config->password, sizeof config->password, password)) {
        etcd_config_wipe(config);
        return err_set(err, DIBS_INVALID, "etcd: user and password have at most %d bytes", ETCD_LOGIN_MAX);
    }
    return DIBS_OK;
}

dibs_status etcd_config_login(struct etcd_config *config, const char *user, const char *password,
                              dibs_err *err)
{
    AUTO(secret_done) struct bytes key = { 0 }; /* read only to check its mode: libcurl opens it by path */
    AUTO(secret_done) struct bytes text = { 0 };
    dibs_status s =
        *config->key ? secret_read("private key", config->key, KEY_MAX_BYTES, &key, err) : DIBS_OK;

    if (s != DIBS_OK)
        return s;
    if (!*config->passfile)
        return take_login(config, user ? user : "", password ? password : "", err);
    s = secret_read("password file", config->passfile, PASSFILE_MAX_BYTES, &text, err);
    if (s != DIBS_OK)
        return s;
    if (text.n > 0 && text.at[text.n - 1] == '\n')
        text.n--;
    char *colon = text.n > 0 ? memchr(text.at, ':', text.n) : NULL;
    if (!colon || memchr(text.at, '\n', text.n) || memchr(text.at, '\0', text.n))
        return err_set(err, DIBS_INVALID, "password file %s: it must have one line, USER:PASSWORD",
                       config->passfile);
    *colon = '\0';
    text.at[text.n] = '\0'; /* the buffer has one byte more than the text */
    return take_login(config, text.at, colon + 1, err);
}

void etcd_config_wipe(struct etcd_config *config)
{
    explicit_bzero(config->user, sizeof config->user);
    explicit_bzero(config->password, sizeof config->password);
}
