/* SPDX-License-Identifier: MIT */
#include "cli/claim_options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/manifest.h"
#include "codec/wire.h"
#include "net/bindings.h"

#include "base/banned.h"

dibs_status cli_open(struct cli *cli, dibs_err *err)
{
    return cli->handle ? DIBS_OK : dibs_open(&cli->settings, &cli->handle, err);
}

dibs_status cli_one_of(const struct cli *cli, const char *const *names, const char **out, dibs_err *err)
{
    const char *found = NULL;

    for (size_t i = 0; names[i]; i++) {
        if (!cli_has(cli, names[i]))
            continue;
        if (found)
            return err_set(err, DIBS_INVALID, "%s: '--%s' and '--%s' cannot be used together", cli->cmd->name,
                           found, names[i]);
        found = names[i];
    }
    *out = found;
    return DIBS_OK;
}

dibs_status cli_bindings_from(const struct cli *cli, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n,
                              dibs_err *err)
{
    dibs_proto protos[PROTO_LIST_MAX] = { DIBS_TCP };
    size_t n_protos = 1;
    const char *text = cli_value(cli, "proto");
    const char *address = cli_value(cli, "address");
    dibs_status s = text ? proto_list(text, protos, &n_protos, err) : DIBS_OK;

    *n = 0;
    for (size_t i = 1; !s && (i == 1 || address); address = cli_value_at(cli, "address", i++))
        s = bindings_add(address ? address : "*", protos, n_protos, out, n, err);
    return s;
}

static dibs_status mode_from(const struct cli *cli, dibs_request *out, dibs_err *err)
{
    static const char *const names[] = { "port", "prefer", "declare", NULL };
    static const dibs_mode modes[] = { DIBS_REQUIRED, DIBS_PREFERRED, DIBS_DECLARED };
    const char *given = NULL;
    dibs_status s = cli_one_of(cli, names, &given, err);

    for (size_t i = 0; given && names[i]; i++) {
        if (given == names[i])
            out->mode = modes[i];
    }
    return s || !given ? s : dibs_port_parse(cli_value(cli, given), &out->port, err);
}

dibs_status cli_hold_from(const struct cli *cli, dibs_hold *out, dibs_err *err)
{
    const char *text = cli_value(cli, "hold");
    unsigned hold = DIBS_HOLD_AUTO;

    while (text && hold <= DIBS_HOLD_ENFORCE && strcmp(text, words_at(&words_hold, hold)) != 0)
        hold++;
    if (hold > DIBS_HOLD_ENFORCE)
        return err_set(err, DIBS_INVALID, "--hold: '%.32s' is none of auto, none, guard, fd, enforce", text);
    /* A process that claims for itself binds the socket itself. */
    if (hold == DIBS_HOLD_FD && !(cli->cmd->flags & CLI_STOP) && !cli_has(cli, "pid"))
        return err_set(err, DIBS_INVALID, "--hold fd: only 'dibs run' can pass a socket to a program");
    *out = (dibs_hold) hold;
    return DIBS_OK;
}

dibs_status cli_check_hold(const struct cli *cli, dibs_hold hold, dibs_err *err)
{
    if (hold != DIBS_HOLD_GUARD || strcmp(dibs_settings_of(cli->handle)->socket, "none") != 0)
        return DIBS_OK;
    return err_set(
        err, DIBS_FAILURE,
        "the level 'guard' cannot be had: this command ends, and no daemon runs that would keep the "
        "guard ('dibs serve'); 'dibs run' needs none");
}

dibs_status cli_request_from(const struct cli *cli, dibs_request *out, dibs_ranges *ranges, dibs_err *err)
{
    static const char *const places[] = { "range", "pool", NULL };
    const char *place = NULL;
    dibs_status s = cli_one_of(cli, places, &place, err);

    /* `run` has its own option --port. */
    if (!s && !(cli->cmd->flags & CLI_STOP))
        s = mode_from(cli, out, err);
    if (!s)
        s = cli_bindings_from(cli, out->bindings, &out->n_bindings, err);
    if (!s)
        s = cli_hold_from(cli, &out->hold, err);
    if (s || !place)
        return s;
    if (place == places[1]) {
        out->pool = cli_value(cli, place);
        return DIBS_OK;
    }
    out->ranges = ranges;
    return dibs_ranges_parse(cli_value(cli, place), ranges, err);
}

dibs_status cli_heir_from(const struct cli *cli, dibs_heir *out, bool *given, dibs_err *err)
{
    static const char *const names[] = { "pid", "ttl", "keep", NULL };
    const char *which = NULL;
    int64_t pid = 0;
    dibs_status s = cli_one_of(cli, names, &which, err);

    *given = which != NULL;
    if (s || !which)
        return s;
    *out = (dibs_heir){ .holder = DIBS_HELD_BY_NOBODY, .keep = which == names[2] };
    if (which == names[0]) {
        out->holder = DIBS_HELD_BY_PROCESS;
        s = cli_number_from(cli, "pid", 1, INT32_MAX, &pid, err);
        out->pid = (int32_t) pid;
    } else if (which == names[1]) {
        out->holder = DIBS_HELD_BY_LEASE;
        s = dibs_duration_parse(cli_value(cli, "ttl"), &out->ttl_ms, err);
        if (!s && (out->ttl_ms <= 0 || out->ttl_ms > DIBS_TTL_MAX_MS))
            s = err_set(err, DIBS_INVALID, "%s: a lease lasts longer than 0 and at most ten years",
                        cli->cmd->name);
    }
    return s;
}

