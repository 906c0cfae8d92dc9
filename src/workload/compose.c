/* SPDX-License-Identifier: MIT */
/* Ports as compose writes them: "8080:80", "127.0.0.1:8080-8081:80-81/udp", "${WEB:-8080}:80", or a map. */
#include "workload/compose.h"

#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "base/text.h"
#include "net/proto.h"

#include "base/banned.h"

const char *const compose_file_names[] = { "compose.yaml", "compose.yml", "docker-compose.yml",
                                           "docker-compose.yaml", NULL };

struct reader {
    struct compose *out;
    struct yaml_faults faults;
};

void compose_free(struct compose *compose)
{
    yaml_free(compose->yaml);
    free(compose->text);
    free(compose->ports);
    *compose = (struct compose){ 0 };
}

/* A part of a text. */
struct part {
    const char *at;
    size_t n;
};

/* Return the length up to the next colon outside of ${...} and [...]. */
static size_t colon(const char *text)
{
    int depth = 0;
    size_t n = 0;

    for (; text[n]; n++) {
        if (text[n] == '{' || text[n] == '[')
            depth++;
        else if (text[n] == '}' || text[n] == ']')
            depth--;
        else if (text[n] == ':' && depth == 0)
            break;
    }
    return n;
}

/* Replace "${NAME:-8080}" and "${NAME-8080}" by the default, which is empty when there is none. */
static struct part default_of(struct part part)
{
    if (part.n < 3 || part.at[0] != '$')
        return part;
    const char *dash = memchr(part.at, '-', part.n);
    bool is_closed = part.at[1] == '{' && part.at[part.n - 1] == '}';

    if (!dash || !is_closed)
        return (struct part){ part.at, 0 };
    return (struct part){ dash + 1, (size_t) (part.at + part.n - 1 - (dash + 1)) };
}

static bool number(const char *text, size_t n, uint16_t *out)
{
    uint64_t value = 0;

    if (!text_number(text, n, DIBS_PORT_MAX, &value) || value == 0)
        return false;
    *out = (uint16_t) value;
    return true;
}

/* Parse "80" or "80-89". */
static bool range(struct part part, uint16_t *first, uint16_t *count)
{
    const char *dash = part.n > 0 ? memchr(part.at, '-', part.n) : NULL;
    size_t n = dash ? (size_t) (dash - part.at) : part.n;
    uint16_t last = 0;

    if (!number(part.at, n, first))
        return false;
    last = *first;
    if (dash && !number(dash + 1, part.n - n - 1, &last))
        return false;
    *count = (uint16_t) (last - *first + 1);
    return last >= *first;
}

static bool protocol(const char *text, dibs_proto *out)
{
    dibs_proto all[PROTO_LIST_MAX];
    size_t n = 0;
    dibs_err err = { 0 };

    if (proto_list(text, all, &n, &err) != DIBS_OK || n != 1)
        return false;
    *out = all[0];
    return true;
}

static void add(struct reader *r, const struct compose_port *port)
{
    struct compose *out = r->out;

    if (out->n == COMPOSE_PORTS_MAX)
        yaml_fault(&r->faults, port->node, "more than %d published ports", COMPOSE_PORTS_MAX);
    else if (!grow((void **) &out->ports, out->n, &out->max, sizeof *out->ports))
        yaml_fault(&r->faults, port->node, "out of memory");
    else
        out->ports[out->n++] = *port;
}

/* Set the host's number; a variable without a default has none. */
static bool host_number(struct part part, struct compose_port *port)
{
    uint16_t count = 0;

    part = default_of(part);
    return part.n == 0 || range(part, &port->host, &count);
}

/* Read "[[IP:]HOST:]CONTAINER[/PROTOCOL]". Without a host's port, compose lets the kernel choose. */
static void read_short(struct reader *r, const char *service, const yaml_node *node)
{
    struct compose_port port = { .service = service, .node = node, .proto = DIBS_TCP, .is_short = true };
    const char *text = node->text;
    struct part parts[3] = { { 0 } };
    size_t n = 0;

    if (strpbrk(text, "\"\\\n")) { /* what is replaced is written between quotes */
        yaml_fault(&r->faults, node, "'%.80s' is no port", text);
        return;
    }
    for (const char *at = text; at && n < 3; n++) {
        parts[n] = (struct part){ at, colon(at) };
        at = at[parts[n].n] ? at + parts[n].n + 1 : NULL;
        if (at && n == 2) {
            yaml_fault(&r->faults, node, "'%.80s' is no port", text);
            return;
        }
    }
    struct part host = n >= 2 ? parts[n - 2] : (struct part){ 0 };
    struct part container = parts[n - 1];
    const char *slash = memchr(container.at, '/', container.n);
    if (host.n == 0)
        return;
    if (slash)
        container.n = (size_t) (slash - container.at);
    if ((slash && !protocol(slash + 1, &port.proto)) ||
        !range(default_of(container), &port.container, &port.count) || !host_number(host, &port)) {
        yaml_fault(&r->faults, node, "'%.80s' is no port", text);
        return;
    }
    port.before = (size_t) (host.at - text);
    port.after = (size_t) (host.at + host.n - text);
    add(r, &port);
}

