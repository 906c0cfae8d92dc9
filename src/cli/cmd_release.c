/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "cli/request.h"
#include "json/json.h"

#include "base/banned.h"

#define SHOWN_MAX 64

/* Everything is tried; the first failure is the answer, the others are told. */
struct outcome {
    dibs_status status;
    size_t n;
};

static void release_one(const struct cli *cli, const dibs_which *which, const char *what, struct outcome *sum,
                        dibs_err *err)
{
    unsigned flags = cli_has(cli, "force") ? DIBS_RELEASE_FORCE : 0;
    dibs_err own = { 0 };
    size_t n = 0;
    struct cli_hosts hosts = { 0 };
    dibs_status s = cli_has(cli, "hosts") ? cli_hosts(cli, &hosts, &own) : DIBS_OK;

    if (!s && cli_has(cli, "hosts"))
        s = dibs_release_on_hosts(cli->handle, which, hosts.at, hosts.n, &n, &own);
    else if (!s)
        s = dibs_claim_release(cli->handle, which, flags, &n, &own);

    sum->n += n;
    if (!s && !n)
        cli_note(cli, "nothing of yours to release: %s", what);
    if (s && sum->status)
        cli_warn("%s: %s", what, own.msg);
    if (s && !sum->status) {
        sum->status = s;
        *err = own;
    }
}

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
        return err_set(err, DIBS_INVALID,
                       "release: '--hosts' ends nothing that is held, so '--force' does not go with it");
    return DIBS_OK;
}

static void release_targets(const struct cli *cli, struct outcome *sum, dibs_err *err)
{
    dibs_project project = { .dir = "" };

    for (int i = 0; i < cli->argc; i++) {
        char name[DIBS_NAME_MAX + 1];
        char shown[SHOWN_MAX];
        dibs_which which = { 0 };

        if (!cli_which(cli, cli->argv[i], &which, name, &project, err)) /* all were checked before */
            release_one(cli, &which, cli_safe(cli->argv[i], shown, sizeof shown), sum, err);
    }
}

/* A mistyped target must not be found out after half of the others are gone. */
static dibs_status check_targets(const struct cli *cli, dibs_err *err)
{
    dibs_project project = { .dir = "" };
    char name[DIBS_NAME_MAX + 1];
    dibs_status s = DIBS_OK;

    for (int i = 0; !s && i < cli->argc; i++) {
        dibs_which which = { 0 };
        s = cli_which(cli, cli->argv[i], &which, name, &project, err);
    }
    return s;
}

static dibs_status find_one(const struct cli *cli, const dibs_which *which, dibs_err *err)
{
    dibs_err own = { 0 };

    if (dibs_claim_release(cli->handle, which, DIBS_RELEASE_DRY_RUN, NULL, &own) != DIBS_INVALID)
        return DIBS_OK;
    *err = own;
    return DIBS_INVALID;
}

/* Nor one that means several claims, nor what is no token. Other trouble is each target's own. */
static dibs_status find_targets(const struct cli *cli, dibs_err *err)
{
    dibs_project project = { .dir = "" };
    char name[DIBS_NAME_MAX + 1];
    dibs_which which = { .token = cli_value(cli, "token") };
    dibs_status s = which.token ? find_one(cli, &which, err) : DIBS_OK;

    for (int i = 0; !s && i < cli->argc; i++) {
        s = cli_which(cli, cli->argv[i], &which, name, &project, err);
        if (!s && cli_has(cli, "hosts") && !which.name)
            s = err_set(err, DIBS_INVALID, "release: '--hosts' is for names");
        else if (!s && !cli_has(cli, "hosts"))
            s = find_one(cli, &which, err);
    }
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct outcome sum = { .status = DIBS_OK };
    const char *token = cli_value(cli, "token");
    dibs_status s = check(cli, err);

    if (!s)
        s = check_targets(cli, err);
    if (!s)
        s = cli_open(cli, err);
    if (!s)
        s = find_targets(cli, err);
    if (s)
        return s;
    if (token)
        release_one(cli, &(dibs_which){ .token = token }, "this token", &sum, err);
    else if (cli_has(cli, "all-mine"))
        release_one(cli, &(dibs_which){ .all_mine = true }, "no claim at all", &sum, err);
    else
        release_targets(cli, &sum, err);
    if (cli->json && !sum.status) {
        struct json_writer w;
        json_begin(&w, stdout);
        json_object(&w);
        json_key_uint(&w, "released", sum.n);
        json_end_object(&w);
        json_finish(&w);
    }
    return sum.status;
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
    .args = "NAME|PORT... | --all-mine",
    .summary = "End claims",
    .details = "A name or number finds among your own claims; nobody else's is touched, but\n"
               "for root, who ends another's when he has none of his own. It is no error\n"
               "when there is nothing to end, so it may be called twice. When there are\n"
               "several claims, they are listed and nothing at all is done.\n"
               "\n"
               "With --hosts the claims end that 'dibs claim --hosts' has made, while nobody\n"
               "holds them there, of all these hosts or of none.\n"
               "\n"
               "With --json the answer is how many claims ended.",
    .examples = "dibs release web\n"
                "dibs release --all-mine\n",
    .opts = opts,
    .flags = CLI_SILENT,
    .min_args = 0,
    .max_args = -1,
    .args_kind = CLI_NAME,
    .run = run,
};
