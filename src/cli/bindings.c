/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/request.h"
#include "net/bindings.h"

#include "base/banned.h"

dibs_status cli_bindings_from(const struct cli *cli, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n,
                              dibs_err *err)
{
    dibs_binding found[DIBS_BINDINGS_MAX];
    size_t n_found = 0;
    dibs_proto protos[BINDINGS_PROTOS_MAX] = { DIBS_TCP };
    size_t n_protos = 1;
    const char *text = cli_value(cli, "proto");
    dibs_status s = text ? bindings_protos(text, protos, &n_protos, err) : DIBS_OK;

    if (s)
        return s;
    for (size_t i = 0;; i++) {
        const char *address = cli_value_at(cli, "address", i);
        if (!address && i)
            break;
        s = bindings_add(address ? address : "*", protos, n_protos, found, &n_found, err);
        if (s)
            return s;
        if (!address)
            break;
    }
    memcpy(out, found, n_found * sizeof *found);
    *n = n_found;
    return DIBS_OK;
}

dibs_status cli_which(const struct cli *cli, const char *text, dibs_which *out, char name[DIBS_NAME_MAX + 1],
                      dibs_project *project, dibs_err *err)
{
    dibs_which which = { 0 };
    dibs_status s = DIBS_OK;

    if (*text && !text[strspn(text, "0123456789")]) { /* a name is never only a number */
        s = dibs_port_parse(text, &which.port, err);
    } else {
        s = cli_name(cli, text, name, project, &which.project, err);
        which.name = name;
    }
    if (!s)
        *out = which;
    return s;
}
