/* SPDX-License-Identifier: MIT */
#include "cli/run/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/listener.h"
#include "cli/run/note.h"
#include "cli/run/pass.h"
#include "hold/confine.h"

#include "base/banned.h"

/* A process that the command has left is given one second to close its socket. */
enum { LEFT_TRIES = 50, LEFT_PAUSE_MS = 20 };

/* ---- in the child ---- */

char *launch_filled(const char *arg, const char *placeholder, const char *text)
{
    struct bytes out = { 0 };
    size_t len = strlen(placeholder);

    for (const char *p = arg; *p;) {
        bool is_here = *p == '{' && (p == arg || p[-1] != '$') && strncmp(p + 1, placeholder, len) == 0 &&
                       p[1 + len] == '}';

        bytes_add(&out, is_here ? text : p, is_here ? strlen(text) : 1);
        p += is_here ? len + 2 : 1;
    }
    bytes_add(&out, "", 1);
    return out.is_lost ? NULL : out.at;
}

void launch_set(struct launch *launch, const char *variable, const char *placeholder, const char *text)
{
    if (variable && setenv(variable, text, 1))
        launch->failed = errno;
    for (char **arg = launch->argv; placeholder && *arg && !launch->failed; arg++) {
        char *now = strchr(*arg, '{') ? launch_filled(*arg, placeholder, text) : *arg;

        if (now)
            *arg = now; /* exec frees the previous one */
        else
            launch->failed = ENOMEM;
    }
}

void launch_set_port(struct launch *launch, const char *variable, const char *placeholder, uint16_t port)
{
    char text[8];

    (void) snprintf(text, sizeof text, "%u", port);
    launch_set(launch, variable, placeholder, text);
}

uint16_t launch_inside(const struct launch *launch, size_t i, uint16_t port)
{
    return launch->as && launch->as[i].inside ? launch->as[i].inside : port;
}

/* Let the kernel refuse all other TCP ports. With --as it asks for the number inside, before the daemon's
 * programs replace it. */
static int confine(const struct launch *launch, const uint16_t *ports)
{
    AUTO(free_auto) uint16_t *own = calloc(2 * launch->n + 1, sizeof *own);
    size_t n = 0;

    if (!own)
        return ENOMEM;
    for (size_t i = 0; i < launch->n; i++)
        if (!launch->may_bind || launch->may_bind(launch, i)) {
            own[n++] = ports[i];
            own[n++] = launch_inside(launch, i, ports[i]);
        }
    return confine_enter(own, n);
}

bool launch_may_confine(const struct cli *cli)
{
    bool is_asked = cli_has(cli, "confine");
    bool can = is_asked && confine_is_possible();

    if (is_asked && !can)
        cli_warn("--confine: this kernel cannot restrict the ports of a command (it needs Landlock of Linux "
                 "6.7); the command may bind any port");
    return can;
}

int launch_exec(void *ctx, const uint16_t *ports)
{
    struct launch *launch = ctx;

    if (launch->as && !run_as_set_outside(launch->as, ports, launch->n))
        return errno;
    if (!run_note_set(launch))
        return errno;
    launch->set_words(launch, ports);
    if (launch->failed)
        return launch->failed;
    if (launch->directory && chdir(launch->directory))
        return errno;
    if (launch->is_confined && (launch->failed = confine(launch, ports)))
        return launch->failed;
    (void) execvp(launch->argv[0], launch->argv);
    return errno;
}

/* ---- in dibs ---- */

const char *launch_name(const struct launch *launch)
{
    const char *slash = strrchr(launch->argv[0], '/');

    return slash ? slash + 1 : launch->argv[0];
}

/* Has another process noticed the child's end first? Then the claim has no holder, and our token is stale. */
static bool is_left_behind(const struct cli *cli, const dibs_claim *claim)
{
    dibs_claim left = { 0 };
    dibs_err err = { 0 };

    return claim->name[0] &&
           dibs_claim_find(cli->handle, &(dibs_which){ .name = claim->name }, &left, &err) == DIBS_OK &&
           left.id == claim->id && left.holder == DIBS_HELD_BY_NOBODY;
}

/* Does the socket of a dead holder's child keep this claim? */
struct orphan {
    uint64_t id;
    bool is_orphan;
};
static bool find_orphan(void *ctx, const dibs_claim *claim)
{
    struct orphan *orphan = ctx;

    if (claim->id == orphan->id)
        orphan->is_orphan = claim->is_orphan;
    return claim->id != orphan->id;
}

/* Does a process that the command has left use the port? It is a child of dibs then, and may be about to end,
 * as the command did: look *tries times at most. */
static bool is_left_in_use(const struct cli *cli, const dibs_claim *claim, int *tries)
{
    struct orphan orphan = { .id = claim->id };

    do {
        siginfo_t info = { 0 };

        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid)
            info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            return false;
        orphan.is_orphan = false;
        if (dibs_claim_list(cli->handle, &(dibs_filter){ .port = claim->port, .judge = true }, find_orphan,
                            &orphan, NULL) != DIBS_OK ||
            !orphan.is_orphan)
            return false;
        (void) nanosleep(&(struct timespec){ .tv_nsec = LEFT_PAUSE_MS * 1000000L }, NULL);
    } while (--*tries > 0);
    return true;
}

