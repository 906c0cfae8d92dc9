/* SPDX-License-Identifier: MIT */
#include "workload/annotation.h"

#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "base/suggest.h"
#include "codec/json.h"
#include "net/bindings.h"
#include "workload/discovery.h"

#include "base/banned.h"

enum { KEY_NAME_MAX = 63, KEY_PREFIX_MAX = 253 };

/* State of the parser. After a fault every function does nothing. */
struct reading {
    struct workload_group *group;
    struct workload_place place;
    enum workload_dialect dialect;
    const char *failed; /* start of messages about types, in RBG's words */
    struct workload_faults faults;
};
#define fault(r, ...) workload_fault(&(r)->faults, (r)->place, __VA_ARGS__)

/* A list entry, for messages: "allocations[0]". */
struct entry {
    struct reading *r;
    const char *list;
    size_t i;
    const jsonr_value *value;
};

static bool is_good(const struct entry *e)
{
    return e->r->faults.status == DIBS_OK;
}

static void wrong(const struct entry *e, const char *field, const char *what)
{
    fault(e->r, "%s[%zu].%s %s", e->list, e->i, field, what);
}

static void wrong_type(const struct entry *e, const char *field, const char *what)
{
    fault(e->r, "%s%s[%zu].%s is not %s", e->r->failed, e->list, e->i, field, what);
}

/* Allocate from the group's arena. NULL after a fault; lack of memory is one. */
static void *take(struct reading *r, size_t size)
{
    void *taken = r->faults.status == DIBS_OK ? workload_take(r->group, size) : NULL;

    if (!taken && r->faults.status == DIBS_OK)
        r->faults.status = err_set(r->faults.err, DIBS_FAILURE, "out of memory");
    return taken;
}

/* ---- fields ---- */

/* Return a member of the entry; NULL when it is absent or null, which RBG treats alike. */
static const jsonr_value *field_of(const struct entry *e, const char *field)
{
    const jsonr_value *v = jsonr_get_folded(e->value, field);

    return jsonr_is_null(v) ? NULL : v;
}

/* Return a text; NULL after a fault, or when it is absent, null or empty, which RBG treats alike. */
static const char *text_of(const struct entry *e, const char *field)
{
    const jsonr_value *v = field_of(e, field);
    const char *text = "";

    if (v && !jsonr_as_string(v, &text))
        wrong_type(e, field, "a text");
    if (strnlen(text, WORKLOAD_ANNOTATION_MAX + 1) > WORKLOAD_ANNOTATION_MAX)
        wrong(e, field, "is too long");
    size_t size = strlen(text) + 1;
    char *copy = *text ? take(e->r, size) : NULL;
    return copy ? memcpy(copy, text, size) : NULL;
}

static const char *required_text(const struct entry *e, const char *field)
{
    const char *text = text_of(e, field);

    if (!text)
        wrong(e, field, "is required");
    return text;
}

static void number_of(const struct entry *e, const char *field, int64_t min, int64_t max, uint16_t *out)
{
    const jsonr_value *v = field_of(e, field);
    int64_t number = 0;

    if (!v)
        return;
    if (!jsonr_as_int(v, &number))
        wrong_type(e, field, "a whole number");
    if (number < min || number > max)
        fault(e->r, "%s[%zu].%s is not from %d to %d", e->list, e->i, field, (int) min, (int) max);
    *out = (uint16_t) number;
}

/* Return whether the text consists of letters, digits and, except at its ends, of `inner`. */
static bool is_word(const char *text, size_t len, const char *inner)
{
    if (len == 0 || !isalnum((unsigned char) text[0]) || !isalnum((unsigned char) text[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) text[i]) && !strchr(inner, text[i]))
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
        if (isupper((unsigned char) *c))
            return false;
    for (const char *label = key; label <= slash;) { /* DNS labels between dots */
        size_t len = strcspn(label, "./");

        if (!is_word(label, len, "-"))
            return false;
        label += len + 1;
    }
    return true;
}

