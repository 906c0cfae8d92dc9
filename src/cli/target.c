/* SPDX-License-Identifier: MIT */
#include "cli/target.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/manifest.h"
#include "cli/parse.h"

#include "base/banned.h"

dibs_status cli_project(struct cli *cli, dibs_err *err)
{
    const char *dir = cli_value(cli, "project");

    if (cli->project.group[0])
        return DIBS_OK;
    if (cli->settings.project_dir[0]) /* the manifest's, which was searched in `dir` */
        dir = NULL;
    return dibs_project_find(&cli->settings, dir, &cli->project, err);
}

const char *cli_port_digits(const char *text)
{
    const char *digits = text[0] == ':' ? text + 1 : text;

    return *digits && !digits[strspn(digits, "0123456789")] ? digits : NULL; /* a name is no number */
}

/* ---- whose project? ---- */

static bool has_group(const char *name, const char *group)
{
    size_t n = strlen(group);

    return strncmp(name, group, n) == 0 && name[n] == '/';
}

bool cli_is_of_project(const dibs_project *project, const dibs_claim *claim)
{
    if (project->dir[0])
        return !claim->project[0] || strcmp(claim->project, project->dir) == 0;
    return !claim->project[0] || has_group(claim->name, project->group);
}

static void blame(const dibs_claim *claim, dibs_err *err)
{
    err->blocker = (dibs_blocker){
        .relation = DIBS_REL_OTHER_HOLDER,
        .proto = claim->n_bindings ? claim->bindings[0].proto : DIBS_TCP,
        .address = claim->bindings[0].address,
        .port = claim->port,
        .pid = claim->holder == DIBS_HELD_BY_PROCESS ? claim->process.pid : 0,
        .uid = claim->uid,
        .since_ms = claim->created_ms,
    };
    (void) text_copy(err->blocker.name, sizeof err->blocker.name, claim->name);
    (void) text_copy(err->blocker.command, sizeof err->blocker.command, claim->command);
}

dibs_status cli_check_project(struct cli *cli, const dibs_claim *claim, dibs_err *err)
{
    bool has_option = cli_find_option(cli->cmd, "force", strlen("force"));
    bool may_create = cli->cmd == &cmd_get && cli->argv[0][0] != '/' && !cli_port_digits(cli->argv[0]);
    dibs_err unused = { 0 };

    if (!err)
        err = &unused;
    if (!claim->project[0] || cli_has(cli, "force"))
        return DIBS_OK;
    dibs_status s = cli_project(cli, err);
    if (s != DIBS_OK || cli_is_of_project(&cli->project, claim))
        return s;
    (void) err_set(err, DIBS_TAKEN,
                   has_option ? "port %u is '%s' of another project; add --project '%.300s', or --force%s"
                              : "port %u is '%s' of another project; call dibs in '%.300s'%s",
                   claim->port, claim->name, claim->project,
                   may_create ? "; --create makes a name of this project" : "");
    blame(claim, err);
    return DIBS_TAKEN;
}

/* ---- names ---- */

struct search {
    const char *batch; /* only NAME/0, NAME/1, ... of this name; NULL: any claim */
    bool is_found;
};

bool cli_is_of_batch(const char *name, const char *batch)
{
    const char *number = name + strlen(batch);

    return number[0] == '/' && number[1] && !number[1 + strspn(number + 1, "0123456789")];
}

static bool stop_at_first(void *ctx, const dibs_claim *claim)
{
    struct search *search = ctx;

    search->is_found = !search->batch || cli_is_of_batch(claim->name, search->batch);
    return !search->is_found;
}

/* Is there a claim of this name? For `ls`, also of names below it, and of any user. An unreadable ledger has
 * none: the command itself reports that. */
