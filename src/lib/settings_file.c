/* SPDX-License-Identifier: MIT */
/* Reading a settings file with libfyaml, which is loaded only when there is a file. */
#include "lib/settings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libfyaml.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/late.h"
#include "base/text.h"

#include "base/banned.h"

#define LIBRARY "libfyaml.so.0"

enum { FILE_MAX = 65536 }; /* a settings file is a page of text, not a book */

#define FYAML_MAP(X)                 \
    X(fy_diag_create)                \
    X(fy_diag_destroy)               \
    X(fy_diag_set_collect_errors)    \
    X(fy_diag_errors_iterate)        \
    X(fy_document_build_from_string) \
    X(fy_document_destroy)           \
    X(fy_document_root)              \
    X(fy_node_get_type)              \
    X(fy_node_get_scalar)            \
    X(fy_node_get_scalar_token)      \
    X(fy_node_get_style)             \
    X(fy_node_mapping_iterate)       \
    X(fy_node_pair_key)              \
    X(fy_node_pair_value)            \
    X(fy_token_start_mark)

/* Written once, under pthread_once, and only read afterwards. */
static struct {
#define X(name) __typeof__(&(name)) name;
    FYAML_MAP(X)
#undef X
    bool is_loaded;
    char trouble[256];
} fyaml;
static pthread_once_t fyaml_once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(fyaml, name)
        FYAML_MAP(X)
#undef X
    };

    fyaml.is_loaded =
        late_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0], fyaml.trouble, sizeof fyaml.trouble);
}

/* Without a place for its complaints libfyaml takes stderr, FYPCF_QUIET or not. */
static void say_nothing(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
    (void) diag;
    (void) user;
    (void) buf;
    (void) len;
}

static dibs_status syntax_error(const char *name, struct fy_diag *diag, dibs_err *err)
{
    void *walk = NULL;
    const struct fy_diag_error *e = fyaml.fy_diag_errors_iterate(diag, &walk);
    char shown[160];

    if (!e)
        return err_set(err, DIBS_INVALID, "%s: not valid YAML", name);
    return err_set(err, DIBS_INVALID, "%s:%d:%d: %s", name, e->line, e->column,
                   text_safe(e->msg ? e->msg : "not valid YAML", shown, sizeof shown));
}

/* "file:line:column" of a node. */
static void place(const char *name, struct fy_node *node, char *out, size_t size)
{
    struct fy_token *token = node ? fyaml.fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *mark = token ? fyaml.fy_token_start_mark(token) : NULL;

    if (mark)
        (void) snprintf(out, size, "%.400s:%d:%d", name, mark->line + 1, mark->column + 1);
    else
        (void) snprintf(out, size, "%.400s", name);
}

static bool scalar(struct fy_node *node, char *out, size_t size)
{
    size_t len = 0;
    const char *text =
        node && fyaml.fy_node_get_type(node) == FYNT_SCALAR && fyaml.fy_node_get_style(node) != FYNS_ALIAS
            ? fyaml.fy_node_get_scalar(node, &len)
            : NULL;

    if (!text || len >= size || memchr(text, 0, len))
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

static dibs_status read_pairs(const char *name, struct fy_node *root, settings_pair_fn fn, void *ctx,
                              dibs_err *err)
{
    char key[64];
    char value[DIBS_SETTING_VALUE_MAX + 1];
    char where[480];
    char shown[80];
    void *walk = NULL;
    struct fy_node_pair *pair = NULL;

    if (!root) /* empty, or only comments */
        return DIBS_OK;
    if (fyaml.fy_node_get_type(root) != FYNT_MAPPING)
        return err_set(err, DIBS_INVALID, "%s: expected lines of the form 'setting: value'", name);
    while ((pair = fyaml.fy_node_mapping_iterate(root, &walk))) {
        struct fy_node *k = fyaml.fy_node_pair_key(pair);

        place(name, k, where, sizeof where);
        if (!scalar(k, key, sizeof key))
            return err_set(err, DIBS_INVALID, "%s: a setting's name is not a plain word", where);
        if (!scalar(fyaml.fy_node_pair_value(pair), value, sizeof value))
            return err_set(err, DIBS_INVALID, "%s: the value of '%s' is not plain text", where,
                           text_safe(key, shown, sizeof shown));
        dibs_status s = fn(ctx, key, value, err);
        if (s != DIBS_OK)
            return err_wrap(err, s, "%s", where);
    }
    return DIBS_OK;
}

/* Anything but blank lines and comments? Of those libfyaml makes no document, and complains on stderr. */
static bool has_content(const char *text, size_t len)
{
    bool is_comment = false;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            is_comment = false;
        else if (text[i] == '#')
            is_comment = true;
        else if (!is_comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return true;
    }
    return false;
}

/* Only plain lines of UTF-8 reach libfyaml: 0.7.12 never comes back from a directive with a broken character,
 * and takes a NUL for the end. A settings file needs neither directives nor control characters. */
static dibs_status check_text(const char *name, const char *text, size_t len, dibs_err *err)
{
    int line = 1;

    for (size_t i = 0, step = 0; i < len; i += step) {
        unsigned char c = (unsigned char) text[i];

        step = text_utf8_length(text + i, len - i);
        if (step == 0 || (c < 0x20 && !strchr("\t\r\n", c)) || c == '\0' || c == 0x7f)
            return err_set(err, DIBS_INVALID, "%s:%d: not plain UTF-8 text", name, line);
        if (c == '%' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r'))
            return err_set(err, DIBS_INVALID, "%s:%d: a settings file has no directives", name, line);
        line += c == '\n';
    }
    return DIBS_OK;
}

dibs_status settings_text_read(const char *name, const char *text, size_t len, settings_pair_fn fn, void *ctx,
                               dibs_err *err)
{
    dibs_status s = check_text(name, text, len, err);

    if (s != DIBS_OK || !has_content(text, len))
        return s;
    if (pthread_once(&fyaml_once, load) != 0 || !fyaml.is_loaded)
        return err_set(err, DIBS_FAILURE, "%s: cannot load " LIBRARY ", which reads it: %s", name,
                       fyaml.trouble);
    const struct fy_diag_cfg quiet = { .output_fn = say_nothing, .level = FYET_ERROR, .module_mask = ~0u };
    struct fy_diag *diag = fyaml.fy_diag_create(&quiet);
    if (!diag)
        return err_set(err, DIBS_FAILURE, "%s: out of memory", name);
    fyaml.fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg config = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = diag };
    struct fy_document *doc = fyaml.fy_document_build_from_string(&config, text, len);

    if (doc)
        s = read_pairs(name, fyaml.fy_document_root(doc), fn, ctx, err);
    else
        s = syntax_error(name, diag, err);
    if (doc)
        fyaml.fy_document_destroy(doc);
    fyaml.fy_diag_destroy(diag);
    return s;
}

dibs_status settings_file_read(const char *path, settings_pair_fn fn, void *ctx, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return DIBS_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_os(err, DIBS_INVALID, errno, "settings file %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        return err_set(err, DIBS_INVALID, "settings file %s: not a regular file of at most %d bytes", path,
                       FILE_MAX);
    AUTO(free_auto) char *text = calloc(1, FILE_MAX + 1);
    if (!text)
        return err_set(err, DIBS_FAILURE, "settings file %s: out of memory", path);
    ssize_t n = read(fd, text, FILE_MAX);
    if (n < 0)
        return err_os(err, DIBS_INVALID, errno, "settings file %s", path);
    return settings_text_read(path, text, (size_t) n, fn, ctx, err);
}
