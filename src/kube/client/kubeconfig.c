/* SPDX-License-Identifier: MIT */
/* A kubeconfig: the cluster and the user of its current context. What would need a program, a password or an
 * unchecked certificate is refused by name: to leave it out would be to be somebody else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "kube/client/config.h"

#include "base/banned.h"

struct reading {
    const yaml_text *yaml;
    const char *directory;
    struct kubeapi_config *out;
    dibs_err *err;
};

static const char *text_of(const yaml_node *map, const char *key)
{
    const char *text = yaml_string(yaml_get(map, key));

    return text && *text ? text : NULL;
}

/* The entry of "clusters", "contexts" or "users" with that name: its map of the same name in the singular. */
static dibs_status need_entry(const struct reading *r, const yaml_node *at, const char *list,
                              const char *inner, const char *name, const yaml_node **out)
{
    const yaml_node *entries = yaml_get(yaml_root(r->yaml, 0), list);
    char shown[80] = "";

    for (const yaml_node *item = entries && entries->kind == YAML_LIST ? entries->first : NULL; item;
         item = item->next) {
        const char *its = yaml_string(yaml_get(yaml_follow(item), "name"));

        if (!its || strcmp(its, name) != 0)
            continue;
        *out = yaml_get(yaml_follow(item), inner);
        if (*out && (*out)->kind == YAML_MAP)
            return DIBS_OK;
        break;
    }
    return yaml_error(r->yaml, at, r->err, "there is no '%s' in %s", text_safe(name, shown, sizeof shown),
                      list);
}

static dibs_status full_path(const struct reading *r, const yaml_node *at, const char *path,
                             char out[KUBEAPI_PATH_MAX + 1])
{
    int n = path[0] == '/' ? snprintf(out, KUBEAPI_PATH_MAX + 1, "%s", path)
                           : snprintf(out, KUBEAPI_PATH_MAX + 1, "%s/%s", r->directory, path);

    return n >= 0 && n <= KUBEAPI_PATH_MAX ? DIBS_OK
                                           : yaml_error(r->yaml, at, r->err, "the path is too long");
}

/* KEY-data, or the file that KEY names; data wins, as kubectl has it. */
static dibs_status read_pem(const struct reading *r, const yaml_node *map, const char *key,
                            enum kubeapi_which which)
{
    struct kubeapi_credential *out = &r->out->credentials[which];
    char data_key[64] = "";

    (void) snprintf(data_key, sizeof data_key, "%s-data", key);
    const char *data = text_of(map, data_key);
    const char *file = text_of(map, key);
    if (data) {
        out->text = base64_decode_text(data);
        return out->text
                   ? DIBS_OK
                   : yaml_error(r->yaml, yaml_get(map, data_key), r->err, "this is no base64 of a PEM text");
    }
    if (!file)
        return DIBS_OK;
    dibs_status s = full_path(r, yaml_get(map, key), file, out->file);
    return s == DIBS_OK ? file_read_text(key, out->file, KUBEAPI_PEM_MAX_BYTES, &out->text, r->err) : s;
}

/* A key that changes who we are or whom we trust, and that dibs does not follow. */
static dibs_status refuse_keys(const struct reading *r, const yaml_node *map, const char *const *keys,
                               const char *why)
{
    for (; *keys; keys++)
        if (yaml_key(map, *keys) && !yaml_is_null(yaml_get(map, *keys)))
            return yaml_error(r->yaml, yaml_key(map, *keys), r->err, "'%s' %s", *keys, why);
    return DIBS_OK;
}

static bool is_loopback(const char *server)
{
    static const char *const hosts[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        size_t n = strlen(hosts[i]);

        if (strncmp(server, hosts[i], n) == 0 && (server[n] == ':' || server[n] == '/' || !server[n]))
            return true;
    }
    return false;
}

static dibs_status read_server(const struct reading *r, const yaml_node *cluster)
{
    const char *server = text_of(cluster, "server");

    if (!server)
        return yaml_error(r->yaml, cluster, r->err, "the cluster has no 'server'");
    if (strncmp(server, "https://", 8) != 0 && !is_loopback(server))
        return yaml_error(r->yaml, yaml_get(cluster, "server"), r->err,
                          "the server must be https://, or http:// of this machine");
    if (!text_copy(r->out->server, sizeof r->out->server, server) || strpbrk(server, "?#@ \t"))
        return yaml_error(r->yaml, yaml_get(cluster, "server"), r->err, "this is no address of a server");
    size_t n = strlen(r->out->server);
    while (n > 0 && r->out->server[n - 1] == '/')
        r->out->server[--n] = '\0';
    return DIBS_OK;
}

