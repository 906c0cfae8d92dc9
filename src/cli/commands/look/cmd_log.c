/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "cli/claim_options.h"
#include "cli/cli.h"
#include "cli/target.h"
#include "cli/text_table.h"
#include "codec/wire.h"

#include "base/banned.h"

#define DEFAULT_LIMIT 50
#define SEQ_MAX 1000000000000000000 /* above the number of any event, and within the parser's range */

struct history {
    /* filter */
    const char *name; /* absolute; NULL: any */
    uint16_t port;    /* 0: any */
    uint64_t since;
    size_t limit; /* 0: no limit */
    bool is_newest;
    /* Matching events; with a limit and `is_newest` a ring that starts at `oldest`. */
    dibs_event *events;
    size_t n, max, oldest;
    bool is_failed;
};

static void history_auto(struct history *h)
{
    free(h->events);
}

/* Is it the wanted name or one below it? */
static bool name_matches(const char *wanted, const char *name)
{
    size_t len = strlen(wanted);

    return strncmp(wanted, name, len) == 0 && (name[len] == '\0' || name[len] == '/');
}

/* Collect an event. --limit, or the events that the ledger keeps (DIBS_EVENTS_KEPT), bounds the memory. */
static bool collect(void *ctx, const dibs_event *event)
{
    struct history *h = ctx;

    if ((h->name && !name_matches(h->name, event->name)) || (h->port && h->port != event->port))
        return true;
    if (h->limit && h->n == h->limit) {
        h->events[h->oldest] = *event;
        h->oldest = (h->oldest + 1) % h->limit;
        return true;
    }
    h->is_failed = !grow((void **) &h->events, h->n, &h->max, sizeof *h->events);
    if (h->is_failed)
        return false;
    h->events[h->n++] = *event;
    return !h->limit || h->is_newest || h->n < h->limit;
}

static const dibs_event *event_at(const struct history *h, size_t i)
{
    return &h->events[(h->oldest + i) % h->n];
}

/* Write an event's protocols: "tcp,udp". */
static void protos_text(uint8_t protos, char out[16])
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = DIBS_TCP; i <= DIBS_PROTO_MAX; i++) {
        if (!(protos & 1u << i))
            continue;
        int n = snprintf(out + used, 16 - used, "%s%s", used ? "," : "", dibs_proto_text((dibs_proto) i));

        if (n > 0)
            used += (size_t) n;
    }
}

static dibs_status print_table(const struct cli *cli, const struct history *h, dibs_err *err)
{
    static const struct cli_column columns[] = {
        { .title = "SEQ", .rank = 3 },
        { .title = "TIME" },
        { .title = "WHAT" },
        { .title = "PORT" },
        { .title = "PROTOS", .rank = 2 },
        { .title = "NAME", .asks = 24 },
        { .title = "BY", .asks = 16, .rank = 1 },
    };
    struct cli_table table = { 0 };

    char user[CLI_USER_BYTES];
    char actor[CLI_USER_BYTES + 24];

    cli_table_begin(&table, columns, 7);
    for (size_t i = 0; i < h->n; i++) {
        const dibs_event *event = event_at(h, i);
        char text[64] = "";

        cli_table_number(&table, event->seq);
        cli_time(cli, event->time_ms, text);
        cli_table_cell(&table, text);
        cli_table_cell(&table, dibs_event_kind_text(event->kind));
        if (event->port)
            cli_table_number(&table, event->port);
        else
            cli_table_cell(&table, "");
        protos_text(event->protos, text);
        cli_table_cell(&table, text);
        cli_table_cell(&table, event->name);
        (void) snprintf(actor, sizeof actor, "%s pid %d", cli_user(event->actor_uid, user), event->actor_pid);
        cli_table_cell(&table, actor);
    }
    dibs_status status = cli_table_print(&table, stdout, err);

    cli_table_done(&table);
    return status;
}

static dibs_status options(struct cli *cli, struct history *h, char name[DIBS_NAME_MAX + 1], dibs_err *err)
{
    const char *port = cli_value(cli, "port");
    const char *text = cli_value(cli, "name");
    const char *dir = NULL;
    int64_t since = 0;

    h->is_newest = !cli_has(cli, "since");
    int64_t limit = h->is_newest ? DEFAULT_LIMIT : 0;
    dibs_status status = cli_number_from(cli, "since", 0, SEQ_MAX, &since, err);
    if (status == DIBS_OK)
        status = cli_number_from(cli, "limit", 1, DIBS_EVENTS_KEPT, &limit, err);
    h->since = (uint64_t) since;
    h->limit = (size_t) limit;
    if (status == DIBS_OK && port)
        status = dibs_port_parse(port, &h->port, err);
    if (status != DIBS_OK || !text)
        return status;
    h->name = name;
    status = cli_name(cli, text, name, &dir, err);
    return status == DIBS_OK ? dibs_name_locate(cli->handle, name, dir, name, err) : status;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    AUTO(history_auto) struct history h = { 0 };
    char name[DIBS_NAME_MAX + 1] = "";
    dibs_status status = options(cli, &h, name, err);

    if (status != DIBS_OK)
        return status;
    bool is_filtered = h.name || h.port;

    status = dibs_event_list(
        cli->handle, &(dibs_event_query){ h.since, is_filtered ? 0 : h.limit, h.is_newest && !is_filtered },
        collect, &h, err);
    if (status != DIBS_OK)
        return status;
    if (h.is_failed)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (!cli->json)
        return print_table(cli, &h, err);
    cli_begin_list(cli);
    for (size_t i = 0; i < h.n; i++)
        wire_event(&cli->w, event_at(&h, i));
    cli_end_list(cli);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "since", .arg = "SEQ", .help = "events with a higher number, oldest first" },
    { .name = "limit", .letter = 'n', .arg = "N", .help = "at most N events (default 50)" },
    { .name = "name", .arg = "NAME", .help = "only this name and those below it", .words = ":names" },
    { .name = "port", .arg = "PORT", .help = "only this port" },
    { 0 },
};

const struct cli_cmd cmd_log = {
    .name = "log",
    .group = CLI_LOOK,
    .args = "",
    .summary = "Show what happened to claims and pools",
    .details = "The newest 50 events, oldest of them first. With --since every event with a\n"
               "higher number, or the first N of them: a script remembers the last number\n"
               "and asks again.",
    .examples = "dibs log\ndibs log -n 5 --json\ndibs log --since 0 --limit 10\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .run = run,
};
