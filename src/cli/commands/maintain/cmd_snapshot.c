/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "codec/wire.h"

#include "base/banned.h"

static bool write_claim(void *ctx, const dibs_claim *claim)
{
    wire_claim(ctx, claim, false);
    return true;
}

static bool write_pool(void *ctx, const dibs_pool *pool)
{
    wire_pool(ctx, pool, NULL);
    return true;
}

/* Export one pool: --pool narrows the full format, too. */
static dibs_status export_pools(struct cli *cli, const char *name, struct jsonw *w, dibs_err *err)
{
    dibs_pool pool = { 0 };

    if (!name)
        return dibs_pool_list(cli->handle, write_pool, w, err);
    dibs_status status = dibs_pool_get(cli->handle, name, &pool, err);

    if (status == DIBS_OK)
        wire_pool(w, &pool, NULL);
    return status;
}

static dibs_status export_full(struct cli *cli, FILE *to, dibs_err *err)
{
    const char *pool = cli_value(cli, "pool");
    dibs_filter filter = { .pool = pool };
    struct jsonw w = { 0 };

    jsonw_begin(&w, to);
    jsonw_object(&w);
    jsonw_key_int(&w, "dibs", WIRE_SNAPSHOT_VERSION);
    jsonw_key_array(&w, "pools");
    dibs_status status = export_pools(cli, pool, &w, err);

    if (status != DIBS_OK)
        return status;
    jsonw_end_array(&w);
    jsonw_key_array(&w, "claims");
    status = dibs_claim_list(cli->handle, &filter, write_claim, &w, err);
    if (status != DIBS_OK)
        return status;
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    jsonw_finish(&w);
    return DIBS_OK;
}

static dibs_status export_k8s(struct cli *cli, FILE *to, dibs_err *err)
{
    uint8_t bytes[WIRE_RANGE_BYTES_MAX] = { 0 };
    char range[DIBS_RANGES_TEXT_MAX + 1] = "";
    struct jsonw w = { 0 };
    size_t n = 0;
    dibs_status status = dibs_snapshot_export(cli->handle, cli_value(cli, "pool"), range, bytes, &n, err);

    if (status != DIBS_OK)
        return status;
    jsonw_begin(&w, to);
    jsonw_object(&w);
    jsonw_key_string(&w, "kind", "RangeAllocation");
    jsonw_key_string(&w, "apiVersion", "v1");
    wire_range_members(&w, &(dibs_range_snapshot){ range, bytes, n });
    jsonw_end_object(&w);
    jsonw_finish(&w);
    return DIBS_OK;
}

static dibs_status export(struct cli *cli, dibs_err *err)
{
    const char *format = cli_value(cli, "format");
    const char *path = cli->argc == 2 ? cli->argv[1] : "-";
    char *text = NULL;
    size_t len = 0;

    if (!format)
        format = "full";
    if (strcmp(format, "full") != 0 && strcmp(format, "k8s") != 0)
        return err_set(err, DIBS_INVALID, "--format: neither full nor k8s");
    /* Write to memory first: a failure must not leave half a document. */
    FILE *to = open_memstream(&text, &len);

    if (!to)
        return err_os(err, DIBS_FAILURE, errno, "cannot write to memory");
    dibs_status status = strcmp(format, "k8s") == 0 ? export_k8s(cli, to, err) : export_full(cli, to, err);
    bool is_whole = !ferror(to);

    if ((fclose(to) != 0 || !is_whole) && status == DIBS_OK)
        status = err_set(err, DIBS_FAILURE, "out of memory");
    if (status == DIBS_OK && strcmp(path, "-") != 0)
        status = cli_output_save(path, text, len, true, err);
    else if (status == DIBS_OK)
        (void) fwrite(text, 1, len, stdout); /* main checks stdout's state at the end */
    free(text);
    return status;
}

static dibs_status import_k8s(struct cli *cli, const jsonr_value *root, size_t *n, dibs_err *err)
{
    uint8_t bytes[WIRE_RANGE_BYTES_MAX] = { 0 };
    dibs_range_snapshot snapshot = { 0 };
    const char *version = NULL;

    if (!jsonr_get_string(root, "apiVersion", &version) || strcmp(version, "v1") != 0)
        return err_set(err, DIBS_INVALID, "a RangeAllocation of another apiVersion than v1");
    dibs_status status = wire_range_read(root, bytes, &snapshot, err);

    return status == DIBS_OK ? dibs_snapshot_import(cli->handle, cli_value(cli, "pool"), &snapshot, n, err)
                             : status;
}

static dibs_status import_full(struct cli *cli, const jsonr_value *root, size_t *n, dibs_err *err)
{
    AUTO(wire_snapshot_done) struct wire_snapshot snapshot = { 0 };
    dibs_status status = wire_snapshot_read(root, &snapshot, err);

    if (status == DIBS_OK && cli_has(cli, "pool"))
        return err_set(err, DIBS_INVALID, "--pool: a full snapshot contains the pool of each claim");
    if (status != DIBS_OK)
        return status;
    return dibs_claim_restore(
        cli->handle, &(dibs_snapshot){ snapshot.claims, snapshot.n_claims, snapshot.pools, snapshot.n_pools },
        n, err);
}

static dibs_status import(struct cli *cli, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    const char *kind = "";
    size_t len = 0;
    size_t n = 0;

    dibs_status status = cli_input_read(cli->argv[1], &text, &len, err);

    if (status == DIBS_OK)
        status = jsonr_parse(text, len, &doc, err);
    if (status != DIBS_OK)
        return status;
    const jsonr_value *root = jsonr_root(doc);

    (void) jsonr_get_string(root, "kind", &kind);
    status = strcmp(kind, "RangeAllocation") == 0 ? import_k8s(cli, root, &n, err)
                                                  : import_full(cli, root, &n, err);
    if (status != DIBS_OK)
        return err_wrap(err, status, "nothing imported");
    cli_print_count(cli, "imported", n);
    cli_note(cli, "%zu claim%s imported", n, n == 1 ? "" : "s");
    return DIBS_OK;
}

static const char *const of_export[] = { "pool", "format", NULL };
static const char *const of_import[] = { "pool", NULL };
static const struct cli_verb verbs[] = {
    { "export", "[FILE]", of_export, export },
    { "import", "a FILE, or - for stdin", of_import, import },
    { 0 },
};

static const struct cli_opt opts[] = {
    { .name = "pool", .arg = "POOL", .help = "export this pool; import k8s data into it" },
    { .name = "format",
      .arg = "FORMAT",
      .help = "full (default), or k8s for one pool of one range",
      .words = "full k8s" },
    { 0 },
};

const struct cli_cmd cmd_snapshot = {
    .name = "snapshot",
    .group = CLI_MAINTAIN,
    .args = "export [FILE] | import FILE",
    .summary = "Save claims and pools, or bring them back",
    .details = "The full format has every pool and claim, without tokens. The k8s format is a\n"
               "RangeAllocation of Kubernetes: a range and a bit for each port in use.\n"
               "FILE - is standard input or output. Import sees the format, checks all of it,\n"
               "and brings back all or nothing; claims that are there already stay as they\n"
               "are, pools become what the file says, and dead holders are dropped.\n"
               "Ports of a k8s snapshot become kept static claims.",
    .examples = "dibs snapshot export claims.json\ndibs snapshot import claims.json\n",
    .opts = opts,
    .flags = CLI_SLOW | CLI_HANDLE,
    .min_args = 1,
    .max_args = 2,
    .args_words = "export import",
    .verbs = verbs,
};
