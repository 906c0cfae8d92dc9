/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/text_table.h"
#include "codec/wire.h"

#include "base/banned.h"

/* All pools. The ledger returns them at once, because users make only a few; usage is read afterwards. */
struct pools {
    dibs_pool *item;
    size_t n, max;
    bool is_failed;
};

static void pools_auto(struct pools *pools)
{
    free(pools->item);
}

static bool collect(void *ctx, const dibs_pool *pool)
{
    struct pools *pools = ctx;

    pools->is_failed = !grow((void **) &pools->item, pools->n, &pools->max, sizeof *pools->item);
    if (pools->is_failed)
        return false;
    pools->item[pools->n++] = *pool;
    return true;
}

static void pool_row(struct cli_table *table, const dibs_pool *pool, const dibs_pool_usage *usage)
{
    char text[DIBS_RANGES_TEXT_MAX + 1] = "";

    cli_table_cell(table, pool->name);
    dibs_ranges_format(&pool->ranges, text);
    cli_table_cell(table, text);
    cli_table_cell(table, words_at(&words_scope, pool->scope));
    wire_band_text(pool->band, text);
    cli_table_cell(table, text);
    cli_table_cell(table, pool->order);
    clock_duration_format(pool->cooldown_ms, text);
    cli_table_cell(table, text);
    cli_table_number(table, usage->n_static);
    cli_table_number(table, usage->n_dynamic);
    cli_table_number(table, usage->n_available);
    cli_table_number(table, usage->n_withheld);
}

static dibs_status print_pools(struct cli *cli, const dibs_pool *pools, size_t n, dibs_err *err)
{
    static const struct cli_column columns[] = {
        { .title = "NAME", .asks = 20 },  { .title = "RANGES", .asks = 24 },
        { .title = "SCOPE", .rank = 3 },  { .title = "BAND", .rank = 5 },
        { .title = "ORDER", .rank = 6 },  { .title = "COOLDOWN", .rank = 7 },
        { .title = "STATIC", .rank = 2 }, { .title = "DYNAMIC", .rank = 1 },
        { .title = "AVAILABLE" },         { .title = "WITHHELD", .rank = 4 },
    };
    AUTO(cli_table_done) struct cli_table table = { 0 };

    cli_table_begin(&table, columns, 10);
    for (size_t i = 0; i < n; i++) {
        dibs_pool_usage usage = { 0 };
        dibs_status status = dibs_pool_usage_of(cli->handle, pools[i].name, &usage, err);

        if (status != DIBS_OK)
            return status;
        if (cli->json)
            wire_pool(&cli->w, &pools[i], &usage);
        else
            pool_row(&table, &pools[i], &usage);
    }
    return cli->json ? DIBS_OK : cli_table_print(&table, stdout, err);
}

static void print_names(struct cli *cli, const struct pools *pools)
{
    char safe[2 * DIBS_POOL_NAME_MAX] = "";

    for (size_t i = 0; i < pools->n; i++) {
        if (cli->json)
            jsonw_string(&cli->w, pools->item[i].name);
        else
            (void) printf("%s\n", text_safe(pools->item[i].name, safe, sizeof safe));
    }
}

static dibs_status list(struct cli *cli, dibs_err *err)
{
    AUTO(pools_auto) struct pools pools = { 0 };
    dibs_status status = dibs_pool_list(cli->handle, collect, &pools, err);

    if (status != DIBS_OK)
        return status;
    if (pools.is_failed)
        return err_set(err, DIBS_FAILURE, "out of memory");
    cli_begin_list(cli);
    if (cli_has(cli, "names"))
        print_names(cli, &pools);
    else
        status = print_pools(cli, pools.item, pools.n, err);
    if (status == DIBS_OK)
        cli_end_list(cli);
    return status;
}

static dibs_status show(struct cli *cli, dibs_err *err)
{
    dibs_pool pool = { 0 };
    dibs_status status = dibs_pool_get(cli->handle, cli->argv[1], &pool, err);

    return status == DIBS_OK ? print_pools(cli, &pool, 1, err) : status;
}