void cli_note_hold(const struct cli *cli, const dibs_claim *claim)
{
    if (claim->hold_note[0])
        cli_note(cli, "port %u has no guard: %s", claim->port, claim->hold_note);
}

void cli_note_claims(const struct cli *cli, const dibs_claim *claims, size_t n)
{
    const char *prefer = cli_value(cli, "prefer");
    uint16_t port = 0;
    bool is_degraded = false;
    bool is_narrowed = false;

    for (size_t i = 0; i < n; i++) {
        is_degraded = is_degraded || claims[i].is_degraded;
        is_narrowed = is_narrowed || claims[i].is_narrowed;
    }
    if (is_degraded) {
        char why[DIBS_ERR_MSG_MAX] = "";
        (void) dibs_is_degraded(cli->handle, why, sizeof why);
        cli_warn("degraded, this is not in the ledger and can be given to others%s%s", why[0] ? ": " : "",
                 why);
    }
    if (strcmp(cli->settings.ledger, "memory:") == 0 && n > 0 && !is_degraded &&
        strcmp(dibs_settings_of(cli->handle)->socket, "none") == 0)
        cli_note(cli, "ledger memory: is forgotten when this command ends: no other process sees this claim");
    for (size_t i = 0; i < n; i++)
        cli_note_hold(cli, &claims[i]);
    if (is_narrowed)
        cli_note(cli, "this host has no IPv6: claimed for IPv4 alone");
    if (!prefer || dibs_port_parse(prefer, &port, NULL) != DIBS_OK || claims[0].port == port)
        return;
    if (claims[0].was_there)
        cli_note(cli, "'%s' keeps its port %u; release it first to have it at %s", claims[0].name,
                 claims[0].port, prefer);
    else
        cli_note(cli, "port %s could not be had, see 'dibs explain %s'", prefer, prefer);
}

dibs_status cli_check_brief(const struct cli *cli, dibs_err *err)
{
    return cli_has(cli, "brief") && !cli->json
               ? err_set(err, DIBS_INVALID, "%s: '--brief' goes with '--json'", cli->cmd->name)
               : DIBS_OK;
}

static void text_or_null(struct jsonw *w, const char *key, const char *text)
{
    jsonw_key(w, key);
    if (text[0])
        jsonw_string(w, text);
    else
        jsonw_null(w);
}

void cli_claim_json(struct cli *cli, const dibs_claim *claim)
{
    struct jsonw *w = &cli->w;
    char holder[256] = "";

    if (!cli_has(cli, "brief")) {
        wire_claim(w, claim, true);
        return;
    }
    if (claim->holder != DIBS_HELD_BY_NOBODY)
        cli_holder(claim, dibs_boot_ms(cli->handle), holder, sizeof holder);
    jsonw_object(w);
    jsonw_key_uint(w, "port", claim->port);
    text_or_null(w, "name", claim->name);
    text_or_null(w, "project", claim->project);
    jsonw_key_string(w, "state", cli_state(claim));
    text_or_null(w, "holder", holder);
    jsonw_end_object(w);
}

dibs_status cli_print_claims(struct cli *cli, const dibs_claim *claims, size_t n, bool is_list, dibs_err *err)
{
    if (is_list)
        cli_begin_list(cli);
    for (size_t i = 0; i < n; i++) {
        if (cli->json)
            cli_claim_json(cli, &claims[i]);
        else
            (void) printf("%u\n", claims[i].port);
    }
    if (is_list)
        cli_end_list(cli);
    return cli_flush(cli, err);
}

dibs_status cli_hosts(const struct cli *cli, struct cli_hosts *out, dibs_err *err)
{
    bool is_whole = text_copy(out->text, sizeof out->text, cli_value(cli, "hosts"));
    char *rest = out->text;

    out->n = 0;
    for (char *at = NULL; (at = strsep(&rest, ","));) {
        if (!is_whole || out->n == DIBS_HOSTS_MAX || !*at)
            return err_set(err, DIBS_INVALID, "'--hosts' takes 1 to %d names, with commas between them",
                           DIBS_HOSTS_MAX);
        out->at[out->n++] = at;
    }
    return DIBS_OK;
}

void cli_take_back(const struct cli *cli, const dibs_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dibs_which which = { .token = claims[i].token };
        dibs_err err = { 0 };

        if (claims[i].was_there || claims[i].is_degraded || !claims[i].token[0])
            continue;
        if (dibs_claim_release(cli->handle, &which, DIBS_RELEASE_FORCE, NULL, &err))
            cli_warn("port %u stays claimed: %s", claims[i].port, err.msg);
    }
}

/* With --confirm, wait until the caller has taken the answer. One that has given up, or has died, cannot know
 * what was claimed. */
static dibs_status wait_for_caller(struct cli *cli, dibs_err *err)
{
    char byte = 0;
    ssize_t n = 1;

    if (!cli_has(cli, "confirm"))
        return DIBS_OK;
    do
        n = read(STDIN_FILENO, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        return DIBS_OK;
    cli->exit_code = CLI_EXIT_READER_GONE;
    return err_set(err, DIBS_FAILURE, "nobody has taken the answer");
}

dibs_status cli_answer(struct cli *cli, const dibs_claim *claims, size_t n, bool is_list, dibs_err *err)
{
    dibs_status s = cli_print_claims(cli, claims, n, is_list, err);

    if (!s)
        s = wait_for_caller(cli, err);
    if (s)
        cli_take_back(cli, claims, n);
    else
        cli_note_claims(cli, claims, n);
    return s;
}
