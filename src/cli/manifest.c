/* SPDX-License-Identifier: MIT */
#include "cli/manifest.h"

#include <string.h>

#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/claim_options.h"
#include "cli/target.h"
#include "codec/wire.h"
#include "workload/manifest.h"
#include "workload/present.h"

#include "base/banned.h"

enum { PATH_BYTES = 4096 };
enum { VARIABLES_SHOWN = 4, VALUE_BYTES = 60 }; /* of a pod, in one line for people */

static dibs_status load(struct cli *cli, const char *path, const dibs_flag *flags, size_t n, dibs_err *err)
{
    const struct workload_group *group = cli->manifest; /* NULL: unusable; its directory still counts */
    char dir[PATH_BYTES];
    dibs_project_file file = { .dir = dir,
                               .group = group ? group->name : NULL,
                               .settings = group ? group->settings : NULL,
                               .n = group ? group->n_settings : 0 };

    (void) text_copy(dir, sizeof dir, path);
    *strrchr(dir, '/') = '\0';
    if (!dir[0])
        (void) text_copy(dir, sizeof dir, "/");
    return dibs_settings_load_project(&file, flags, n, &cli->settings, err);
}

static dibs_status set_project(struct cli *cli, dibs_err *err)
{
    struct workload_group *group = cli->manifest;
    const char *dir = cli->project.dir;
    dibs_status s = cli_project(cli, err);

    if (s != DIBS_OK)
        return s;
    (void) text_copy(group->group, sizeof group->group, cli->project.group);
    group->project = dir[0] ? dir : NULL;
    return DIBS_OK;
}

static dibs_status load_without(struct cli *cli, const char *path, const dibs_flag *flags, size_t n,
                                dibs_err *err)
{
    bool is_place_known = path[0] && cli->no_manifest.code != DIBS_DENIED;

    workload_free(TAKE(cli->manifest));
    return is_place_known ? load(cli, path, flags, n, err)
                          : dibs_settings_load(flags, n, &cli->settings, err);
}

dibs_status cli_settings_load(struct cli *cli, const dibs_flag *flags, size_t n, dibs_err *err)
{
    char path[PATH_BYTES] = "";
    dibs_status s = workload_manifest_find(cli_value(cli, "project"), path, sizeof path, &cli->no_manifest);

    if (s == DIBS_OK)
        s = workload_manifest_read(path, &cli->manifest, &cli->no_manifest);
    if (s == DIBS_OK)
        s = load(cli, path, flags, n, &cli->no_manifest);
    if (s == DIBS_OK)
        s = set_project(cli, &cli->no_manifest);
    if (s == DIBS_OK || s == DIBS_NOT_FOUND)
        return s == DIBS_OK ? s : dibs_settings_load(flags, n, &cli->settings, err);
    /* Claims ignore another user's manifest, so it is no error for them; a broken one of ours is. */
    if (cli->cmd->flags & (s == DIBS_DENIED ? CLI_MANIFEST : CLI_MANIFEST | CLI_CLAIMS))
        return err_set(err, s, "%s", cli->no_manifest.msg);
    s = load_without(cli, path, flags, n, err);
    if (s == DIBS_OK &&
        !(cli->cmd->flags &
          CLI_REPORTS_MANIFEST)) /* on failure the error says more than a warning about the manifest */
        cli_warn_manifest(cli);
    return s;
}

void cli_warn_manifest(const struct cli *cli)
{
    if (!cli->manifest && cli->no_manifest.code != DIBS_OK && cli->no_manifest.code != DIBS_NOT_FOUND)
        cli_warn("%s", cli->no_manifest.msg);
}

dibs_status cli_need_manifest(struct cli *cli, dibs_err *err)
{
    if (cli->manifest)
        return DIBS_OK;
    /* If the project directory cannot be found at all, report that instead. */
    dibs_status s = cli->no_manifest.code == DIBS_NOT_FOUND ? cli_project(cli, err) : DIBS_OK;
    return s != DIBS_OK ? s : err_set(err, cli->no_manifest.code, "%s", cli->no_manifest.msg);
}

dibs_status cli_open_manifest(struct cli *cli, dibs_err *err)
{
    struct workload_group *group = cli->manifest;
    char name[DIBS_NAME_MAX + 1];
    dibs_status s = cli_need_manifest(cli, err);

    if (s == DIBS_OK)
        s = cli_open(cli, err);
    if (s != DIBS_OK)
        return s;
    /* Ask the ledger for the group's name: another directory may have had it first. */
    (void) snprintf(name, sizeof name, "%s/-", group->group);
    s = dibs_name_locate(cli->handle, name, group->project, name, err);
    if (s != DIBS_OK)
        return s;
    name[strcspn(name, "/")] = '\0';
    (void) text_copy(group->group, sizeof group->group, name);
    return DIBS_OK;
}

