/* SPDX-License-Identifier: MIT */
/* As whom we come. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "etcd/inside.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

dibs_status login_open_web(const struct etcd_config *config, struct web **out, dibs_err *err)
{
    const struct web_options options = { .ca = *config->cacert ? config->cacert : NULL,
                                         .cert = *config->cert ? config->cert : NULL,
                                         .key = *config->key ? config->key : NULL };

    return web_open(&options, out, err);
}

void login_write(const struct etcd_config *config, struct bytes *out)
{
    struct json_writer w;

    json_begin_bytes(&w, out);
    json_object(&w);
    json_key_string(&w, "name", config->user);
    json_key_string(&w, "password", config->password);
    json_end_object(&w);
}

/* It goes into a header line. */
static bool is_token(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
            return false;
    return *text != '\0';
}

dibs_status login_read(const char *body, size_t n, char token[ETCD_TOKEN_MAX + 1], dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    const char *text = "";
    char copy[ETCD_TOKEN_MAX + 1] = "";

    if (n == 0 || json_parse(body, n, &doc, NULL) != DIBS_OK ||
        !json_get_string(json_root(doc), "token", &text) || !is_token(text) ||
        !text_copy(copy, sizeof copy, text))
        return err_set(err, DIBS_UNAVAILABLE, "etcd took user and password, but gave no token");
    memcpy(token, copy, sizeof copy);
    return DIBS_OK;
}
