/* SPDX-License-Identifier: MIT */
/* Parse a kubeconfig: cluster and user of its current context. Settings that need a program, a password or
 * an unchecked certificate are refused by name: ignoring them would act as another user. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "kube/client/config.h"

#include "base/banned.h"

/* State of the parser. After a fault every function does nothing. */
struct reading {
    struct yaml_faults faults;
    const char *directory;
    struct kubeapi_config *out;
};

static const char *text_of(const yaml_node *map, const char *key)
{
    const char *text = yaml_string(yaml_get(map, key));

    return text && *text ? text : NULL;
}

/* Find the entry of "clusters", "contexts" or "users" with that name and return its map of the same name in
 * the singular. NULL: a fault. */
static const yaml_node *need_entry(struct reading *r, const yaml_node *at, const char *list,
                                   const char *inner, const char *name)
{
    const yaml_node *entries = yaml_get(yaml_root(r->faults.yaml, 0), list);

    for (const yaml_node *item = entries && entries->kind == YAML_LIST ? entries->first : NULL; item;
         item = item->next) {
        const char *its = yaml_string(yaml_get(yaml_follow(item), "name"));
        const yaml_node *entry = yaml_get(yaml_follow(item), inner);

        if (!its || strcmp(its, name) != 0)
            continue;
        if (entry && entry->kind == YAML_MAP)
            return entry;
        break;
    }
    yaml_fault(&r->faults, at, "there is no '%.80s' in %s", name, list);
    return NULL;
}

static void set_path(struct reading *r, const yaml_node *at, char out[KUBEAPI_PATH_MAX + 1])
{
    const char *path = yaml_string(at);
    bool is_full = path[0] == '/';
    int n =
        snprintf(out, KUBEAPI_PATH_MAX + 1, "%s%s%s", is_full ? "" : r->directory, is_full ? "" : "/", path);

    if (n < 0 || n > KUBEAPI_PATH_MAX)
        yaml_fault(&r->faults, at, "the path is too long");
}

/* Read KEY-data, or the file that KEY names; data takes precedence, as in kubectl. */
static void read_pem(struct reading *r, const yaml_node *map, const char *key, enum kubeapi_which which)
{
    struct kubeapi_credential *out = &r->out->credentials[which];
    char data_key[64] = "";

    (void) snprintf(data_key, sizeof data_key, "%s-data", key);
    const char *data = text_of(map, data_key);
    if (data) {
        out->text = base64_decode_text(data);
        if (!out->text)
            yaml_fault(&r->faults, yaml_get(map, data_key), "this is not a PEM text in base64");
    } else if (text_of(map, key)) {
        set_path(r, yaml_get(map, key), out->file);
        if (r->faults.status == DIBS_OK)
            r->faults.status =
                file_read_text(key, out->file, KUBEAPI_PEM_MAX_BYTES, &out->text, r->faults.err);
    }
}

