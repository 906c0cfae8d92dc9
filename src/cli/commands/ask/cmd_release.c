/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "cli/claim_options.h"
#include "cli/target.h"

#include "base/banned.h"

/* What a target's claim was before; a whole claim takes kilobytes, and --all-mine may have 50,000. */
struct before {
    uint16_t port; /* 0: none was found */
    bool is_kept;
    dibs_holder holder;
    dibs_life life;
};

struct target {
    dibs_which which;
    char name[DIBS_NAME_MAX + 1];
    const char *typed;
    struct before claim;
};

enum { LISTED_MAX = 100 }; /* lines for a person */

/* All targets are tried until the deadline of one call: the first failure is the answer, the others are
 * warnings. */
struct release {
    struct cli *cli;
    struct cli_hosts hosts; /* n 0: this host */
    struct target *targets;
    size_t n_targets, max;
    size_t n;         /* claims that ended */
    int64_t until_ms; /* the deadline; 0: no release has been tried yet */
    dibs_err silent;  /* why the ledger did not answer the last release; OK: it did */
    dibs_status status;
};

static void release_auto(struct release *r)
{
    free(r->targets);
}

static struct before before_of(const dibs_claim *claim)
{
    return (struct before){ claim->port, claim->is_kept, claim->holder, claim->life };
}

static bool is_whole(const struct cli *cli)
{
    return cli_has(cli, "all") || cli_has(cli, "all-mine");
}

static bool is_every_project(const struct cli *cli)
{
    return cli_has(cli, "every-project") || cli_has(cli, "all-mine");
}