static const char *env_of(const struct entry *e)
{
    const char *env = required_text(e, "env");

    if (env && (strlen(env) > WORKLOAD_ENV_MAX || !workload_is_env_name(env)))
        wrong(e, "env", "is not the name of a variable");
    else if (env && workload_env_danger(env))
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

/* Read the bindings: `proto` as on the command line, `address` as one text or a list. */
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
    for (size_t i = 0; (proto || address) && i < n && is_good(e); i++) {
        const char *text = "*";

        if (address &&
            !jsonr_as_string(jsonr_is_array(address) ? jsonr_array_at(address, i) : address, &text))
            wrong_type(e, "address", "a text or a list of texts");
        else if (bindings_add(text, protos, n_protos, port->bindings, &port->n_bindings, &why) != DIBS_OK)
            fault(e->r, "%s[%zu].address: %s", e->list, e->i, why.msg);
    }
}

static void bool_of(const struct entry *e, const char *key, bool *out)
{
    const jsonr_value *value = field_of(e, key);

    if (value && !jsonr_as_bool(value, out))
        wrong_type(e, key, "true or false");
}

static void read_port(const struct entry *e, void *out)
{
    struct workload_port *port = out;
    bool has_host_port = true;
    uint16_t required = 0;
    uint16_t preferred = 0;

    port->count = 1;
    port->place = e->r->place;
    port->name = required_text(e, "name");
    port->env = env_of(e);
    const char *scope = text_of(e, "scope");
    if (scope && !workload_scope_parse(scope, &port->scope))
        fault(e->r, "%s[%zu].scope must be 'PodScoped' or 'RoleScoped', got '%.64s'", e->list, e->i, scope);
    port->annotation = key_of(e);
    /* Extensions to RBG's format: */
    read_bindings(e, port);
    number_of(e, "port", 1, DIBS_PORT_MAX, &required);
    number_of(e, "prefer", 1, DIBS_PORT_MAX, &preferred);
    number_of(e, "count", 1, WORKLOAD_COUNT_MAX, &port->count);
    bool_of(e, "contiguous", &port->is_contiguous);
    bool_of(e, "hostPort", &has_host_port);
    port->has_no_host_port = !has_host_port;
    if (required && preferred)
        wrong(e, "port", "and prefer cannot both be given");
    port->mode = required ? DIBS_REQUIRED : preferred ? DIBS_PREFERRED : DIBS_RANDOM;
    port->port = required ? required : preferred;
}

/* RBG's splitter drops an empty last part: it counts two parts in "a.b." and accepts "a.b.c.". We return
 * its messages but refuse the latter. */
dibs_status workload_reference_parse_rbg(struct workload_group *group, const char *text,
                                         struct workload_reference *out, dibs_err *err)
{
    enum { PARTS = 3 };
    const char *parts[PARTS] = { NULL };
    size_t len = strlen(text);
    bool is_dotted = len > 0 && text[len - 1] == '.';
    size_t n = 0;
    bool has_empty = false;
    char *copy = workload_text(group, text);

    if (!copy)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (len == 0)
        return err_set(err, DIBS_INVALID, "empty reference");
    if (is_dotted)
        copy[len - 1] = '\0';
    for (char *part = NULL; (part = strsep(&copy, ".")); n++) {
        if (n < PARTS)
            parts[n] = part;
        has_empty = has_empty || !*part;
    }
    if (n == PARTS && has_empty)
        return err_set(err, DIBS_INVALID, "invalid reference format '%.253s', all parts must be non-empty",
                       text);
    if (n != PARTS || is_dotted)
        return err_set(
            err, DIBS_INVALID,
            "invalid reference format '%.253s', expected '<role_name>.<component_name>.<port_name>'", text);
    out->role = parts[0];
    out->component = parts[1];
    out->port = parts[2];
    out->instance = -1;
    out->pod = -1;
    return DIBS_OK;
}

static void read_reference(const struct entry *e, void *out)
{
    struct workload_reference *reference = out;
    const jsonr_value *v = field_of(e, "from");
    const char *from = "";
    dibs_err why = { 0 };

    reference->env = env_of(e);
    reference->place = e->r->place;
    if (v && !jsonr_as_string(v, &from))
        wrong_type(e, "from", "a text");
    if (!*from)
        wrong(e, "from", "is required");
    if (!is_good(e))
        return;
    dibs_status s = e->r->dialect == WORKLOAD_RBG
                        ? workload_reference_parse_rbg(e->r->group, from, reference, &why)
                        : workload_reference_parse(e->r->group, from, reference, &why);
    if (s == DIBS_INVALID)
        fault(e->r, "%s[%zu].from: %s", e->list, e->i, why.msg);
    else if (s != DIBS_OK)
        e->r->faults.status = err_set(e->r->faults.err, s, "%s", why.msg);
}

