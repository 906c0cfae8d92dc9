/* SPDX-License-Identifier: MIT */
/* dibs init: a first manifest, from what other tools have written about the project. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/grow.h"
#include "cli/compose.h"
#include "cli/file.h"
#include "workload/manifest.h"
#include "workload/workload.h"

#include "base/banned.h"

static const char file[] = "dibs.yaml";

struct draft {
    struct bytes text;
    struct compose compose;
    char *procfile;        /* its text; NULL: there is none */
    const char **commands; /* the roles with a command */
    size_t n_commands, max_commands;
    char from[64]; /* the files that were read: "package.json, compose.yaml" */
    size_t n_roles;
};

static void draft_free(struct draft *d)
{
    bytes_done(&d->text);
    compose_free(&d->compose);
    free(d->procfile);
    free(d->commands);
}

static void add(struct draft *d, const char *text)
{
    bytes_add_text(&d->text, text);
}

static void note_source(struct draft *d, const char *name)
{
    size_t n = strlen(d->from);

    (void) snprintf(d->from + n, sizeof d->from - n, "%s%s", n ? ", " : "", name);
}

/* Would YAML read these bytes, written without quotes, as this text? */
static bool is_plain(const char *text)
{
    static const char *const words[] = { "null", "true", "false", "yes", "no", "on", "off", "y", "n" };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0)
            return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char) *c) && !strchr("_-.", *c))
            return false;
    return isalpha((unsigned char) text[0]);
}

/* Add a text; quoted as in JSON, which is YAML, too. */
static void add_word(struct draft *d, const char *text)
{
    struct jsonw w;

    if (is_plain(text)) {
        add(d, text);
        return;
    }
    jsonw_begin_bytes(&w, &d->text);
    jsonw_string(&w, text);
}

static void begin_role(struct draft *d, const char *name, const char *from)
{
    if (d->n_roles++ == 0)
        add(d, "roles:\n");
    add(d, "  ");
    add_word(d, name);
    add(d, ":    # ");
    add(d, from);
    add(d, "\n");
}

static bool has_command(const struct draft *d, const char *role)
{
    for (size_t i = 0; i < d->n_commands; i++)
        if (strcmp(d->commands[i], role) == 0)
            return true;
    return false;
}

/* ---- services of the compose file ---- */

/* Remove the ports of services that are also started by a command: the command's port is the project's. */
static void drop_commands(struct draft *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->compose.n; i++)
        if (!has_command(d, d->compose.ports[i].service))
            d->compose.ports[n++] = d->compose.ports[i];
    d->compose.n = n;
}

static bool is_same_port(const struct compose_port *a, const struct compose_port *b)
{
    return strcmp(a->service, b->service) == 0 && a->container == b->container && a->proto == b->proto;
}

/* Remove the ports that a role cannot have: a port of the container that is published a second time, such as
 * for another address, shares the first one's number. */
static void drop_others(struct draft *d)
{
    struct compose *compose = &d->compose;
    size_t n = 0;

    for (size_t i = 0; i < compose->n; i++) {
        const struct compose_port *port = &compose->ports[i];
        bool is_there = false;

        for (size_t k = 0; k < n; k++)
            is_there = is_there || is_same_port(&compose->ports[k], port);
        if (port->count > WORKLOAD_COUNT_MAX)
            cli_warn("%s:%u: %u ports in a row are more than %d: they are left out", yaml_name(compose->yaml),
                     port->node->line, port->count, WORKLOAD_COUNT_MAX);
        else if (!is_there)
            compose->ports[n++] = *port;
    }
    compose->n = n;
}

/* How many ports does the service publish? */
static size_t ports_of(const struct compose *compose, const char *service)
{
    size_t n = 0;

    for (size_t i = 0; i < compose->n; i++)
        n += strcmp(compose->ports[i].service, service) == 0;
    return n;
}

