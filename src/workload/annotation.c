/* SPDX-License-Identifier: MIT */
#include "workload/annotation.h"

#include <string.h>

#include "base/err.h"
#include "base/near.h"
#include "base/text.h"
#include "net/bindings.h"
#include "json/json.h"

#include "base/banned.h"

#define FAILED "failed to parse port allocator config: "

enum { KEY_NAME_MAX = 63, KEY_PREFIX_MAX = 253 };

DEFINE_AUTO(json_doc, json_free)

/* One entry of a list, for messages: "allocations[0]". */
struct entry {
    struct workload_group *group;
    struct workload_place place;
    const char *list;
    size_t i;
    const json_value *value;
};

static dibs_status wrong(const struct entry *e, const char *field, const char *what, dibs_err *err)
{
    return workload_error(e->group, e->place, err, "%s[%zu].%s %s", e->list, e->i, field, what);
}

static dibs_status wrong_type(const struct entry *e, const char *field, const char *what, dibs_err *err)
{
    return workload_error(e->group, e->place, err, FAILED "%s[%zu].%s is not %s", e->list, e->i, field, what);
}

static dibs_status no_memory(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "out of memory");
}

/* A member of the entry; NULL when it is absent or null, which is the same to RBG. */
static const json_value *field_of(const struct entry *e, const char *field)
{
    const json_value *v = json_get_folded(e->value, field);

    return json_is_null(v) ? NULL : v;
}

/* NULL when absent, null or empty: RBG cannot tell these apart either. */
static dibs_status text_of(const struct entry *e, const char *field, const char **out, dibs_err *err)
{
    const json_value *v = field_of(e, field);
    const char *text = "";

    if (v && !json_as_string(v, &text))
        return wrong_type(e, field, "a text", err);
    if (strnlen(text, WORKLOAD_ANNOTATION_MAX + 1) > WORKLOAD_ANNOTATION_MAX)
        return wrong(e, field, "is too long", err);
    *out = *text ? workload_text(e->group, text) : NULL;
    return *text && !*out ? no_memory(err) : DIBS_OK;
}