static void read_address_ref(const struct entry *e, void *out)
{
    struct workload_discovery_ref *ref = out;

    ref->env = env_of(e);
    ref->component = required_text(e, "component");
    number_of(e, "index", 0, WORKLOAD_INSTANCES_MAX - 1, &ref->index);
}

static void read_port_ref(const struct entry *e, void *out)
{
    struct workload_discovery_ref *ref = out;

    read_address_ref(e, out);
    ref->port = required_text(e, "portName");
}

/* ---- lists ---- */

/* Refuse unknown keys, which RBG ignores. */
static void check_keys(const struct entry *e, const char *const *known)
{
    const char *unknown = e->r->dialect == WORKLOAD_RBG ? NULL : jsonr_unknown_key_folded(e->value, known);
    struct suggest best = { .wanted = unknown };
    char hint[SUGGEST_HINT_MAX];
    char where[32] = "the annotation";

    if (!unknown)
        return;
    for (; known && *known; known++)
        suggest_offer(&best, *known);
    if (*e->list)
        (void) snprintf(where, sizeof where, "%s[%zu]", e->list, e->i);
    fault(e->r, "%s has no key '%.63s'%s", where, unknown, suggest_format(&best, hint, sizeof hint));
}

struct list {
    const char *name;
    const char *const *known; /* fields of an entry */
    size_t max, size;         /* maximum length of the list, and bytes per entry */
    void (*read)(const struct entry *e, void *out);
};

/* Read all entries; absent and null mean an empty list. */
static void *read_list(const struct entry *top, const struct list *list, size_t *n)
{
    const jsonr_value *values = field_of(top, list->name);
    struct reading *r = top->r;

    *n = jsonr_array_size(values);
    if (values && !jsonr_is_array(values))
        fault(r, "%s%s is not a list", r->failed, list->name);
    if (*n > list->max)
        fault(r, "%s has more than %zu entries", list->name, list->max);
    char *items = take(r, (*n + 1) * list->size);
    for (size_t i = 0; i < *n && is_good(top); i++) {
        const struct entry e = { r, list->name, i, jsonr_array_at(values, i) };

        if (!jsonr_is_object(e.value) && !jsonr_is_null(e.value))
            fault(r, "%s%s[%zu] is not an object", r->failed, list->name, i);
        check_keys(&e, list->known);
        list->read(&e, items + i * list->size);
    }
    return items;
}

/* ---- annotation ---- */

/* Return whether the text is "null": an empty configuration, which the JSON reader does not accept. */
static bool is_null_text(const char *text)
{
    const char *blanks = " \t\r\n";
    const char *word = text + strspn(text, blanks);

    return strncmp(word, "null", 4) == 0 && word[4 + strspn(word + 4, blanks)] == '\0';
}

/* Parse the annotation's object; NULL when it is empty, and after a fault. */
static const jsonr_value *parse(struct reading *r, const char *text, jsonr_doc **doc)
{
    dibs_err why = { 0 };

    if (!text || !*text || is_null_text(text))
        return NULL;
    dibs_status s = jsonr_parse(text, strlen(text), doc, &why);
    if (s == DIBS_INVALID)
        fault(r, "%s%s", r->failed, why.msg);
    else if (s != DIBS_OK)
        r->faults.status = err_set(r->faults.err, s, "%s", why.msg);
    else if (!jsonr_is_object(jsonr_root(*doc)))
        fault(r, "%sit is not an object", r->failed);
    return r->faults.status == DIBS_OK ? jsonr_root(*doc) : NULL;
}

