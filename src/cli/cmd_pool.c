/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/table.h"
#include "wire/wire.h"

#include "base/banned.h"

/* Pools are made by people; the ledger gives them all at once, and usage is asked for afterwards. */
struct pools {
    dibs_pool *item;
    size_t n, room;
    bool is_failed;
};

static void pools_auto(struct pools *pools)
{
    free(pools->item);
}

static bool collect(void *ctx, const dibs_pool *pool)
{
    struct pools *pools = ctx;

    if (pools->n == pools->room) {
        size_t room = pools->room ? 2 * pools->room : 16;
        dibs_pool *item = reallocarray(pools->item, room, sizeof *item);

        pools->is_failed = !item;
        if (!item)
            return false;
        pools->item = item;
        pools->room = room;
    }
    pools->item[pools->n++] = *pool;
    return true;
}

static void pool_row(struct cli_table *table, const dibs_pool *pool, const dibs_pool_usage *usage)
{
    char text[DIBS_RANGES_TEXT_MAX + 1] = "";

    cli_table_cell(table, pool->name);
    dibs_ranges_format(&pool->ranges, text);
    cli_table_cell(table, text);
    cli_table_cell(table, wire_scope_text(pool->scope));
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

static dibs_status print_pools(struct cli *cli, const dibs_pool *pools, size_t n, struct cli_table *table,
                               struct json_writer *w, dibs_err *err)
{
    for (size_t i = 0; i < n; i++) {
        dibs_pool_usage usage = { 0 };
        dibs_status status = dibs_pool_usage_of(cli->handle, pools[i].name, &usage, err);

        if (status != DIBS_OK)
            return status;
        if (cli->json)
            wire_pool(w, &pools[i], &usage);
        else
            pool_row(table, &pools[i], &usage);
    }
    return DIBS_OK;
}

static void print_names(struct cli *cli, const struct pools *pools, struct json_writer *w)
{
    char safe[2 * DIBS_POOL_NAME_MAX] = "";

    for (size_t i = 0; i < pools->n; i++) {
        if (cli->json)
            json_string(w, pools->item[i].name);
        else
            (void) printf("%s\n", cli_safe(pools->item[i].name, safe, sizeof safe));
    }
}

static dibs_status print_table(struct cli *cli, const dibs_pool *pools, size_t n, dibs_err *err)
{
    static const char *const header[] = { "NAME",     "RANGES", "SCOPE",   "BAND",      "ORDER",
                                          "COOLDOWN", "STATIC", "DYNAMIC", "AVAILABLE", "WITHHELD" };
    AUTO(cli_table_done) struct cli_table table = { 0 };

    cli_table_begin(&table, header, 10);
    dibs_status status = print_pools(cli, pools, n, &table, NULL, err);

    return status == DIBS_OK ? cli_table_print(&table, stdout, err) : status;
}

static dibs_status list(struct cli *cli, dibs_err *err)
{
    AUTO(pools_auto) struct pools pools = { 0 };
    struct json_writer w = { 0 };
    bool is_names = cli_has(cli, "names");
    dibs_status status = dibs_pool_list(cli->handle, collect, &pools, err);

    if (status != DIBS_OK)
        return status;
    if (pools.is_failed)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (!cli->json && !is_names)
        return print_table(cli, pools.item, pools.n, err);
    if (cli->json) {
        json_begin(&w, stdout);
        json_array(&w);
    }
    if (is_names)
        print_names(cli, &pools, &w);
    else
        status = print_pools(cli, pools.item, pools.n, NULL, &w, err);
    if (cli->json && status == DIBS_OK) {
        json_end_array(&w);
        json_finish(&w);
    }
    return status;
}

static dibs_status show(struct cli *cli, dibs_err *err)
{
    dibs_pool pool = { 0 };
    struct json_writer w = { 0 };
    dibs_status status = dibs_pool_get(cli->handle, cli->argv[1], &pool, err);

    if (status != DIBS_OK)
        return status;
    if (!cli->json)
        return print_table(cli, &pool, 1, err);
    json_begin(&w, stdout);
    status = print_pools(cli, &pool, 1, NULL, &w, err);
    if (status == DIBS_OK)
        json_finish(&w);
    return status;
}

static dibs_status order_from(const char *text, dibs_pool *pool, dibs_err *err)
{
    char known[256] = "";
    char safe[64] = "";

    for (size_t i = 0; dibs_order_name(i); i++) {
        size_t used = strlen(known);

        if (strcmp(dibs_order_name(i), text) == 0) {
            (void) snprintf(pool->order, sizeof pool->order, "%s", text);
            return DIBS_OK;
        }
        (void) snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", dibs_order_name(i));
    }
    return err_set(err, DIBS_INVALID, "--order: '%s' is none of %s", cli_safe(text, safe, sizeof safe),
                   known);
}

static dibs_status band_from(const char *text, dibs_pool *pool, dibs_err *err)
{
    int64_t band = 0;

    if (strcmp(text, "auto") == 0) {
        pool->band = DIBS_BAND_AUTO;
        return DIBS_OK;
    }
    if (strcmp(text, "off") == 0) {
        pool->band = 0;
        return DIBS_OK;
    }
    dibs_status status =
        cli_number_parse("--band (auto, off or a number)", text, 1, DIBS_PORT_MAX, &band, err);

    if (status == DIBS_OK)
        pool->band = (int32_t) band;
    return status;
}

static dibs_status scope_from(const char *text, dibs_pool *pool, dibs_err *err)
{
    char safe[64] = "";

    if (strcmp(text, "host") == 0)
        pool->scope = DIBS_SCOPE_HOST;
    else if (strcmp(text, "cluster") == 0)
        pool->scope = DIBS_SCOPE_CLUSTER;
    else
        return err_set(err, DIBS_INVALID, "--scope: '%s' is neither host nor cluster",
                       cli_safe(text, safe, sizeof safe));
    return DIBS_OK;
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
    if (status == DIBS_OK && band)
        status = band_from(band, pool, err);
    if (status == DIBS_OK && order)
        status = order_from(order, pool, err);
    if (status == DIBS_OK && cooldown)
        status = dibs_duration_parse(cooldown, &pool->cooldown_ms, err);
    if (status == DIBS_OK && scope)
        status = scope_from(scope, pool, err);
    if (status == DIBS_OK && pool->band > 0 && (uint32_t) pool->band >= dibs_ranges_count(&pool->ranges))
        return err_set(err, DIBS_INVALID, "a band of %d ports leaves nothing of the pool's %u", pool->band,
                       dibs_ranges_count(&pool->ranges));
    return status;
}

/* Does an end of one of the ranges lie in the ephemeral range? */
static bool is_ephemeral(struct cli *cli, const dibs_pool *pool)
{
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);

    size_t i = 0;

    if (!report)
        return false;
    do { /* a pool has at least one range, and a range two ends */
        const dibs_range *range = &pool->ranges.item[i / 2];
        uint16_t port = i % 2 ? range->last : range->first;

        if (dibs_port_explain(cli->handle, &(dibs_port_question){ port, pool->name, NULL, 0 }, report,
                              NULL) != DIBS_OK)
            return false;
        for (size_t r = 0; r < report->n_reasons; r++)
            if (report->reasons[r].kind == DIBS_WHY_EPHEMERAL)
                return true;
    } while (++i < 2 * pool->ranges.n);
    return false;
}

