/* SPDX-License-Identifier: MIT */
#include "operator/patch.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

enum { PATH_MAX_BYTES = 1024 }; /* the key of an annotation, escaped, is the longest of it */

struct patching {
    const json_value *pod, *spec;
    const struct patch_plan *plan;
    struct json_writer w;
    size_t n_operations;
    dibs_err *err;
};

/* ---- operations ---- */

/* Begins one; its value, if it has one, follows, and then end(). */
static void begin(struct patching *p, const char *operation, const char *path)
{
    if (p->n_operations++ == 0)
        json_array(&p->w);
    json_object(&p->w);
    json_key_string(&p->w, "op", operation);
    json_key_string(&p->w, "path", path);
}

static void end(struct patching *p)
{
    json_end_object(&p->w);
}

/* RFC 6901: "~" is "~0" and "/" is "~1". */
static void escape(const char *key, char *out, size_t size)
{
    size_t n = 0;

    for (; *key && n + 3 < size; key++) {
        if (*key == '~' || *key == '/') {
            out[n++] = '~';
            out[n++] = *key == '~' ? '0' : '1';
        } else {
            out[n++] = *key;
        }
    }
    out[n] = '\0';
}

static dibs_status check_kind(const struct patching *p, const json_value *v, bool is_right, const char *field,
                              const char *what)
{
    if (!v || json_is_null(v) || is_right)
        return DIBS_OK;
    return err_set(p->err, DIBS_INVALID, "%s is not %s", field, what);
}

/* ---- variables ---- */

static bool is_named(const json_value *entry, const char *name)
{
    const char *text = NULL;

    return json_get_string(entry, "name", &text) && strcmp(text, name) == 0;
}

/* Does it say this very value, and nothing else? */
static bool says(const json_value *entry, const char *value)
{
    const char *text = NULL;

    return json_get_string(entry, "value", &text) && strcmp(text, value) == 0 &&
           !json_get(entry, "valueFrom");
}

static void write_variable(struct patching *p, const struct patch_pair *pair)
{
    json_object(&p->w);
    json_key_string(&p->w, "name", pair->name);
    json_key_string(&p->w, "value", pair->value);
    json_end_object(&p->w);
}

/* Of several of one name the last counts: all of them say it. */
static bool replace_variable(struct patching *p, const json_value *env, const char *where,
                             const struct patch_pair *pair)
{
    char path[PATH_MAX_BYTES];
    bool is_there = false;

    for (size_t i = 0; i < json_array_size(env); i++) {
        const json_value *entry = json_array_at(env, i);

        if (!is_named(entry, pair->name))
            continue;
        is_there = true;
        if (says(entry, pair->value))
            continue;
        (void) snprintf(path, sizeof path, "%s/%zu", where, i);
        begin(p, "replace", path);
        json_key(&p->w, "value");
        write_variable(p, pair);
        end(p);
    }
    return is_there;
}

static dibs_status patch_env(struct patching *p, const json_value *container, const char *where)
{
    const json_value *env = json_get(container, "env");
    char path[PATH_MAX_BYTES];
    char front[PATH_MAX_BYTES];
    size_t n_new = 0;

    (void) snprintf(path, sizeof path, "%s/env", where);
    dibs_status s = check_kind(p, env, json_is_array(env), path, "a list");
    if (s != DIBS_OK)
        return s;
    if (!json_is_array(env)) {
        begin(p, "add", path);
        json_key(&p->w, "value");
        json_array(&p->w);
        for (size_t i = 0; i < p->plan->n_env; i++)
            write_variable(p, &p->plan->env[i]);
        json_end_array(&p->w);
        end(p);
        return DIBS_OK;
    }
    /* Replaced first, while places are as they came; then those in front, each behind the one before. */
    for (size_t i = 0; i < p->plan->n_env; i++)
        (void) replace_variable(p, env, path, &p->plan->env[i]);
    for (size_t i = 0; i < p->plan->n_env; i++) {
        bool is_there = false;

        for (size_t k = 0; k < json_array_size(env) && !is_there; k++)
            is_there = is_named(json_array_at(env, k), p->plan->env[i].name);
        if (is_there)
            continue;
        (void) snprintf(front, sizeof front, "%s/%zu", path, n_new++);
        begin(p, "add", front);
        json_key(&p->w, "value");
        write_variable(p, &p->plan->env[i]);
        end(p);
    }
    return DIBS_OK;
}

