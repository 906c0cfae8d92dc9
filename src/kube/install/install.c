/* SPDX-License-Identifier: MIT */
#include "kube/install/install.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "kube/install/installation.h"

#include "base/banned.h"

/* contrib/k8s/NAME.yaml, concatenated by meson.build. */
extern const char install_base[];
extern const size_t install_base_size;

enum {
    NAMESPACE_MAX = 63,
    IMAGE_MAX = 512,
    MORE_BYTES = 32768, /* room for values and the Secrets */
};

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

dibs_status install_check_namespace(const char *text, dibs_err *err)
{
    size_t n = strlen(text);

    if (n >= 1 && n <= NAMESPACE_MAX && strspn(text, LOWER "-") == n && text[0] != '-' && text[n - 1] != '-')
        return DIBS_OK;
    return err_set(err, DIBS_INVALID,
                   "'%.80s' cannot be a namespace: up to 63 of a-z, 0-9 and -, neither first nor last a -",
                   text);
}

dibs_status install_check_image(const char *text, dibs_err *err)
{
    size_t n = strlen(text);

    if (n >= 1 && n <= IMAGE_MAX && strspn(text, LOWER UPPER "._-/:@") == n)
        return DIBS_OK;
    return err_set(err, DIBS_INVALID, "'%.80s' cannot be an image, such as registry.example/dibs:1", text);
}

/* Return whether the text is ADDRESS/BITS. */
static bool is_address_range(const char *text)
{
    char address[INET6_ADDRSTRLEN] = "";
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t n = strcspn(text, "/");
    uint64_t bits = 0;

    if (text[n] != '/' || n >= sizeof address)
        return false;
    (void) text_copy(address, n + 1, text);
    bool is_v4 = inet_pton(AF_INET, address, bytes) == 1;
    return (is_v4 || inet_pton(AF_INET6, address, bytes) == 1) &&
           text_number(text + n + 1, strlen(text + n + 1), is_v4 ? 32 : 128, &bits);
}

dibs_status install_write_ingress(const char *const *ranges, size_t n, struct bytes *out, dibs_err *err)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    jsonw_array(&w);
    jsonw_object(&w);
    jsonw_key_array(&w, "from");
    for (size_t i = 0; i < n; i++) {
        if (!is_address_range(ranges[i]))
            return err_set(err, DIBS_INVALID, "'%.80s' is not a range of addresses, such as 10.0.0.0/28",
                           ranges[i]);
        jsonw_object(&w);
        jsonw_key_object(&w, "ipBlock");
        jsonw_key_string(&w, "cidr", ranges[i]);
        jsonw_end_object(&w);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    jsonw_key_array(&w, "ports");
    jsonw_object(&w);
    jsonw_key_string(&w, "protocol", "TCP");
    jsonw_key_string(&w, "port", "https");
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    bytes_add(out, "", 1); /* NUL-terminate */
    return out->is_lost ? err_set(err, DIBS_FAILURE, "writing objects: out of memory") : DIBS_OK;
}

void install_secrets_done(struct install_secrets *secrets)
{
    free(secrets->authority);
    free(secrets->server);
    secret_free(secrets->key);
    secret_free(secrets->installation);
    *secrets = (struct install_secrets){ 0 };
}

/* Set *out to the text of a key, unless an earlier Secret has set it. */
static void read_text(struct yaml_faults *faults, const yaml_node *data, const char *key, const char *begin,
                      char **out)
{
    const yaml_node *node = yaml_get(data, key);
    const char *base64 = *out ? NULL : yaml_string(node);

    if (!base64)
        return;
    *out = base64_decode_text(base64);
    if (!*out || strncmp(*out, begin, strlen(begin)) != 0)
        yaml_fault(faults, node, "%s does not begin with '%s' in base64", key, begin);
}

/* Read what the Secret has; nothing of another object. */
static void read_secret(struct yaml_faults *faults, const yaml_node *object, struct install_secrets *out)
{
    static const char pem[] = "-----BEGIN ";
    const yaml_node *data = yaml_get(object, "data");

    read_text(faults, data, "ca.crt", pem, &out->authority);
    read_text(faults, data, "tls.crt", pem, &out->server);
    read_text(faults, data, "tls.key", pem, &out->key);
    read_text(faults, data, INSTALL_KEYS, "id ", &out->installation);
}

static void check_whole(struct yaml_faults *faults, const char *name, const struct install_secrets *secrets)
{
    const char *missing = !secrets->authority ? "ca.crt" : !secrets->server ? "tls.crt" : "tls.key";
    struct installation installation = { 0 };

    if (!secrets->authority || !secrets->server || !secrets->key)
        yaml_fault(faults, NULL, "there is no %s among the data of a Secret", missing);
    if (faults->status == DIBS_OK && secrets->installation)
        faults->status = installation_parse(name, secrets->installation, &installation, faults->err);
    installation_done(&installation);
}