/* Advice only, so what cannot be found out is left unsaid; doctor says it too. */
static void warn_withheld(struct cli *cli, const dibs_pool *pool)
{
    dibs_pool_usage usage = { 0 };
    char safe[2 * DIBS_POOL_NAME_MAX] = "";

    if (dibs_pool_usage_of(cli->handle, pool->name, &usage, NULL) != DIBS_OK || !usage.n_withheld)
        return;
    cli_warn("pool '%s' %s: dynamic choice leaves out %u of its %u ports (see `dibs doctor`)",
             cli_safe(pool->name, safe, sizeof safe),
             is_ephemeral(cli, pool) ? "overlaps the kernel's ephemeral range"
                                     : "has ports that are ephemeral, reserved or refused by browsers",
             usage.n_withheld, usage.size);
}

enum { STRAYS_SHOWN = 8 };

struct strays {
    const dibs_pool *pool;
    size_t n;
    uint16_t port[STRAYS_SHOWN];
};

static bool note_stray(void *ctx, const dibs_claim *claim)
{
    struct strays *strays = ctx;

    if (dibs_ranges_contain(&strays->pool->ranges, claim->port))
        return true;
    if (strays->n < STRAYS_SHOWN)
        strays->port[strays->n] = claim->port;
    strays->n++;
    return true;
}

/* Claims stay when their pool moves away from them. Asked for before it does: afterwards those of other
 * hosts are their hosts' own, and not seen from here. */
static void find_strays(struct cli *cli, struct strays *strays)
{
    const dibs_filter filter = { .pool = strays->pool->name };

    if (dibs_claim_list(cli->handle, &filter, note_stray, strays, NULL) != DIBS_OK)
        strays->n = 0; /* advice only */
}

