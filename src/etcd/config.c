/* SPDX-License-Identifier: MIT */
#include "etcd/config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "dibs/net.h"
#include "net/quote.h"

#include "base/banned.h"

#define SCHEME "etcd://"
enum { HOST_MAX = 253, LABEL_MAX = 63, PASSFILE_MAX_BYTES = 1024 };

/* A part of the URL; not NUL-terminated. */
struct span {
    const char *p;
    size_t n;
};

static dibs_status refuse(dibs_err *err, struct span part, const char *why)
{
    char shown[QUOTE_SIZE];

    return err_set(err, DIBS_INVALID, "etcd URL: '%s': %s", quote_bytes(shown, part.p, part.n), why);
}

/* Up to the first byte of `stops`, which is skipped; all that is left when there is none. */
static struct span cut(struct span *rest, char stop)
{
    const char *end = rest->n > 0 ? memchr(rest->p, stop, rest->n) : NULL;
    struct span part = { rest->p, end ? (size_t) (end - rest->p) : rest->n };
    size_t skipped = part.n + (end ? 1 : 0);

    *rest = (struct span){ rest->p + skipped, rest->n - skipped };
    return part;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- endpoints ---- */

/* Labels of letters, digits and '-'. What ends in a number is an address of IPv4, and must be a right one. */
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

static dibs_status add_origin(struct etcd_config *c, struct span whole, const char *host, uint16_t port,
                              dibs_err *err)
{
    char *origin = c->origin[c->n_origins];

    (void) snprintf(origin, sizeof c->origin[0], "%s://%s:%u", c->is_tls ? "https" : "http", host, port);
    for (size_t i = 0; i < c->n_origins; i++)
        if (strcmp(c->origin[i], origin) == 0)
            return refuse(err, whole, "this endpoint is named twice");
    c->n_origins++;
    return DIBS_OK;
}

static dibs_status parse_port(struct span whole, struct span text, uint16_t *out, dibs_err *err)
{
    uint64_t port = 0;

    if (!text_number(text.p, text.n, DIBS_PORT_MAX, &port) || port == 0)
        return refuse(err, whole, "the port must be a number from 1 to 65535");
    *out = (uint16_t) port;
    return DIBS_OK;
}

static dibs_status parse_endpoint(struct etcd_config *c, struct span whole, dibs_err *err)
{
    bool is_v6 = whole.n > 0 && whole.p[0] == '[';
    const char *close = is_v6 ? memchr(whole.p, ']', whole.n) : NULL;
    struct span rest = whole;
    struct span host = { 0 };
    char text[HOST_MAX + 3] = "";
    uint16_t port = ETCD_PORT;

    if (memchr(whole.p, '@', whole.n))
        return err_set(
            err, DIBS_INVALID,
            "etcd URL: user and password do not belong in it; use DIBS_ETCD_USER and DIBS_ETCD_PASSWORD, "
            "or ?passfile=FILE");
    if (is_v6 && !close)
        return refuse(err, whole, "the bracket of the IPv6 address is not closed");
    if (is_v6) {
        host = (struct span){ whole.p, (size_t) (close - whole.p) + 1 };
        rest = (struct span){ host.p + host.n, whole.n - host.n };
        if (rest.n > 0 && rest.p[0] != ':')
            return refuse(err, whole, "only ':' and a port may follow the bracket");
        if (rest.n > 0)
            rest = (struct span){ rest.p + 1, rest.n - 1 };
    } else {
        host = cut(&rest, ':');
    }
    if (host.n == 0)
        return refuse(err, whole, "the host is missing");
    if (host.n >= sizeof text)
        return refuse(err, whole, "the host is too long");
    memcpy(text, host.p, host.n);
    struct in6_addr v6 = { 0 };
    if (is_v6) {
        char inner[sizeof text] = "";

        memcpy(inner, text + 1, host.n - 2);
        if (inet_pton(AF_INET6, inner, &v6) != 1)
            return refuse(err, whole, "no IPv6 address in the brackets");
    } else if (!is_host_name(text)) {
        return refuse(err, whole, "the host must be a name, an IPv4 address, or an IPv6 address in brackets");
    }
    if (host.n < whole.n) {
        dibs_status s = parse_port(whole, rest, &port, err);

        if (s != DIBS_OK)
            return s;
    }
    return add_origin(c, whole, text, port, err);
}

static dibs_status parse_endpoints(struct etcd_config *c, struct span text, dibs_err *err)
{
    bool is_last = false;

    while (!is_last) {
        struct span one = cut(&text, ',');

        is_last = one.p + one.n == text.p; /* no comma was skipped */
        if (c->n_origins == ETCD_ENDPOINTS_MAX)
            return err_set(err, DIBS_INVALID, "etcd URL: more than %d endpoints", ETCD_ENDPOINTS_MAX);
        dibs_status s = parse_endpoint(c, one, err);
        if (s != DIBS_OK)
            return s;
    }
    return DIBS_OK;
}

/* ---- prefix ---- */

static dibs_status parse_prefix(struct etcd_config *c, struct span text, dibs_err *err)
{
    if (text.n == 0)
        return text_copy(c->prefix, sizeof c->prefix, ETCD_PREFIX_DEFAULT) ? DIBS_OK : DIBS_FAILURE;
    if (text.n >= ETCD_PREFIX_MAX)
        return refuse(err, text, "the prefix is too long");
    for (size_t i = 0; i < text.n; i++) {
        if (!is_alnum(text.p[i]) && !strchr("._-/", text.p[i]))
            return refuse(err, text, "a prefix has letters, digits, '.', '_', '-' and '/'");
        if (text.p[i] == '/' && (i == 0 || i + 1 == text.n || text.p[i + 1] == '/'))
            return refuse(err, text, "a part of the prefix is empty");
    }
    c->prefix[0] = '/';
    memcpy(c->prefix + 1, text.p, text.n);
    c->prefix[text.n + 1] = '\0';
    return DIBS_OK;
}

/* ---- parameters ---- */

static dibs_status parse_parameter(struct etcd_config *c, struct span whole, dibs_err *err)
{
    const struct {
        const char *name;
        char *to;
    } known[] = {
        { "cacert", c->cacert }, { "cert", c->cert }, { "key", c->key }, { "passfile", c->passfile }
    };
    struct span value = whole;
    struct span name = cut(&value, '=');

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char *to = known[i].to;

        if (strlen(known[i].name) != name.n || memcmp(known[i].name, name.p, name.n) != 0)
            continue;
        if (*to)
            return refuse(err, whole, "this parameter is given twice");
        if (value.n == 0)
            return refuse(err, whole, "the name of a file is missing");
        if (value.n > ETCD_FILE_MAX)
            return refuse(err, whole, "the name of the file is too long");
        memcpy(to, value.p, value.n);
        to[value.n] = '\0';
        return text_percent_decode(to, false) ? DIBS_OK : refuse(err, whole, "broken percent escape");
    }
    return refuse(err, whole, "no such parameter; there are cacert, cert, key and passfile");
}