static bool exists(struct cli *cli, const char *name, const char *dir)
{
    bool is_prefix = cli->cmd == &cmd_ls || cli->cmd == &cmd_log;
    char full[DIBS_NAME_MAX + 1];
    struct search search = { .batch = is_prefix ? NULL : full };
    dibs_filter filter = { .name_prefix = full, .limit = is_prefix ? 1 : 0 };
    dibs_claim claim = { 0 };

    if (!is_prefix) {
        dibs_status s =
            dibs_claim_find(cli->handle, &(dibs_which){ .name = name, .project = dir }, &claim, NULL);

        if (s != DIBS_NOT_FOUND || cli->cmd != &cmd_release) /* `release` ends whole batches */
            return s != DIBS_NOT_FOUND && s != DIBS_INVALID;
    }
    return dibs_name_locate(cli->handle, name, dir, full, NULL) == DIBS_OK &&
           dibs_claim_list(cli->handle, &filter, stop_at_first, &search, NULL) == DIBS_OK && search.is_found;
}

/* Find the group that the current project has in the ledger: another clone may have had its name first. */
static dibs_status real_group(struct cli *cli, char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/-", cli->project.group);
    dibs_status s = dibs_name_locate(cli->handle, out, cli->project.dir, out, err);
    out[strcspn(out, "/")] = '\0';
    return s;
}

dibs_status cli_after_group(struct cli *cli, const char *text, const char **rest, dibs_err *err)
{
    const char *slash = strchr(text, '/');
    char group[DIBS_NAME_MAX + 1];
    size_t stem = strcspn(text, "@~/");

    *rest = NULL;
    if (!slash || slash == text || !slash[1])
        return DIBS_OK;
    dibs_status s = cli_project(cli, err);
    /* The group in the ledger differs from this one at most in its branch or its hash. */
    if (s || stem != strcspn(cli->project.group, "@~") || strncmp(text, cli->project.group, stem) != 0)
        return s;
    if (cli_open(cli, NULL) != DIBS_OK)
        return DIBS_OK;
    s = real_group(cli, group, err);
    if (!s && has_group(text, group))
        *rest = slash + 1;
    return s;
}

const char *cli_in_project(struct cli *cli, const char *text)
{
    const char *rest = NULL;

    return cli_after_group(cli, text, &rest, NULL) == DIBS_OK && rest ? rest : text;
}

/* May a relative name be the full name of a claim of any project? Those of commands that make a claim only if
 * the first part is a group for certain: a project called `web` must not take `web/http` from the others. */
static bool makes_claims(const struct cli *cli)
{
    return cli->cmd == &cmd_claim || cli->cmd == &cmd_run;
}
static bool may_be_full(const struct cli *cli, const char *text)
{
    size_t first = strcspn(text, "/");

    if (!text[first]) /* a group alone, of which `ls` lists the claims */
        return (cli->cmd == &cmd_ls || cli->cmd == &cmd_log) && text[strcspn(text, "@~")];
    return !cli_has(cli, "create") && (!makes_claims(cli) || strcspn(text, "@~") < first);
}

/* Write the name of a role's only port, if `text` is that role and no claim has the name `claimed`. */
static bool role_name(struct cli *cli, const char *text, const char *claimed, const char *dir,
                      char out[DIBS_NAME_MAX + 1])
{
    struct workload_need need;
    bool is_one = !makes_claims(cli) && !cli_has(cli, "create") && cli->cmd != &cmd_ls &&
                  cli->cmd != &cmd_log; /* no prefix */

    return is_one && cli->manifest && workload_need_of_role(cli->manifest, text, &need) == DIBS_OK &&
           cli_open(cli, NULL) == DIBS_OK && !exists(cli, claimed, dir) &&
           text_copy(out, DIBS_NAME_MAX + 1, need.name);
}

/* Write the name for a text without leading slash: that of the manifest's port, the full name if it is a
 * claim's or begins with the current group, else the name in the project. */
