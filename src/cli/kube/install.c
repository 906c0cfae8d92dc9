/* SPDX-License-Identifier: MIT */
/* `dibs kube install --print` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "cli/file.h"
#include "cli/kube/kube.h"
#include "kube/install/install.h"
#include "kube/install/installation.h"

#include "base/banned.h"

enum {
    NAME_BYTES = 128,
    SERVERS_MAX = 64,
    /* Minor versions of Kubernetes 1: */
    MINOR_LEAST = 20,
    MINOR_BUDGETS = 21,    /* policy/v1; also the first in which namespaces have a label of their name */
    MINOR_CONDITIONS = 28, /* matchConditions */
};

/* Check that the ledger is one that webhooks on several machines can share. */
static dibs_status check_ledger(const struct cli *cli, dibs_err *err)
{
    if (strncmp(cli->settings.ledger, "etcd://", strlen("etcd://")) == 0)
        return DIBS_OK;
    return err_set(
        err, DIBS_INVALID,
        "name the ledger that all machines of the cluster share: --ledger etcd://HOST:2379/PREFIX");
}

/* Read the minor version from "1.26" or "v1.26.3+k3s1". Without --kubernetes: the newest. */
static dibs_status read_minor(const struct cli *cli, uint64_t *out, dibs_err *err)
{
    const char *text = cli_value(cli, "kubernetes");

    *out = INT32_MAX;
    if (!text)
        return DIBS_OK;
    const char *at = text + (text[0] == 'v');
    if (strncmp(at, "1.", 2) != 0 || !text_number(at + 2, strcspn(at + 2, ".+-"), INT32_MAX, out))
        return err_set(err, DIBS_INVALID, "'%.40s' is not a version of Kubernetes, such as 1.26", text);
    if (*out < MINOR_LEAST)
        return err_set(err, DIBS_INVALID, "Kubernetes %.40s is too old: 1.%d is the lowest version for dibs",
                       text, MINOR_LEAST);
    if (*out < MINOR_BUDGETS)
        cli_note(cli, "leave kube-system out by hand: 'kubectl label namespace kube-system "
                      "dibs.dev/admission=off'");
    return DIBS_OK;
}

/* Write the addresses that may call the webhook; nothing without --api-server. */
static dibs_status read_servers(const struct cli *cli, struct bytes *out, dibs_err *err)
{
    const char *ranges[SERVERS_MAX];
    size_t n = 0;

    for (; n < SERVERS_MAX && cli_value_at(cli, "api-server", n); n++)
        ranges[n] = cli_value_at(cli, "api-server", n);
    if (n == SERVERS_MAX && cli_value_at(cli, "api-server", n))
        return err_set(err, DIBS_INVALID, "--api-server can be given %d times", SERVERS_MAX);
    return n > 0 ? install_write_ingress(ranges, n, out, err) : DIBS_OK;
}

static dibs_status check_values(const struct cli *cli, const struct kube_pool_flags *pool, dibs_err *err)
{
    const char *ns = cli_value(cli, "namespace");
    const char *image = cli_value(cli, "image");
    dibs_pool parsed;
    dibs_status s = check_ledger(cli, err);

    if (s == DIBS_OK && ns)
        s = install_check_namespace(ns, err);
    if (s == DIBS_OK && image)
        s = install_check_image(image, err);
    return s == DIBS_OK ? kube_pool_parse(pool, &parsed, err) : s;
}

static dibs_status make_tls(const char *ns, struct install_secrets *out, dibs_err *err)
{
    char name[NAME_BYTES];

    (void) snprintf(name, sizeof name, INSTALL_SERVICE ".%s.svc", ns ? ns : INSTALL_NAMESPACE);
    return install_tls_make(name, clock_now(0).wall_ms, out, err);
}

/* Make the id and the key of a new installation, unless a Secret has them. */
static dibs_status make_installation(struct install_secrets *secrets, dibs_err *err)
{
    char text[INSTALLATION_TEXT_MAX];
    dibs_status s = secrets->installation ? DIBS_OK : installation_make(text, err);

    if (s != DIBS_OK || secrets->installation)
        return s;
    secrets->installation = strdup(text);
    explicit_bzero(text, sizeof text);
    return secrets->installation ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

/* Read the installed Secrets: with new certificates, replicas and API server would disagree for a while. */
static dibs_status read_secrets(const char *path, struct install_secrets *out, dibs_err *err)
{
    char *text = NULL;
    size_t len = 0;
    dibs_status s = cli_input_read(path, &text, &len, err);

    if (s != DIBS_OK)
        return s;
    s = install_secrets_read(cli_input_name(path), text, len, out, err);
    explicit_bzero(text, len);
    free(text);
    return s;
}

static dibs_status print(struct cli *cli, const struct install_value *values, dibs_err *err)
{
    const char *secret = cli_value(cli, "secret");
    struct install_secrets secrets = { 0 };
    struct bytes text = { 0 };
    dibs_status s =
        secret ? read_secrets(secret, &secrets, err) : make_tls(cli_value(cli, "namespace"), &secrets, err);

    if (s == DIBS_OK && secret && !secrets.installation)
        cli_note(cli, "%s has no Secret " INSTALL_INSTALLATION ": a new installation is made", secret);
    if (s == DIBS_OK)
        s = make_installation(&secrets, err);
    if (s == DIBS_OK)
        s = install_write(values, &secrets, &text, err);
    if (s == DIBS_OK) {
        (void) fwrite(text.at, 1, text.n, stdout);
        s = cli_flush(cli, err);
    }
    secret_done(&text);
    install_secrets_done(&secrets);
    return s;
}

dibs_status kube_install(struct cli *cli, dibs_err *err)
{
    struct kube_pool_flags pool = kube_pool_flags(cli);
    AUTO(bytes_done) struct bytes servers = { 0 };
    uint64_t minor = 0;

    if (!cli_has(cli, "print") || cli->json)
        return err_set(
            err, DIBS_INVALID,
            "`dibs kube install` changes no cluster, it prints YAML: give --print, and pass the text "
            "to 'kubectl apply -f -'");
    dibs_status s = check_values(cli, &pool, err);
    if (s == DIBS_OK)
        s = read_minor(cli, &minor, err);
    if (s == DIBS_OK)
        s = read_servers(cli, &servers, err);
    const struct install_value values[] = {
        { .name = "namespace", .text = cli_value(cli, "namespace") },
        { .name = "image", .text = cli_value(cli, "image") },
        { .name = "ledger", .text = cli->settings.ledger },
        { .name = "pool", .text = pool.name },
        { .name = "start-port", .text = pool.start_port },
        { .name = "port-range", .text = pool.port_range },
        { .name = "strategy", .text = pool.strategy },
        { .name = "api-server", .text = servers.at, .is_yaml = true },
        { .name = "conditions", .is_dropped = minor < MINOR_CONDITIONS },
        { .name = "budgets", .text = minor < MINOR_BUDGETS ? "policy/v1beta1" : NULL },
        { 0 },
    };
    return s == DIBS_OK ? print(cli, values, err) : s;
}
