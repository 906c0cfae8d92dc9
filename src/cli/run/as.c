/* SPDX-License-Identifier: MIT */
#include "cli/run/as.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/file.h"
#include "cli/run/child.h"
#include "net/proto.h"

#include "base/banned.h"

enum { END_LOOKS = 100, END_LOOK_US = 10000 }; /* a second */

struct run_as {
    bool is_in_kernel; /* the daemon's programs do it, without a filter, a notifier and a second process */
    struct as_filter *filter;
    struct as_tree *trees; /* one for each command that was started */
    pid_t *pids;           /* their processes */
    size_t n;
    struct as_notifier *notifier;
    struct run_as_any *any; /* NULL: only the given numbers */
    int met[2];             /* the new process writes its listener (by eBPF: 0), or a negative errno */
    int first;              /* write end for the first process: exit code + 1 */
    bool is_init;           /* orphans of the commands are our children */
};

/* ---- what is asked for ---- */

dibs_status run_as_parse(const char *text, size_t *name_size, struct run_as_port *out, dibs_err *err)
{
    const char *equals = strrchr(text, '=');
    const char *slash = strrchr(equals ? equals : text, '/');
    const char *number = equals ? equals + 1 : text;
    size_t len = slash ? (size_t) (slash - number) : strlen(number);
    dibs_proto protos[PROTO_LIST_MAX] = { DIBS_TCP };
    size_t n = 1;
    char digits[8] = "";
    struct run_as_port port = { .is_own = true };

    if (len < sizeof digits)
        (void) snprintf(digits, sizeof digits, "%.*s", (int) len, number);
    dibs_status s = dibs_port_parse(len < sizeof digits ? digits : number, &port.inside, err);
    if (!s && slash)
        s = proto_list(slash + 1, protos, &n, err);
    for (size_t i = 0; i < n && !s; i++) {
        port.has_tcp = port.has_tcp || protos[i] == DIBS_TCP;
        port.has_udp = port.has_udp || protos[i] == DIBS_UDP;
        if (protos[i] != DIBS_TCP && protos[i] != DIBS_UDP)
            s = err_set(err, DIBS_INVALID, "run: --as %.64s: only tcp and udp have numbers inside", text);
    }
    if (s)
        return s;
    *name_size = equals ? (size_t) (equals - text) : 0;
    *out = port;
    return DIBS_OK;
}