/* Find the user's claim of this name. */
static dibs_status find_own(struct cli *cli, const char *typed, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_which which = { .name = name };
    dibs_claim claim = { 0 };
    dibs_status s = cli_name(cli, typed, name, &which.project, err);

    if (s == DIBS_OK)
        s = cli_open(cli, err);
    return s == DIBS_OK ? dibs_claim_find(cli->handle, &which, &claim, err) : s;
}

/* Does the name have the form of the manifest's claims, in a project that has a manifest? */
static bool is_reserved(const struct cli *cli, const char *typed)
{
    char name[DIBS_NAME_MAX + 3];

    (void) snprintf(name, sizeof name, "-/%s", typed); /* whatever the group's name is */
    return cli->manifest && typed[0] != '/' && present_is_manifest_name(name);
}

dibs_status cli_manifest_permits(struct cli *cli, const char *typed, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];

    if (!is_reserved(cli, typed) || cli_manifest_name(cli, typed, name))
        return DIBS_OK;
    dibs_status s = find_own(cli, typed, err);
    if (s != DIBS_NOT_FOUND)
        return s;
    return err_set(
        err, DIBS_INVALID,
        "'%.80s' cannot be a name of your own here: those of four parts with a number or '-' as the "
        "second are the manifest's, and 'dibs up' would release what %s does not have",
        typed, cli->manifest->source);
}

struct nearest {
    struct suggest best;
    char name[SUGGEST_MAX + 1]; /* of `best` */
};

static void offer_name(struct nearest *nearest, const char *name)
{
    suggest_offer(&nearest->best, name);
    if (nearest->best.name == name && text_copy(nearest->name, sizeof nearest->name, name))
        nearest->best.name = nearest->name;
}

static bool offer_claim(void *ctx, const dibs_claim *claim)
{
    char name[DIBS_NAME_MAX + 1];

    offer_name(ctx, cli_short_name(claim->name, name, sizeof name));
    return true;
}

/* Find the role with one port, or the claim of the project, whose name is nearest to the typed one; "" for
 * none. The manifest's ports have been compared before. */
static void nearest_name(struct cli *cli, const char *typed, char out[SUGGEST_MAX + 1])
{
    struct nearest nearest = { .best.wanted = typed };
    struct workload_need need;
    dibs_filter filter = { .principal = dibs_principal_of(cli->handle), .project = cli->project.dir };

    for (size_t i = 0; i < cli->manifest->n_roles; i++)
        if (workload_need_of_role(cli->manifest, cli->manifest->roles[i].name, &need) == DIBS_OK)
            offer_name(&nearest, cli->manifest->roles[i].name);
    if (filter.project[0])
        (void) !dibs_claim_list(cli->handle, &filter, offer_claim, &nearest, NULL);
    (void) text_copy(out, SUGGEST_MAX + 1, nearest.best.name ? nearest.best.name : "");
}

/* Write "; there are: web/-/gossip, web/0/http" for the role that is nearest to the typed name; "" for none.
 */
static void ports_of_nearest(struct cli *cli, const char *typed, char out[DIBS_ERR_MSG_MAX])
{
    struct suggest best = { .wanted = typed };
    struct workload_need need;
    dibs_err why = { 0 };
    const char *list = NULL;

    for (size_t i = 0; i < cli->manifest->n_roles; i++)
        suggest_offer(&best, cli->manifest->roles[i].name);
    if (best.name && workload_need_parse(cli->manifest, best.name, &need, NULL, &why) == DIBS_NOT_FOUND)
        list = strstr(why.msg, "; there are: ");
    (void) text_copy(out, DIBS_ERR_MSG_MAX, list ? list : "");
}