/* Release the claims, but not those of ports that processes use which the command has left, if `tries`. */
static void release(const struct launch_claims *claims, bool has_run, int tries)
{
    bool may_leave = tries > 0;

    for (size_t i = 0; i < claims->n; i++) {
        const dibs_claim *claim = &claims->claims[i];
        bool is_held = claims->requests[i].holder != DIBS_HELD_BY_NOBODY;
        dibs_which which = { .token = claim->token };
        unsigned flags = has_run || claim->was_kept ? DIBS_RELEASE_UNHOLD : DIBS_RELEASE_UNKEEP;
        dibs_err err = { 0 };
        size_t n = 0;

        if (claim->is_degraded || !which.token[0] || (!is_held && (has_run || claim->was_there)))
            continue;
        if (may_leave && is_left_in_use(claims->cli, claim, &tries)) {
            cli_note(
                claims->cli,
                "port %u stays claimed: a process that the command has left uses it; 'dibs stop' ends it",
                claim->port);
            continue;
        }
        dibs_status s = dibs_claim_release(claims->cli->handle, &which, flags, &n, &err);
        if (!s && n == 0 && flags == DIBS_RELEASE_UNKEEP && is_left_behind(claims->cli, claim))
            s = dibs_claim_release(claims->cli->handle, &(dibs_which){ .name = claim->name }, flags, NULL,
                                   &err);
        if (s)
            cli_note(
                claims->cli,
                "the release of port %u is not confirmed, it ends with the command unless it is kept: %s",
                claim->port, err.msg);
    }
}

void launch_release(const struct launch_claims *claims, bool has_run)
{
    release(claims, has_run, 0);
}

dibs_status launch_not_run(struct cli *cli, const char *command, int failed, dibs_err *err)
{
    cli->exit_code = failed == ENOENT ? CLI_EXIT_NO_COMMAND : CLI_EXIT_NOT_RUNNABLE;
    return err_os(err, DIBS_FAILURE, failed, "run: cannot run '%.64s'", command);
}

/* Repeat the request, now with the variables. An older daemon refuses these; then nothing is recorded. */
static dibs_status claim_again(const struct launch_claims *claims, dibs_claim *again, dibs_err *err)
{
    const dibs_batch batch = { .requests = claims->requests, .n = claims->n };
    dibs_status s = dibs_claim_ports(claims->cli->handle, &batch, again, err);

    if (s != DIBS_INVALID)
        return s;
    for (size_t i = 0; i < claims->n; i++)
        claims->requests[i].env = NULL;
    return dibs_claim_ports(claims->cli->handle, &batch, again, err);
}

/* Record the variables that the command starts with, and make the declared claims. The other claims must
 * still have their ports then; afterwards no process can take them. */
static dibs_status record(const struct launch_claims *claims, dibs_err *err)
{
    size_t n = claims->n - claims->n_declared;
    struct launch_claims others = *claims;
    AUTO(free_auto) dibs_claim *again = calloc(claims->n + 1, sizeof *again);
    dibs_status s = again ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");

    others.n = n;
    if (!s)
        s = claims->record(claims, claims->ctx, err);
    if (!s)
        s = claim_again(claims, again, err);
    if (s || !again) {
        launch_release(&others, false);
        return s;
    }
    for (size_t i = 0; i < n; i++) {
        const dibs_claim *first = &claims->claims[i];

        if (again[i].id == first->id) { /* the first request says whether the claim is new */
            again[i].was_there = first->was_there;
            again[i].was_kept = first->was_kept;
        }
        if (again[i].port != first->port && !s)
            s = err_set(err, DIBS_TAKEN, "run: port %u was moved just now; run it again", first->port);
    }
    memcpy(claims->claims, again, claims->n * sizeof *again);
    if (s)
        launch_release(claims, false);
    return s;
}

/* Wait until the daemon has put the processes of enforced claims into cgroups: what they start before that
 * could leave their parents, and then belong to nobody. */
static void wait_for_cgroups(const struct launch_claims *claims)
{
    int32_t last = 0;
    dibs_err err = { 0 };

    for (size_t i = 0; i < claims->n; i++) {
        int32_t pid = claims->requests[i].holder == DIBS_HELD_BY_PROCESS ? claims->requests[i].pid : 0;

        if (!pid || pid == last || claims->claims[i].hold != DIBS_HOLD_ENFORCE)
            continue;
        last = pid;
        if (dibs_numbers_set(claims->cli->handle, &(dibs_numbers){ .pid = pid }, &err) != DIBS_OK)
            cli_note(claims->cli,
                     "the command has no cgroup of its own, so a descendant that leaves it may not bind: %s",
                     err.msg);
    }
}

