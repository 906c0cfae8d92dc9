/* SPDX-License-Identifier: MIT */
/* `dibs kube webhook` */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/kube/kube.h"
#include "kube/webhook/webhook.h"

#include "base/banned.h"

/* Parse --template. The templates point into `texts`, which the caller frees. */
static dibs_status read_templates(const struct cli *cli, char **texts, struct admission_template *out,
                                  size_t *n, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (*n = 0; s == DIBS_OK; ++*n) {
        const char *text = cli_value_at(cli, "template", *n);

        if (!text)
            return DIBS_OK;
        if (*n == ADMISSION_TEMPLATES_MAX)
            return err_set(err, DIBS_INVALID, "--template can be given %d times", ADMISSION_TEMPLATES_MAX);
        texts[*n] = strdup(text);
        s = texts[*n] ? webhook_template_parse(texts[*n], &out[*n], err)
                      : err_set(err, DIBS_FAILURE, "out of memory");
    }
    return s;
}

static dibs_status pending(const struct cli *cli, int64_t *out, dibs_err *err)
{
    const char *text = cli_value(cli, "pending");
    dibs_status s = text ? dibs_duration_parse(text, out, err) : DIBS_OK;

    return s == DIBS_OK ? s : err_wrap(err, s, "--pending");
}

dibs_status kube_webhook(struct cli *cli, dibs_err *err)
{
    char *texts[ADMISSION_TEMPLATES_MAX] = { NULL };
    struct admission_template templates[ADMISSION_TEMPLATES_MAX];
    struct webhook_options options = {
        .settings = &cli->settings,
        .listen = cli_value(cli, "listen"),
        .tls_cert = cli_value(cli, "tls-cert"),
        .tls_key = cli_value(cli, "tls-key"),
        .installation = cli_value(cli, "installation"),
        .pool = kube_pool_flags(cli),
        .templates = templates,
        .has_no_quota = cli_has(cli, "no-quota"),
        .needs_rebuilt = cli_has(cli, "rebuilt"),
        .is_check = cli_has(cli, "check-config"),
    };
    dibs_status s = read_templates(cli, texts, templates, &options.n_templates, err);

    if (s == DIBS_OK)
        s = pending(cli, &options.pending_ms, err);
    if (s == DIBS_OK)
        s = webhook_run(&options, err);
    if (s == DIBS_OK && options.is_check)
        cli_note(cli, "it could start");
    for (size_t i = 0; i < ADMISSION_TEMPLATES_MAX; i++)
        free(texts[i]);
    return s;
}

/* Use the pool that a setting names, by default `kube`. */
struct kube_pool_flags kube_pool_flags(const struct cli *cli)
{
    return (struct kube_pool_flags){
        .name = cli->settings.source[DIBS_SET_POOL] == DIBS_FROM_DEFAULT ? NULL : cli->settings.pool,
        .start_port = cli_value(cli, "start-port"),
        .port_range = cli_value(cli, "port-range"),
        .strategy = cli_value(cli, "strategy"),
    };
}