static dibs_status name_here(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1], const char **dir,
                             dibs_err *err)
{
    char full[DIBS_NAME_MAX + 1];
    dibs_err why = { 0 };
    const char *rest = NULL;

    if (cli_manifest_name(cli, text, out))
        return DIBS_OK;
    dibs_status s = cli_after_group(cli, text, &rest, err);
    if (s || (rest && cli_manifest_name(cli, rest, out)))
        return s;
    dibs_status relative = dibs_name_resolve(&cli->project, text, out, &why);
    bool is_full = rest || (may_be_full(cli, text) && cli_open(cli, NULL) == DIBS_OK);

    if (is_full && text_copy(full, sizeof full, text) && dibs_name_check(full, NULL) == DIBS_OK) {
        bool is_own = relative == DIBS_OK && exists(cli, out, *dir) && !(rest && exists(cli, full, *dir));

        if (!is_own && (rest || exists(cli, full, NULL))) {
            if (!rest || !role_name(cli, rest, full, *dir, out))
                (void) text_copy(out, DIBS_NAME_MAX + 1, full);
            *dir = rest ? *dir : NULL;
            return DIBS_OK;
        }
    }
    if (relative)
        return err_set(err, relative, "%s", why.msg);
    (void) role_name(cli, text, out, *dir, out);
    return DIBS_OK;
}

dibs_status cli_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1], const char **dir,
                     dibs_err *err)
{
    bool is_absolute = text[0] == '/';
    dibs_status s = is_absolute ? DIBS_OK : cli_project(cli, err);

    *dir = is_absolute || !cli->project.dir[0] ? NULL : cli->project.dir;
    if (s)
        return s;
    return is_absolute ? dibs_name_resolve(&cli->project, text, out, err)
                       : name_here(cli, text, out, dir, err);
}

dibs_status cli_relative_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1],
                              const char **dir, dibs_err *err)
{
    dibs_status s = cli_project(cli, err);

    *dir = cli->project.dir[0] ? cli->project.dir : NULL;
    if (!s && !cli_manifest_name(cli, text, out))
        s = dibs_name_resolve(&cli->project, text, out, err);
    return s ? s : cli_manifest_permits(cli, text, err);
}

static bool take_first(void *ctx, const dibs_claim *claim)
{
    dibs_claim *first = ctx;

    if (claim->project[0])
        *first = *claim;
    return !claim->project[0];
}

/* Refuse a name that begins with the group of another project, as `ls` shows it, instead of making one below
 * the own group. */
static dibs_status check_group(struct cli *cli, const char *text, dibs_err *err)
{
    size_t n = strcspn(text, "/");
    char group[DIBS_NAME_MAX + 1];
    dibs_filter filter = { .name_prefix = group };
    dibs_claim first = { 0 };

    if (strcspn(text, "@~") >= n || !text[n] || n >= sizeof group || cli_open(cli, NULL) != DIBS_OK)
        return DIBS_OK;
    (void) snprintf(group, sizeof group, "%.*s", (int) n, text);
    filter.principal = dibs_principal_of(cli->handle);
    if (dibs_claim_list(cli->handle, &filter, take_first, &first, NULL) != DIBS_OK || !first.project[0] ||
        cli_is_of_project(&cli->project, &first))
        return DIBS_OK;
    return err_set(err, DIBS_TAKEN, "'%.*s' is the group of another project; call dibs in '%.300s'", (int) n,
                   text, first.project);
}

dibs_status cli_claim_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1], const char **dir,
                           dibs_err *err)
{
    dibs_claim claim = { 0 };
    dibs_status s = cli_name(cli, text, out, dir, err);
    bool is_others = !s && !*dir && text[0] != '/' && cli->project.dir[0];

    if (is_others && dibs_claim_find(cli->handle, &(dibs_which){ .name = out }, &claim, NULL) == DIBS_OK)
        s = cli_check_project(cli, &claim, err);
    else if (!s && *dir)
        s = check_group(cli, text, err);
    return s ? s : cli_manifest_permits(cli, text, err);
}

dibs_status cli_which(struct cli *cli, const char *text, dibs_which *out, char name[DIBS_NAME_MAX + 1],
                      dibs_err *err)
{
    const char *digits = cli_port_digits(text);

    *out = (dibs_which){ 0 };
    if (digits)
        return dibs_port_parse(digits, &out->port, err);
    out->name = name;
    return cli_name(cli, text, name, &out->project, err);
}

/* ---- claims ---- */

struct narrowing {
    const dibs_project *project;
    dibs_claim first;
    size_t n;
};