static void tell_strays(struct cli *cli, const struct strays *strays)
{
    char list[8 * STRAYS_SHOWN] = "";
    size_t used = 0;

    if (strays->n == 0)
        return;
    for (size_t i = 0; i < strays->n && i < STRAYS_SHOWN; i++)
        used += (size_t) snprintf(list + used, sizeof list - used, "%s%u", i ? ", " : "", strays->port[i]);
    cli_note(cli, "%zu claim%s of pool '%s' %s outside of its ranges now, and stay%s: %s%s", strays->n,
             strays->n == 1 ? "" : "s", strays->pool->name, strays->n == 1 ? "is" : "are",
             strays->n == 1 ? "s" : "", list, strays->n > STRAYS_SHOWN ? ", ..." : "");
}

static dibs_status set(struct cli *cli, dibs_err *err)
{
    dibs_pool pool = { .band = DIBS_BAND_AUTO, .cooldown_ms = cli->settings.cooldown_ms };
    const char *name = cli->argv[1];
    char safe[2 * DIBS_POOL_NAME_MAX] = "";
    struct strays strays = { .pool = &pool };
    dibs_status status = dibs_pool_get(cli->handle, name, &pool, err);

    (void) cli_safe(name, safe, sizeof safe);
    if (status == DIBS_NOT_FOUND) {
        if (strlen(name) > DIBS_POOL_NAME_MAX)
            return err_set(err, DIBS_INVALID, "a pool's name has at most %d bytes", DIBS_POOL_NAME_MAX);
        if (!cli_has(cli, "ranges"))
            return err_set(err, DIBS_INVALID, "there is no pool '%s' yet; --ranges would make it", safe);
        (void) snprintf(pool.name, sizeof pool.name, "%s", name);
        (void) snprintf(pool.order, sizeof pool.order, "%s", dibs_order_name(0));
        status = DIBS_OK;
    }
    if (status == DIBS_OK)
        status = options(cli, &pool, err);
    if (status == DIBS_OK)
        find_strays(cli, &strays);
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

static const struct verb {
    const char *name;
    bool has_name;
    dibs_status (*run)(struct cli *cli, dibs_err *err);
} verbs[] = {
    { "ls", false, list },
    { "show", true, show },
    { "set", true, set },
    { "rm", true, rm },
};

static dibs_status run(struct cli *cli, dibs_err *err)
{
    static const char *const of_set[] = { "ranges", "band", "order", "cooldown", "scope" };
    const char *word = cli->argc ? cli->argv[0] : "ls";
    char safe[64] = "";

    for (size_t i = 0; i < sizeof of_set / sizeof of_set[0]; i++)
        if (cli_has(cli, of_set[i]) && strcmp(word, "set") != 0)
            return err_set(err, DIBS_INVALID, "--%s belongs to `dibs pool set`", of_set[i]);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, word) != 0)
            continue;
        if (verbs[i].has_name != (cli->argc == 2))
            return err_set(err, DIBS_INVALID,
                           verbs[i].has_name ? "`dibs pool %s` needs the NAME of a pool"
                                             : "`dibs pool %s` takes no name",
                           word);
        return verbs[i].run(cli, err);
    }
    return err_set(err, DIBS_INVALID, "'%s' is none of ls, show, set, rm", cli_safe(word, safe, sizeof safe));
}

static const struct cli_opt opts[] = {
    { .name = "ranges", .arg = "RANGES", .help = "its ports, as in 20000-20999,30000" },
    { .name = "band",
      .arg = "BAND",
      .help = "low ports kept for static use: auto, off or a number",
      .kind = CLI_WORDS,
      .words = "auto off" },
    { .name = "order",
      .arg = "ORDER",
      .help = "order of candidates",
      .kind = CLI_WORDS,
      .words = "stride dcp-stride random lowest" },
    { .name = "cooldown", .arg = "TIME", .help = "rest of a released port, as in 5s" },
    { .name = "scope",
      .arg = "SCOPE",
      .help = "where its ports are unique: host or cluster",
      .kind = CLI_WORDS,
      .words = "host cluster" },
    { .name = "names", .help = "only the names, one a line" },
    { 0 },
};

const struct cli_cmd cmd_pool = {
    .name = "pool",
    .args = "[ls | show NAME | set NAME | rm NAME]",
    .summary = "List, make, change or remove pools of ports",
    .details = "`set` makes a pool or changes what is given of it; a new one needs --ranges.\n"
               "Claims outside of a changed range stay, and are told. `rm` refuses while the\n"
               "pool has claims; removing `default` resets it. Scope `cluster` (a ledger in\n"
               "etcd): a port of the pool is one host's only. Claims that hosts have there\n"
               "already go along; a port that two of them have is refused with both names.",
    .examples = "dibs pool\ndibs pool set tests --ranges 21000-21999 --cooldown 10s\n"
                "dibs pool show tests\ndibs pool rm tests\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .max_args = 2,
    .args_kind = CLI_WORDS,
    .args_words = "ls show set rm",
    .run = run,
};