/* Find the file of a command as execvp() does; false: none. */
static bool find_program(const char *command, char *out, size_t size)
{
    const char *path = getenv("PATH");

    if (strchr(command, '/'))
        return (size_t) snprintf(out, size, "%s", command) < size;
    for (const char *at = path ? path : "/bin:/usr/bin"; *at;) {
        size_t len = strcspn(at, ":");

        if ((size_t) snprintf(out, size, "%.*s/%s", (int) len, at, command) < size && access(out, X_OK) == 0)
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

dibs_status run_as_check(const char *command, dibs_err *err)
{
    static const char *const engines[] = { "docker", "docker-compose", "podman", "podman-compose",
                                           "nerdctl" };
    const char *slash = strrchr(command, '/');
    char path[4096];
    struct stat file = { 0 };

    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (strcmp(slash ? slash + 1 : command, engines[i]) == 0)
            cli_warn("--as does not reach into containers: their engine binds a published port (-p), not a "
                     "process of '%s'",
                     command);
    if (geteuid() == 0 || !find_program(command, path, sizeof path) || stat(path, &file))
        return DIBS_OK;
    if ((file.st_mode & S_ISUID) || (file.st_mode & S_ISGID) ||
        getxattr(path, "security.capability", NULL, 0) > 0)
        return err_set(err, DIBS_INVALID,
                       "run: %s gets rights when it starts (setuid, setgid or capabilities), and --as "
                       "takes that away from a command (no_new_privs): start what it would run",
                       path);
    return DIBS_OK;
}

/* ---- the first process ---- */

/* Forward signals and wait for the second process, or for the exit code that it hands over. */
static void wait_for_second(struct cli *cli, struct child *second, const struct child_signals *signals)
{
    int code_and_1 = 0;
    int code = child_wait(second, signals, &code_and_1);

    if (!code_and_1 && code == 128 + SIGKILL)
        cli_warn("the process that gives the command its port numbers was killed. The command runs on, but "
                 "its bind and connect fail with 'Function not implemented': restart it");
    cli->exit_code = code_and_1 ? code_and_1 - 1 : code;
    fd_auto(&second->outcome);
}

/* Fork. The first process stays here until the second one has ended or has handed over its exit code. */
static dibs_status split(struct cli *cli, struct run_as *as, bool *is_first, dibs_err *err)
{
    struct child second = { .go = -1, .outcome = -1, .is_dibs = true };
    struct child_signals signals;
    int outcome[2];

    if (pipe2(outcome, O_CLOEXEC))
        return err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe");
    dibs_status s = child_prepare(&signals, err);
    (void) fflush(NULL);
    second.pid = s ? -1 : fork();
    if (second.pid < 0) {
        (void) close(outcome[0]);
        (void) close(outcome[1]);
        return s ? s : err_os(err, DIBS_FAILURE, errno, "run: cannot start a process");
    }
    *is_first = second.pid > 0;
    (void) close(outcome[*is_first ? 1 : 0]);
    if (*is_first) {
        second.outcome = outcome[0];
        wait_for_second(cli, &second, &signals);
        return DIBS_OK;
    }
    child_restore(&signals);
    as->first = outcome[1];
    as->is_init = as_needs_descendants() && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
    return DIBS_OK;
}

/* Choose between the two ways: the daemon's programs in the kernel cost a call nothing, but only some daemons
 * have them. */
static dibs_status choose_way(struct cli *cli, const struct run_as_options *options, bool *is_in_kernel,
                              dibs_err *err)
{
    const char *way = cli_value(cli, "as-by");
    dibs_err no_ledger = { 0 };

    *is_in_kernel = false;
    if (way && strcmp(way, "seccomp") != 0 && strcmp(way, "bpf") != 0)
        return err_set(err, DIBS_INVALID, "run: --as-by %.32s: there are seccomp and bpf", way);
    if (as_is_served()) /* it would answer the calls before the kernel's programs see them */
        return err_set(err, DIBS_FAILURE,
                       "run: --as cannot work here: this is the command of another "
                       "'dibs run --as', whose numbers it has");
    if (way && strcmp(way, "seccomp") == 0)
        return DIBS_OK;
    if (options->is_passed) /* the kernel's programs are those of the cgroup in which a socket was made */
        return way ? err_set(err, DIBS_INVALID, "run: --as-by bpf does not know sockets that dibs passes")
                   : DIBS_OK;
    if (options->is_any) /* a program in the kernel cannot wait for the ledger */
        return way ? err_set(err, DIBS_INVALID, "run: --as any works by seccomp alone") : DIBS_OK;
    /* Without a ledger the claim will say why. It must not be open in the child. */
    *is_in_kernel = cli_open(cli, &no_ledger) == DIBS_OK && dibs_is_enforced(cli->handle);
    dibs_close(cli->handle);
    cli->handle = NULL;
    if (way && !*is_in_kernel)
        return err_set(err, DIBS_UNAVAILABLE, "run: --as-by bpf needs a daemon with 'dibs serve --enforce'");
    return DIBS_OK;
}

dibs_status run_as_begin(struct cli *cli, const struct run_as_options *options, bool *is_first, dibs_err *err)
{
    AUTO(free_auto) struct run_as *as = calloc(1, sizeof *as);

    *is_first = false;
    if (!as)
        return err_set(err, DIBS_FAILURE, "out of memory");
    *as = (struct run_as){ .met = { -1, -1 }, .first = -1 };
    dibs_status s = choose_way(cli, options, &as->is_in_kernel, err);
    if (!s && options->is_any)
        as->any = run_as_any_new(cli);
    if (!s && options->is_any && !as->any)
        s = err_set(err, DIBS_FAILURE, "out of memory");
    if (!s && !as->is_in_kernel)
        s = as_filter_make(options->has_udp || options->is_any, &as->filter, err);
    if (!s && !as->is_in_kernel && geteuid() == 0 && !as_reaches_other_users())
        cli_note(cli, "without CAP_SYS_PTRACE --as reaches only processes of root: one that gives up root "
                      "has the real numbers");
    if (!s && !as->is_in_kernel)
        s = split(cli, as, is_first, err);
    if (s || *is_first) {
        as_filter_free(as->filter);
        run_as_any_free(as->any);
    } else {
        cli->as = TAKE(as);
    }
    return s;
}

/* ---- the second process ---- */

/* Leave the terminal and the caller's pipes: nothing that the caller waits for may depend on us. */
static void detach(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd <= 2 && nothing >= 0; fd++)
        (void) dup2(nothing, fd);
    (void) setsid();
}

static void run_as_free(struct run_as *as)
{
    for (size_t i = 0; i < as->n; i++) {
        fd_auto(&as->trees[i].listener);
        free(as->trees[i].numbers);
    }
    free(as->trees);
    free(as->pids);
    run_as_any_free(as->any);
    as_filter_free(as->filter);
    fd_auto(&as->first);
    free(as);
}

void run_as_end(struct cli *cli, dibs_status status)
{
    struct run_as *as = cli->as;

    if (!as)
        return;
    if (!status && as->notifier) {
        int code_and_1 = cli->exit_code + 1;

        dibs_close(cli->handle);
        cli->handle = NULL;
        (void) cli_write_all(as->first, &code_and_1, sizeof code_and_1);
        (void) kill(getppid(), SIGCHLD); /* the first process waits for it */
        detach();
        while (as->is_init && (waitpid(-1, NULL, 0) > 0 || errno == EINTR))
            ;
    }
    /* After a failure nothing runs; but dibs has to say why, and does not wait for what should not be there.
     */
    for (int i = 0; status && as->notifier && as_notifier_serves(as->notifier) && i < END_LOOKS; i++)
        (void) usleep(END_LOOK_US);
    if (!status || !as->notifier || !as_notifier_serves(as->notifier)) {
        as_notifier_finish(as->notifier);
        run_as_free(as);
    }
    cli->as = NULL;
}

dibs_status run_as_before(struct run_as *as, dibs_err *err)
{
    struct as_tree *more = reallocarray(as->trees, as->n + 1, sizeof *more);

    if (!more)
        return err_set(err, DIBS_FAILURE, "out of memory");
    as->trees = more;
    as->trees[as->n] = (struct as_tree){ .listener = -1 };
    pid_t *pids = reallocarray(as->pids, as->n + 1, sizeof *pids);
    if (!pids)
        return err_set(err, DIBS_FAILURE, "out of memory");
    as->pids = pids;
    return pipe2(as->met, O_CLOEXEC) ? err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe") : DIBS_OK;
}

/* A program with more rights than its user must not believe in the user's numbers. Root has all anyway. */
static int give_up_rights(void)
{
    return geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? -errno : 0;
}

void run_as_enter(struct run_as *as)
{
    int result = as->is_in_kernel ? give_up_rights() : as_filter_load(as->filter);

    (void) cli_write_all(as->met[1], &result, sizeof result);
    if (result < 0)
        _exit(1);
}

dibs_status run_as_meet(struct run_as *as, pid_t pid, dibs_err *err)
{
    AUTO(fd_auto) int from = as->met[0];
    int result = -EPIPE;

    as->pids[as->n] = pid;
    (void) close(as->met[1]);
    as->met[0] = as->met[1] = -1;
    while (read(from, &result, sizeof result) < 0 && errno == EINTR)
        ;
    if (as->is_in_kernel && result < 0) /* the daemon refuses a process that can still gain rights */
        return err_os(err, DIBS_FAILURE, -result, "run: no_new_privs");
    if (!as->is_in_kernel && result >= 0)
        result = as_borrow(pid, result);
    if (result < 0)
        return err_os(err, DIBS_FAILURE, -result, "run: --as cannot work here: %s", as_filter_why(-result));
    if (!as->is_in_kernel)
        as->trees[as->n].listener = result;
    as->n++;
    return DIBS_OK;
}

bool run_as_set_outside(const struct run_as_port *ports, const uint16_t *outside, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char variable[40];
        char text[8];

        if (!ports[i].inside)
            continue;
        (void) snprintf(variable, sizeof variable, "DIBS_OUTSIDE_PORT_%u", ports[i].inside);
        (void) snprintf(text, sizeof text, "%u", outside[i]);
        if (setenv(variable, text, 1))
            return false;
    }
    return true;
}

