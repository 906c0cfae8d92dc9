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

#include "base/banned.h"

/* contrib/k8s/NAME.yaml, concatenated by meson.build. */
extern const char install_base[];
extern const size_t install_base_size;

enum {
    NAMESPACE_MAX = 63,
    IMAGE_MAX = 512,
    MORE_BYTES = 32768, /* room for values and the Secret */
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
    jsonw_key(&w, "from");
    jsonw_array(&w);
    for (size_t i = 0; i < n; i++) {
        if (!is_address_range(ranges[i]))
            return err_set(err, DIBS_INVALID, "'%.80s' is not a range of addresses, such as 10.0.0.0/28",
                           ranges[i]);
        jsonw_object(&w);
        jsonw_key(&w, "ipBlock");
        jsonw_object(&w);
        jsonw_key_string(&w, "cidr", ranges[i]);
        jsonw_end_object(&w);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    jsonw_key(&w, "ports");
    jsonw_array(&w);
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

void install_tls_done(struct install_tls *tls)
{
    free(tls->authority);
    free(tls->server);
    secret_free(tls->key);
    *tls = (struct install_tls){ 0 };
}

/* Read a PEM text; return it also after a fault, so that the caller erases it. */
static char *read_pem(struct yaml_faults *faults, const yaml_node *data, const char *key)
{
    static const char begin[] = "-----BEGIN ";
    const yaml_node *node = yaml_get(data, key);
    const char *base64 = yaml_string(node);
    char *text = base64 ? base64_decode_text(base64) : NULL;

    if (!base64)
        yaml_fault(faults, NULL, "there is no %s among the data of a Secret", key);
    else if (!text || strncmp(text, begin, strlen(begin)) != 0)
        yaml_fault(faults, node, "%s is no PEM text in base64", key);
    return text;
}

dibs_status install_tls_read(const char *name, const char *text, size_t len, struct install_tls *out,
                             dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    struct install_tls tls = { 0 };
    dibs_status s = yaml_parse(name, text, len, &yaml, err);

    if (s != DIBS_OK)
        return s;
    struct yaml_faults faults = { yaml, err, DIBS_OK };
    const yaml_node *data = yaml_count(yaml) > 0 ? yaml_get(yaml_root(yaml, 0), "data") : NULL;
    tls.authority = read_pem(&faults, data, "ca.crt");
    tls.server = read_pem(&faults, data, "tls.crt");
    tls.key = read_pem(&faults, data, "tls.key");
    if (faults.status == DIBS_OK)
        *out = tls;
    else
        install_tls_done(&tls);
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

static void add_secret(struct bytes *out, const char *ns, const struct install_tls *tls)
{
    bytes_add_text(out,
                   "---\n"
                   "# Its authority's key was thrown away: a new certificate is made with a new authority.\n"
                   "apiVersion: v1\n"
                   "kind: Secret\n"
                   "metadata:\n"
                   "  name: " INSTALL_SERVICE "-tls\n"
                   "  namespace: ");
    add_quoted(out, ns);
    bytes_add_text(out, "\ntype: kubernetes.io/tls\ndata:\n");
    add_field(out, "  ca.crt: ", tls->authority);
    add_field(out, "  tls.crt: ", tls->server);
    add_field(out, "  tls.key: ", tls->key);
}

dibs_status install_write(const struct install_value *values, const struct install_tls *tls,
                          struct bytes *out, dibs_err *err)
{
    const struct install_value *ns = value_of(values, "namespace", strlen("namespace"));

    /* Growing later would leave copies of the key in memory. */
    (void) bytes_reserve(out, install_base_size + MORE_BYTES);
    add_base(out, values, tls->authority);
    add_secret(out, ns && ns->text ? ns->text : INSTALL_NAMESPACE, tls);
    return out->is_lost ? err_set(err, DIBS_FAILURE, "writing objects: out of memory") : DIBS_OK;
}