/* "port", or "port-1025" where the service has several, "port-53-udp" beside tcp. */
static void port_name(const struct compose *compose, const struct compose_port *port, char *out, size_t size)
{
    const char *suffix = port->proto == DIBS_UDP ? "-udp" : "";

    if (ports_of(compose, port->service) == 1)
        (void) snprintf(out, size, "port");
    else
        (void) snprintf(out, size, "port-%u%s", port->container, suffix);
}

/* "DB_PORT", "MAIL_1025_PORT", "DNS_53_UDP_PORT" */
static void port_variable(const struct compose *compose, const struct compose_port *port, char *out,
                          size_t size)
{
    char typed[DIBS_NAME_MAX + 1];
    char name[32];

    port_name(compose, port, name, sizeof name);
    (void) snprintf(typed, sizeof typed, "%.200s%s", port->service, name + strlen("port"));
    workload_port_env(typed, out, size);
}

static void add_compose_port(struct draft *d, const struct compose_port *port)
{
    char text[128];
    char name[32];
    char variable[WORKLOAD_ENV_MAX + 1];

    port_name(&d->compose, port, name, sizeof name);
    port_variable(&d->compose, port, variable, sizeof variable);
    add(d, "      - { name: ");
    add(d, name);
    add(d, ", env: ");
    add(d, variable);
    (void) snprintf(text, sizeof text, ", container: %u", port->container);
    add(d, text);
    if (port->count > 1) {
        (void) snprintf(text, sizeof text, ", count: %u, contiguous: true", port->count);
        add(d, text);
    }
    if (port->proto != DIBS_TCP) {
        add(d, ", proto: ");
        add(d, dibs_proto_text(port->proto));
    }
    add(d, " }\n");
}

static void add_services(struct draft *d)
{
    const char *service = "";

    for (size_t i = 0; i < d->compose.n; i++) {
        const struct compose_port *port = &d->compose.ports[i];

        if (strcmp(service, port->service) != 0) {
            begin_role(d, port->service, "a service of the compose file");
            add(d, "    ports:\n");
        }
        service = port->service;
        add_compose_port(d, port);
    }
}

/* Tell a role with a command where the services are. */
static void add_references(struct draft *d)
{
    if (d->compose.n > 0)
        add(d, "    references:\n");
    for (size_t i = 0; i < d->compose.n; i++) {
        const struct compose_port *port = &d->compose.ports[i];
        char variable[WORKLOAD_ENV_MAX + 1];
        char name[32];

        port_name(&d->compose, port, name, sizeof name);
        port_variable(&d->compose, port, variable, sizeof variable);
        add(d, "      - { env: ");
        add(d, variable);
        add(d, ", from: { role: ");
        add_word(d, port->service);
        add(d, ", port: ");
        add(d, name);
        add(d, " } }\n");
    }
}

/* ---- commands ---- */

static void add_command_role(struct draft *d, const char *name, const char *from, bool has_port,
                             const char *command)
{
    begin_role(d, name, from);
    if (has_port)
        add(d, "    ports:\n      - { name: http, env: PORT }\n");
    add_references(d);
    add(d, "    command: ");
    add_word(d, command);
    add(d, "\n");
}

/* Split "web: bundle exec puma" in place. Return its command; NULL for other lines, such as comments. */
static char *command_of(char *line)
{
    size_t n = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

    if (n == 0 || line[n] != ':')
        return NULL;
    line[n] = '\0';
    line += n + 1;
    line += strspn(line, " \t");
    line[strcspn(line, "\r")] = '\0';
    return *line ? line : NULL;
}

static dibs_status take_command(struct draft *d, const char *role, dibs_err *err)
{
    if (!grow((void **) &d->commands, d->n_commands, &d->max_commands, sizeof *d->commands))
        return err_set(err, DIBS_FAILURE, "out of memory");
    d->commands[d->n_commands++] = role;
    return DIBS_OK;
}