static void add_number(struct as_tree *tree, dibs_proto proto, const struct run_as_port *port,
                       uint16_t outside)
{
    tree->numbers[tree->n++] = (struct as_number){
        .proto = proto, .inside = port->inside, .outside = outside, .is_own = port->is_own
    };
}

dibs_status run_as_number(struct cli *cli, const struct run_as_command *command, dibs_err *err)
{
    struct as_tree *tree = &cli->as->trees[command->which];
    const struct run_as_port *ports = command->ports;
    const uint16_t *outside = command->outside;
    size_t n = command->n;

    tree->max = 2 * n + (cli->as->any ? AS_ANY_MAX : 0);
    tree->numbers = calloc(tree->max + 1, sizeof *tree->numbers);
    if (!tree->numbers)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (cli->as->any)
        tree->any = run_as_any_hooks(cli->as->any);
    for (size_t i = 0; i < n; i++) {
        if (!ports[i].inside)
            continue;
        if (ports[i].has_tcp)
            add_number(tree, DIBS_TCP, &ports[i], outside[i]);
        if (ports[i].has_udp)
            add_number(tree, DIBS_UDP, &ports[i], outside[i]);
        if (ports[i].is_own)
            cli_note(cli, "port %u of %s is %u outside", ports[i].inside, command->title, outside[i]);
    }
    return DIBS_OK;
}

/* Give each command's numbers to the daemon. */
static dibs_status number_all(const struct cli *cli, const struct run_as *as, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < as->n && !s; i++) {
        const struct as_tree *tree = &as->trees[i];
        AUTO(free_auto) dibs_number *numbers = calloc(tree->n + 1, sizeof *numbers);

        if (!numbers)
            return err_set(err, DIBS_FAILURE, "out of memory");
        for (size_t k = 0; k < tree->n; k++)
            numbers[k] = (dibs_number){ tree->numbers[k].proto, tree->numbers[k].inside,
                                        tree->numbers[k].outside, tree->numbers[k].is_own };
        s = dibs_numbers_set(cli->handle, &(dibs_numbers){ as->pids[i], numbers, tree->n }, err);
    }
    if (!s || cli_has(cli, "as-by"))
        return s ? err_wrap(err, s, "run: --as-by bpf") : DIBS_OK;
    return err_wrap(err, s,
                    "run: --as with the daemon's programs failed; '--as-by seccomp' does without them");
}

dibs_status run_as_serve(const struct cli *cli, dibs_err *err)
{
    struct run_as *as = cli->as;

    return as->is_in_kernel ? number_all(cli, as, err)
                            : as_notifier_start(as->trees, as->n, &as->notifier, err);
}
