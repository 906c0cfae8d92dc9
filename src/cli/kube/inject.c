/* SPDX-License-Identifier: MIT */
/* `dibs kube inject` */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/file.h"
#include "cli/kube/kube.h"
#include "codec/json.h"
#include "kube/inject/inject.h"

#include "base/banned.h"

static void note(void *ctx, const char *text)
{
    cli_note(ctx, "%s", text);
}

static dibs_status deliver(struct cli *cli, const char *text, size_t len, dibs_err *err)
{
    const char *path = cli_value(cli, "output");
    bool is_file = path && strcmp(path, "-") != 0;
    dibs_status s = is_file ? cli_output_save(path, text, len, false, err) : DIBS_OK;

    if (s != DIBS_OK || (is_file && !cli->json))
        return s;
    if (cli->json) {
        jsonw_object(&cli->w);
        jsonw_key_string(&cli->w, is_file ? "output" : "text", is_file ? path : text);
        jsonw_end_object(&cli->w);
    } else {
        (void) fwrite(text, 1, len, stdout);
    }
    return cli_flush(cli, err);
}

static dibs_status inject(struct cli *cli, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    AUTO(kube_injection_free_auto) kube_injection *injection = NULL;
    AUTO(free_auto) char *result = NULL;
    const char *path = cli->argv[1];
    size_t len = 0;
    size_t n = 0;
    dibs_err why = { 0 };
    dibs_status s = cli_input_read(path, &text, &len, err);

    if (s == DIBS_OK)
        s = kube_injection_read(cli_input_name(path), text, len, false, &injection, err);
    if (s != DIBS_OK)
        return s;
    kube_injection_notes(injection, note, cli);
    if (!kube_injection_is_needed(injection))
        return deliver(cli, text, len, err);
    s = cli_open(cli, err);
    if (s == DIBS_OK)
        s = kube_injection_claim(injection, cli->handle, err);
    if (s != DIBS_OK)
        return s;
    s = kube_injection_text(injection, &result, &n, err);
    if (s == DIBS_OK)
        s = deliver(cli, result, n, err);
    if (s != DIBS_OK && kube_injection_undo(injection, cli->handle, &why) != DIBS_OK)
        cli_warn("the claims stay as in the new text, because the old ones could not be put back: %s",
                 why.msg);
    return s;
}

static dibs_status release(struct cli *cli, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    AUTO(kube_injection_free_auto) kube_injection *objects = NULL;
    const char *path = cli->argv[1];
    size_t len = 0;
    dibs_status s = cli_value(cli, "output")
                        ? err_set(err, DIBS_INVALID, "--release prints no text; leave --output out")
                        : cli_input_read(path, &text, &len, err);

    if (s == DIBS_OK)
        s = kube_injection_read(cli_input_name(path), text, len, true, &objects, err);
    if (s == DIBS_OK && kube_injection_is_needed(objects)) {
        s = cli_open(cli, err);
        if (s == DIBS_OK)
            s = kube_injection_claim(objects, cli->handle, err);
    }
    if (s != DIBS_OK)
        return s;
    size_t n = kube_injection_count(objects, WORKLOAD_DROP);
    cli_print_count(cli, "released", n);
    if (!cli->json)
        cli_note(cli, "%zu claim%s ended", n, n == 1 ? "" : "s");
    return DIBS_OK;
}

dibs_status kube_inject(struct cli *cli, dibs_err *err)
{
    return cli_has(cli, "release") ? release(cli, err) : inject(cli, err);
}
