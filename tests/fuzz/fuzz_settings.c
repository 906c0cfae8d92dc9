/* SPDX-License-Identifier: MIT */
/* Any text as a settings file and, after '=', as the value of every setting: what is accepted is written back
 * as something that is accepted again and means the same; what is refused has a reason that is safe to print.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/settings.h"
#include "support/check.h"

enum { TEXT_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const dibs_err *err)
{
    CHECK(err->code == DIBS_INVALID);
    CHECK(err->msg[0] != '\0');
    for (const char *at = err->msg; *at; at++)
        CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
}

static void check_file(const char *text, size_t len)
{
    dibs_settings *settings = calloc(1, sizeof *settings);
    dibs_err err = { .code = DIBS_OK };

    CHECK(settings);
    if (settings_read_text(settings, DIBS_FROM_USER, "file", text, len, &err) != DIBS_OK)
        check_refusal(&err);
    free(settings);
}

static void check_value(const char *value)
{
    dibs_settings *settings = calloc(2, sizeof *settings);
    char *text = malloc(DIBS_SETTING_VALUE_MAX + 1);
    char *back = malloc(DIBS_SETTING_VALUE_MAX + 1);

    CHECK(settings && text && back);
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        dibs_flag flag = { .setting = (dibs_setting) i, .value = value };
        dibs_err err = { .code = DIBS_OK };

        if (dibs_settings_load(&flag, 1, &settings[0], &err) != DIBS_OK) {
            check_refusal(&err);
            continue;
        }
        CHECK(settings[0].source[i] == DIBS_FROM_FLAG);
        dibs_setting_format(&settings[0], (dibs_setting) i, text);
        flag.value = text;
        CHECK(dibs_settings_load(&flag, 1, &settings[1], &err) == DIBS_OK);
        dibs_setting_format(&settings[1], (dibs_setting) i, back);
        CHECK(strcmp(text, back) == 0);
    }
    free(settings);
    free(text);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TEXT_MAX) /* longer files are refused unread */
        return 0;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    /* Nothing of the machine's own settings: the value alone is looked at. */
    CHECK(setenv("HOME", "/nonexistent", 1) == 0 && setenv("XDG_CONFIG_HOME", "/nonexistent", 1) == 0);
    if (text[0] == '=')
        check_value(text + 1);
    else
        check_file(text, size);
    free(text);
    return 0;
}