dibs_status cli_manifest_need(struct cli *cli, const char *typed, struct workload_need *out, bool *is_found,
                              dibs_err *err)
{
    bool is_like = false;
    const char *rest = NULL;
    char nearest[SUGGEST_MAX + 1] = "";
    char ports[DIBS_ERR_MSG_MAX] = "";
    dibs_err why = { 0 };

    *is_found = false;
    if (!cli->manifest || typed[0] == '/')
        return DIBS_OK;
    dibs_status s = workload_need_parse(cli->manifest, typed, out, &is_like, &why);
    if (s == DIBS_NOT_FOUND && cli_after_group(cli, typed, &rest, NULL) == DIBS_OK && rest)
        s = workload_need_parse(cli->manifest, rest, out, NULL, &why);
    *is_found = s == DIBS_OK;
    if (s != DIBS_NOT_FOUND)
        return s == DIBS_OK ? s : err_set(err, s, "%s", why.msg);
    /* A mistyped name must not become a new claim: `get` makes one of another name only with --create. */
    if (cli_has(cli, "create") || (!is_like && cli->cmd != &cmd_get))
        return DIBS_OK;
    s = find_own(cli, typed, err);
    if (s == DIBS_INVALID) /* no claim could have that name */
        return err_set(err, DIBS_NOT_FOUND, "%s", why.msg);
    if (s != DIBS_NOT_FOUND)
        return s;
    *is_found = workload_need_of_role(cli->manifest, rest ? rest : typed, out) == DIBS_OK;
    if (*is_found)
        return DIBS_OK;
    if (is_reserved(cli, typed)) /* cli_manifest_permits() says why it cannot be made */
        return is_like ? err_set(err, s, "%s", why.msg) : DIBS_OK;
    if (!strstr(why.msg, "did you mean"))
        nearest_name(cli, rest ? rest : typed, nearest);
    if (!nearest[0] && !strstr(why.msg, "there are"))
        ports_of_nearest(cli, rest ? rest : typed, ports);
    return err_set(err, s, "%s%s%s%s%.300s (a name of your own: dibs %s '%.80s')", why.msg,
                   nearest[0] ? "; did you mean '" : "", nearest, nearest[0] ? "'?" : "", ports,
                   cli->cmd == &cmd_get ? "get --create" : "claim --keep", typed);
}

bool cli_manifest_name(const struct cli *cli, const char *typed, char name[DIBS_NAME_MAX + 1])
{
    struct workload_need need;

    if (!cli->manifest || typed[0] == '/' ||
        workload_need_parse(cli->manifest, typed, &need, NULL, NULL) != DIBS_OK)
        return false;
    return text_copy(name, DIBS_NAME_MAX + 1, need.name);
}

const char *cli_short_name(const char *name, char *out, size_t size)
{
    const char *slash = strchr(name, '/');
    const char *rest = slash ? slash + 1 : name;
    const char *last = strrchr(rest, '/');
    size_t head = last ? (size_t) (last - rest) : 0;

    if (head > 2 && strncmp(last - 2, "/-", 2) == 0)
        (void) snprintf(out, size, "%.*s%s", (int) (head - 2), rest, last);
    else
        (void) text_copy(out, size, rest);
    return out;
}

static const char *const words[] = {
    [WORKLOAD_KEEP] = "keep", [WORKLOAD_ADD] = "add",   [WORKLOAD_MOVE] = "move",
    [WORKLOAD_DROP] = "drop", [WORKLOAD_STAY] = "stay",
};

/* Write "web/0", "web/0/worker.1" for "shop/web/0/-", "shop/web/0/worker.1". */
static const char *pod_name(const char *pod, char *out, size_t size)
{
    (void) cli_short_name(pod, out, size);
    size_t len = strlen(out);
    if (len > 2 && strcmp(out + len - 2, "/-") == 0)
        out[len - 2] = '\0';
    return out;
}

dibs_status cli_advise_stop(const struct cli *cli, dibs_status status, dibs_err *err)
{
    dibs_claim user = { 0 };
    char pod[DIBS_NAME_MAX + 1];
    char shown[DIBS_NAME_MAX + 1];

    if (status != DIBS_TAKEN || !workload_user_of(cli->handle, cli->manifest, &err->blocker, &user))
        return status;
    dibs_blocker blocker = err->blocker;
    (void) snprintf(pod, sizeof pod, "%.*s", (int) present_pod_length(user.name), user.name);
    (void) err_set(err, status,
                   "port %u is needed for another claim, but %s runs with it (pid %d, %s); stop it first",
                   blocker.port, pod_name(pod, shown, sizeof shown), user.process.pid,
                   user.command[0] ? user.command : "?");
    err->blocker = blocker;
    return status;
}

static void write_value(struct jsonw *w, const char *key, const char *text)
{
    jsonw_key(w, key);
    if (text)
        jsonw_string(w, text);
    else
        jsonw_null(w);
}