/* Read { target: 80, published: "8080", protocol: udp }. */
static void read_long(struct reader *r, const char *service, const yaml_node *map)
{
    const yaml_node *published = yaml_get(map, "published");
    const yaml_node *target = yaml_get(map, "target");
    const yaml_node *proto = yaml_get(map, "protocol");
    struct compose_port port = { .service = service, .proto = DIBS_TCP };

    if (!published || published->kind != YAML_SCALAR || published->n == 0)
        return;
    port.node = yaml_key(map, "published")->value;
    if (!target || target->kind != YAML_SCALAR ||
        !range(default_of((struct part){ target->text, target->n }), &port.container, &port.count))
        yaml_fault(&r->faults, map, "a port with 'published' needs a 'target'");
    else if (proto && (proto->kind != YAML_SCALAR || !protocol(proto->text, &port.proto)))
        yaml_fault(&r->faults, proto, "there is no such protocol");
    else if (!host_number((struct part){ published->text, published->n }, &port))
        yaml_fault(&r->faults, published, "'%.80s' is no port", published->text);
    else if (port.node->is_alias)
        yaml_fault(&r->faults, port.node, "an alias cannot be replaced here; write the port out");
    else
        add(r, &port);
}

static void read_port(struct reader *r, const char *service, const yaml_node *item)
{
    if (item->is_alias)
        yaml_fault(&r->faults, item, "an alias cannot be replaced here; write the port out");
    else if (item->kind == YAML_MAP)
        read_long(r, service, item);
    else if (item->kind == YAML_SCALAR && item->style != YAML_BLOCK_TEXT)
        read_short(r, service, item);
    else
        yaml_fault(&r->faults, item, "a port is a text or a map");
}

/* Return the map that a service merges ("<<: *base") and that has ports; NULL: none. */
static const yaml_node *merged_ports(const yaml_node *service)
{
    const yaml_node *merged = yaml_get(service, "<<");

    if (merged && merged->kind == YAML_LIST) {
        for (const yaml_node *item = merged->first; item; item = item->next)
            if (yaml_get(yaml_follow(item), "ports"))
                return item;
        return NULL;
    }
    return yaml_get(merged, "ports") ? merged : NULL;
}

static void read_service(struct reader *r, const yaml_node *key)
{
    const yaml_node *service = yaml_follow(key->value);
    const yaml_node *ports = yaml_key(service, "ports");

    if (key->value->is_alias ? yaml_get(service, "ports") != NULL : !ports && merged_ports(service)) {
        yaml_fault(&r->faults, key, "service '%.80s' gets its ports from an alias; write them out here",
                   key->text);
        return;
    }
    if (!ports || yaml_is_null(ports->value))
        return;
    if (ports->value->is_alias || ports->value->kind != YAML_LIST) {
        yaml_fault(&r->faults, ports, "'ports' must be a list, written out here");
        return;
    }
    for (const yaml_node *item = ports->value->first; item && r->faults.status == DIBS_OK; item = item->next)
        read_port(r, key->text, item);
}

dibs_status compose_parse(const char *name, char *text, size_t len, struct compose *out, dibs_err *err)
{
    struct reader r = { .out = out };

    *out = (struct compose){ .text = text, .len = len };
    dibs_status s = yaml_parse(name, text, len, &out->yaml, err);
    if (s != DIBS_OK)
        return s;
    r.faults = (struct yaml_faults){ .yaml = out->yaml, .err = err };
    const yaml_node *services = yaml_get(yaml_root(out->yaml, 0), "services");
    for (const yaml_node *key = services && services->kind == YAML_MAP ? services->first : NULL;
         key && r.faults.status == DIBS_OK; key = key->next)
        read_service(&r, key);
    return r.faults.status;
}

static void write_port(const struct compose_port *port, uint16_t host, struct bytes *out)
{
    char numbers[16];

    (void) snprintf(numbers, sizeof numbers, port->count > 1 ? "%u-%u" : "%u", host, host + port->count - 1u);
    bytes_add_text(out, "\"");
    if (port->is_short)
        bytes_add(out, port->node->text, port->before);
    bytes_add_text(out, numbers);
    if (port->is_short)
        bytes_add_text(out, port->node->text + port->after);
    bytes_add_text(out, "\"");
}

void compose_write(const struct compose *compose, const uint16_t *hosts, struct bytes *out)
{
    size_t done = 0;

    for (size_t i = 0; i < compose->n; i++)
        if (hosts[i] != 0) {
            const yaml_node *node = compose->ports[i].node;

            bytes_add(out, compose->text + done, node->start - done);
            write_port(&compose->ports[i], hosts[i], out);
            done = node->end;
        }
    bytes_add(out, compose->text + done, compose->len - done);
}