/* ---- ports of the host ---- */

bool patch_is_host_network(const json_value *pod)
{
    bool is_host_network = false;

    return json_get_bool(json_get(pod, "spec"), "hostNetwork", &is_host_network) && is_host_network;
}

static bool is_port(const json_value *entry, const struct patch_port *port)
{
    const char *protocol = "TCP"; /* what Kubernetes takes when nothing is said */
    int64_t number = 0;

    (void) json_get_string(entry, "protocol", &protocol);
    return json_get_int(entry, "containerPort", &number) && number == port->port &&
           strcmp(protocol, port->protocol) == 0;
}

static const json_value *list_of(const struct patching *p, const char *list)
{
    return json_get(p->spec, list);
}

/* An entry of that number in whichever container: completed, so that it is not there twice. One of an init
 * container does not count: the scheduler looks at containers, and the API server compares the two not. */
static bool complete_port(struct patching *p, const struct patch_port *port)
{
    char path[PATH_MAX_BYTES];
    int64_t number = 0;

    for (size_t c = 0; c < json_array_size(list_of(p, "containers")); c++) {
        const json_value *ports = json_get(json_array_at(list_of(p, "containers"), c), "ports");

        for (size_t i = 0; i < json_array_size(ports); i++) {
            const json_value *entry = json_array_at(ports, i);

            if (!is_port(entry, port))
                continue;
            if (json_get_int(entry, "hostPort", &number) && number == port->port)
                return true;
            (void) snprintf(path, sizeof path, "/spec/containers/%zu/ports/%zu/hostPort", c, i);
            begin(p, "add", path);
            json_key_int(&p->w, "value", port->port);
            end(p);
            return true;
        }
    }
    return false;
}

static void write_port(struct patching *p, const struct patch_port *port)
{
    json_object(&p->w);
    json_key_int(&p->w, "containerPort", port->port);
    json_key_int(&p->w, "hostPort", port->port);
    json_key_string(&p->w, "protocol", port->protocol);
    json_end_object(&p->w);
}

static dibs_status add_ports(struct patching *p)
{
    const json_value *ports = json_get(json_array_at(list_of(p, "containers"), 0), "ports");
    bool has_list = json_is_array(ports);
    dibs_status s = check_kind(p, ports, has_list, "spec.containers[0].ports", "a list");

    for (size_t i = 0; i < p->plan->n_ports && s == DIBS_OK; i++) {
        if (complete_port(p, &p->plan->ports[i]))
            continue;
        begin(p, "add", has_list ? "/spec/containers/0/ports/-" : "/spec/containers/0/ports");
        json_key(&p->w, "value");
        if (!has_list)
            json_array(&p->w);
        write_port(p, &p->plan->ports[i]);
        if (!has_list)
            json_end_array(&p->w);
        has_list = true;
        end(p);
    }
    return s;
}

static bool is_obsolete(const struct patching *p, const json_value *entry)
{
    bool is_old = false;
    int64_t number = 0;

    for (size_t i = 0; i < p->plan->n_obsolete && !is_old; i++)
        is_old = is_port(entry, &p->plan->obsolete[i]) && json_get_int(entry, "hostPort", &number) &&
                 number == p->plan->obsolete[i].port;
    for (size_t i = 0; i < p->plan->n_ports && is_old; i++)
        is_old = !is_port(entry, &p->plan->ports[i]);
    return is_old;
}