static dibs_status check(const struct cli *cli, dibs_err *err)
{
    static const char *const whole[] = { "all", "all-mine", "token", NULL };
    const char *given = NULL;
    dibs_status s = cli_one_of(cli, whole, &given, err);

    if (s)
        return s;
    if (given && cli->argc)
        return err_set(err, DIBS_INVALID, "release: '--%s' cannot be used together with names or ports",
                       given);
    if (!given && !cli->argc)
        return err_set(err, DIBS_INVALID, "release: name what to release, or say --all");
    if (cli_has(cli, "every-project") && (!is_whole(cli) || cli_has(cli, "project")))
        return err_set(err, DIBS_INVALID,
                       "release: '--every-project' goes with '--all', without '--project'");
    if (cli_has(cli, "hosts") && given)
        return err_set(err, DIBS_INVALID, "release: '--hosts' is for names");
    if (cli_has(cli, "hosts") && cli_has(cli, "force"))
        return err_set(
            err, DIBS_INVALID,
            "release: '--hosts' ends only claims without a holder, so '--force' cannot be used with it");
    return DIBS_OK;
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

/* Return storage for one more target; NULL: out of memory. */
static struct target *add_target(struct release *r)
{
    if (!grow((void **) &r->targets, r->n_targets, &r->max, sizeof *r->targets))
        return NULL;
    struct target *target = &r->targets[r->n_targets++];
    *target = (struct target){ .claim.port = 0 };
    return target;
}

/* The name of a target, which may have moved in memory. */
static const dibs_which *which_of(struct target *target)
{
    if (target->which.name)
        target->which.name = target->name;
    return &target->which;
}

/* Find the claim of a target before any is released. INVALID: a name of several claims, or a malformed token.
 * TAKEN: a claim of another project. UNAVAILABLE: the ledger cannot be read, so waiting for the release as
 * well is no use. Other errors concern this target alone. */
static dibs_status find_target(struct release *r, const char *typed, struct target *target, dibs_err *err)
{
    struct cli_target found;
    dibs_err own = { 0 };
    dibs_status dry = dibs_claim_release(r->cli->handle, which_of(target), DIBS_RELEASE_DRY_RUN, NULL, err);

    if (dry == DIBS_UNAVAILABLE)
        return unreachable(err);
    dibs_status s = cli_target(r->cli, typed, &found, &own);
    if (s == DIBS_OK && dry == DIBS_INVALID && found.claim.port == 0)
        return dry; /* several claims of other users, for an administrator */
    bool is_elsewhere = s == DIBS_TAKEN && own.blocker.relation != DIBS_REL_NONE;
    if (s == DIBS_INVALID || is_elsewhere)
        *err = own;
    if (s == DIBS_OK) {
        target->which = found.which;
        memcpy(target->name, found.name, sizeof target->name);
        target->claim = before_of(&found.claim);
    }
    return s == DIBS_INVALID || is_elsewhere ? s : DIBS_OK;
}

struct members {
    struct release *r;
    const char *name; /* of the batch */
    bool is_lost;
    dibs_status status; /* TAKEN: the batch is of another project */
    dibs_err err;
};

/* Add a target for a claim of the batch. */
static bool add_member(void *ctx, const dibs_claim *claim)
{
    struct members *all = ctx;

    if (!cli_is_of_batch(claim->name, all->name))
        return true;
    all->status = cli_check_project(all->r->cli, claim, &all->err);
    if (all->status)
        return false;
    struct target *target = add_target(all->r);
    all->is_lost = !target;
    if (!target)
        return false;
    (void) text_copy(target->name, sizeof target->name, claim->name);
    target->which.name = target->name;
    target->claim = before_of(claim);
    return true;
}

/* Add the claims of a batch of the name. They replace the target when no claim has the name itself. */
static dibs_status add_batch(struct release *r, size_t i, dibs_err *err)
{
    struct target *target = &r->targets[i];
    char name[DIBS_NAME_MAX + 1];
    struct members members = { .r = r, .name = name };
    dibs_filter filter = { .name_prefix = name, .principal = dibs_principal_of(r->cli->handle) };
    const dibs_which *which = which_of(target);
    bool has_claim = target->claim.port != 0;
    size_t n = r->n_targets;

    filter.project = which->project; /* the ledger finds the names of a project by an index */
    if (!target->typed || cli_port_digits(target->typed) || !which->name ||
        dibs_name_locate(r->cli->handle, which->name, which->project, name, NULL) != DIBS_OK ||
        dibs_claim_list(r->cli->handle, &filter, add_member, &members, NULL) != DIBS_OK)
        return DIBS_OK;
    if (members.is_lost)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (members.status) {
        *err = members.err;
        return members.status;
    }
    if (r->n_targets > n && !has_claim)
        r->targets[i] = r->targets[--r->n_targets];
    return DIBS_OK;
}

/* Say what becomes of a claim whose release the ledger did not confirm; OK: it ends without us. */
static dibs_status not_released(const struct release *r, const struct before *claim, dibs_err *err)
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

/* Try the release, unless the ledger has not answered the earlier ones within the time of one call (INV-11).
 */
static dibs_status try_release(struct release *r, struct target *target, size_t *n, dibs_err *err)
{
    dibs *handle = r->cli->handle;
    const dibs_which *which = which_of(target);
    unsigned flags = cli_has(r->cli, "force") ? DIBS_RELEASE_FORCE : 0;

    if (r->until_ms == 0)
        r->until_ms = clock_monotonic_ms() + dibs_settings_of(handle)->timeout_ms;
    if (r->silent.code == DIBS_OK || clock_monotonic_ms() < r->until_ms) {
        r->silent = (dibs_err){ 0 };
        dibs_status s = r->hosts.n ? dibs_release_on_hosts(handle, which, r->hosts.at, r->hosts.n, n, err)
                                   : dibs_claim_release(handle, which, flags, n, err);

        if (s != DIBS_UNAVAILABLE)
            return s;
        r->silent = *err;
    }
    *err = r->silent;
    return DIBS_UNAVAILABLE;
}

static void release_target(struct release *r, struct target *target, dibs_err *err)
{
    const char *shown = target->typed ? target->typed : target->name;
    dibs_err own = { 0 };
    size_t n = 0;
    dibs_status s = try_release(r, target, &n, &own);

    bool is_tried = s != DIBS_UNAVAILABLE;
    if (!is_tried)
        s = not_released(r, &target->claim, &own);
    r->n += n;
    if (!s && !n && is_tried && !is_whole(r->cli))
        cli_note(r->cli, "nothing of yours to release: %.64s", shown);
    if (s && r->status)
        cli_warn("%.64s: %s", shown, own.msg);
    if (s && !r->status) {
        r->status = s;
        *err = own;
    }
}

/* Do each step for all targets before the next: a mistyped target must be found before a claim ends. */
static dibs_status find_targets(struct release *r, dibs_err *err)
{
    struct cli *cli = r->cli;
    int n = cli->argc ? cli->argc : 1;
    dibs_status s = DIBS_OK;

    for (int i = 0; !s && i < n; i++) {
        struct target *target = add_target(r);

        if (!target)
            return err_set(err, DIBS_FAILURE, "out of memory");
        target->which.token = cli_value(cli, "token");
        target->typed = cli->argc ? cli->argv[i] : "this token";
        if (cli->argc)
            s = cli_which(cli, cli->argv[i], &target->which, target->name, err);
        if (!s && r->hosts.n && !target->which.name)
            s = err_set(err, DIBS_INVALID, "release: '--hosts' is for names");
    }
    if (!s)
        s = cli_open(cli, err);
    if (s == DIBS_UNAVAILABLE)
        return unreachable(err);
    for (int i = 0; !s && !r->hosts.n && i < n; i++)
        s = find_target(r, cli->argc ? cli->argv[i] : NULL, &r->targets[i], err);
    for (int i = 0; !s && !r->hosts.n && i < n; i++)
        s = add_batch(r, (size_t) i, err);
    return s;
}

/* ---- --all ---- */

/* Note a claim that is about to end. */
static bool add_claim(void *ctx, const dibs_claim *claim)
{
    struct members *all = ctx;
    struct target *target = add_target(all->r);

    all->is_lost = !target;
    if (!target)
        return false;
    (void) text_copy(target->name, sizeof target->name, claim->name);
    target->which.name = claim->name[0] ? target->name : NULL;
    target->which.port = claim->name[0] ? 0 : claim->port;
    target->claim = before_of(claim);
    return true;
}

static dibs_status list_claims(struct release *r, const char **of, dibs_err *err)
{
    struct cli *cli = r->cli;
    struct members members = { .r = r };
    dibs_filter filter = { .principal = dibs_principal_of(cli->handle), .judge = !is_every_project(cli) };

    *of = "all projects";
    if (!is_every_project(cli)) {
        dibs_status s = cli_project(cli, err);

        if (s)
            return s;
        *of = cli->project.dir[0] ? cli->project.dir : cli->project.group;
        filter.project = cli->project.dir[0] ? cli->project.dir : NULL;
        filter.name_prefix = cli->project.dir[0] ? NULL : cli->project.group;
    }
    dibs_status s = dibs_claim_list(cli->handle, &filter, add_claim, &members, err);
    if (!s && members.is_lost)
        s = err_set(err, DIBS_FAILURE, "out of memory");
    return s;
}

/* Is a person there to answer? */
static bool may_ask(const struct cli *cli)
{
    return !cli_has(cli, "yes") && !cli->json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

static void note_list(const struct release *r)
{
    for (size_t i = 0; i < r->n_targets && i < LISTED_MAX; i++)
        cli_note(r->cli, "%u %s", r->targets[i].claim.port,
                 r->targets[i].name[0] ? r->targets[i].name : "(unnamed)");
    if (r->n_targets > LISTED_MAX)
        cli_note(r->cli, "and %zu more", r->n_targets - LISTED_MAX);
}

static bool is_agreed(const struct release *r, const char *of)
{
    char answer[16] = "";
    char safe[DIBS_PROJECT_MAX + 1];

    (void) fprintf(stderr, "dibs: end %zu claim%s of %s? [y/N] ", r->n_targets, r->n_targets == 1 ? "" : "s",
                   text_safe(of, safe, sizeof safe));
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static dibs_status release_each(struct release *r, dibs_err *err)
{
    size_t n_unknown = 0;

    for (size_t i = 0; i < r->n_targets; i++) {
        if (r->targets[i].claim.life == DIBS_UNKNOWN && !cli_has(r->cli, "force"))
            n_unknown++; /* as with --every-project: no holder that may live loses its port (INV-5) */
        else
            release_target(r, &r->targets[i], err);
    }
    if (n_unknown > 0)
        cli_note(r->cli, "%zu stay%s: it is unknown whether the holder lives; --force ends %s", n_unknown,
                 n_unknown == 1 ? "s" : "", n_unknown == 1 ? "it" : "them");
    return r->status;
}

/* Release every claim of the project, or of all projects: list, ask, end, count. */
static dibs_status release_whole(struct release *r, dibs_err *err)
{
    struct cli *cli = r->cli;
    const dibs_which mine = { .all_mine = true };
    unsigned flags = cli_has(cli, "force") ? DIBS_RELEASE_FORCE : 0;
    const char *of = "";
    dibs_status s = cli_open(cli, err);

    if (s)
        return s == DIBS_UNAVAILABLE ? unreachable(err) : s;
    s = list_claims(r, &of, err);
    /* Without a readable ledger the fallback allocator's claims can end all the same. */
    if (s && !(s == DIBS_UNAVAILABLE && is_every_project(cli)))
        return s == DIBS_UNAVAILABLE ? unreachable(err) : s;
    bool is_listed = s == DIBS_OK;
    bool is_asked = r->n_targets > 0 && may_ask(cli);
    if (is_asked)
        note_list(r);
    if (is_asked && !is_agreed(r, of))
        return err_set(err, DIBS_FAILURE, "release: nothing was released");
    s = is_every_project(cli) ? dibs_claim_release(cli->handle, &mine, flags, &r->n, err)
                              : release_each(r, err);
    if (s == DIBS_UNAVAILABLE)
        return is_every_project(cli) ? unreachable(err) : s; /* each claim says it */
    if (!s && !is_asked)
        note_list(r);
    if (!s && is_listed)
        cli_note(cli, "%zu claim%s of %s ended", r->n, r->n == 1 ? "" : "s", of);
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    AUTO(release_auto) struct release r = { .cli = cli };
    char why[DIBS_ERR_MSG_MAX] = "";
    dibs_status s = check(cli, err);

    if (!s && cli_has(cli, "hosts"))
        s = cli_hosts(cli, &r.hosts, err);
    if (!s)
        s = is_whole(cli) ? release_whole(&r, err) : find_targets(&r, err);
    for (size_t i = 0; !s && !is_whole(cli) && i < r.n_targets; i++)
        release_target(&r, &r.targets[i], err);
    if (s || r.status)
        return s ? s : r.status;
    if (strcmp(dibs_settings_of(cli->handle)->socket, "none") == 0 &&
        dibs_is_degraded(cli->handle, why, sizeof why))
        cli_warn("degraded, claims in the ledger stay as they are: %s", why);
    cli_print_count(cli, "released", r.n);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "all", .help = "every claim of this project" },
    { .name = "every-project", .help = "with --all: of all your projects, and those without one" },
    { .name = "all-mine", .help = "the same as --all --every-project" },
    { .name = "yes", .letter = 'y', .help = "do not ask on a terminal" },
    CLI_PROJECT_OPT,
    { .name = "force", .help = "also of another project, or with a holder that may live" },
    { .name = "hosts", .arg = "A,B,C", .help = "what you have by these names on these hosts" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    { 0 },
};

const struct cli_cmd cmd_release = {
    .name = "release",
    .group = CLI_ASK,
    .args = "NAME|PORT... | --all",
    .summary = "End claims",
    .details = "A name or number finds your own claims in this project, and those without a\n"
               "project. One of another project is exit code 3, and needs --project or\n"
               "--force. NAME also ends NAME/0, NAME/1, ... of 'dibs claim -n'. It is no\n"
               "error when there is nothing to end, so it may be called twice. When there are\n"
               "several claims, they are listed and nothing at all is done. Only root ends\n"
               "another user's claim, when root has none of that name.\n"
               "\n"
               "--all lists and counts what it ends; on a terminal it asks first.\n"
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
                "dibs release --all\n",
    .opts = opts,
    .flags = CLI_SILENT,
    .max_args = -1,
    .args_words = ":names",
    .run = run,
};