dibs_status install_secrets_read(const char *name, const char *text, size_t len, struct install_secrets *out,
                                 dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    struct install_secrets secrets = { 0 };
    dibs_status s = yaml_parse(name, text, len, &yaml, err);

    if (s != DIBS_OK)
        return s;
    struct yaml_faults faults = { yaml, err, DIBS_OK };
    for (size_t i = 0; i < yaml_count(yaml); i++) {
        const yaml_node *items = yaml_get(yaml_root(yaml, i), "items");

        read_secret(&faults, yaml_root(yaml, i), &secrets);
        for (const yaml_node *item = items ? items->first : NULL; item; item = item->next)
            read_secret(&faults, yaml_follow(item), &secrets);
    }
    check_whole(&faults, name, &secrets);
    if (faults.status == DIBS_OK)
        *out = secrets;
    else
        install_secrets_done(&secrets);
    return faults.status;
}

/* Write any text as JSON, which YAML can read. */
static void add_quoted(struct bytes *out, const char *text)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    jsonw_string(&w, text);
}

static void add_base64(struct bytes *out, const char *text)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    jsonw_base64(&w, text, strlen(text));
}

static const struct install_value *value_of(const struct install_value *values, const char *name, size_t n)
{
    for (; values->name; values++)
        if (strlen(values->name) == n && memcmp(values->name, name, n) == 0)
            return values;
    return NULL;
}

/* Replace the value of "  namespace: dibs # {namespace}" and drop the mark. Return false when the line and
 * those below it are to be dropped. */
static bool add_line(struct bytes *out, const char *line, size_t n, const struct install_value *values,
                     const char *authority)
{
    const char *mark = memmem(line, n, " # {", strlen(" # {"));
    const char *colon = memmem(line, n, ": ", strlen(": "));

    if (!mark || !colon || line[n - 1] != '}') {
        bytes_add(out, line, n);
        return true;
    }
    const char *name = mark + strlen(" # {");
    size_t n_name = (size_t) (line + n - 1 - name);
    const struct install_value *value = value_of(values, name, n_name);
    bool is_authority = n_name == strlen("ca") && memcmp(name, "ca", n_name) == 0;
    if (value && value->is_dropped)
        return false;
    if (!is_authority && !(value && value->text)) {
        bytes_add(out, line, (size_t) (mark - line));
        return true;
    }
    bytes_add(out, line, (size_t) (colon + 2 - line));
    if (is_authority)
        add_base64(out, authority);
    else if (value->is_yaml)
        bytes_add_text(out, value->text);
    else
        add_quoted(out, value->text);
    return true;
}

static size_t indent_of(const char *line, size_t n)
{
    size_t indent = 0;

    while (indent < n && line[indent] == ' ')
        indent++;
    return indent;
}

static void add_base(struct bytes *out, const struct install_value *values, const char *authority)
{
    const char *at = install_base;
    const char *end = install_base + install_base_size;
    size_t dropped = SIZE_MAX; /* indentation of the line whose lines below are being dropped */

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t) (end - at));
        size_t n = (size_t) ((newline ? newline : end) - at);
        size_t indent = indent_of(at, n);

        if (indent <= dropped) {
            bool is_added = n == 0 || add_line(out, at, n, values, authority);

            dropped = is_added ? SIZE_MAX : indent;
            bytes_add(out, "\n", is_added);
        }
        at += n + 1;
    }
}

static void add_field(struct bytes *out, const char *name, const char *text)
{
    bytes_add_text(out, name);
    add_base64(out, text);
    bytes_add(out, "\n", 1);
}

static void begin_secret(struct bytes *out, const char *comment, const char *name, const char *ns)
{
    bytes_add_text(out, "---\n# ");
    bytes_add_text(out, comment);
    bytes_add_text(out, "\napiVersion: v1\nkind: Secret\nmetadata:\n  name: ");
    bytes_add_text(out, name);
    bytes_add_text(out, "\n  namespace: ");
    add_quoted(out, ns);
}

static void add_secrets(struct bytes *out, const char *ns, const struct install_secrets *secrets)
{
    begin_secret(out, "dibs keeps no key of the authority: it makes a new authority for a new certificate.",
                 INSTALL_SERVICE "-tls", ns);
    bytes_add_text(out, "\ntype: kubernetes.io/tls\ndata:\n");
    add_field(out, "  ca.crt: ", secrets->authority);
    add_field(out, "  tls.crt: ", secrets->server);
    add_field(out, "  tls.key: ", secrets->key);
    begin_secret(out, "The id of this installation, and the keys that sign the ports of pods.",
                 INSTALL_INSTALLATION, ns);
    bytes_add_text(out, "\ndata:\n");
    add_field(out, "  " INSTALL_KEYS ": ", secrets->installation);
}

dibs_status install_write(const struct install_value *values, const struct install_secrets *secrets,
                          struct bytes *out, dibs_err *err)
{
    const struct install_value *ns = value_of(values, "namespace", strlen("namespace"));

    /* Growing later would leave copies of the keys in memory. */
    (void) bytes_reserve(out, install_base_size + MORE_BYTES);
    add_base(out, values, secrets->authority);
    add_secrets(out, ns && ns->text ? ns->text : INSTALL_NAMESPACE, secrets);
    return out->is_lost ? err_set(err, DIBS_FAILURE, "writing objects: out of memory") : DIBS_OK;
}