static bool take_own(void *ctx, const dibs_claim *claim)
{
    struct narrowing *all = ctx;

    if (!claim->name[0] || !cli_is_of_project(all->project, claim))
        return true;
    if (all->n++ == 0)
        all->first = *claim;
    return true;
}

/* Of several claims on a port, find the one of the current project. */
static bool narrow(struct cli *cli, uint16_t port, dibs_claim *out)
{
    struct narrowing all = { .project = &cli->project };
    dibs_filter filter = { .port = port, .principal = dibs_principal_of(cli->handle) };

    if (cli_project(cli, NULL) != DIBS_OK ||
        dibs_claim_list(cli->handle, &filter, take_own, &all, NULL) != DIBS_OK || all.n != 1)
        return false;
    *out = all.first;
    return true;
}

dibs_status cli_target(struct cli *cli, const char *typed, struct cli_target *out, dibs_err *err)
{
    dibs_err why = { 0 };

    *out = (struct cli_target){ .which.token = cli_value(cli, "token") };
    dibs_status s = typed ? cli_which(cli, typed, &out->which, out->name, err) : DIBS_OK;
    if (!s)
        s = cli_open(cli, err);
    if (s)
        return s;
    s = dibs_claim_find(cli->handle, &out->which, &out->claim, &why);
    if (s == DIBS_INVALID && out->which.port && narrow(cli, out->which.port, &out->claim))
        s = DIBS_OK;
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK;
    if (s) {
        *(err ? err : &why) = why;
        return s;
    }
    if (!typed)
        return DIBS_OK;
    s = cli_check_project(cli, &out->claim, err);
    /* Act on the name: a moment later the port may belong to another claim. */
    if (!s && out->which.port && out->claim.name[0] && !out->claim.is_damaged) {
        (void) text_copy(out->name, sizeof out->name, out->claim.name);
        out->which = (dibs_which){ .name = out->name };
    }
    return s;
}

dibs_status cli_one_target(struct cli *cli, struct cli_target *out, dibs_err *err)
{
    const char *token = cli_value(cli, "token");

    if (token && cli->argc)
        return err_set(err, DIBS_INVALID, "%s: '--token' already says which claim; '%.64s' is too much",
                       cli->cmd->name, cli->argv[0]);
    if (!token && !cli->argc)
        return err_set(err, DIBS_INVALID, "%s: which claim? usage: dibs %s %s", cli->cmd->name,
                       cli->cmd->name, cli->cmd->args);
    dibs_status s = cli_target(cli, token ? NULL : cli->argv[0], out, err);
    if (s || out->claim.port)
        return s;
    return dibs_claim_find(cli->handle, &out->which, &out->claim, err); /* its message says what is missing */
}

/* Claims below a name. */
struct batch {
    dibs_claim first;
    size_t n;
    char list[300];
};

static bool take_member(void *ctx, const dibs_claim *claim)
{
    struct batch *all = ctx;
    size_t used = strlen(all->list);

    if (all->n++ == 0)
        all->first = *claim;
    (void) snprintf(all->list + used, sizeof all->list - used, "%s%.100s", used ? ", " : "", claim->name);
    return true;
}

dibs_status cli_port_of(struct cli *cli, const char *typed, uint16_t *port, dibs_claim *claim, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_which which;
    struct batch all = { .n = 0 };
    dibs_filter filter = { .name_prefix = name, .principal = dibs_principal_of(cli->handle) };
    dibs_status s = cli_which(cli, typed, &which, name, err);

    *claim = (dibs_claim){ .port = 0 };
    *port = which.port;
    if (s || which.port)
        return s;
    s = dibs_claim_find(cli->handle, &which, claim, err);
    if (s == DIBS_NOT_FOUND && dibs_name_locate(cli->handle, name, which.project, name, NULL) == DIBS_OK &&
        dibs_claim_list(cli->handle, &filter, take_member, &all, NULL) == DIBS_OK && all.n > 0) {
        if (all.n > 1)
            return err_set(err, DIBS_INVALID, "%zu claims begin with '%.100s', say which: %s", all.n, typed,
                           all.list);
        *claim = all.first;
        s = DIBS_OK;
    }
    *port = claim->port;
    return s;
}