static dibs_status read_if_there(const char *name, char **out, size_t *len, dibs_err *err)
{
    return access(name, F_OK) == 0 ? cli_input_read(name, out, len, err) : DIBS_OK;
}

/* Cut the Procfile into lines of a name, a NUL and a command. */
static dibs_status read_procfile(struct draft *d, dibs_err *err)
{
    size_t len = 0;
    dibs_status s = read_if_there("Procfile", &d->procfile, &len, err);
    char *rest = d->procfile;

    for (char *line = strsep(&rest, "\n"); s == DIBS_OK && line; line = strsep(&rest, "\n"))
        if (command_of(line))
            s = take_command(d, line, err);
    if (s == DIBS_OK && d->n_commands > 0)
        note_source(d, "Procfile");
    return s;
}

static void add_processes(struct draft *d)
{
    for (size_t i = 0; i < d->n_commands; i++) {
        const char *name = d->commands[i];
        const char *command = name + strlen(name) + 1;

        command += strspn(command, " \t");
        /* a worker listens nowhere */
        add_command_role(d, name, "Procfile", strcmp(name, "web") == 0 || strstr(command, "PORT"), command);
    }
}

/* Does a script run this program? */
static bool runs(const char *script, const char *program)
{
    for (const char *at = strstr(script, program); at; at = strstr(at + 1, program)) {
        char after = at[strlen(program)];

        if ((at == script || !isalnum((unsigned char) at[-1])) && !isalnum((unsigned char) after))
            return true;
    }
    return false;
}

/* The arguments by which a program that does not read $PORT gets its port. */
static const char *port_arguments(const char *script)
{
    static const struct {
        const char *program, *arguments;
    } known[] = {
        { "vite", "--port {http} --strictPort" },  { "astro", "--port {http}" },
        { "ng serve", "--port {http}" },           { "webpack serve", "--port {http}" },
        { "webpack-dev-server", "--port {http}" },
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (runs(script, known[i].program))
            return known[i].arguments;
    return NULL;
}

/* Find the number in "-p 3000", "--port=3000", "PORT=3000" of a script; NULL: there is none. */
static const char *number_in(const char *script)
{
    static const char *const before[] = { "-p ", "--port ", "--port=", "PORT=" };

    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        const char *at = strstr(script, before[i]);

        if (at && isdigit((unsigned char) at[strlen(before[i])]))
            return at + strlen(before[i]);
    }
    return NULL;
}