static dibs_status read_cluster(const struct reading *r, const yaml_node *cluster)
{
    static const char *const strange[] = { "proxy-url", "tls-server-name", NULL };
    bool is_insecure = false;
    dibs_status s =
        refuse_keys(r, cluster, strange, "is nothing that dibs can follow; reach the server directly");

    if (s == DIBS_OK && yaml_bool(yaml_get(cluster, "insecure-skip-tls-verify"), &is_insecure) && is_insecure)
        s = yaml_error(r->yaml, yaml_key(cluster, "insecure-skip-tls-verify"), r->err,
                       "a server that anybody can be is not talked to; give certificate-authority");
    if (s == DIBS_OK)
        s = read_server(r, cluster);
    return s == DIBS_OK ? read_pem(r, cluster, "certificate-authority", KUBEAPI_CA) : s;
}

static dibs_status read_token(const struct reading *r, const yaml_node *user)
{
    const char *token = text_of(user, "token");
    const char *file = text_of(user, "tokenFile");
    struct kubeapi_credential *out = &r->out->credentials[KUBEAPI_TOKEN];

    if (token && (strlen(token) > KUBEAPI_TOKEN_MAX || strpbrk(token, "\r\n")))
        return yaml_error(r->yaml, yaml_get(user, "token"), r->err, "this is no token");
    if (file) /* over the token, as client-go has it */
        return full_path(r, yaml_get(user, "tokenFile"), file, out->file);
    out->text = token ? strdup(token) : NULL;
    return token && !out->text ? err_set(r->err, DIBS_FAILURE, "kubeconfig: out of memory") : DIBS_OK;
}

static dibs_status read_user(const struct reading *r, const yaml_node *user)
{
    static const char *const programs[] = { "exec", "auth-provider", NULL };
    static const char *const others[] = { "username", "password", "as", "as-uid", "as-groups", NULL };
    dibs_status s =
        refuse_keys(r, user, programs,
                    "would start a program, which dibs does not; use a certificate or a token, as of a "
                    "service account ('kubectl create token')");

    if (s == DIBS_OK)
        s = refuse_keys(r, user, others, "is not supported; use a certificate or a token");
    if (s == DIBS_OK)
        s = read_pem(r, user, "client-certificate", KUBEAPI_CERT);
    if (s == DIBS_OK)
        s = read_pem(r, user, "client-key", KUBEAPI_KEY);
    if (s == DIBS_OK && !r->out->credentials[KUBEAPI_CERT].text != !r->out->credentials[KUBEAPI_KEY].text)
        s = yaml_error(r->yaml, user, r->err, "client-certificate and client-key belong together");
    return s == DIBS_OK ? read_token(r, user) : s;
}

static dibs_status read_context(const struct reading *r)
{
    const yaml_node *root = yaml_root(r->yaml, 0);
    const char *current = text_of(root, "current-context");
    const yaml_node *context = NULL;
    const yaml_node *cluster = NULL;
    const yaml_node *user = NULL;

    if (!current)
        return err_set(r->err, DIBS_INVALID, "%s: there is no current-context", yaml_name(r->yaml));
    dibs_status s = need_entry(r, root, "contexts", "context", current, &context);
    const char *cluster_name = s == DIBS_OK ? text_of(context, "cluster") : NULL;
    const char *user_name = s == DIBS_OK ? text_of(context, "user") : NULL;
    const char *ns = s == DIBS_OK ? text_of(context, "namespace") : NULL;
    if (s == DIBS_OK && !cluster_name)
        s = yaml_error(r->yaml, context, r->err, "the context has no cluster");
    if (s == DIBS_OK)
        s = need_entry(r, context, "clusters", "cluster", cluster_name, &cluster);
    if (s == DIBS_OK)
        s = read_cluster(r, cluster);
    if (s == DIBS_OK && user_name)
        s = need_entry(r, context, "users", "user", user_name, &user);
    if (s == DIBS_OK && user)
        s = read_user(r, user);
    if (s == DIBS_OK && ns && !text_copy(r->out->ns, sizeof r->out->ns, ns))
        s = yaml_error(r->yaml, context, r->err, "the namespace is longer than %d bytes",
                       KUBEAPI_NAMESPACE_MAX);
    return s;
}

dibs_status kubeconfig_parse(const char *name, const char *text, size_t n, const char *directory,
                             struct kubeapi_config *out, dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    struct kubeapi_config config = { 0 };
    dibs_status s = yaml_parse(name, text, n, &yaml, err);

    if (s == DIBS_OK && (yaml_count(yaml) == 0 || !yaml_root(yaml, 0)))
        s = err_set(err, DIBS_INVALID, "%s is empty", yaml_name(yaml));
    if (s == DIBS_OK)
        s = read_context(&(struct reading){ yaml, directory, &config, err });
    if (s == DIBS_OK)
        *out = config;
    else
        kubeapi_config_done(&config);
    return s;
}
