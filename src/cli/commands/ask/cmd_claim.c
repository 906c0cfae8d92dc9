/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/target.h"

#include "base/banned.h"

/* Return the number of claims: -n, else one per name, else one. */
static dibs_status count_from(const struct cli *cli, size_t *out, dibs_err *err)
{
    int64_t count = cli->argc > 1 ? cli->argc : 1;

    if (cli_has(cli, "count") && cli->argc > 1)
        return err_set(err, DIBS_INVALID, "claim: '--count' goes with one name or none, not with %d",
                       cli->argc);
    if (count > DIBS_BATCH_MAX)
        return err_set(err, DIBS_INVALID, "claim: %d names are more than one call takes (%d)", cli->argc,
                       DIBS_BATCH_MAX);
    dibs_status s = cli_number_from(cli, "count", 1, DIBS_BATCH_MAX, &count, err);

    *out = (size_t) count;
    return s;
}

static dibs_status batch_from(const struct cli *cli, const dibs_request *like, dibs_batch *batch,
                              dibs_err *err)
{
    static const char *const one_port[] = { "port", "prefer", "declare", NULL };
    const char *given = NULL;
    int64_t step = 0;
    dibs_status s = cli_one_of(cli, one_port, &given, err);

    if (s)
        return s;
    if (given && batch->n > 1)
        return err_set(err, DIBS_INVALID, "claim: '--%s' names one port, but %zu are asked for", given,
                       batch->n);
    batch->key = cli_value(cli, "key");
    batch->is_contiguous = cli_has(cli, "contiguous");
    batch->is_dry_run = cli_has(cli, "dry-run");
    if (batch->is_contiguous && like->mode != DIBS_RANDOM)
        return err_set(err, DIBS_INVALID, "claim: '--contiguous' and '--%s' cannot be used together", given);
    if (cli_has(cli, "align") && !batch->is_contiguous)
        return err_set(err, DIBS_INVALID, "claim: '--align' goes with '--contiguous'");
    s = cli_number_from(cli, "align", 1, DIBS_PORT_MAX, &step, err);
    batch->align = (uint32_t) step;
    return s;
}

typedef char name_text[DIBS_NAME_MAX + 1];

/* Name the i-th request. "web" with -n 3 is web/0, web/1, web/2. */
static dibs_status name_request(struct cli *cli, size_t i, name_text *names, dibs_request *request,
                                dibs_err *err)
{
    char text[DIBS_NAME_MAX + 16]; /* a longer name is refused below */
    const char *typed = cli->argv[cli->argc > 1 ? i : 0];
    const char *name = typed;

    if (cli_has(cli, "count")) {
        int n = snprintf(text, sizeof text, "%s/%zu", typed, i);
        if (n > 0 && (size_t) n < sizeof text)
            name = text;
    }
    /* A project `web` may have a batch `web`: its name `web/0` is not a full one. */
    dibs_status s = name != typed && !strchr(typed, '/')
                        ? cli_relative_name(cli, name, names[i], &request->project, err)
                        : cli_claim_name(cli, name, names[i], &request->project, err);
    if (s)
        return s;
    request->name = names[i];
    for (size_t k = 0; k < i; k++) {
        if (!strcmp(names[k], names[i]))
            return err_set(err, DIBS_INVALID, "claim: '%s' is named twice", names[i]);
    }
    return DIBS_OK;
}

static dibs_status claim_on_hosts(struct cli *cli, const dibs_batch *batch, dibs_err *err)
{
    struct cli_hosts hosts;

    if (batch->n > 1 || batch->is_dry_run || batch->key)
        return err_set(err, DIBS_INVALID, "claim: '--hosts' is for one port%s%s",
                       batch->is_dry_run ? ", and not with '--dry-run'" : "",
                       batch->key ? ", and not with '--key'" : "");
    dibs_status s = cli_hosts(cli, &hosts, err);
    if (!s)
        s = cli_open(cli, err);
    if (s)
        return s;
    AUTO(free_auto) dibs_claim *claims = calloc(hosts.n, sizeof *claims);
    s = claims ? dibs_claim_on_hosts(cli->handle, batch->requests, hosts.at, hosts.n, claims, err)
               : err_set(err, DIBS_FAILURE, "out of memory");
    if (!s) /* people need the number only once */
        s = cli_answer(cli, claims, cli->json ? hosts.n : 1, true, err);
    return s;
}

