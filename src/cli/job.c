/* SPDX-License-Identifier: MIT */
#include "cli/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/request.h"

#include "base/banned.h"

/* ---- in the child: becoming the command ---- */

static char *copy(struct job_words *words, const char *text)
{
    char *out = text ? strdup(text) : NULL;

    words->is_short = words->is_short || (text && !out);
    return out;
}

void job_say(struct job_words *words, const char *variable, const char *hole, const char *text)
{
    if (words->n == words->max) {
        size_t max = words->max ? 2 * words->max : 16;
        struct job_word *more = reallocarray(words->all, max, sizeof *more);

        words->is_short = words->is_short || !more;
        if (!more)
            return;
        words->all = more;
        words->max = max;
    }
    words->all[words->n++] = (struct job_word){ copy(words, variable), copy(words, hole), copy(words, text) };
}

void job_say_port(struct job_words *words, const char *variable, const char *hole, uint16_t port)
{
    char text[8];

    (void) snprintf(text, sizeof text, "%u", port);
    job_say(words, variable, hole, text);
}

/* What "{...}" stands for, or NULL. */
static const char *find_hole(const struct job_words *words, const char *text, size_t len)
{
    for (size_t i = 0; i < words->n && len; i++) {
        const char *hole = words->all[i].hole;

        if (hole && strlen(hole) == len && !memcmp(hole, text, len))
            return words->all[i].text;
    }
    return NULL;
}

/* The argument with its holes filled; NULL when there is no memory. "${PORT}" is a shell's. */
static char *filled(const struct job_words *words, const char *arg)
{
    char *out = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&out, &size);

    if (!to)
        return NULL;
    for (const char *p = arg; *p;) {
        bool is_hole = *p == '{' && (p == arg || p[-1] != '$');
        size_t len = is_hole ? strcspn(p + 1, "{}") : 0;
        const char *text = is_hole && p[1 + len] == '}' ? find_hole(words, p + 1, len) : NULL;

        if (text)
            (void) fputs(text, to);
        else
            (void) fputc(*p, to);
        p += text ? len + 2 : 1;
    }
    if (fclose(to)) {
        free(out);
        return NULL;
    }
    return out;
}

int job_become(const struct job *job, const uint16_t *ports)
{
    struct job_words words = { 0 };

    job->say(job->ctx, ports, &words);
    for (size_t i = 0; i < words.n && !words.is_short; i++)
        if (words.all[i].variable && setenv(words.all[i].variable, words.all[i].text, 1))
            return errno;
    for (char **arg = job->argv; *arg && !words.is_short; arg++) {
        char *text = strchr(*arg, '{') ? filled(&words, *arg) : *arg;

        if (!text)
            return ENOMEM;
        *arg = text;
    }
    if (words.is_short || !job->argv[0])
        return ENOMEM;
    (void) execvp(job->argv[0], job->argv);
    return errno;
}

/* ---- in dibs ---- */

const char *job_name(const struct job *job)
{
    const char *slash = strrchr(job->argv[0], '/');

    return slash ? slash + 1 : job->argv[0];
}

/* The process that held it has been stopped, and somebody has seen that before us: the claim is kept by
 * nobody now, and no token of ours names it any more. */
static bool is_left_behind(const struct cli *cli, const dibs_claim *claim)
{
    dibs_claim left = { 0 };
    dibs_err err = { 0 };

    return claim->name[0] &&
           dibs_claim_find(cli->handle, &(dibs_which){ .name = claim->name }, &left, &err) == DIBS_OK &&
           left.id == claim->id && left.holder == DIBS_HELD_BY_NOBODY;
}

void job_let_go(const struct job_claims *claims, bool has_run)
{
    for (size_t i = 0; i < claims->n; i++) {
        const dibs_claim *claim = &claims->claims[i];
        bool is_held = claims->requests[i].holder != DIBS_HELD_BY_NOBODY;
        dibs_which which = { .token = claim->token };
        unsigned flags = has_run || claim->was_kept ? DIBS_RELEASE_UNHOLD : DIBS_RELEASE_UNKEEP;
        dibs_err err = { 0 };
        size_t n = 0;

        if (claim->is_degraded || !which.token[0] || (!is_held && (has_run || claim->was_there)))
            continue;
        dibs_status s = dibs_claim_release(claims->cli->handle, &which, flags, &n, &err);
        if (!s && n == 0 && flags == DIBS_RELEASE_UNKEEP && is_left_behind(claims->cli, claim))
            s = dibs_claim_release(claims->cli->handle, &(dibs_which){ .name = claim->name }, flags, NULL,
                                   &err);
        if (s)
            cli_note(claims->cli, "port %u is released later: %s", claim->port, err.msg);
    }
}

