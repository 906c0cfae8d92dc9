/* SPDX-License-Identifier: MIT */
#include "kubeapi/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

/* Where kubelet puts what a pod needs to talk to the API server. */
#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

enum { KUBECONFIG_MAX_BYTES = 4 << 20 };

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void kubeapi_config_done(struct kubeapi_config *config)
{
    free(config->ca_pem);
    free(config->cert_pem);
    wipe(config->key_pem);
    wipe(config->token);
    *config = (struct kubeapi_config){ 0 };
}

bool kubeapi_is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

dibs_status kubeapi_read_file(const char *what, const char *path, size_t max_bytes, char **out, dibs_err *err)
{
    AUTO(fd_auto)
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* of a pipe nothing is waited for */
    struct stat st = { 0 };
    char shown[128] = "";
    size_t n = 0;
    ssize_t got = 1;

    (void) text_safe(path, shown, sizeof shown);
    if (fd < 0)
        return err_os(err, DIBS_INVALID, errno, "%s %s", what, shown);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return err_set(err, DIBS_INVALID, "%s %s is no regular file", what, shown);
    AUTO(free_auto) char *text = malloc(max_bytes + 2);
    if (!text)
        return err_set(err, DIBS_FAILURE, "%s %s: out of memory", what, shown);
    while (got > 0 && n <= max_bytes) {
        got = read(fd, text + n, max_bytes + 1 - n);
        if (got < 0 && errno != EINTR)
            return err_os(err, DIBS_INVALID, errno, "%s %s", what, shown);
        n += got > 0 ? (size_t) got : 0;
        got = got < 0 ? 1 : got;
    }
    if (n > max_bytes)
        return err_set(err, DIBS_INVALID, "%s %s is larger than %zu bytes", what, shown, max_bytes);
    text[n] = '\0';
    *out = TAKE(text);
    return DIBS_OK;
}

/* "[::1]" needs its brackets in a URL; the variable has none. */
static dibs_status set_server(const char *host, const char *port, struct kubeapi_config *out, dibs_err *err)
{
    bool is_v6 = strchr(host, ':') != NULL && host[0] != '[';
    int n = snprintf(out->server, sizeof out->server, "https://%s%s%s:%s", is_v6 ? "[" : "", host,
                     is_v6 ? "]" : "", port);

    if (n < 0 || (size_t) n >= sizeof out->server)
        return err_set(err, DIBS_INVALID, "KUBERNETES_SERVICE_HOST is too long");
    return DIBS_OK;
}

/* Of the pod that we are in. */
static dibs_status load_account(const char *host, struct kubeapi_config *out, dibs_err *err)
{
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    AUTO(free_auto) char *ns = NULL;
    dibs_status s = set_server(host, port && *port ? port : "443", out, err);

    if (s == DIBS_OK)
        s = kubeapi_read_file("the cluster's authorities", ACCOUNT "/ca.crt", KUBEAPI_PEM_MAX_BYTES,
                              &out->ca_pem, err);
    if (s != DIBS_OK)
        return s;
    (void) text_copy(out->ca_file, sizeof out->ca_file, ACCOUNT "/ca.crt");
    (void) text_copy(out->token_file, sizeof out->token_file, ACCOUNT "/token");
    (void) kubeapi_read_file("namespace", ACCOUNT "/namespace", KUBEAPI_NAMESPACE_MAX + 1, &ns, NULL);
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
        s = kubeapi_read_file("kubeconfig", path, KUBECONFIG_MAX_BYTES, &text, err);
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
        s = err_set(err, DIBS_INVALID,
                    "there is no API server to talk to: this is no pod (KUBERNETES_SERVICE_HOST is not set); "
                    "give --kubeconfig FILE or set KUBECONFIG");
    if (s == DIBS_OK && !config.ns[0])
        (void) text_copy(config.ns, sizeof config.ns, "default");
    if (s == DIBS_OK)
        *out = config;
    else
        kubeapi_config_done(&config);
    return s;
}