enum { PAUSE_MIN_MS = 20, PAUSE_MAX_MS = 500, WAIT_MAX_MS = 24 * 3600 * 1000 };

static dibs_status wait_from(const struct cli *cli, int64_t *ms, dibs_err *err)
{
    const char *text = cli_value(cli, "wait");
    dibs_status s = text ? dibs_duration_parse(text, ms, err) : DIBS_OK;

    if (!s && text && *ms > WAIT_MAX_MS)
        return err_set(err, DIBS_INVALID, "claim: '--wait' lasts at most a day");
    if (!s && text && cli_has(cli, "dry-run"))
        return err_set(err, DIBS_INVALID, "claim: '--dry-run' and '--wait' cannot be used together");
    return s;
}

/* Claim, and while the ports are held or the pool is exhausted try again until the time is over. Neither a
 * foreign socket's end nor another process's change of the ledger file makes an event, so this asks again, at
 * a growing pace. A name whose claim differs from the request is not waited for. */
static dibs_status claim_by(struct cli *cli, const dibs_batch *batch, int64_t wait_ms, dibs_claim *claims,
                            dibs_err *err)
{
    int64_t end_ms = clock_monotonic_ms() + wait_ms;
    int64_t pause_ms = PAUSE_MIN_MS;

    for (bool is_first = true;; is_first = false) {
        dibs_status s = dibs_claim_ports(cli->handle, batch, claims, err);
        int64_t left_ms = clock_until_ms(end_ms);

        if (wait_ms == 0 || (s != DIBS_TAKEN && s != DIBS_EXHAUSTED) || err->blocker.differs)
            return s;
        if (left_ms == 0)
            return err_wrap(err, s, "waited %s", cli_value(cli, "wait"));
        if (is_first && isatty(STDERR_FILENO))
            cli_note(cli, "waiting for at most %s: %s", cli_value(cli, "wait"), err->msg);
        if (pause_ms > left_ms)
            pause_ms = left_ms;
        (void) poll(NULL, 0, (int) pause_ms);
        pause_ms = 2 * pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : 2 * pause_ms;
        *err = (dibs_err){ 0 };
    }
}

static dibs_status claim_all(struct cli *cli, const dibs_batch *batch, dibs_claim *claims, dibs_err *err)
{
    int64_t wait_ms = 0;
    dibs_status s = wait_from(cli, &wait_ms, err);

    if (!s)
        s = cli_open(cli, err);
    if (!s)
        s = cli_check_hold(cli, batch->requests[0].hold, err);
    if (!s)
        s = claim_by(cli, batch, wait_ms, claims, err);
    if (s)
        return s;
    s = cli_answer(cli, claims, batch->n, true, err);
    if (s)
        return s;
    if (batch->is_dry_run)
        cli_note(cli, "dry run: nothing was reserved");
    return DIBS_OK;
}

static dibs_status request_from(const struct cli *cli, dibs_request *like, dibs_ranges *ranges, dibs_err *err)
{
    dibs_heir heir = { .holder = DIBS_HELD_BY_LEASE, .ttl_ms = cli->settings.ttl_ms };
    bool is_given = false;
    dibs_status s = cli_request_from(cli, like, ranges, err);

    if (!s)
        s = cli_heir_from(cli, &heir, &is_given, err);
    if (!is_given && cli_has(cli, "hosts"))
        heir = (dibs_heir){ .holder = DIBS_HELD_BY_NOBODY, .keep = true };
    like->holder = heir.holder;
    like->pid = heir.pid;
    like->ttl_ms = heir.ttl_ms;
    like->keep = heir.keep;
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    dibs_ranges ranges = { .n = 0 };
    dibs_request like = { .mode = DIBS_RANDOM };
    dibs_batch batch = { .n = 1 };
    dibs_status s = cli_check_brief(cli, err);

    if (!s)
        s = count_from(cli, &batch.n, err);
    if (!s)
        s = request_from(cli, &like, &ranges, err);
    if (!s)
        s = batch_from(cli, &like, &batch, err);
    if (s)
        return s;
    AUTO(free_auto) dibs_request *requests = calloc(batch.n, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(batch.n, sizeof *claims);
    AUTO(free_auto) name_text *names = calloc(batch.n, sizeof *names);
    if (!requests || !claims || !names)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < batch.n; i++) {
        requests[i] = like;
        s = cli->argc ? name_request(cli, i, names, &requests[i], err) : DIBS_OK;
        if (s)
            return s;
    }
    batch.requests = requests;
    if (cli_has(cli, "hosts") && cli_has(cli, "wait"))
        return err_set(err, DIBS_INVALID, "claim: '--hosts' and '--wait' cannot be used together");
    return cli_has(cli, "hosts") ? claim_on_hosts(cli, &batch, err) : claim_all(cli, &batch, claims, err);
}

