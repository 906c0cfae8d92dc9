/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_SETTINGS_H
#define DIBS_LIB_SETTINGS_H
#include "dibs/settings.h"

/* Check and set one value. INVALID names the setting, its source and the value. */
dibs_status settings_set(dibs_settings *s, dibs_setting which, const char *value, dibs_source source,
                         dibs_err *err);
/* Read a settings file, a flat YAML mapping of settings to scalars. INVALID names `name`, line and column. */
dibs_status settings_read_text(dibs_settings *s, dibs_source source, const char *name, const char *text,
                               size_t len, dibs_err *err);
#endif
