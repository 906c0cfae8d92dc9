/* SPDX-License-Identifier: MIT */
#include "cli/run/procfile.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/environment.h"
#include "cli/manifest.h"
#include "cli/run/pod.h"

#include "base/banned.h"

/* One line. */
struct line {
    struct bytes variables; /* " PORT=20001 API_PORT=20002" */
    char **argv;            /* with the placeholders filled in; owned texts */
    bool is_lost;
};

static void line_free(struct line *line)
{
    bytes_done(&line->variables);
    for (char **arg = line->argv; arg && *arg; arg++)
        free(*arg);
    free(line->argv);
}

/* Add a word in quotes. foreman replaces "$PORT" by a number of its own anywhere in the line, so a dollar
 * sign ends its quotes: 'echo $''PORT'. */
static void add_quoted(struct bytes *to, const char *word)
{
    bytes_add_text(to, "'");
    for (; *word; word++) {
        if (*word == '\'')
            bytes_add_text(to, "'\\'");
        bytes_add(to, word, 1);
        if (*word == '$')
            bytes_add_text(to, "''");
    }
    bytes_add_text(to, "'");
}

static void add_argument(struct bytes *to, const char *word)
{
    if (strpbrk(word, "'$"))
        add_quoted(to, word);
    else
        environment_add_word(to, word);
}

static void add_word(void *ctx, const char *variable, const char *placeholder, const char *text)
{
    struct line *line = ctx;

    if (variable && strcmp(variable, "PWD") != 0) { /* the shell sets it */
        bytes_add_text(&line->variables, " ");
        bytes_add_text(&line->variables, variable);
        bytes_add_text(&line->variables, "=");
        add_argument(&line->variables, text);
    }
    for (char **arg = line->argv; placeholder && *arg; arg++) {
        char *now = launch_filled(*arg, placeholder, text);

        if (now) {
            free(*arg);
            *arg = now;
        } else {
            line->is_lost = true;
        }
    }
}

/* Return the length of an argument. The last one may end in newlines, as a YAML block does. */
static size_t length(const char *arg, bool is_last)
{
    size_t len = strlen(arg);

    while (is_last && len > 0 && arg[len - 1] == '\n')
        len--;
    return len;
}

static dibs_status copy_command(const struct pod *pod, struct line *line, dibs_err *err)
{
    size_t n = 0;

    while (pod->argv[n])
        n++;
    line->argv = calloc(n + 1, sizeof(char *));
    for (size_t i = 0; i < n && line->argv; i++) {
        line->argv[i] = strndup(pod->argv[i], length(pod->argv[i], i + 1 == n));
        if (!line->argv[i])
            break;
    }
    return line->argv && line->argv[n - 1] ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

/* Write the title as a name of a Procfile: letters, digits, '_' and '-'. */
static void write_name(const struct pod *pod, char out[PODS_TITLE_MAX])
{
    (void) text_copy(out, PODS_TITLE_MAX, pod->title);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char) *c) && *c != '_')
            *c = '-';
}

/* Refuse what a Procfile cannot contain, before anything is claimed. */
static dibs_status check_lines(const struct pods *pods, dibs_err *err)
{
    char name[PODS_TITLE_MAX];
    char other[PODS_TITLE_MAX];

    for (size_t i = 0; i < pods->n; i++) {
        const struct pod *pod = &pods->all[i];

        for (char **arg = pod->argv; *arg; arg++)
            if (memchr(*arg, '\n', length(*arg, !arg[1])))
                return err_set(err, DIBS_INVALID,
                               "env: the command of role '%.80s' has several lines, which a Procfile cannot "
                               "have; put them into a script",
                               pod->pod.role->name);
        write_name(pod, name);
        for (size_t k = 0; k < i; k++) {
            write_name(&pods->all[k], other);
            if (strcmp(name, other) == 0)
                return err_set(err, DIBS_INVALID, "env: two lines of the Procfile would be called '%.80s'",
                               name);
        }
    }
    return DIBS_OK;
}

static dibs_status print_pod(struct cli *cli, const struct pod *pod, dibs_err *err)
{
    AUTO(line_free) struct line line = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    AUTO(bytes_done) struct bytes text = { 0 };
    char name[PODS_TITLE_MAX];
    dibs_status s = copy_command(pod, &line, err);

    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, cli->manifest, &pod->needs, 0, &ports, err);
    if (s == DIBS_OK)
        s = pod_each_word(pod, ports, add_word, &line, err);
    if (s != DIBS_OK)
        return s;
    if (pod->directory) {
        bytes_add_text(&text, "cd ");
        add_argument(&text, pod->directory);
        bytes_add_text(&text, " && ");
    }
    bytes_add_text(&text, "exec env");
    bytes_add(&text, line.variables.at, line.variables.n);
    for (char **arg = line.argv; *arg; arg++) {
        bytes_add_text(&text, " ");
        add_argument(&text, *arg);
    }
    bytes_add(&text, "", 1);
    if (text.is_lost || line.variables.is_lost || line.is_lost)
        return err_set(err, DIBS_FAILURE, "out of memory");
    write_name(pod, name);
    (void) printf("%s: %s\n", name, text.at);
    return DIBS_OK;
}

dibs_status cli_print_procfile(struct cli *cli, dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    AUTO(pods_done) struct pods pods = { 0 };
    struct launch launch = { 0 };
    dibs_status s = pods_find(cli->manifest, NULL, 0, &pods, err);

    if (s == DIBS_OK)
        s = check_lines(&pods, err);
    for (size_t i = 0; i < pods.n && s == DIBS_OK; i++)
        s = pod_launch(&pods.all[i], &launch, err);
    /* All ports in one step: everything is claimed, or nothing. */
    if (s == DIBS_OK)
        s = workload_needs_all(cli->manifest, &needs, err);
    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, cli->manifest, &needs, 0, &ports, err);
    for (size_t i = 0; i < pods.n && s == DIBS_OK; i++)
        s = print_pod(cli, &pods.all[i], err);
    return s;
}
