/* SPDX-License-Identifier: MIT */
/* Reading a settings file: a flat mapping. */
#include "lib/settings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "codec/yaml.h"

#include "base/banned.h"

enum { FILE_MAX = 65536 }; /* a settings file is a page of text, not a book */

static dibs_status read_pairs(const yaml_text *yaml, settings_pair_fn fn, void *ctx, dibs_err *err)
{
    const yaml_node *root = yaml_root(yaml, 0);
    char shown[80];

    if (!root) /* empty, or only comments */
        return DIBS_OK;
    if (root->kind != YAML_MAP || yaml_count(yaml) > 1)
        return yaml_error(yaml, NULL, err, "expected lines of the form 'setting: value'");
    for (const yaml_node *key = root->first; key; key = key->next) {
        const yaml_node *value = key->value;

        if (value->kind != YAML_SCALAR || value->is_alias || value->n > DIBS_SETTING_VALUE_MAX)
            return yaml_error(yaml, key, err, "the value of '%s' is not plain text",
                              text_safe(key->text, shown, sizeof shown));
        dibs_status s = fn(ctx, key->text, value->text, err);
        if (s != DIBS_OK)
            return err_wrap(err, s, "%s:%u:%u", yaml_name(yaml), key->line, key->column);
    }
    return DIBS_OK;
}

dibs_status settings_text_read(const char *name, const char *text, size_t len, settings_pair_fn fn, void *ctx,
                               dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    dibs_status s = yaml_parse(name, text, len, &yaml, err);

    return s == DIBS_OK ? read_pairs(yaml, fn, ctx, err) : s;
}

dibs_status settings_file_read(const char *path, settings_pair_fn fn, void *ctx, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return DIBS_OK;
    if (fd < 0 && errno == EACCES)
        return DIBS_DENIED;
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