static const struct cli_opt opts[] = {
    { .name = "count", .letter = 'n', .arg = "N", .help = "this many ports; with NAME: NAME/0, NAME/1, ..." },
    { .name = "contiguous", .help = "the ports follow each other" },
    { .name = "align", .arg = "N", .help = "the first of them is a multiple of N" },
    { .name = "port", .arg = "PORT", .help = "this port or an error" },
    { .name = "prefer", .arg = "PORT", .help = "this port if it can be had" },
    { .name = "declare",
      .arg = "PORT",
      .help = "record that you use this port yourself: it is never chosen" },
    CLI_REQUEST_OPTS,
    { .name = "pid",
      .arg = "PID",
      .help = "held by this process, until it ends; with --port also one that listens there" },
    { .name = "ttl",
      .arg = "TIME",
      .help = "held by a lease of this length (the default, " CLI_TEXT_OF(DIBS_TTL_DEFAULT_MINUTES) "m)" },
    { .name = "keep", .help = "held by nobody, until it is released" },
    { .name = "hosts", .arg = "A,B,C", .help = "one port that is free on all of them, kept on each" },
    { .name = "wait", .arg = "TIME", .help = "wait so long for a port that is held; then exit code 3" },
    { .name = "key", .arg = "KEY", .help = "a second call with the same key gets the same claims" },
    CLI_BRIEF_OPT,
    CLI_CONFIRM_OPT,
    { .name = "dry-run", .help = "show what would be claimed, reserve nothing" },
    { 0 },
};

const struct cli_cmd cmd_claim = {
    .name = "claim",
    .group = CLI_ASK,
    .args = "[NAME]...",
    .summary = "Claim ports and print them, one per line",
    .details = "Claims one port for each NAME, or one without a name, all of them or none.\n"
               "NAME belongs to the project you are in; /NAME does not. The same name gets\n"
               "the same port again.\n"
               "\n"
               "A claim ends with its holder: a process (--pid), a lease (--ttl), or, with\n"
               "--keep, nothing but 'dibs release'. When its time is over, a lease goes on as\n"
               "long as you listen on the port.\n"
               "\n"
               "With --wait a port, name or pool that is in use is tried again until it is free\n"
               "or the time is over.\n"
               "\n"
               "A caller that was interrupted and cannot know whether it has claimed asks again\n"
               "with the same --key, up to 128 bytes, and gets the same claims. A key belongs\n"
               "to one request and is kept as long as its events.\n"
               "\n"
               "With --hosts, in a ledger in etcd, it is one number on all of these hosts, or\n"
               "none: each has a kept claim of that name, to be used there. The daemon does\n"
               "this for administrators only. 'dibs release --hosts' ends them.\n"
               "\n"
               "With --json the answer is an array of claims, each with its token.",
    .examples = "dibs claim\n"
                "dibs claim web api --ttl 1h\n"
                "dibs claim -n 3 worker --contiguous\n"
                "dibs claim dns --proto tcp+udp --address localhost --keep\n",
    .opts = opts,
    .flags = CLI_CLAIMS,
    .max_args = -1,
    .args_words = ":names",
    .run = run,
};