static dibs_status parse_parameters(struct etcd_config *c, struct span text, dibs_err *err)
{
    while (text.n > 0) {
        dibs_status s = parse_parameter(c, cut(&text, '&'), err);

        if (s != DIBS_OK)
            return s;
    }
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
    struct etcd_config c = { 0 };
    struct span rest = { url, strlen(url) };

    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0)
        return refuse(err, rest, "it must begin with " SCHEME);
    for (const char *p = url; *p; p++)
        if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f || *p == '#')
            return refuse(err, rest, "blanks, '#' and special characters must be written %XX");
    rest = (struct span){ url + strlen(SCHEME), rest.n - strlen(SCHEME) };
    struct span path = cut(&rest, '?');
    struct span hosts = cut(&path, '/');
    dibs_status s = parse_parameters(&c, rest, err);

    if (s == DIBS_OK)
        s = parse_endpoints(&c, hosts, err);
    if (s == DIBS_OK)
        s = parse_prefix(&c, path, err);
    if (s == DIBS_OK)
        *out = c;
    return s;
}

/* ---- user and password ---- */

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
    AUTO(secret_done) struct bytes text = { 0 };

    if (!*config->passfile)
        return take_login(config, user ? user : "", password ? password : "", err);
    dibs_status s = secret_read("password file", config->passfile, PASSFILE_MAX_BYTES, &text, err);
    if (s != DIBS_OK)
        return s;
    if (text.n > 0 && text.at[text.n - 1] == '\n')
        text.n--;
    char *colon = text.n > 0 ? memchr(text.at, ':', text.n) : NULL;
    if (!colon || memchr(text.at, '\n', text.n) || memchr(text.at, '\0', text.n))
        return err_set(err, DIBS_INVALID, "password file %s: it must have one line, USER:PASSWORD",
                       config->passfile);
    *colon = '\0';
    text.at[text.n] = '\0'; /* there is room: one byte more than what is read */
    return take_login(config, text.at, colon + 1, err);
}

void etcd_config_wipe(struct etcd_config *config)
{
    explicit_bzero(config->user, sizeof config->user);
    explicit_bzero(config->password, sizeof config->password);
}