/* The last first: the places of the others stay as they are. After everything that names a place. */
static void remove_obsolete(struct patching *p, const char *list)
{
    char path[PATH_MAX_BYTES];

    for (size_t c = 0; c < json_array_size(list_of(p, list)); c++) {
        const json_value *ports = json_get(json_array_at(list_of(p, list), c), "ports");

        for (size_t i = json_array_size(ports); i-- > 0;) {
            if (!is_obsolete(p, json_array_at(ports, i)))
                continue;
            (void) snprintf(path, sizeof path, "/spec/%s/%zu/ports/%zu", list, c, i);
            begin(p, "remove", path);
            end(p);
        }
    }
}

/* ---- the whole ---- */

static dibs_status patch_containers(struct patching *p, const char *list)
{
    const json_value *containers = list_of(p, list);
    char path[PATH_MAX_BYTES];
    dibs_status s = DIBS_OK;

    (void) snprintf(path, sizeof path, "spec.%s", list);
    s = check_kind(p, containers, json_is_array(containers), path, "a list");
    for (size_t i = 0; i < json_array_size(containers) && s == DIBS_OK; i++) {
        const json_value *container = json_array_at(containers, i);

        (void) snprintf(path, sizeof path, "/spec/%s/%zu", list, i);
        if (!json_is_object(container))
            return err_set(p->err, DIBS_INVALID, "spec.%s[%zu] is not an object", list, i);
        if (p->plan->n_env > 0)
            s = patch_env(p, container, path);
    }
    return s;
}

static dibs_status patch_annotations(struct patching *p)
{
    const json_value *metadata = json_get(p->pod, "metadata");
    const json_value *annotations = json_get(metadata, "annotations");
    char key[PATH_MAX_BYTES - 64];
    char path[PATH_MAX_BYTES];
    dibs_status s =
        check_kind(p, annotations, json_is_object(annotations), "metadata.annotations", "an object");

    if (s == DIBS_OK && !json_is_object(annotations) && p->plan->n_annotations > 0) {
        begin(p, "add", "/metadata/annotations");
        json_key(&p->w, "value");
        json_object(&p->w);
        json_end_object(&p->w);
        end(p);
    }
    for (size_t i = 0; i < p->plan->n_annotations && s == DIBS_OK; i++) {
        const struct patch_pair *pair = &p->plan->annotations[i];
        const char *has = NULL;

        if (json_get_string(annotations, pair->name, &has) && strcmp(has, pair->value) == 0)
            continue;
        escape(pair->name, key, sizeof key);
        (void) snprintf(path, sizeof path, "/metadata/annotations/%s", key);
        begin(p, "add", path); /* which replaces one that is there */
        json_key_string(&p->w, "value", pair->value);
        end(p);
    }
    if (s == DIBS_OK && p->plan->gone && json_get(annotations, p->plan->gone)) {
        escape(p->plan->gone, key, sizeof key);
        (void) snprintf(path, sizeof path, "/metadata/annotations/%s", key);
        begin(p, "remove", path);
        end(p);
    }
    return s;
}

static dibs_status patch_all(struct patching *p)
{
    dibs_status s = patch_containers(p, "initContainers");

    if (s == DIBS_OK)
        s = patch_containers(p, "containers");
    if (s == DIBS_OK && json_array_size(list_of(p, "containers")) == 0)
        s = err_set(p->err, DIBS_INVALID, "spec.containers: the pod has none that could be told");
    if (s == DIBS_OK && patch_is_host_network(p->pod)) {
        s = add_ports(p);
        remove_obsolete(p, "initContainers");
        remove_obsolete(p, "containers");
    }
    return s == DIBS_OK ? patch_annotations(p) : s;
}

dibs_status patch_write(const json_value *pod, const struct patch_plan *plan, struct bytes *out,
                        dibs_err *err)
{
    struct bytes text = { 0 };
    struct patching p = { .pod = pod, .spec = json_get(pod, "spec"), .plan = plan, .err = err };

    json_begin_bytes(&p.w, &text);
    dibs_status s = patch_all(&p);
    if (p.n_operations > 0)
        json_end_array(&p.w);
    if (s == DIBS_OK && text.is_lost)
        s = err_set(err, DIBS_FAILURE, "writing a patch: out of memory");
    if (s == DIBS_OK)
        *out = text;
    else
        bytes_done(&text);
    return s;
}
