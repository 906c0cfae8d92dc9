/* SPDX-License-Identifier: MIT */
#include "server/ledger_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/name_part.h"
#include "base/text.h"
#include "lib/connection.h"

#include "base/banned.h"

void server_part(const char *kind, const char *address, char out[SERVER_PART_MAX])
{
    const char *colon = strrchr(address, ':');

    (void) snprintf(out, SERVER_PART_MAX, "%.12s-%.5s", kind, colon ? colon + 1 : "0");
}

/* Name the node HOST/PART; a long host name is shortened and ends in a hash of the whole. */
static dibs_status name_node(dibs_settings *settings, const char *part, dibs_err *err)
{
    char host[256] = "";
    char shorter[DIBS_NAME_PART_MAX + 1] = "";
    size_t space = DIBS_NODE_MAX - 1 - strlen(part);

    if (settings->node[0])
        (void) text_copy(host, sizeof host, settings->node);
    else if (gethostname(host, sizeof host - 1) != 0)
        return err_os(err, DIBS_FAILURE, errno, "what this host is called");
    if (strlen(host) > space)
        name_part_encode(host, "", space, shorter);
    (void) snprintf(settings->node, sizeof settings->node, "%.*s/%s", (int) space,
                    shorter[0] ? shorter : host, part);
    return DIBS_OK;
}

dibs_status server_ledger_open(const dibs_settings *settings, int64_t timeout_ms, const char *part,
                               bool is_check, struct server_ledger *out, dibs_err *err)
{
    AUTO(free_auto) dibs_settings *own = malloc(sizeof *own);
    dibs *handle = NULL;

    if (!own)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    *own = *settings;
    own->timeout_ms = timeout_ms;
    dibs_status s = part ? name_node(own, part, err) : DIBS_OK;
    if (s == DIBS_OK)
        s = handle_open(own, DIBS_LEDGER_STRICT, is_check, &handle, err);
    if (s != DIBS_OK)
        return s;
    s = is_check ? DIBS_OK : ledger_start_background(handle_ledger(handle), err);
    if (s != DIBS_OK)
        dibs_close(handle);
    else
        *out = (struct server_ledger){ handle, handle_core(handle), handle_ledger(handle) };
    return s;
}