/* Refuse to start on a port that a stranger uses. The commands only connect to ports of references. */
static dibs_status refuse_strangers(const struct launch_claims *claims, dibs_err *err)
{
    size_t n = claims->n - claims->n_declared;
    AUTO(free_auto) dibs_request *bound = calloc(n + 1, sizeof *bound);
    size_t n_bound = 0;

    if (!bound)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (claims->requests[i].holder == DIBS_HELD_BY_PROCESS ||
            (claims->is_shared && claims->is_shared(claims, i)))
            bound[n_bound++] = claims->requests[i];
    return cli_refuse_strangers(claims->cli, bound, n_bound, err);
}

dibs_status launch_claim(const struct launch_claims *claims, dibs_err *err)
{
    const dibs_batch others = { .requests = claims->requests,
                                .n = claims->n - claims->n_declared,
                                .is_contiguous = claims->is_contiguous,
                                .align = claims->align };
    dibs_status s = refuse_strangers(claims, err);

    if (!s)
        s = dibs_claim_ports(claims->cli->handle, &others, claims->claims, err);
    if (!s && claims->record)
        s = record(claims, err);
    if (!s)
        wait_for_cgroups(claims);
    return s;
}

static dibs_status claim_for(const struct launch *launch, const struct launch_claims *claims, pid_t pid,
                             dibs_err *err)
{
    dibs_status s = cli_open(claims->cli, err);

    if (!s && launch->may_run)
        s = launch->may_run(claims->cli, launch->ctx, err);
    for (size_t i = 0; i < claims->n; i++)
        if (claims->requests[i].holder == DIBS_HELD_BY_PROCESS)
            claims->requests[i].pid = pid;
    return s ? s : launch_claim(claims, err);
}

/* Start the notifier. The command has to wait until it serves. */
static dibs_status serve_as(const struct launch *launch, const struct launch_claims *claims,
                            const uint16_t *ports, dibs_err *err)
{
    const struct run_as_command command = {
        .title = "the command", .ports = launch->as, .outside = ports, .n = launch->n
    };
    dibs_status s = run_as_number(claims->cli, &command, err);

    return s ? s : run_as_serve(claims->cli, err);
}

static int take_sockets(void *ctx, int go)
{
    (void) ctx;
    return pass_take(go);
}

enum { TRIES_MAX = 8 }; /* ports that other processes take between the probe and our bind */

/* Claim, and bind the sockets that are passed. A chosen port that is taken meanwhile is replaced. */
static dibs_status claim_and_bind(const struct launch *launch, const struct launch_claims *claims, pid_t pid,
                                  struct pass *pass, dibs_err *err)
{
    for (int tries = 1;; tries++) {
        dibs_status s = claim_for(launch, claims, pid, err);

        if (s || !launch->name_of)
            return s;
        s = pass_open(pass, claims, launch->name_of, launch->ctx, err);
        if (s)
            launch_release(claims, false);
        if (s != DIBS_TAKEN || tries == TRIES_MAX)
            return s;
    }
}

dibs_status launch_run(struct launch *launch, const struct launch_claims *claims, dibs_err *err)
{
    AUTO(free_auto) uint16_t *ports = calloc(launch->n + 1, sizeof *ports);
    struct child child = { .pid = 0, .go = -1, .outcome = -1 };
    struct child_signals signals;
    struct child_options options = { .name = launch_name(launch),
                                     .n_ports = launch->n,
                                     .exec = launch_exec,
                                     .take = launch->name_of ? take_sockets : NULL,
                                     .ctx = launch,
                                     .as = claims->cli->as };
    AUTO(pass_close) struct pass pass = { .n = 0 };
    int failed = 0;

    if (!ports)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = child_prepare(&signals, err);
    run_note_prepare(launch);
    /* Fork before the ledger is open: SQLite's connections do not survive a fork. */
    if (!s)
        s = child_start(&options, &signals, &child, err);
    if (!s)
        s = claim_and_bind(launch, claims, child.pid, &pass, err);
    if (s) {
        child_cancel(&child);
        return s;
    }
    for (size_t i = 0; i < launch->n; i++)
        ports[i] = claims->claims[i].port;
    cli_note_claims(claims->cli, claims->claims, launch->n);
    if (launch->as)
        s = serve_as(launch, claims, ports, err);
    if (s) {
        launch_release(claims, false);
        child_cancel(&child);
        return s;
    }
    run_note_write(claims->cli, launch, launch->title, false, child.pid);
    child_go(&child, ports, launch->n);
    if (launch->name_of)
        (void) pass_send(&pass, child.go, NULL); /* a child that is gone is noticed now */
    pass_close(&pass);
    int code = child_wait(&child, &signals, &failed);
    if (!failed)
        child_cancel(&child); /* what is a child now was left by the command */
    release(claims, !failed, failed ? 0 : LEFT_TRIES);
    child_cancel(&child);
    run_note_remove(claims->cli, launch);
    if (failed)
        return launch_not_run(claims->cli, launch->argv[0], failed, err);
    claims->cli->exit_code = code;
    return DIBS_OK;
}