dibs_status workload_annotation_parse(struct workload_group *group, enum workload_dialect dialect,
                                      const char *text, struct workload_component *out, dibs_err *err)
{
    static const char *const keys[] = { "allocations", "references", NULL };
    static const char *const port_keys[] = { "name",  "env",        "scope",    "annotationKey",
                                             "proto", "address",    "port",     "prefer",
                                             "count", "contiguous", "hostPort", NULL };
    static const char *const reference_keys[] = { "env", "from", NULL };
    static const struct list ports = { "allocations", port_keys, WORKLOAD_PORTS_MAX, sizeof *out->ports,
                                       read_port };
    static const struct list references = { "references", reference_keys, WORKLOAD_REFERENCES_MAX,
                                            sizeof *out->references, read_reference };
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct reading r = {
        group, out->place, dialect, "failed to parse port allocator config: ", { group, DIBS_OK, err }
    };
    const struct entry top = { .r = &r, .list = "", .value = parse(&r, text, &doc) };
    struct workload_component found = *out;

    if (!top.value)
        return r.faults.status;
    check_keys(&top, keys);
    found.ports = read_list(&top, &ports, &found.n_ports);
    found.references = read_list(&top, &references, &found.n_references);
    if (is_good(&top))
        *out = found;
    return r.faults.status;
}

dibs_status workload_discovery_parse(struct workload_group *group, struct workload_place place,
                                     const char *text, struct workload_discovery *out, dibs_err *err)
{
    static const struct list ports = { "portRefs", NULL, WORKLOAD_REFERENCES_MAX, sizeof *out->ports,
                                       read_port_ref };
    static const struct list addresses = { "addressRefs", NULL, WORKLOAD_REFERENCES_MAX,
                                           sizeof *out->addresses, read_address_ref };
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct reading r = {
        group, place, WORKLOAD_RBG, "failed to parse component discovery config: ", { group, DIBS_OK, err }
    };
    const struct entry top = { .r = &r, .list = "", .value = parse(&r, text, &doc) };
    struct workload_discovery found = { 0 };

    if (!top.value)
        return r.faults.status;
    found.ports = read_list(&top, &ports, &found.n_ports);
    found.addresses = read_list(&top, &addresses, &found.n_addresses);
    if (is_good(&top))
        *out = found;
    return r.faults.status;
}

/* ---- component discovery ---- */

bool workload_discovery_add(struct workload_group *group, const struct workload_discovery *found,
                            const struct workload_reference *like, struct workload_component *component)
{
    size_t n = component->n_references;
    struct workload_reference *all = workload_take(group, (n + found->n_ports + 1) * sizeof *all);

    if (!all)
        return false;
    if (n > 0)
        memcpy(all, component->references, n * sizeof *all);
    for (size_t i = 0; i < found->n_ports; i++, n++) {
        all[n] = *like;
        all[n].env = found->ports[i].env;
        all[n].component = found->ports[i].component;
        all[n].port = found->ports[i].port;
        all[n].instance = -1;
        all[n].pod = (int32_t) found->ports[i].index;
    }
    component->references = all;
    component->n_references = n;
    return true;
}

bool workload_pod_name(const struct workload_pod_id *pod, char *out, size_t size)
{
    uint64_t index = pod->id;
    int n = 0;

    if (pod->type == WORKLOAD_COMPONENT_PODS) {
        n = snprintf(out, size, "%s-%s-%u", pod->instance, pod->component, pod->id);
    } else if (pod->type == WORKLOAD_LEADER_WORKER_PODS) {
        index += pod->component && strcmp(pod->component, "worker") == 0;
        n = snprintf(out, size, "%s-%llu", pod->instance, (unsigned long long) index);
    } else {
        n = snprintf(out, size, "%s", pod->instance);
    }
    return n >= 0 && (size_t) n < size;
}

bool workload_discovery_address(const struct workload_pod_id *pod, const char *service, const char *ns,
                                char out[WORKLOAD_ADDRESS_MAX])
{
    if (!workload_pod_name(pod, out, WORKLOAD_ADDRESS_MAX))
        return false;
    size_t n = strlen(out);
    int more = snprintf(out + n, WORKLOAD_ADDRESS_MAX - n, ".%s.%s.svc.cluster.local", service, ns);
    return more >= 0 && (size_t) more < WORKLOAD_ADDRESS_MAX - n;
}