static void write_restart(struct jsonw *w, const struct workload_restart *restart)
{
    char pod[DIBS_NAME_MAX + 1];

    jsonw_object(w);
    jsonw_key_string(w, "change", "restart");
    jsonw_key_bool(w, "needs_restart", true);
    jsonw_key_string(w, "pod", pod_name(restart->pod, pod, sizeof pod));
    jsonw_key_uint(w, "pods", 1);
    jsonw_key_array(w, "variables");
    for (size_t i = 0; i < restart->n; i++) {
        jsonw_object(w);
        jsonw_key_string(w, "name", restart->all[i].variable);
        write_value(w, "was", restart->all[i].was);
        write_value(w, "now", restart->all[i].now);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    wire_claim_members(w, &restart->claim, true);
    jsonw_end_object(w);
}

static void print_json(struct jsonw *w, const struct workload_plan *plan)
{
    char pod[DIBS_NAME_MAX + 1];

    jsonw_array(w);
    for (size_t i = 0; i < plan->n; i++) {
        const struct workload_change *change = &plan->changes[i];

        jsonw_object(w);
        jsonw_key_string(w, "change", words[change->kind]);
        if (change->kind == WORKLOAD_MOVE)
            jsonw_key_uint(w, "was", change->before->port);
        jsonw_key_bool(w, "needs_restart", change->needs_restart);
        if (change->n_pods > 0) {
            jsonw_key_string(w, "pod", pod_name(change->pod, pod, sizeof pod));
            jsonw_key_uint(w, "pods", change->n_pods);
        }
        wire_claim_members(w, &change->claim, true);
        jsonw_end_object(w);
    }
    for (size_t i = 0; i < plan->n_restarts; i++)
        write_restart(w, &plan->restarts[i]);
    jsonw_end_array(w);
}

void cli_print_changes(struct cli *cli, const struct workload_plan *plan)
{
    char name[DIBS_NAME_MAX + 1];

    if (cli->json) {
        print_json(&cli->w, plan);
        return;
    }
    for (size_t i = 0; i < plan->n; i++) {
        const struct workload_change *change = &plan->changes[i];

        (void) printf("%s %s ", words[change->kind], cli_short_name(change->claim.name, name, sizeof name));
        if (change->kind == WORKLOAD_MOVE)
            (void) printf("%u -> ", change->before->port);
        (void) printf("%u\n", change->claim.port);
    }
}

static void note_change(const struct cli *cli, const struct workload_change *change)
{
    char name[DIBS_NAME_MAX + 1];
    char pod[DIBS_NAME_MAX + 1];
    char more[40] = "";

    (void) cli_short_name(change->claim.name, name, sizeof name);
    (void) pod_name(change->pod, pod, sizeof pod);
    if (change->n_pods > 1)
        (void) snprintf(more, sizeof more, " (and %zu more)", change->n_pods - 1);
    if (change->kind == WORKLOAD_STAY && change->claim.is_kept)
        cli_note(cli, "%s: port %u stays while %s %s; 'dibs up' or 'dibs down' ends it then", name,
                 change->claim.port, pod, change->is_leased ? "has a lease" : "runs");
    else if (change->kind == WORKLOAD_STAY)
        cli_note(cli, "%s: port %u stays with %s, until it ends", name, change->claim.port,
                 change->is_leased ? "its lease" : "the process that runs");
    else
        cli_note(cli, "%s: the process that runs as %s%s does not know of port %u before it is restarted",
                 name, pod, more, change->claim.port);
}

/* Note a process whose variables are out of date, except those that a change has noted already. */
static void note_restart(const struct cli *cli, const struct workload_restart *restart)
{
    char text[DIBS_ERR_MSG_MAX] = ""; /* a note cannot be longer */
    char pod[DIBS_NAME_MAX + 1];
    size_t n = 0;

    for (size_t i = 0; i < restart->n; i++) {
        const struct workload_difference *d = &restart->all[i];
        size_t used = strlen(text);

        if (!d->is_covered && ++n <= VARIABLES_SHOWN)
            (void) snprintf(text + used, sizeof text - used, "%s$%s is %.*s (it has %.*s)", n > 1 ? ", " : "",
                            d->variable, VALUE_BYTES, d->now ? d->now : "gone", VALUE_BYTES,
                            d->was ? d->was : "none");
    }
    if (n > VARIABLES_SHOWN)
        (void) snprintf(text + strlen(text), sizeof text - strlen(text), " and %zu more",
                        n - VARIABLES_SHOWN);
    if (n > 0)
        cli_note(cli, "%s: pid %d (%s) has to be restarted: %s", pod_name(restart->pod, pod, sizeof pod),
                 restart->claim.process.pid, restart->claim.command[0] ? restart->claim.command : "?", text);
}

void cli_note_changes(const struct cli *cli, const struct workload_group *group,
                      const struct workload_plan *plan)
{
    char stay[40] = "";
    const size_t *count = plan->count;

    for (size_t i = 0; i < plan->n; i++)
        if (plan->changes[i].n_pods > 0)
            note_change(cli, &plan->changes[i]);
    for (size_t i = 0; i < plan->n_restarts; i++)
        note_restart(cli, &plan->restarts[i]);
    if (count[WORKLOAD_STAY] > 0)
        (void) snprintf(stay, sizeof stay, ", %zu staying", count[WORKLOAD_STAY]);
    cli_note(cli, "%s: %zu kept, %zu added, %zu moved, %zu dropped%s", group->group, count[WORKLOAD_KEEP],
             count[WORKLOAD_ADD], count[WORKLOAD_MOVE], count[WORKLOAD_DROP], stay);
}
