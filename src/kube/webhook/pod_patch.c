/* SPDX-License-Identifier: MIT */
#include "kube/webhook/pod_patch.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

enum { PATH_MAX_BYTES = 1024 }; /* the key of an annotation, escaped, is the longest of it */

struct patching {
    const jsonr_value *pod, *spec;
    const struct pod_edit *edit;
    struct jsonw w;
    size_t n_operations;
    dibs_err *err;
};

/* ---- operations ---- */

/* Begins one; its value, if it has one, follows, and then end(). */
static void begin(struct patching *p, const char *operation, const char *path)
{
    if (p->n_operations++ == 0)
        jsonw_array(&p->w);
    jsonw_object(&p->w);
    jsonw_key_string(&p->w, "op", operation);
    jsonw_key_string(&p->w, "path", path);
}

static void begin_value(struct patching *p, const char *operation, const char *path)
{
    begin(p, operation, path);
    jsonw_key(&p->w, "value");
}

static void end(struct patching *p)
{
    jsonw_end_object(&p->w);
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

static dibs_status check_kind(const struct patching *p, const jsonr_value *v, bool is_right,
                              const char *field, const char *what)
{
    if (!v || jsonr_is_null(v) || is_right)
        return DIBS_OK;
    return err_set(p->err, DIBS_INVALID, "%s is not %s", field, what);
}

/* ---- variables ---- */

static bool is_named(const jsonr_value *entry, const char *name)
{
    const char *text = NULL;

    return jsonr_get_string(entry, "name", &text) && strcmp(text, name) == 0;
}

/* Does it say this very value, and nothing else? */
static bool says(const jsonr_value *entry, const char *value)
{
    const char *text = NULL;

    return jsonr_get_string(entry, "value", &text) && strcmp(text, value) == 0 &&
           !jsonr_get(entry, "valueFrom");
}

static void write_variable(struct patching *p, const struct pod_edit_pair *pair)
{
    jsonw_object(&p->w);
    jsonw_key_string(&p->w, "name", pair->name);
    jsonw_key_string(&p->w, "value", pair->value);
    jsonw_end_object(&p->w);
}

/* Of several of one name the last counts: all of them say it. */
static void replace_variable(struct patching *p, const jsonr_value *env, const char *where,
                             const struct pod_edit_pair *pair)
{
    char path[PATH_MAX_BYTES];

    for (size_t i = 0; i < jsonr_array_size(env); i++) {
        const jsonr_value *entry = jsonr_array_at(env, i);

        if (!is_named(entry, pair->name) || says(entry, pair->value))
            continue;
        (void) snprintf(path, sizeof path, "%s/%zu", where, i);
        begin_value(p, "replace", path);
        write_variable(p, pair);
        end(p);
    }
}

static bool has_variable(const jsonr_value *env, const char *name)
{
    for (size_t i = 0; i < jsonr_array_size(env); i++)
        if (is_named(jsonr_array_at(env, i), name))
            return true;
    return false;
}

static dibs_status patch_env(struct patching *p, const jsonr_value *container, const char *where)
{
    const jsonr_value *env = jsonr_get(container, "env");
    char path[PATH_MAX_BYTES];
    char front[PATH_MAX_BYTES];
    size_t n_new = 0;

    (void) snprintf(path, sizeof path, "%s/env", where);
    dibs_status s = check_kind(p, env, jsonr_is_array(env), path, "a list");
    if (s != DIBS_OK)
        return s;
    if (!jsonr_is_array(env)) {
        begin_value(p, "add", path);
        jsonw_array(&p->w);
        for (size_t i = 0; i < p->edit->n_env; i++)
            write_variable(p, &p->edit->env[i]);
        jsonw_end_array(&p->w);
        end(p);
        return DIBS_OK;
    }
    /* Replaced first, while places are as they came; then those in front, each behind the one before. */
    for (size_t i = 0; i < p->edit->n_env; i++)
        replace_variable(p, env, path, &p->edit->env[i]);
    for (size_t i = 0; i < p->edit->n_env; i++) {
        if (has_variable(env, p->edit->env[i].name))
            continue;
        (void) snprintf(front, sizeof front, "%s/%zu", path, n_new++);
        begin_value(p, "add", front);
        write_variable(p, &p->edit->env[i]);
        end(p);
    }
    return DIBS_OK;
}

/* ---- ports of the host ---- */

static bool is_host_network(const struct patching *p)
{
    bool is_so = false;

    return jsonr_get_bool(p->spec, "hostNetwork", &is_so) && is_so;
}

static bool is_port(const jsonr_value *entry, const struct pod_edit_port *port)
{
    const char *protocol = "TCP"; /* what Kubernetes takes when nothing is said */
    int64_t number = 0;

    (void) jsonr_get_string(entry, "protocol", &protocol);
    return jsonr_get_int(entry, "containerPort", &number) && number == port->port &&
           strcmp(protocol, port->protocol) == 0;
}

/* An entry of that number in whichever container: completed, so that it is not there twice. One of an init
 * container does not count: the scheduler looks at containers, and the API server compares the two not. */
static bool complete_port(struct patching *p, const struct pod_edit_port *port)
{
    char path[PATH_MAX_BYTES];
    int64_t number = 0;

    for (size_t c = 0; c < jsonr_array_size(jsonr_get(p->spec, "containers")); c++) {
        const jsonr_value *ports = jsonr_get(jsonr_array_at(jsonr_get(p->spec, "containers"), c), "ports");

        for (size_t i = 0; i < jsonr_array_size(ports); i++) {
            const jsonr_value *entry = jsonr_array_at(ports, i);

            if (!is_port(entry, port))
                continue;
            if (jsonr_get_int(entry, "hostPort", &number) && number == port->port)
                return true;
            (void) snprintf(path, sizeof path, "/spec/containers/%zu/ports/%zu/hostPort", c, i);
            begin(p, "add", path);
            jsonw_key_int(&p->w, "value", port->port);
            end(p);
            return true;
        }
    }
    return false;
}

static void write_port(struct patching *p, const struct pod_edit_port *port)
{
    jsonw_object(&p->w);
    jsonw_key_int(&p->w, "containerPort", port->port);
    jsonw_key_int(&p->w, "hostPort", port->port);
    jsonw_key_string(&p->w, "protocol", port->protocol);
    jsonw_end_object(&p->w);
}

static dibs_status add_ports(struct patching *p)
{
    const jsonr_value *ports = jsonr_get(jsonr_array_at(jsonr_get(p->spec, "containers"), 0), "ports");
    bool has_list = jsonr_is_array(ports);
    dibs_status s = check_kind(p, ports, has_list, "spec.containers[0].ports", "a list");

    for (size_t i = 0; i < p->edit->n_ports && s == DIBS_OK; i++) {
        if (complete_port(p, &p->edit->ports[i]))
            continue;
        begin_value(p, "add", has_list ? "/spec/containers/0/ports/-" : "/spec/containers/0/ports");
        if (!has_list)
            jsonw_array(&p->w);
        write_port(p, &p->edit->ports[i]);
        if (!has_list)
            jsonw_end_array(&p->w);
        has_list = true;
        end(p);
    }
    return s;
}

static bool is_obsolete(const struct patching *p, const jsonr_value *entry)
{
    bool is_old = false;
    int64_t number = 0;

    for (size_t i = 0; i < p->edit->n_obsolete && !is_old; i++)
        is_old = is_port(entry, &p->edit->obsolete[i]) && jsonr_get_int(entry, "hostPort", &number) &&
                 number == p->edit->obsolete[i].port;
    for (size_t i = 0; i < p->edit->n_ports && is_old; i++)
        is_old = !is_port(entry, &p->edit->ports[i]);
    return is_old;
}

/* The last first: the places of the others stay as they are. After everything that names a place. */
static void remove_obsolete(struct patching *p, const char *list)
{
    char path[PATH_MAX_BYTES];

    for (size_t c = 0; c < jsonr_array_size(jsonr_get(p->spec, list)); c++) {
        const jsonr_value *ports = jsonr_get(jsonr_array_at(jsonr_get(p->spec, list), c), "ports");

        for (size_t i = jsonr_array_size(ports); i-- > 0;) {
            if (!is_obsolete(p, jsonr_array_at(ports, i)))
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
    const jsonr_value *containers = jsonr_get(p->spec, list);
    char path[PATH_MAX_BYTES];
    dibs_status s = DIBS_OK;

    (void) snprintf(path, sizeof path, "spec.%s", list);
    s = check_kind(p, containers, jsonr_is_array(containers), path, "a list");
    for (size_t i = 0; i < jsonr_array_size(containers) && s == DIBS_OK; i++) {
        const jsonr_value *container = jsonr_array_at(containers, i);

        (void) snprintf(path, sizeof path, "/spec/%s/%zu", list, i);
        if (!jsonr_is_object(container))
            return err_set(p->err, DIBS_INVALID, "spec.%s[%zu] is not an object", list, i);
        if (p->edit->n_env > 0)
            s = patch_env(p, container, path);
    }
    return s;
}

static dibs_status patch_annotations(struct patching *p)
{
    const jsonr_value *annotations = jsonr_at(p->pod, "metadata.annotations");
    char key[PATH_MAX_BYTES - 64];
    char path[PATH_MAX_BYTES];
    dibs_status s =
        check_kind(p, annotations, jsonr_is_object(annotations), "metadata.annotations", "an object");

    if (s == DIBS_OK && !jsonr_is_object(annotations) && p->edit->n_annotations > 0) {
        begin_value(p, "add", "/metadata/annotations");
        jsonw_object(&p->w);
        jsonw_end_object(&p->w);
        end(p);
    }
    for (size_t i = 0; i < p->edit->n_annotations && s == DIBS_OK; i++) {
        const struct pod_edit_pair *pair = &p->edit->annotations[i];
        const char *has = NULL;

        if (jsonr_get_string(annotations, pair->name, &has) && strcmp(has, pair->value) == 0)
            continue;
        escape(pair->name, key, sizeof key);
        (void) snprintf(path, sizeof path, "/metadata/annotations/%s", key);
        begin(p, "add", path); /* which replaces one that is there */
        jsonw_key_string(&p->w, "value", pair->value);
        end(p);
    }
    if (s == DIBS_OK && p->edit->removed && jsonr_get(annotations, p->edit->removed)) {
        escape(p->edit->removed, key, sizeof key);
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
    if (s == DIBS_OK && jsonr_array_size(jsonr_get(p->spec, "containers")) == 0)
        s = err_set(p->err, DIBS_INVALID, "spec.containers: the pod has none to give ports to");
    if (s == DIBS_OK && is_host_network(p)) {
        s = add_ports(p);
        remove_obsolete(p, "initContainers");
        remove_obsolete(p, "containers");
    }
    return s == DIBS_OK ? patch_annotations(p) : s;
}

dibs_status pod_patch_write(const jsonr_value *pod, const struct pod_edit *edit, struct bytes *out,
                            dibs_err *err)
{
    struct bytes text = { 0 };
    struct patching p = { .pod = pod, .spec = jsonr_get(pod, "spec"), .edit = edit, .err = err };

    jsonw_begin_bytes(&p.w, &text);
    dibs_status s = patch_all(&p);
    if (p.n_operations > 0)
        jsonw_end_array(&p.w);
    if (s == DIBS_OK && text.is_lost)
        s = err_set(err, DIBS_FAILURE, "writing a patch: out of memory");
    if (s == DIBS_OK)
        *out = text;
    else
        bytes_done(&text);
    return s;
}
