/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_SETTINGS_FILE_H
#define DIBS_LIB_SETTINGS_FILE_H
/* A settings file: a flat YAML mapping of the names in DIBS_SETTING_MAP to scalars. */
#include <stddef.h>

#include "dibs/settings.h"

/* Called for each pair; what it returns ends the reading when not OK. */
typedef dibs_status (*settings_pair_fn)(void *ctx, const char *key, const char *value, dibs_err *err);

/* INVALID names file, line and column. A missing file is OK and gives no pairs; so does one that may not be
 * read, which is DENIED without a message. */
dibs_status settings_file_read(const char *path, settings_pair_fn fn, void *ctx, dibs_err *err);
/* The same for text, apart for its fuzzing; `name` stands for the file in messages. */
dibs_status settings_text_read(const char *name, const char *text, size_t len, settings_pair_fn fn, void *ctx,
                               dibs_err *err);

/* One value, checked (settings.c). INVALID names the setting, its source and the value. */
dibs_status settings_set(dibs_settings *s, dibs_setting which, const char *value, dibs_source source,
                         dibs_err *err);
#endif
