/* SPDX-License-Identifier: MIT */
#include "cli/compose.h"

#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "cli/file.h"
#include "workload/workload.h"

#include "base/banned.h"

dibs_status cli_compose_read(const char *directory, char *name, size_t size, struct compose *out,
                             dibs_err *err)
{
    for (size_t i = 0; compose_file_names[i]; i++) {
        char *text = NULL;
        size_t len = 0;

        (void) snprintf(name, size, "%s/%s", directory, compose_file_names[i]);
        if (access(name, F_OK) != 0)
            continue;
        dibs_status s = cli_input_read(name, &text, &len, err);
        return s == DIBS_OK ? compose_parse(name, text, len, out, err) : s;
    }
    return err_set(err, DIBS_NOT_FOUND, "there is no compose.yaml in %.200s", directory);
}

static bool has_protocol(const struct workload_port *port, dibs_proto proto)
{
    size_t n = 0;
    const dibs_binding *bindings = workload_bindings(port, &n);

    for (size_t i = 0; i < n; i++)
        if (bindings[i].proto == proto)
            return true;
    return false;
}

/* Find the role's port for that port of the container; *only is set when the role has a single port. */
static const struct workload_port *port_of(const struct workload_role *role,
                                           const struct compose_port *wanted,
                                           const struct workload_port **only)
{
    size_t n = 0;

    for (size_t c = 0; c < role->n_components; c++)
        for (size_t p = 0; p < role->components[c].n_ports; p++) {
            const struct workload_port *port = &role->components[c].ports[p];

            if (port->container == wanted->container && has_protocol(port, wanted->proto))
                return port;
            n++;
            *only = n == 1 && port->container == 0 && has_protocol(port, wanted->proto) ? port : NULL;
        }
    return NULL;
}

static bool is_only_of_service(const struct compose *compose, const struct compose_port *port)
{
    size_t n = 0;

    for (size_t i = 0; i < compose->n; i++)
        n += strcmp(compose->ports[i].service, port->service) == 0;
    return n == 1;
}

/* Find the manifest's port of a published one; *out NULL: the service has no role. */
static dibs_status match(const struct cli *cli, const struct compose *compose,
                         const struct compose_port *published, const struct workload_port **out,
                         dibs_err *err)
{
    const struct workload_role *role = workload_role(cli->manifest, published->service);
    const struct workload_port *only = NULL;

    *out = NULL;
    if (!role) {
        cli_warn("%s:%u: service '%s' publishes a port and has no role in %s: it stays as it is",
                 yaml_name(compose->yaml), published->node->line, published->service, cli->manifest->source);
        return DIBS_OK;
    }
    const struct workload_port *port = port_of(role, published, &only);
    if (!port && is_only_of_service(compose, published))
        port = only;
    if (!port || role->instances == 0)
        return yaml_error(compose->yaml, published->node, err,
                          "role '%.60s' has no port for it; give it one with 'container: %u' in %.200s",
                          role->name, published->container, cli->manifest->source);
    if (port->count != published->count || (port->count > 1 && !port->is_contiguous))
        return yaml_error(compose->yaml, published->node, err,
                          "it publishes %u ports; port '%.60s' of role '%.60s' needs 'count: %u' and "
                          "'contiguous: true'",
                          published->count, port->name, role->name, published->count);
    *out = port;
    return DIBS_OK;
}

/* Refuse one host port for two published ones, unless they have addresses of their own. */
static dibs_status check_twice(const struct compose *compose, const struct workload_port *const *matches,
                               size_t i, dibs_err *err)
{
    const struct compose_port *port = &compose->ports[i];

    for (size_t k = 0; k < i; k++) {
        const struct compose_port *other = &compose->ports[k];
        bool is_same_address = port->is_short && other->is_short && port->before == other->before &&
                               strncmp(port->node->text, other->node->text, port->before) == 0;

        if (matches[i] && matches[k] == matches[i] &&
            (is_same_address || !port->is_short || !other->is_short))
            return yaml_error(
                compose->yaml, port->node, err,
                "service '%.60s' publishes port %u of its container a second time, and dibs has one "
                "number for it; remove one of the two lines",
                port->service, port->container);
    }
    return DIBS_OK;
}

static uint16_t host_of(const struct workload_needs *needs, const uint16_t *ports,
                        const struct workload_port *port)
{
    for (size_t i = 0; port && i < needs->n; i++)
        if (needs->all[i].port == port && needs->all[i].number == 0 && needs->all[i].pod.instance == 0)
            return ports[i];
    return 0;
}

/* Claim the ports of the manifest, and find that of each match. */
static dibs_status find_hosts(struct cli *cli, const struct workload_port *const *matches, size_t n,
                              uint16_t *hosts, dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    dibs_status s = workload_needs_all(cli->manifest, &needs, err);

    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, cli->manifest, &needs, 0, &ports, err);
    for (size_t i = 0; s == DIBS_OK && i < n; i++)
        hosts[i] = host_of(&needs, ports, matches[i]);
    return s;
}

static dibs_status print_with(struct cli *cli, const struct compose *compose, dibs_err *err)
{
    AUTO(free_auto)
    const struct workload_port **matches = calloc(compose->n + 1, sizeof(const struct workload_port *));
    AUTO(free_auto) uint16_t *hosts = calloc(compose->n + 1, sizeof *hosts);
    AUTO(bytes_done) struct bytes text = { 0 };
    dibs_status s = DIBS_OK;

    if (!matches || !hosts)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < compose->n && s == DIBS_OK; i++)
        s = match(cli, compose, &compose->ports[i], &matches[i], err);
    for (size_t i = 0; i < compose->n && s == DIBS_OK; i++)
        s = check_twice(compose, matches, i, err);
    if (s == DIBS_OK)
        s = find_hosts(cli, matches, compose->n, hosts, err);
    if (s != DIBS_OK)
        return s;
    compose_write(compose, hosts, &text);
    if (text.is_lost)
        return err_set(err, DIBS_FAILURE, "out of memory");
    (void) fwrite(text.at, 1, text.n, stdout); /* cli_flush() reports a failure */
    return DIBS_OK;
}

dibs_status cli_print_compose(struct cli *cli, dibs_err *err)
{
    AUTO(compose_free) struct compose compose = { 0 };
    char directory[PATH_MAX];
    char name[PATH_MAX];

    (void) snprintf(directory, sizeof directory, "%s", cli->manifest->source);
    char *slash = strrchr(directory, '/');
    (void) snprintf(slash ? slash : directory, 3, "%s", slash ? "" : ".");
    dibs_status s = cli_compose_read(directory, name, sizeof name, &compose, err);
    return s == DIBS_OK ? print_with(cli, &compose, err) : s;
}
