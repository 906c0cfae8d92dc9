/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/claim_options.h"

#include "base/banned.h"

struct target {
    dibs_which which;
    char name[DIBS_NAME_MAX + 1];
    const char *shown;
    dibs_claim claim; /* as found before; port 0: none */
};

/* All targets are tried: the first failure is the answer, the others are warnings. */
struct release {
    struct cli *cli;
    struct cli_hosts hosts; /* n 0: this host */
    size_t n;               /* claims that ended */
    dibs_status status;
};

static dibs_status check(const struct cli *cli, dibs_err *err)
{
    static const char *const whole[] = { "all-mine", "token", NULL };
    const char *given = NULL;
    dibs_status s = cli_one_of(cli, whole, &given, err);

    if (s)
        return s;
    if (given && cli->argc)
        return err_set(err, DIBS_INVALID, "release: '--%s' cannot be used together with names or ports",
                       given);
    if (!given && !cli->argc)
        return err_set(err, DIBS_INVALID, "release: name what to release, or say --all-mine");
    if (cli_has(cli, "hosts") && given)
        return err_set(err, DIBS_INVALID, "release: '--hosts' is for names");
    if (cli_has(cli, "hosts") && cli_has(cli, "force"))
        return err_set(
            err, DIBS_INVALID,
            "release: '--hosts' ends only claims without a holder, so '--force' cannot be used with it");
    return DIBS_OK;
}

static dibs_status read_target(struct release *r, int i, struct target *out, dibs_err *err)
{
    const char *typed = i < r->cli->argc ? r->cli->argv[i] : NULL;
    dibs_status s = DIBS_OK;

    out->which = (dibs_which){ .token = cli_value(r->cli, "token"), .all_mine = cli_has(r->cli, "all-mine") };
    out->shown = typed ? typed : out->which.token ? "this token" : "no claim at all";
    if (typed)
        s = cli_which(r->cli, typed, &out->which, out->name, err);
    return !s && r->hosts.n && !out->which.name
               ? err_set(err, DIBS_INVALID, "release: '--hosts' is for names")
               : s;
}

/* Nothing is queued for later, where it could be lost (INV-11): say what has to be done. */
static dibs_status unreachable(dibs_err *err)
{
    dibs_err why = *err;

    return err_set(err, DIBS_UNAVAILABLE,
                   "%s; a claim that a process or a lease holds ends with it, a kept one stays: release it "
                   "again when the ledger answers",
                   why.msg);
}

/* Find a claim before any is released. INVALID: a name of several claims, or a malformed token. UNAVAILABLE:
 * the ledger cannot be read, so waiting for the release as well is no use. Other errors concern this target
 * alone. */
static dibs_status find_target(const struct release *r, struct target *target, dibs_err *err)
{
    dibs_err own = { 0 };

    if (r->hosts.n || target->which.all_mine)
        return DIBS_OK;
    dibs_status s = dibs_claim_release(r->cli->handle, &target->which, DIBS_RELEASE_DRY_RUN, NULL, &own);
    if (s == DIBS_OK)
        (void) !dibs_claim_find(r->cli->handle, &target->which, &target->claim, NULL);
    if (s != DIBS_INVALID && s != DIBS_UNAVAILABLE)
        return DIBS_OK;
    *err = own;
    return s == DIBS_INVALID ? s : unreachable(err);
}

/* Say what becomes of a claim whose release the ledger did not confirm; OK: it ends without us. */
static dibs_status not_released(const struct release *r, const dibs_claim *claim, dibs_err *err)
{
    dibs_err why = *err;

    if (claim->port == 0)
        return unreachable(err);
    if (claim->is_kept)
        return err_set(err, DIBS_UNAVAILABLE,
                       "%s; the claim on port %u is kept: release it again when the ledger answers", why.msg,
                       claim->port);
    cli_note(r->cli, "the release of port %u is not confirmed, it ends with its %s: %s", claim->port,
             claim->holder == DIBS_HELD_BY_LEASE ? "lease" : "process", why.msg);
    return DIBS_OK;
}

static void release_target(struct release *r, const struct target *target, dibs_err *err)
{
    unsigned flags = cli_has(r->cli, "force") ? DIBS_RELEASE_FORCE : 0;
    dibs_err own = { 0 };
    size_t n = 0;
    dibs_status s =
        r->hosts.n ? dibs_release_on_hosts(r->cli->handle, &target->which, r->hosts.at, r->hosts.n, &n, &own)
                   : dibs_claim_release(r->cli->handle, &target->which, flags, &n, &own);

    bool is_tried = s != DIBS_UNAVAILABLE;
    if (!is_tried)
        s = not_released(r, &target->claim, &own);
    r->n += n;
    if (!s && !n && is_tried)
        cli_note(r->cli, "nothing of yours to release: %.64s", target->shown);
    if (s && r->status)
        cli_warn("%.64s: %s", target->shown, own.msg);
    if (s && !r->status) {
        r->status = s;
        *err = own;
    }
}

/* Do each step for all targets before the next: a mistyped target must be found before a claim ends. */
static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct release r = { .cli = cli };
    int n = cli->argc ? cli->argc : 1;
    char why[DIBS_ERR_MSG_MAX] = "";
    AUTO(free_auto) struct target *targets = calloc((size_t) n, sizeof *targets);

    if (!targets)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = check(cli, err);
    if (!s && cli_has(cli, "hosts"))
        s = cli_hosts(cli, &r.hosts, err);
    for (int i = 0; !s && i < n; i++)
        s = read_target(&r, i, &targets[i], err);
    if (!s)
        s = cli_open(cli, err);
    if (s == DIBS_UNAVAILABLE)
        return unreachable(err);
    for (int i = 0; !s && i < n; i++)
        s = find_target(&r, &targets[i], err);
    if (s)
        return s;
    for (int i = 0; i < n; i++)
        release_target(&r, &targets[i], err);
    if (r.status)
        return r.status;
    if (strcmp(dibs_settings_of(cli->handle)->socket, "none") == 0 &&
        dibs_is_degraded(cli->handle, why, sizeof why))
        cli_warn("degraded, claims in the ledger stay as they are: %s", why);
    cli_print_count(cli, "released", r.n);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "all-mine", .help = "every claim of yours" },
    { .name = "force", .help = "also when it is not known whether its holder lives" },
    { .name = "hosts", .arg = "A,B,C", .help = "what you have by these names on these hosts" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    { 0 },
};

const struct cli_cmd cmd_release = {
    .name = "release",
    .group = CLI_ASK,
    .args = "NAME|PORT... | --all-mine",
    .summary = "End claims",
    .details = "A name or number finds only your own claims, never those of others. Only\n"
               "root ends another user's claim, when root has none of that name. It is no\n"
               "error when there is nothing to end, so it may be called twice. When there are\n"
               "several claims, they are listed and nothing at all is done.\n"
               "\n"
               "When the ledger cannot be written, nothing is queued: a claim that a process\n"
               "or a lease holds ends with it (exit 0 and a note); one that is kept, or cannot\n"
               "be read, has to be released again (exit 6). A port that was given without the\n"
               "ledger is released by its number.\n"
               "\n"
               "With --hosts, end the claims that 'dibs claim --hosts' made and that have no\n"
               "holder, on all these hosts or on none.\n"
               "\n"
               "With --json the answer is how many claims ended.",
    .examples = "dibs release web\n"
                "dibs release --all-mine\n",
    .opts = opts,
    .flags = CLI_SILENT,
    .max_args = -1,
    .args_words = ":names",
    .run = run,
};