dibs_status job_not_run(struct cli *cli, const char *command, int failed, dibs_err *err)
{
    char shown[64];

    cli->exit_code = failed == ENOENT ? CLI_EXIT_NO_COMMAND : CLI_EXIT_NOT_RUNNABLE;
    return err_os(err, DIBS_FAILURE, failed, "run: cannot run '%s'", cli_safe(command, shown, sizeof shown));
}

static int become(void *ctx, const uint16_t *ports)
{
    return job_become(ctx, ports);
}

/* All is asked for once more: the others must have their numbers still at the moment at which the signs are
 * there, for from then on nobody takes them away. */
static dibs_status add_signs(const struct job_claims *claims, dibs_err *err)
{
    size_t n = claims->n - claims->n_signs;
    const struct job_claims others = { claims->cli, claims->requests, claims->claims, n, 0, NULL };
    const dibs_batch batch = { .requests = claims->requests, .n = claims->n };
    AUTO(free_auto) dibs_claim *again = calloc(claims->n + 1, sizeof *again);
    dibs_status s = again ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");

    for (size_t i = 0; i < claims->n_signs; i++)
        claims->requests[n + i].port = claims->claims[claims->like[i]].port;
    if (!s)
        s = dibs_claim_ports(claims->cli->handle, &batch, again, err);
    if (s || !again) {
        job_let_go(&others, false);
        return s;
    }
    for (size_t i = 0; i < n; i++)
        if (again[i].id == claims->claims[i].id) { /* made for this command a moment ago, or not */
            again[i].was_there = claims->claims[i].was_there;
            again[i].was_kept = claims->claims[i].was_kept;
        }
    memcpy(claims->claims, again, claims->n * sizeof *again);
    for (size_t i = 0; i < claims->n_signs && !s; i++)
        if (claims->requests[n + i].port != again[claims->like[i]].port)
            s = err_set(err, DIBS_TAKEN, "run: port %u was moved just now; run it again",
                        claims->requests[n + i].port);
    if (s)
        job_let_go(claims, false);
    return s;
}

dibs_status job_claim(const struct job_claims *claims, dibs_err *err)
{
    const dibs_batch others = { .requests = claims->requests, .n = claims->n - claims->n_signs };
    dibs_status s = dibs_claim_ports(claims->cli->handle, &others, claims->claims, err);

    return s || claims->n_signs == 0 ? s : add_signs(claims, err);
}

static dibs_status claim_for(const struct job *job, const struct job_claims *claims, pid_t pid, dibs_err *err)
{
    dibs_status s = cli_open(claims->cli, err);

    if (!s && job->may_run)
        s = job->may_run(claims->cli, job->ctx, err);
    for (size_t i = 0; i < claims->n; i++)
        if (claims->requests[i].holder == DIBS_HELD_BY_PROCESS)
            claims->requests[i].pid = pid;
    return s ? s : job_claim(claims, err);
}

/* Every claim is in; the child is told and waited for. */
static dibs_status go(const struct job *job, const struct job_claims *claims, struct child *child,
                      const struct child_signals *signals, dibs_err *err)
{
    AUTO(free_auto) uint16_t *ports = calloc(claims->n + 1, sizeof *ports);
    int failed = 0;

    if (!ports) {
        job_let_go(claims, false);
        child_cancel(child);
        return err_set(err, DIBS_FAILURE, "out of memory");
    }
    for (size_t i = 0; i < job->n; i++)
        ports[i] = claims->claims[i].port;
    cli_tell(claims->cli, claims->claims, job->n);
    child_go(child, ports, job->n);
    int code = child_wait(child, signals, &failed);
    job_let_go(claims, !failed);
    child_cancel(child);
    if (failed)
        return job_not_run(claims->cli, job->argv[0], failed, err);
    claims->cli->exit_code = code;
    return DIBS_OK;
}

dibs_status run_job(struct job *job, const struct job_claims *claims, dibs_err *err)
{
    struct child child = { .pid = 0, .go = -1, .outcome = -1 };
    struct child_signals signals;
    struct child_plan plan = { .name = job_name(job), .n_ports = job->n, .become = become, .ctx = job };
    dibs_status s = child_prepare(&signals, err);

    /* Forked before the ledger is open: a connection does not survive a fork. */
    if (!s)
        s = child_start(&plan, &signals, &child, err);
    if (s)
        return s;
    s = claim_for(job, claims, child.pid, err);
    if (s) {
        child_cancel(&child);
        return s;
    }
    return go(job, claims, &child, &signals, err);
}
