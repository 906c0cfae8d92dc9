/* SPDX-License-Identifier: MIT */
#include "kube/webhook/pod_patch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

enum { PATH_MAX_BYTES = 1024 }; /* the longest part is an escaped annotation key */

struct patching {
    const jsonr_value *pod, *spec;
    const struct pod_edit *edit;
    struct jsonw w;
    size_t n_operations;
    dibs_err *err;
};

/* ---- operations ---- */

/* Begin an operation. Its value, unless it is a removal, and end() follow. */
DIBS_PRINTF(3, 4)
static void begin(struct patching *p, const char *operation, const char *path_fmt, ...)
{
    char path[PATH_MAX_BYTES];
    va_list args;

    va_start(args, path_fmt);
    (void) vsnprintf(path, sizeof path, path_fmt, args);
    va_end(args);
    if (p->n_operations++ == 0)
        jsonw_array(&p->w);
    jsonw_object(&p->w);
    jsonw_key_string(&p->w, "op", operation);
    jsonw_key_string(&p->w, "path", path);
    if (strcmp(operation, "remove") != 0)
        jsonw_key(&p->w, "value");
}

static void end(struct patching *p)
{
    jsonw_end_object(&p->w);
}

/* Escape a key of a path (RFC 6901): "~" is "~0" and "/" is "~1". */
static const char *escape(const char *key, char out[PATH_MAX_BYTES])
{
    size_t n = 0;

    for (; *key && n + 3 < PATH_MAX_BYTES; key++) {
        bool is_plain = *key != '~' && *key != '/';

        if (!is_plain)
            out[n++] = '~';
        out[n++] = (char) (is_plain ? *key : *key == '~' ? '0' : '1');
    }
    out[n] = '\0';
    return out;
}

/* Return whether the value is present and of the wrong type. */
static bool is_wrong(const jsonr_value *v, bool is_right)
{
    return v && !jsonr_is_null(v) && !is_right;
}

/* ---- variables ---- */

static bool is_named(const jsonr_value *entry, const char *name)
{
    const char *text = NULL;

    return jsonr_get_string(entry, "name", &text) && strcmp(text, name) == 0;
}

/* Return whether the entry has exactly this value and no other source. */
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

