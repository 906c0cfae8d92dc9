/* SPDX-License-Identifier: MIT */
#include "kubeapi/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#include "base/banned.h"

static void set(struct token *token, const char *text)
{
    size_t n = strcspn(text, "\r\n");

    (void) snprintf(token->header, sizeof token->header, "Authorization: Bearer %.*s", (int) n, text);
}

dibs_status token_look(struct token *token, const struct kubeapi_config *config, dibs_err *err)
{
    struct stat now = { 0 };
    AUTO(free_auto) char *text = NULL;
    dibs_err why = { 0 };

    if (!config->token_file[0]) {
        if (config->token && !token->header[0])
            set(token, config->token);
        return DIBS_OK;
    }
    if (token->header[0] && (stat(config->token_file, &now) != 0 || kubeapi_is_same_file(&now, &token->seen)))
        return DIBS_OK;
    (void) stat(config->token_file, &now); /* before it is read: what comes later is read again */
    dibs_status s = kubeapi_read_file("token", config->token_file, KUBEAPI_TOKEN_MAX, &text, &why);
    if (s == DIBS_OK && strcspn(text, "\r\n") == 0)
        s = err_set(&why, DIBS_INVALID, "token %s: the file is empty", config->token_file);
    if (s == DIBS_OK) {
        set(token, text);
        token->seen = now;
        explicit_bzero(text, strlen(text));
    }
    if (s != DIBS_OK && !token->header[0]) {
        if (err)
            *err = why;
        return s;
    }
    return DIBS_OK;
}

void token_done(struct token *token)
{
    explicit_bzero(token, sizeof *token);
}
