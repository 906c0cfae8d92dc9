/* SPDX-License-Identifier: MIT */
#include "workload/annotation.h"

#include <stdarg.h>
#include <string.h>

#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"
#include "codec/json.h"
#include "net/bindings.h"

#include "base/banned.h"

#define FAILED "failed to parse port allocator config: "

enum { KEY_NAME_MAX = 63, KEY_PREFIX_MAX = 253 };

/* The annotation that is being read. The first fault stays: after it every reader does nothing. */
struct reading {
    struct workload_group *group;
    struct workload_place place;
    enum workload_dialect dialect;
    dibs_status status;
    dibs_err *err;
};

/* One entry of a list, for messages: "allocations[0]". */
struct entry {
    struct reading *r;
    const char *list;
    size_t i;
    const jsonr_value *value;
};

DIBS_PRINTF(2, 3) static void fault(struct reading *r, const char *fmt, ...)
{
    char text[DIBS_ERR_MSG_MAX] = "";
    va_list args;

    if (r->status != DIBS_OK)
        return;
    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->status = workload_error(r->group, r->place, r->err, "%s", text);
}

static void wrong(const struct entry *e, const char *field, const char *what)
{
    fault(e->r, "%s[%zu].%s %s", e->list, e->i, field, what);
}

static void wrong_type(const struct entry *e, const char *field, const char *what)
{
    fault(e->r, FAILED "%s[%zu].%s is not %s", e->list, e->i, field, what);
}

static dibs_status no_memory(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "out of memory");
}

/* A member of the entry; NULL when it is absent or null, which is the same to RBG. */
static const jsonr_value *field_of(const struct entry *e, const char *field)
{
    const jsonr_value *v = jsonr_get_folded(e->value, field);

    return jsonr_is_null(v) ? NULL : v;
}

/* NULL when absent, null or empty, which RBG cannot distinguish either, and after a fault. */
static const char *text_of(const struct entry *e, const char *field)
{
    const jsonr_value *v = field_of(e, field);
    const char *text = "";

    if (v && !jsonr_as_string(v, &text))
        wrong_type(e, field, "a text");
    if (strnlen(text, WORKLOAD_ANNOTATION_MAX + 1) > WORKLOAD_ANNOTATION_MAX)
        wrong(e, field, "is too long");
    if (!*text || e->r->status != DIBS_OK)
        return NULL;
    const char *copy = workload_text(e->r->group, text);
    if (!copy)
        e->r->status = no_memory(e->r->err);
    return copy;
}