/* Replace all variables of this name; Kubernetes uses the last one. */
static void replace_variable(struct patching *p, const jsonr_value *env, const char *where,
                             const struct pod_edit_pair *pair)
{
    for (size_t i = 0; i < jsonr_array_size(env); i++) {
        const jsonr_value *entry = jsonr_array_at(env, i);

        if (!is_named(entry, pair->name) || says(entry, pair->value))
            continue;
        begin(p, "replace", "%s/%zu", where, i);
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

/* Patch one container's variables; `where` is the path of their list. */
static dibs_status patch_env(struct patching *p, const jsonr_value *env, const char *where)
{
    size_t n_new = 0;

    if (is_wrong(env, jsonr_is_array(env)))
        return err_set(p->err, DIBS_INVALID, "%s is not a list", where);
    if (!jsonr_is_array(env)) {
        begin(p, "add", "%s", where);
        jsonw_array(&p->w);
        for (size_t i = 0; i < p->edit->n_env; i++)
            write_variable(p, &p->edit->env[i]);
        jsonw_end_array(&p->w);
        end(p);
        return DIBS_OK;
    }
    /* Replace first, while indices are unchanged; then insert at the front, in order. */
    for (size_t i = 0; i < p->edit->n_env; i++)
        replace_variable(p, env, where, &p->edit->env[i]);
    for (size_t i = 0; i < p->edit->n_env; i++) {
        if (has_variable(env, p->edit->env[i].name))
            continue;
        begin(p, "add", "%s/%zu", where, n_new++);
        write_variable(p, &p->edit->env[i]);
        end(p);
    }
    return DIBS_OK;
}

/* ---- ports of the host ---- */

static bool is_port(const jsonr_value *entry, const struct pod_edit_port *port)
{
    const char *protocol = "TCP"; /* Kubernetes' default */
    int64_t number = 0;

    (void) jsonr_get_string(entry, "protocol", &protocol);
    return jsonr_get_int(entry, "containerPort", &number) && number == port->port &&
           strcmp(protocol, port->protocol) == 0;
}

static bool is_host_port(const jsonr_value *entry, const struct pod_edit_port *port)
{
    int64_t number = 0;

    return is_port(entry, port) && jsonr_get_int(entry, "hostPort", &number) && number == port->port;
}

/* Complete an existing entry of that number in any container, so that it is not listed twice. Init
 * containers do not count: neither the scheduler nor the API server compares their host ports. */
static bool complete_port(struct patching *p, const struct pod_edit_port *port)
{
    const jsonr_value *containers = jsonr_get(p->spec, "containers");

    for (size_t c = 0; c < jsonr_array_size(containers); c++) {
        const jsonr_value *ports = jsonr_get(jsonr_array_at(containers, c), "ports");

        for (size_t i = 0; i < jsonr_array_size(ports); i++) {
            const jsonr_value *entry = jsonr_array_at(ports, i);

            if (!is_port(entry, port))
                continue;
            if (!is_host_port(entry, port)) {
                begin(p, "add", "/spec/containers/%zu/ports/%zu/hostPort", c, i);
                jsonw_int(&p->w, port->port);
                end(p);
            }
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

    if (is_wrong(ports, has_list))
        return err_set(p->err, DIBS_INVALID, "spec.containers[0].ports is not a list");
    for (size_t i = 0; i < p->edit->n_ports; i++) {
        if (complete_port(p, &p->edit->ports[i]))
            continue;
        begin(p, "add", "/spec/containers/0/ports%s", has_list ? "/-" : "");
        if (!has_list)
            jsonw_array(&p->w);
        write_port(p, &p->edit->ports[i]);
        if (!has_list)
            jsonw_end_array(&p->w);
        has_list = true;
        end(p);
    }
    return DIBS_OK;
}

static bool is_obsolete(const struct patching *p, const jsonr_value *entry)
{
    bool is_old = false;

    for (size_t i = 0; i < p->edit->n_obsolete && !is_old; i++)
        is_old = is_host_port(entry, &p->edit->obsolete[i]);
    for (size_t i = 0; i < p->edit->n_ports && is_old; i++)
        is_old = !is_port(entry, &p->edit->ports[i]);
    return is_old;
}

/* Remove from the last to the first, so that indices stay valid. Comes after all other operations. */
static void remove_obsolete(struct patching *p, const char *list)
{
    const jsonr_value *containers = jsonr_get(p->spec, list);

    for (size_t c = 0; c < jsonr_array_size(containers); c++) {
        const jsonr_value *ports = jsonr_get(jsonr_array_at(containers, c), "ports");

        for (size_t i = jsonr_array_size(ports); i-- > 0;) {
            if (!is_obsolete(p, jsonr_array_at(ports, i)))
                continue;
            begin(p, "remove", "/spec/%s/%zu/ports/%zu", list, c, i);
            end(p);
        }
    }
}

/* ---- containers and annotations ---- */

static dibs_status patch_containers(struct patching *p, const char *list)
{
    const jsonr_value *containers = jsonr_get(p->spec, list);
    dibs_status s = DIBS_OK;

    if (is_wrong(containers, jsonr_is_array(containers)))
        return err_set(p->err, DIBS_INVALID, "spec.%s is not a list", list);
    for (size_t i = 0; i < jsonr_array_size(containers) && s == DIBS_OK; i++) {
        const jsonr_value *container = jsonr_array_at(containers, i);
        char where[64];

        if (!jsonr_is_object(container))
            return err_set(p->err, DIBS_INVALID, "spec.%s[%zu] is not an object", list, i);
        (void) snprintf(where, sizeof where, "/spec/%s/%zu/env", list, i);
        if (p->edit->n_env > 0)
            s = patch_env(p, jsonr_get(container, "env"), where);
    }
    return s;
}

static dibs_status patch_annotations(struct patching *p)
{
    const jsonr_value *annotations = jsonr_at(p->pod, "metadata.annotations");
    bool has_map = jsonr_is_object(annotations);
    char key[PATH_MAX_BYTES];

    if (is_wrong(annotations, has_map))
        return err_set(p->err, DIBS_INVALID, "metadata.annotations is not an object");
    if (!has_map && p->edit->n_annotations > 0) {
        begin(p, "add", "/metadata/annotations");
        jsonw_object(&p->w);
        jsonw_end_object(&p->w);
        end(p);
    }
    for (size_t i = 0; i < p->edit->n_annotations; i++) {
        const struct pod_edit_pair *pair = &p->edit->annotations[i];
        const char *has = NULL;

        if (jsonr_get_string(annotations, pair->name, &has) && strcmp(has, pair->value) == 0)
            continue;
        /* "add" also replaces */
        begin(p, "add", "/metadata/annotations/%s", escape(pair->name, key));
        jsonw_string(&p->w, pair->value);
        end(p);
    }
    if (p->edit->removed && jsonr_get(annotations, p->edit->removed)) {
        begin(p, "remove", "/metadata/annotations/%s", escape(p->edit->removed, key));
        end(p);
    }
    return DIBS_OK;
}

static dibs_status patch_all(struct patching *p)
{
    bool is_host_network = false;
    dibs_status s = patch_containers(p, "initContainers");

    if (s == DIBS_OK)
        s = patch_containers(p, "containers");
    if (s == DIBS_OK && jsonr_array_size(jsonr_get(p->spec, "containers")) == 0)
        s = err_set(p->err, DIBS_INVALID, "spec.containers: the pod has none to give ports to");
    if (s == DIBS_OK && jsonr_get_bool(p->spec, "hostNetwork", &is_host_network) && is_host_network) {
        s = add_ports(p);
        remove_obsolete(p, "initContainers");
        remove_obsolete(p, "containers");
    }
    return s == DIBS_OK ? patch_annotations(p) : s;
}

static dibs_status write_patch(const jsonr_value *pod, const struct pod_edit *edit,
                               dibs_status (*patch)(struct patching *p), struct bytes *out, dibs_err *err)
{
    struct bytes text = { 0 };
    struct patching p = { .pod = pod, .spec = jsonr_get(pod, "spec"), .edit = edit, .err = err };

    jsonw_begin_bytes(&p.w, &text);
    dibs_status s = patch(&p);
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

dibs_status pod_patch_write(const jsonr_value *pod, const struct pod_edit *edit, struct bytes *out,
                            dibs_err *err)
{
    return write_patch(pod, edit, patch_all, out, err);
}

dibs_status pod_patch_annotations(const jsonr_value *object, const struct pod_edit *edit, struct bytes *out,
                                  dibs_err *err)
{
    return write_patch(object, edit, patch_annotations, out, err);
}