static dibs_status number_of(const struct entry *e, const char *field, int64_t max, uint16_t *out,
                             dibs_err *err)
{
    const json_value *v = field_of(e, field);
    int64_t number = 0;

    if (!v)
        return DIBS_OK;
    if (!json_as_int(v, &number))
        return wrong_type(e, field, "a whole number", err);
    if (number < 1 || number > max)
        return workload_error(e->group, e->place, err, "%s[%zu].%s is not from 1 to %d", e->list, e->i, field,
                              (int) max);
    *out = (uint16_t) number;
    return DIBS_OK;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Letters, digits and `inner`, which stands neither first nor last. */
static bool is_word(const char *text, size_t len, const char *inner)
{
    if (len == 0 || !is_alnum(text[0]) || !is_alnum(text[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_alnum(text[i]) && !strchr(inner, text[i]))
            return false;
    return true;
}

bool workload_is_annotation_key(const char *key)
{
    const char *slash = strchr(key, '/');
    const char *name = slash ? slash + 1 : key;
    size_t name_len = strlen(name);

    if (name_len > KEY_NAME_MAX || !is_word(name, name_len, "-_."))
        return false;
    if (!slash)
        return true;
    if (slash - key > KEY_PREFIX_MAX)
        return false;
    for (const char *c = key; c < slash; c++)
        if (*c >= 'A' && *c <= 'Z')
            return false;
    for (const char *label = key; label <= slash;) { /* a DNS name: words between dots */
        size_t len = strcspn(label, "./");

        if (!is_word(label, len, "-"))
            return false;
        label += len + 1;
    }
    return true;
}

static dibs_status scope_of(const struct entry *e, enum workload_scope *out, dibs_err *err)
{
    const char *scope = NULL;
    char shown[64] = "";
    dibs_status s = text_of(e, "scope", &scope, err);

    if (s != DIBS_OK || !scope)
        return s;
    if (strcmp(scope, "PodScoped") == 0)
        *out = WORKLOAD_POD_SCOPED;
    else if (strcmp(scope, "RoleScoped") == 0)
        *out = WORKLOAD_ROLE_SCOPED;
    else
        return workload_error(e->group, e->place, err,
                              "%s[%zu].scope must be 'PodScoped' or 'RoleScoped', got '%s'", e->list, e->i,
                              text_safe(scope, shown, sizeof shown));
    return DIBS_OK;
}

static dibs_status env_of(const struct entry *e, const char **out, dibs_err *err)
{
    dibs_status s = text_of(e, "env", out, err);

    if (s == DIBS_OK && !*out)
        return wrong(e, "env", "is required", err);
    if (s == DIBS_OK && (strlen(*out) > WORKLOAD_ENV_MAX || !workload_is_env_name(*out)))
        return wrong(e, "env", "is not the name of a variable", err);
    return s;
}

static dibs_status key_of(const struct entry *e, const char **out, dibs_err *err)
{
    dibs_status s = text_of(e, "annotationKey", out, err);

    if (s != DIBS_OK || !*out)
        return s;
    if (!workload_is_annotation_key(*out))
        return wrong(e, "annotationKey", "is not the key of an annotation", err);
    if (strcmp(*out, WORKLOAD_KEY_RBG) == 0 || strcmp(*out, WORKLOAD_KEY_OWN) == 0)
        return wrong(e, "annotationKey", "is the key of the annotation itself", err);
    return DIBS_OK;
}

/* `proto` as on the command line; `address` is one or a list. */
static dibs_status bindings_of(const struct entry *e, struct workload_port *port, dibs_err *err)
{
    const json_value *address = field_of(e, "address");
    dibs_proto protos[BINDINGS_PROTOS_MAX] = { DIBS_TCP };
    size_t n_protos = 1;
    size_t n = json_is_array(address) ? json_array_size(address) : 1;
    const char *proto = NULL;
    dibs_err why = { 0 };
    dibs_status s = text_of(e, "proto", &proto, err);

    if (s != DIBS_OK || (!proto && !address))
        return s;
    if (proto && bindings_protos(proto, protos, &n_protos, &why) != DIBS_OK)
        return workload_error(e->group, e->place, err, "%s[%zu].proto: %s", e->list, e->i, why.msg);
    for (size_t i = 0; i < n; i++) {
        const char *text = "*";

        if (address && !json_as_string(json_is_array(address) ? json_array_at(address, i) : address, &text))
            return wrong_type(e, "address", "a text or a list of texts", err);
        if (bindings_add(text, protos, n_protos, port->bindings, &port->n_bindings, &why) != DIBS_OK)
            return workload_error(e->group, e->place, err, "%s[%zu].address: %s", e->list, e->i, why.msg);
    }
    return DIBS_OK;
}

/* What RBG does not have. */
static dibs_status extras_of(const struct entry *e, struct workload_port *port, dibs_err *err)
{
    const json_value *contiguous = field_of(e, "contiguous");
    uint16_t required = 0;
    uint16_t preferred = 0;
    dibs_status s = bindings_of(e, port, err);

    if (s == DIBS_OK)
        s = number_of(e, "port", DIBS_PORT_MAX, &required, err);
    if (s == DIBS_OK)
        s = number_of(e, "prefer", DIBS_PORT_MAX, &preferred, err);
    if (s == DIBS_OK)
        s = number_of(e, "count", WORKLOAD_COUNT_MAX, &port->count, err);
    if (s != DIBS_OK)
        return s;
    if (contiguous && !json_as_bool(contiguous, &port->is_contiguous))
        return wrong_type(e, "contiguous", "true or false", err);
    if (required && preferred)
        return wrong(e, "port", "and prefer cannot both be given", err);
    port->mode = required ? DIBS_REQUIRED : preferred ? DIBS_PREFERRED : DIBS_RANDOM;
    port->port = required ? required : preferred;
    return DIBS_OK;
}

static dibs_status take_port(const struct entry *e, struct workload_port *port, dibs_err *err)
{
    port->count = 1;
    port->place = e->place;
    dibs_status s = text_of(e, "name", &port->name, err);

    if (s == DIBS_OK && !port->name)
        s = wrong(e, "name", "is required", err);
    if (s == DIBS_OK)
        s = env_of(e, &port->env, err);
    if (s == DIBS_OK)
        s = scope_of(e, &port->scope, err);
    if (s == DIBS_OK)
        s = key_of(e, &port->annotation, err);
    if (s == DIBS_OK)
        s = extras_of(e, port, err);
    return s;
}

/* RBG's splitter leaves out an empty part at the end: "a.b." has two parts for it, and "a.b.c." passes. We
 * say what it says, and refuse that one. */
dibs_status workload_reference_parse_rbg(struct workload_group *group, const char *text,
                                         struct workload_reference *out, dibs_err *err)
{
    enum { PARTS = 3 };
    const char *parts[PARTS] = { NULL };
    size_t len = strlen(text);
    bool is_dotted = len > 0 && text[len - 1] == '.';
    size_t n = 0;
    bool has_empty = false;
    char shown[WORKLOAD_NAME_MAX] = "";
    char *copy = workload_text(group, text);

    if (!copy)
        return no_memory(err);
    if (len == 0)
        return err_set(err, DIBS_INVALID, "empty reference");
    if (is_dotted)
        copy[len - 1] = '\0';
    for (char *at = copy; at; n++) {
        char *dot = strchr(at, '.');

        if (dot)
            *dot = '\0';
        if (n < PARTS)
            parts[n] = at;
        has_empty = has_empty || !*at;
        at = dot ? dot + 1 : NULL;
    }
    (void) text_safe(text, shown, sizeof shown);
    if (n == PARTS && has_empty)
        return err_set(err, DIBS_INVALID, "invalid reference format '%s', all parts must be non-empty",
                       shown);
    if (n != PARTS || is_dotted)
        return err_set(err, DIBS_INVALID,
                       "invalid reference format '%s', expected '<role_name>.<component_name>.<port_name>'",
                       shown);
    out->role = parts[0];
    out->component = parts[1];
    out->port = parts[2];
    out->instance = -1;
    out->pod = -1;
    return DIBS_OK;
}

static dibs_status take_reference(const struct entry *e, enum workload_dialect dialect,
                                  struct workload_reference *reference, dibs_err *err)
{
    const json_value *v = field_of(e, "from");
    const char *from = "";
    dibs_err why = { 0 };
    dibs_status s = env_of(e, &reference->env, err);

    if (s != DIBS_OK)
        return s;
    if (v && !json_as_string(v, &from))
        return wrong_type(e, "from", "a text", err);
    if (!*from)
        return wrong(e, "from", "is required", err);
    reference->place = e->place;
    s = dialect == WORKLOAD_RBG ? workload_reference_parse_rbg(e->group, from, reference, &why)
                                : workload_reference_parse(e->group, from, reference, &why);
    if (s == DIBS_INVALID)
        return workload_error(e->group, e->place, err, "%s[%zu].from: %s", e->list, e->i, why.msg);
    return s == DIBS_OK ? s : no_memory(err);
}

/* RBG passes over what it does not know. */
static dibs_status check_keys(const struct entry *e, enum workload_dialect dialect, const char *const *known,
                              dibs_err *err)
{
    const char *unknown = dialect == WORKLOAD_RBG ? NULL : json_unknown_key_folded(e->value, known);
    struct near best = { .wanted = unknown };
    char shown[KEY_NAME_MAX];
    char hint[NEAR_HINT_MAX];
    char where[32] = "the annotation";

    if (!unknown)
        return DIBS_OK;
    for (; *known; known++)
        near_offer(&best, *known);
    if (*e->list)
        (void) snprintf(where, sizeof where, "%s[%zu]", e->list, e->i);
    return workload_error(e->group, e->place, err, "%s has no key '%s'%s", where,
                          text_safe(unknown, shown, sizeof shown), near_say(&best, hint, sizeof hint));
}

/* The list under `key`, absent and null being empty. */
static dibs_status list_of(const struct entry *top, const char *key, size_t max, const json_value **out,
                           dibs_err *err)
{
    const json_value *list = field_of(top, key);

    if (list && !json_is_array(list))
        return workload_error(top->group, top->place, err, FAILED "%s is not a list", key);
    if (json_array_size(list) > max)
        return workload_error(top->group, top->place, err, "%s has more than %zu entries", key, max);
    *out = list;
    return DIBS_OK;
}

static dibs_status entry_at(struct entry *e, const json_value *list, size_t i, dibs_err *err)
{
    e->i = i;
    e->value = json_array_at(list, i);
    if (json_is_object(e->value) || json_is_null(e->value))
        return DIBS_OK;
    return workload_error(e->group, e->place, err, FAILED "%s[%zu] is not an object", e->list, i);
}

static dibs_status take_lists(const struct entry *top, enum workload_dialect dialect,
                              struct workload_component *out, dibs_err *err)
{
    static const char *const keys[] = { "allocations", "references", NULL };
    static const char *const port_keys[] = { "name", "env",    "scope", "annotationKey", "proto", "address",
                                             "port", "prefer", "count", "contiguous",    NULL };
    static const char *const reference_keys[] = { "env", "from", NULL };
    const json_value *ports = NULL;
    const json_value *references = NULL;
    struct entry e = { .group = top->group, .place = top->place, .list = "allocations" };
    dibs_status s = check_keys(top, dialect, keys, err);

    if (s == DIBS_OK)
        s = list_of(top, e.list, WORKLOAD_PORTS_MAX, &ports, err);
    if (s == DIBS_OK)
        s = list_of(top, "references", WORKLOAD_REFERENCES_MAX, &references, err);
    if (s != DIBS_OK)
        return s;
    size_t n_ports = json_array_size(ports);
    size_t n_references = json_array_size(references);
    struct workload_port *port = workload_take(e.group, (n_ports + 1) * sizeof *port);
    struct workload_reference *reference = workload_take(e.group, (n_references + 1) * sizeof *reference);

    if (!port || !reference)
        return no_memory(err);
    for (size_t i = 0; s == DIBS_OK && i < n_ports; i++) {
        s = entry_at(&e, ports, i, err);
        if (s == DIBS_OK)
            s = check_keys(&e, dialect, port_keys, err);
        if (s == DIBS_OK)
            s = take_port(&e, &port[i], err);
    }
    e.list = "references";
    for (size_t i = 0; s == DIBS_OK && i < n_references; i++) {
        s = entry_at(&e, references, i, err);
        if (s == DIBS_OK)
            s = check_keys(&e, dialect, reference_keys, err);
        if (s == DIBS_OK)
            s = take_reference(&e, dialect, &reference[i], err);
    }
    if (s != DIBS_OK)
        return s;
    out->ports = port;
    out->n_ports = n_ports;
    out->references = reference;
    out->n_references = n_references;
    return DIBS_OK;
}

/* "null" between blanks: an empty configuration, which our reader of documents does not take. */
static bool is_null_text(const char *text)
{
    const char *blanks = " \t\r\n";
    const char *word = text + strspn(text, blanks);

    return strncmp(word, "null", 4) == 0 && word[4 + strspn(word + 4, blanks)] == '\0';
}

dibs_status workload_annotation_parse(struct workload_group *group, enum workload_dialect dialect,
                                      const char *text, struct workload_component *out, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    dibs_err why = { 0 };

    if (!text || !*text || is_null_text(text))
        return DIBS_OK;
    dibs_status s = json_parse(text, strlen(text), &doc, &why);

    if (s == DIBS_INVALID)
        return workload_error(group, out->place, err, FAILED "%s", why.msg);
    if (s != DIBS_OK)
        return err_set(err, s, "%s", why.msg);
    struct entry top = { .group = group, .place = out->place, .list = "", .value = json_root(doc) };
    if (!json_is_object(top.value))
        return workload_error(group, out->place, err, FAILED "it is not an object");
    return take_lists(&top, dialect, out, err);
}