static void number_of(const struct entry *e, const char *field, int64_t max, uint16_t *out)
{
    const jsonr_value *v = field_of(e, field);
    int64_t number = 0;

    if (!v)
        return;
    if (!jsonr_as_int(v, &number))
        wrong_type(e, field, "a whole number");
    if (number < 1 || number > max)
        fault(e->r, "%s[%zu].%s is not from 1 to %d", e->list, e->i, field, (int) max);
    *out = (uint16_t) number;
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

static void read_scope(const struct entry *e, enum workload_scope *out)
{
    const char *scope = text_of(e, "scope");
    char shown[64] = "";

    if (!scope || strcmp(scope, "PodScoped") == 0)
        return;
    *out = WORKLOAD_ROLE_SCOPED;
    if (strcmp(scope, "RoleScoped") != 0)
        fault(e->r, "%s[%zu].scope must be 'PodScoped' or 'RoleScoped', got '%s'", e->list, e->i,
              text_safe(scope, shown, sizeof shown));
}

static const char *env_of(const struct entry *e)
{
    const char *env = text_of(e, "env");

    if (!env)
        wrong(e, "env", "is required");
    else if (strlen(env) > WORKLOAD_ENV_MAX || !workload_is_env_name(env))
        wrong(e, "env", "is not the name of a variable");
    else if (workload_env_danger(env))
        wrong(e, "env", "is a variable that other programs read, such as PATH or LD_PRELOAD");
    return env;
}

static const char *key_of(const struct entry *e)
{
    const char *key = text_of(e, "annotationKey");

    if (key && !workload_is_annotation_key(key))
        wrong(e, "annotationKey", "is not the key of an annotation");
    if (key && (strcmp(key, WORKLOAD_KEY_RBG) == 0 || strcmp(key, WORKLOAD_KEY_OWN) == 0))
        wrong(e, "annotationKey", "is the key of the annotation itself");
    return key;
}

/* `proto` as on the command line; `address` is one or a list. */
static void read_bindings(const struct entry *e, struct workload_port *port)
{
    const jsonr_value *address = field_of(e, "address");
    dibs_proto protos[PROTO_LIST_MAX] = { DIBS_TCP };
    size_t n_protos = 1;
    size_t n = jsonr_is_array(address) ? jsonr_array_size(address) : 1;
    const char *proto = text_of(e, "proto");
    dibs_err why = { 0 };

    if (proto && proto_list(proto, protos, &n_protos, &why) != DIBS_OK)
        fault(e->r, "%s[%zu].proto: %s", e->list, e->i, why.msg);
    for (size_t i = 0; (proto || address) && i < n && e->r->status == DIBS_OK; i++) {
        const char *text = "*";

        if (address &&
            !jsonr_as_string(jsonr_is_array(address) ? jsonr_array_at(address, i) : address, &text))
            wrong_type(e, "address", "a text or a list of texts");
        else if (bindings_add(text, protos, n_protos, port->bindings, &port->n_bindings, &why) != DIBS_OK)
            fault(e->r, "%s[%zu].address: %s", e->list, e->i, why.msg);
    }
}

static void read_port(const struct entry *e, struct workload_port *port)
{
    const jsonr_value *contiguous = field_of(e, "contiguous");
    uint16_t required = 0;
    uint16_t preferred = 0;

    port->count = 1;
    port->place = e->r->place;
    port->name = text_of(e, "name");
    if (!port->name)
        wrong(e, "name", "is required");
    port->env = env_of(e);
    read_scope(e, &port->scope);
    port->annotation = key_of(e);
    /* What follows RBG does not have. */
    read_bindings(e, port);
    number_of(e, "port", DIBS_PORT_MAX, &required);
    number_of(e, "prefer", DIBS_PORT_MAX, &preferred);
    number_of(e, "count", WORKLOAD_COUNT_MAX, &port->count);
    if (contiguous && !jsonr_as_bool(contiguous, &port->is_contiguous))
        wrong_type(e, "contiguous", "true or false");
    if (required && preferred)
        wrong(e, "port", "and prefer cannot both be given");
    port->mode = required ? DIBS_REQUIRED : preferred ? DIBS_PREFERRED : DIBS_RANDOM;
    port->port = required ? required : preferred;
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

static void read_reference(const struct entry *e, struct workload_reference *reference)
{
    const jsonr_value *v = field_of(e, "from");
    const char *from = "";
    dibs_err why = { 0 };

    reference->env = env_of(e);
    reference->place = e->r->place;
    if (v && !jsonr_as_string(v, &from))
        wrong_type(e, "from", "a text");
    if (!*from)
        wrong(e, "from", "is required");
    if (e->r->status != DIBS_OK)
        return;
    dibs_status s = e->r->dialect == WORKLOAD_RBG
                        ? workload_reference_parse_rbg(e->r->group, from, reference, &why)
                        : workload_reference_parse(e->r->group, from, reference, &why);
    if (s == DIBS_INVALID)
        fault(e->r, "%s[%zu].from: %s", e->list, e->i, why.msg);
    else if (s != DIBS_OK)
        e->r->status = no_memory(e->r->err);
}

/* RBG passes over what it does not know. */
static void check_keys(const struct entry *e, const char *const *known)
{
    const char *unknown = e->r->dialect == WORKLOAD_RBG ? NULL : jsonr_unknown_key_folded(e->value, known);
    struct suggest best = { .wanted = unknown };
    char shown[KEY_NAME_MAX];
    char hint[SUGGEST_HINT_MAX];
    char where[32] = "the annotation";

    if (!unknown)
        return;
    for (; *known; known++)
        suggest_offer(&best, *known);
    if (*e->list)
        (void) snprintf(where, sizeof where, "%s[%zu]", e->list, e->i);
    fault(e->r, "%s has no key '%s'%s", where, text_safe(unknown, shown, sizeof shown),
          suggest_format(&best, hint, sizeof hint));
}

/* Take the list `e->list` of `top`: storage for its entries; absent and null are empty. NULL after a fault.
 */
static void *begin_list(const struct entry *top, struct entry *e, size_t max, size_t size, size_t *n)
{
    const jsonr_value *list = field_of(top, e->list);

    e->value = list;
    *n = jsonr_array_size(list);
    if (list && !jsonr_is_array(list))
        fault(e->r, FAILED "%s is not a list", e->list);
    if (*n > max)
        fault(e->r, "%s has more than %zu entries", e->list, max);
    void *items = e->r->status == DIBS_OK ? workload_take(e->r->group, (*n + 1) * size) : NULL;
    if (!items && e->r->status == DIBS_OK)
        e->r->status = no_memory(e->r->err);
    return items;
}

static struct entry entry_at(const struct entry *list, size_t i, const char *const *known)
{
    struct entry e = { list->r, list->list, i, jsonr_array_at(list->value, i) };

    if (!jsonr_is_object(e.value) && !jsonr_is_null(e.value))
        fault(e.r, FAILED "%s[%zu] is not an object", e.list, i);
    check_keys(&e, known);
    return e;
}

static void read_lists(const struct entry *top, struct workload_component *out)
{
    static const char *const keys[] = { "allocations", "references", NULL };
    static const char *const port_keys[] = { "name", "env",    "scope", "annotationKey", "proto", "address",
                                             "port", "prefer", "count", "contiguous",    NULL };
    static const char *const reference_keys[] = { "env", "from", NULL };
    struct entry ports = { .r = top->r, .list = "allocations" };
    struct entry references = { .r = top->r, .list = "references" };
    struct workload_component found = { 0 };

    check_keys(top, keys);
    found.ports = begin_list(top, &ports, WORKLOAD_PORTS_MAX, sizeof *found.ports, &found.n_ports);
    found.references =
        begin_list(top, &references, WORKLOAD_REFERENCES_MAX, sizeof *found.references, &found.n_references);
    for (size_t i = 0; top->r->status == DIBS_OK && i < found.n_ports; i++) {
        const struct entry e = entry_at(&ports, i, port_keys);

        read_port(&e, &found.ports[i]);
    }
    for (size_t i = 0; top->r->status == DIBS_OK && i < found.n_references; i++) {
        const struct entry e = entry_at(&references, i, reference_keys);

        read_reference(&e, &found.references[i]);
    }
    if (top->r->status != DIBS_OK)
        return;
    out->ports = found.ports;
    out->n_ports = found.n_ports;
    out->references = found.references;
    out->n_references = found.n_references;
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
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct reading r = { .group = group, .place = out->place, .dialect = dialect, .err = err };
    dibs_err why = { 0 };

    if (!text || !*text || is_null_text(text))
        return DIBS_OK;
    dibs_status s = jsonr_parse(text, strlen(text), &doc, &why);

    if (s == DIBS_INVALID)
        fault(&r, FAILED "%s", why.msg);
    else if (s != DIBS_OK)
        return err_set(err, s, "%s", why.msg);
    else if (!jsonr_is_object(jsonr_root(doc)))
        fault(&r, FAILED "it is not an object");
    else
        read_lists(&(struct entry){ .r = &r, .list = "", .value = jsonr_root(doc) }, out);
    return r.status;
}
