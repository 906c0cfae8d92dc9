/* SPDX-License-Identifier: MIT */
#include "kube/client/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"

#include "base/banned.h"

/* Where kubelet mounts the pod's credentials for the API server. */
#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

enum { KUBECONFIG_MAX_BYTES = 4 << 20 };

void kubeapi_config_done(struct kubeapi_config *config)
{
    for (size_t i = 0; i < KUBEAPI_CREDENTIALS; i++)
        secret_free(config->credentials[i].text);
    *config = (struct kubeapi_config){ 0 };
}

dibs_status kubeapi_renew(struct kubeapi_config *config, enum kubeapi_which which, bool *is_new,
                          dibs_err *err)
{
    struct kubeapi_credential *c = &config->credentials[which];
    bool is_token = which == KUBEAPI_TOKEN;
    char *text = NULL;

    if (!c->file[0])
        return DIBS_OK;
    dibs_status s = file_read_text(is_token ? "token" : "certificate", c->file,
                                   is_token ? KUBEAPI_TOKEN_MAX : KUBEAPI_PEM_MAX_BYTES, &text, err);
    if (s == DIBS_OK && (is_token ? strcspn(text, "\r\n") == 0 : !strstr(text, "-----BEGIN")))
        s = err_set(err, DIBS_INVALID,
                    is_token ? "token %s: the file is empty" : "certificate %s: the file has none", c->file);
    if (s == DIBS_OK && (!c->text || strcmp(c->text, text) != 0)) {
        secret_free(c->text);
        c->text = TAKE(text);
        *is_new = true;
    }
    secret_free(text);
    return c->text ? DIBS_OK : s;
}

/* Set the URL of the server. An IPv6 address needs brackets in a URL; the environment variable has none. */
static dibs_status set_server(const char *host, const char *port, struct kubeapi_config *out, dibs_err *err)
{
    bool is_v6 = strchr(host, ':') != NULL && host[0] != '[';
    int n = snprintf(out->server, sizeof out->server, "https://%s%s%s:%s", is_v6 ? "[" : "", host,
                     is_v6 ? "]" : "", port);

    if (n < 0 || (size_t) n >= sizeof out->server)
        return err_set(err, DIBS_INVALID, "KUBERNETES_SERVICE_HOST is too long");
    return DIBS_OK;
}

/* Load the service account of the pod that this process runs in. */
static dibs_status load_account(const char *host, struct kubeapi_config *out, dibs_err *err)
{
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    struct kubeapi_credential *ca = &out->credentials[KUBEAPI_CA];
    struct kubeapi_credential *token = &out->credentials[KUBEAPI_TOKEN];
    AUTO(free_auto) char *ns = NULL;
    dibs_status s = set_server(host, port && *port ? port : "443", out, err);

    if (s == DIBS_OK)
        s = file_read_text("the cluster's authorities", ACCOUNT "/ca.crt", KUBEAPI_PEM_MAX_BYTES, &ca->text,
                           err);
    if (s != DIBS_OK)
        return s;
    (void) text_copy(ca->file, sizeof ca->file, ACCOUNT "/ca.crt");
    (void) text_copy(token->file, sizeof token->file, ACCOUNT "/token");
    (void) file_read_text("namespace", ACCOUNT "/namespace", KUBEAPI_NAMESPACE_MAX + 1, &ns, NULL);
    if (ns) {
        ns[strcspn(ns, "\r\n")] = '\0';
        (void) text_copy(out->ns, sizeof out->ns, ns);
    }
    return DIBS_OK;
}

static dibs_status load_file(const char *path, struct kubeapi_config *out, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    char directory[KUBEAPI_PATH_MAX + 1] = ".";
    const char *slash = strrchr(path, '/');
    dibs_status s = strchr(path, ':') ? err_set(err, DIBS_INVALID,
                                                "KUBECONFIG names several files; dibs reads one: write "
                                                "them into one with 'kubectl config view --flatten'")
                                      : DIBS_OK;

    if (s == DIBS_OK)
        s = file_read_text("kubeconfig", path, KUBECONFIG_MAX_BYTES, &text, err);
    if (!text)
        return s;
    if (slash && (size_t) (slash - path) < sizeof directory)
        (void) text_copy(directory, (size_t) (slash - path) + 1, path);
    if (slash == path)
        (void) text_copy(directory, sizeof directory, "/");
    s = kubeconfig_parse(path, text, strlen(text), directory, out, err);
    explicit_bzero(text, strlen(text));
    return s;
}

dibs_status kubeapi_config_load(const char *kubeconfig, struct kubeapi_config *out, dibs_err *err)
{
    struct kubeapi_config config = { 0 };
    const char *named = kubeconfig ? kubeconfig : getenv("KUBECONFIG");
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    dibs_status s = DIBS_OK;

    if (named && *named)
        s = load_file(named, &config, err);
    else if (host && *host)
        s = load_account(host, &config, err);
    else
        s = err_set(
            err, DIBS_INVALID,
            "there is no API server to talk to: this is not a pod (KUBERNETES_SERVICE_HOST is unset); "
            "give --kubeconfig FILE or set KUBECONFIG");
    if (s == DIBS_OK && !config.ns[0])
        (void) text_copy(config.ns, sizeof config.ns, "default");
    if (s == DIBS_OK)
        *out = config;
    else
        kubeapi_config_done(&config);
    return s;
}
