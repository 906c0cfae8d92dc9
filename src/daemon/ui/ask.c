/* SPDX-License-Identifier: MIT */
#include "daemon/ui/ask.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "lib/remote.h"

#include "base/banned.h"

static dibs_status read_answer(const jsonr_value *v, void *out, dibs_err *err)
{
    struct ui_answer *answer = out;
    const char *url = NULL;

    if (!jsonr_get_string(v, "url", &url) || strncmp(url, "http://", strlen("http://")) != 0 ||
        !text_copy(answer->url, sizeof answer->url, url) ||
        !jsonr_get_int(v, "expires_ms", &answer->expires_ms))
        return err_set(err, DIBS_FAILURE, "no address is in it");
    return DIBS_OK;
}

dibs_status ui_ask(const dibs_settings *settings, bool *is_served, struct ui_answer *out, dibs_err *err)
{
    static const struct exchange_type type = { read_answer, sizeof *out, NULL };
    char path[DIBS_SETTING_VALUE_MAX + 1];
    AUTO(remote_close_auto) struct remote *remote = NULL;
    bool is_named = false;

    *is_served = remote_find(settings, path, &is_named);
    if (!*is_served)
        return DIBS_OK;
    dibs_status s = remote_open(path, is_named, settings, &remote, err);
    if (s != DIBS_OK)
        return s;
    AUTO(exchange_done) struct exchange exchange = exchange_begin(remote, "POST", EXCHANGE_TWICE);
    bytes_add_text(&exchange.target, "/v1/ui");
    s = exchange_ask_value(&exchange, &type, out, err);
    return s == DIBS_NOT_FOUND
               ? err_trouble(err, DIBS_TROUBLE_NONE,
                             "daemon socket %.300s: this daemon has no dashboard: it is older "
                             "than this dibs; restart it",
                             path)
               : s;
}