static dibs_status order_from(const char *text, dibs_pool *pool, dibs_err *err)
{
    struct suggest_list known = { .used = 0 };

    for (size_t i = 0; dibs_order_name(i); i++) {
        suggest_list_add(&known, dibs_order_name(i));
        if (strcmp(dibs_order_name(i), text) == 0) {
            (void) text_copy(pool->order, sizeof pool->order, text);
            return DIBS_OK;
        }
    }
    return err_set(err, DIBS_INVALID, "--order: '%.64s' is none of: %s", text, known.text);
}

static dibs_status options(const struct cli *cli, dibs_pool *pool, dibs_err *err)
{
    const char *ranges = cli_value(cli, "ranges");
    const char *band = cli_value(cli, "band");
    const char *order = cli_value(cli, "order");
    const char *cooldown = cli_value(cli, "cooldown");
    const char *scope = cli_value(cli, "scope");
    dibs_status status = DIBS_OK;

    if (ranges)
        status = dibs_ranges_parse(ranges, &pool->ranges, err);
    if (status == DIBS_OK && band && !wire_band_read(band, &pool->band))
        status = err_set(err, DIBS_INVALID, "--band: '%.64s' is not auto, off or a number from 1 to %d", band,
                         DIBS_PORT_MAX);
    if (status == DIBS_OK && order)
        status = order_from(order, pool, err);
    if (status == DIBS_OK && cooldown)
        status = dibs_duration_parse(cooldown, &pool->cooldown_ms, err);
    if (scope)
        pool->scope = strcmp(scope, "cluster") == 0 ? DIBS_SCOPE_CLUSTER : DIBS_SCOPE_HOST;
    if (status == DIBS_OK && scope && strcmp(scope, words_at(&words_scope, pool->scope)) != 0)
        status = err_set(err, DIBS_INVALID, "--scope: '%.64s' is neither host nor cluster", scope);
    return status;
}

/* Is an end of one of the ranges in the kernel's ephemeral range? */
static bool is_ephemeral(struct cli *cli, const dibs_pool *pool)
{
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);
    bool is_found = false;

    for (size_t i = 0; report && !is_found && i < 2 * pool->ranges.n; i++) {
        const dibs_range *range = &pool->ranges.item[i / 2];
        const dibs_port_question question = { i % 2 ? range->last : range->first, pool->name, NULL, 0 };

        if (dibs_port_explain(cli->handle, &question, report, NULL) != DIBS_OK)
            return false;
        for (size_t r = 0; r < report->n_reasons; r++)
            is_found = is_found || report->reasons[r].kind == DIBS_WHY_EPHEMERAL;
    }
    return is_found;
}

/* Warn of withheld ports. Only advice: errors are ignored, and doctor warns as well. */
static void warn_withheld(struct cli *cli, const dibs_pool *pool)
{
    dibs_pool_usage usage = { 0 };

    if (dibs_pool_usage_of(cli->handle, pool->name, &usage, NULL) != DIBS_OK || !usage.n_withheld)
        return;
    cli_warn("pool '%s' %s: dynamic choice leaves out %u of its %u ports (see `dibs doctor`)", pool->name,
             is_ephemeral(cli, pool) ? "overlaps the kernel's ephemeral range"
                                     : "has ports that are ephemeral, reserved or refused by browsers",
             usage.n_withheld, usage.size);
}

/* Claims outside of a pool's new ranges. */
struct strays {
    const dibs_pool *pool;
    size_t n;
    struct suggest_list ports;
};

static bool note_stray(void *ctx, const dibs_claim *claim)
{
    struct strays *strays = ctx;
    char port[8];

    if (dibs_ranges_contain(&strays->pool->ranges, claim->port))
        return true;
    (void) snprintf(port, sizeof port, "%u", claim->port);
    suggest_list_add(&strays->ports, port);
    strays->n++;
    return true;
}

static void tell_strays(struct cli *cli, const struct strays *strays)
{
    bool is_one = strays->n == 1;

    if (strays->n > 0)
        cli_note(cli, "%zu claim%s of pool '%s' %s outside of its ranges now, and stay%s: %s", strays->n,
                 is_one ? "" : "s", strays->pool->name, is_one ? "is" : "are", is_one ? "s" : "",
                 strays->ports.text);
}