/* The package manager whose lock file is there. */
static const char *package_manager(void)
{
    static const struct {
        const char *lock, *name;
    } known[] = {
        { "pnpm-lock.yaml", "pnpm" }, { "yarn.lock", "yarn" }, { "bun.lockb", "bun" }, { "bun.lock", "bun" }
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (access(known[i].lock, F_OK) == 0)
            return known[i].name;
    return "npm";
}

static dibs_status add_package(struct draft *d, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err why = { 0 };
    char command[128];
    size_t len = 0;
    dibs_status s = read_if_there("package.json", &text, &len, err);

    if (s != DIBS_OK || !text)
        return s;
    if (jsonr_parse(text, len, &doc, &why) != DIBS_OK)
        return err_set(err, DIBS_INVALID, "init: package.json: %.200s", why.msg);
    const char *name = *jsonr_text_at(jsonr_root(doc), "scripts.dev") ? "dev" : "start";
    const char *script = jsonr_text_at(jsonr_get(jsonr_root(doc), "scripts"), name);
    const char *arguments = port_arguments(script);
    const char *manager = package_manager();
    if (!*script)
        return DIBS_OK;
    s = take_command(d, "web", err);
    drop_commands(d);
    note_source(d, "package.json");
    const char *number = number_in(script);
    if (number)
        cli_warn(
            "package.json: script '%s' has port %.*s of its own; take it out, so that each work tree has "
            "another one (in $PORT)",
            name, (int) strspn(number, "0123456789"), number);
    (void) snprintf(command, sizeof command, "%s run %s%s%s", manager, name,
                    !arguments                    ? ""
                    : strcmp(manager, "npm") == 0 ? " -- "
                                                  : " ",
                    arguments ? arguments : "");
    add_command_role(d, "web", "package.json", true, command);
    return s;
}

/* ---- the file ---- */

static void read_compose(struct draft *d)
{
    char name[PATH_MAX];
    dibs_err err = { 0 };
    dibs_status s = cli_compose_read(".", name, sizeof name, &d->compose, &err);

    if (s == DIBS_OK) {
        note_source(d, name + strlen("./"));
        drop_others(d);
    } else if (s != DIBS_NOT_FOUND) {
        cli_warn("%s; its services are left out", err.msg);
        compose_free(&d->compose);
    }
}

static dibs_status write_draft(struct draft *d, dibs_err *err)
{
    add(d, "# The ports of this project. 'dibs up' claims them, 'dibs run ROLE' starts a role with them,\n"
           "# and 'man dibs.yaml' describes every key.\n");
    read_compose(d);
    dibs_status s = read_procfile(d, err);
    drop_commands(d);
    add_processes(d);
    if (s == DIBS_OK && d->n_commands == 0) /* a Procfile says more exactly what is started */
        s = add_package(d, err);
    if (s != DIBS_OK)
        return s;
    add_services(d);
    if (d->n_roles == 0)
        add(d, "roles:\n"
               "  web:\n"
               "    ports:\n"
               "      - { name: http, env: PORT }\n"
               "    # command: npm run dev    # what 'dibs run web' starts; it finds its port in $PORT\n");
    return d->text.is_lost ? err_set(err, DIBS_FAILURE, "out of memory") : DIBS_OK;
}

/* Create the file; another process may have done so meanwhile. */
static dibs_status create(const struct draft *d, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        return errno == EEXIST ? err_set(err, DIBS_TAKEN, "init: %s exists already", file)
                               : err_os(err, DIBS_FAILURE, errno, "init: cannot create %s", file);
    if (cli_write_all(fd, d->text.at, d->text.n))
        return DIBS_OK;
    int why = errno;
    (void) unlink(file);
    return err_os(err, DIBS_FAILURE, why, "init: cannot write %s", file);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    AUTO(draft_free) struct draft d = { 0 };
    AUTO(workload_free_auto) struct workload_group *group = NULL;

    if (access(file, F_OK) == 0 || access("dibs.json", F_OK) == 0)
        return err_set(err, DIBS_TAKEN, "init: this directory has a manifest already; it is left as it is");
    dibs_status s = write_draft(&d, err);
    if (s == DIBS_OK)
        s = workload_manifest_parse("the new dibs.yaml", d.text.at, d.text.n, &group, err);
    if (s == DIBS_OK)
        s = create(&d, err);
    if (s != DIBS_OK)
        return s;
    if (cli->json) {
        jsonw_object(&cli->w);
        jsonw_key_string(&cli->w, "file", file);
        jsonw_key_uint(&cli->w, "roles", group->n_roles);
        jsonw_end_object(&cli->w);
    }
    cli_note(cli, "%s has %zu role%s from %s; look it over, then: dibs up", file, group->n_roles,
             group->n_roles == 1 ? "" : "s", d.from[0] ? d.from : "an example");
    return DIBS_OK;
}

const struct cli_cmd cmd_init = {
    .name = "init",
    .group = CLI_RUN,
    .args = "",
    .summary = "Write a first dibs.yaml for this directory",
    .details = "Reads what other tools say about the project: the commands of a Procfile, or\n"
               "else the script 'dev' or 'start' of package.json, and the published ports of\n"
               "a compose file. Without any of these the manifest has one role as an example.\n"
               "A manifest that is there already is left as it is (exit 3).",
    .examples = "dibs init\n",
    .flags = CLI_SILENT | CLI_REPORTS_MANIFEST,
    .run = run,
};