/* Refuse keys that would change identity or trust and that dibs does not support. */
static void refuse_keys(struct reading *r, const yaml_node *map, const char *const *keys, const char *why)
{
    for (; *keys; keys++)
        if (yaml_key(map, *keys) && !yaml_is_null(yaml_get(map, *keys)))
            yaml_fault(&r->faults, yaml_key(map, *keys), "'%s' %s", *keys, why);
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

static void read_server(struct reading *r, const yaml_node *cluster)
{
    const char *server = text_of(cluster, "server");
    const yaml_node *at = yaml_get(cluster, "server");

    if (!server) {
        yaml_fault(&r->faults, cluster, "the cluster has no 'server'");
        return;
    }
    if (strncmp(server, "https://", 8) != 0 && !is_loopback(server))
        yaml_fault(&r->faults, at, "the server must be https://, or http:// of this machine");
    if (!text_copy(r->out->server, sizeof r->out->server, server) || strpbrk(server, "?#@ \t"))
        yaml_fault(&r->faults, at, "this is not the address of a server");
    size_t n = strlen(r->out->server);
    while (n > 0 && r->out->server[n - 1] == '/')
        r->out->server[--n] = '\0';
}

static void read_cluster(struct reading *r, const yaml_node *cluster)
{
    static const char *const strange[] = { "proxy-url", "tls-server-name", NULL };
    bool is_insecure = false;

    refuse_keys(r, cluster, strange, "is not supported; reach the server directly");
    if (yaml_bool(yaml_get(cluster, "insecure-skip-tls-verify"), &is_insecure) && is_insecure)
        yaml_fault(&r->faults, yaml_key(cluster, "insecure-skip-tls-verify"),
                   "dibs always checks the server's certificate; give certificate-authority");
    read_server(r, cluster);
    read_pem(r, cluster, "certificate-authority", KUBEAPI_CA);
}

static void read_token(struct reading *r, const yaml_node *user)
{
    const char *token = text_of(user, "token");
    struct kubeapi_credential *out = &r->out->credentials[KUBEAPI_TOKEN];

    if (token && (strlen(token) > KUBEAPI_TOKEN_MAX || strpbrk(token, "\r\n")))
        yaml_fault(&r->faults, yaml_get(user, "token"), "this is not a token");
    if (text_of(user, "tokenFile")) { /* takes precedence over "token", as in client-go */
        set_path(r, yaml_get(user, "tokenFile"), out->file);
        return;
    }
    out->text = token ? strdup(token) : NULL;
    if (token && !out->text && r->faults.status == DIBS_OK)
        r->faults.status = err_set(r->faults.err, DIBS_FAILURE, "kubeconfig: out of memory");
}

static void read_user(struct reading *r, const yaml_node *user)
{
    static const char *const programs[] = { "exec", "auth-provider", NULL };
    static const char *const others[] = { "username", "password", "as", "as-uid", "as-groups", NULL };

    refuse_keys(r, user, programs,
                "would start a program, which dibs does not; use a certificate or a token, as of a "
                "service account ('kubectl create token')");
    refuse_keys(r, user, others, "is not supported; use a certificate or a token");
    read_pem(r, user, "client-certificate", KUBEAPI_CERT);
    read_pem(r, user, "client-key", KUBEAPI_KEY);
    if (!r->out->credentials[KUBEAPI_CERT].text != !r->out->credentials[KUBEAPI_KEY].text)
        yaml_fault(&r->faults, user, "client-certificate and client-key belong together");
    read_token(r, user);
}

static void read_context(struct reading *r)
{
    const yaml_node *root = yaml_root(r->faults.yaml, 0);
    const char *current = text_of(root, "current-context");

    if (!current) {
        r->faults.status = err_set(r->faults.err, DIBS_INVALID, "%s: there is no current-context",
                                   yaml_name(r->faults.yaml));
        return;
    }
    const yaml_node *context = need_entry(r, root, "contexts", "context", current);
    const char *cluster_name = text_of(context, "cluster");
    const char *user_name = text_of(context, "user");
    const char *ns = text_of(context, "namespace");
    if (!cluster_name)
        yaml_fault(&r->faults, context, "the context has no cluster");
    const yaml_node *cluster =
        cluster_name ? need_entry(r, context, "clusters", "cluster", cluster_name) : NULL;
    if (cluster)
        read_cluster(r, cluster);
    const yaml_node *user = user_name ? need_entry(r, context, "users", "user", user_name) : NULL;
    if (user)
        read_user(r, user);
    if (ns && !text_copy(r->out->ns, sizeof r->out->ns, ns))
        yaml_fault(&r->faults, context, "the namespace is longer than %d bytes", KUBEAPI_NAMESPACE_MAX);
}

dibs_status kubeconfig_parse(const char *name, const char *text, size_t n, const char *directory,
                             struct kubeapi_config *out, dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    struct kubeapi_config config = { 0 };
    dibs_status s = yaml_parse(name, text, n, &yaml, err);

    if (s == DIBS_OK && (yaml_count(yaml) == 0 || !yaml_root(yaml, 0)))
        s = err_set(err, DIBS_INVALID, "%s is empty", yaml_name(yaml));
    if (s == DIBS_OK) {
        struct reading r = { { yaml, err, DIBS_OK }, directory, &config };

        read_context(&r);
        s = r.faults.status;
    }
    if (s == DIBS_OK)
        *out = config;
    else
        kubeapi_config_done(&config);
    return s;
}