static dibs_status set(struct cli *cli, dibs_err *err)
{
    dibs_pool pool = { .band = DIBS_BAND_AUTO, .cooldown_ms = cli->settings.cooldown_ms };
    const char *name = cli->argv[1];
    struct strays strays = { .pool = &pool };
    dibs_status status = dibs_pool_get(cli->handle, name, &pool, err);

    if (status == DIBS_NOT_FOUND) {
        if (strlen(name) > DIBS_POOL_NAME_MAX)
            return err_set(err, DIBS_INVALID, "a pool's name has at most %d bytes", DIBS_POOL_NAME_MAX);
        if (!cli_has(cli, "ranges"))
            return err_set(err, DIBS_INVALID, "there is no pool '%s' yet; --ranges would make it", name);
        (void) snprintf(pool.name, sizeof pool.name, "%s", name);
        (void) snprintf(pool.order, sizeof pool.order, "%s", dibs_order_name(0));
        status = DIBS_OK;
    }
    if (status == DIBS_OK)
        status = options(cli, &pool, err);
    /* List them before the change, because afterwards claims of other hosts are not visible here. */
    const dibs_filter filter = { .pool = pool.name };
    if (status == DIBS_OK && dibs_claim_list(cli->handle, &filter, note_stray, &strays, NULL) != DIBS_OK)
        strays.n = 0;
    if (status == DIBS_OK)
        status = dibs_pool_put(cli->handle, &pool, err);
    if (status != DIBS_OK)
        return status;
    warn_withheld(cli, &pool);
    tell_strays(cli, &strays);
    return cli->json ? show(cli, err) : DIBS_OK;
}

static dibs_status rm(struct cli *cli, dibs_err *err)
{
    dibs_status status = dibs_pool_remove(cli->handle, cli->argv[1], err);

    if (status == DIBS_OK && cli->json)
        (void) printf("[]\n");
    return status;
}

static const char *const of_ls[] = { "names", NULL };
static const char *const of_set[] = { "ranges", "band", "order", "cooldown", "scope", NULL };
static const struct cli_verb verbs[] = {
    { "ls", NULL, of_ls, list },
    { "show", "the NAME of a pool", NULL, show },
    { "set", "the NAME of a pool", of_set, set },
    { "rm", "the NAME of a pool", NULL, rm },
    { 0 },
};

static const struct cli_opt opts[] = {
    { .name = "ranges", .arg = "RANGES", .help = "its ports, as in 20000-20999,30000" },
    { .name = "band",
      .arg = "BAND",
      .help = "low ports kept for static use: auto, off or a number",
      .words = "auto off" },
    { .name = "order",
      .arg = "ORDER",
      .help = "order of candidates: stride, dcp-stride, random or lowest",
      .words = "stride dcp-stride random lowest" },
    { .name = "cooldown", .arg = "TIME", .help = "rest of a released port, as in 5s" },
    { .name = "scope",
      .arg = "SCOPE",
      .help = "where its ports are unique: host or cluster",
      .words = "host cluster" },
    { .name = "names", .help = "only the names, one a line" },
    { 0 },
};

const struct cli_cmd cmd_pool = {
    .name = "pool",
    .group = CLI_MAINTAIN,
    .args = "[ls | show NAME | set NAME | rm NAME]",
    .summary = "List, make, change or remove pools of ports",
    .details = "The pool `default` is 20000-32767, unless --range says otherwise: registered\n"
               "ports below the range from which systems take the ports of outgoing\n"
               "connections (32768 and above on Linux, 49152 and above elsewhere).\n"
               "\n"
               "`set` makes a pool or changes what is given of it; a new one needs --ranges.\n"
               "Claims outside of a changed range stay, and are shown. `rm` refuses while the\n"
               "pool has claims; removing `default` resets it. Scope `cluster` (a ledger in\n"
               "etcd): a port of the pool is one host's only. A port changes its scope only\n"
               "while no host has a claim on it; otherwise the change is refused.",
    .examples = "dibs pool\ndibs pool set tests --ranges 21000-21999 --cooldown 10s\n"
                "dibs pool show tests\ndibs pool rm tests\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .max_args = 2,
    .args_words = "ls show set rm",
    .verbs = verbs,
};
