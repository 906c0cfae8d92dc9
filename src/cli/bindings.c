/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/request.h"

#include "base/banned.h"

#define PROTO_TEXT_MAX 15 /* longer than every protocol's name */
#define PROTOS_MAX 3

/* "tcp", "tcp,udp", "tcp+udp" */
static dibs_status protos_from(const char *text, dibs_proto out[PROTOS_MAX], size_t *n, dibs_err *err)
{
    *n = 0;
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",+");
        char word[PROTO_TEXT_MAX + 1] = "";
        dibs_proto proto = DIBS_TCP;

        memcpy(word, p, len < PROTO_TEXT_MAX ? len : PROTO_TEXT_MAX); /* cut, it is none of ours anyway */
        dibs_status s = dibs_proto_parse(word, &proto, err);
        if (s)
            return s;
        bool is_there = false;
        for (size_t i = 0; i < *n; i++)
            is_there = is_there || out[i] == proto;
        if (!is_there)
            out[(*n)++] = proto; /* there are no more than PROTOS_MAX different ones */
        p += len;
        if (!*p)
            return DIBS_OK;
    }
}

static bool is_in(const dibs_binding *list, size_t n, const dibs_binding *one)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].proto == one->proto && dibs_address_equal(&list[i].address, &one->address))
            return true;
    }
    return false;
}

static dibs_status add_address(const char *text, const dibs_proto *protos, size_t n_protos,
                               dibs_binding out[DIBS_BINDINGS_MAX], size_t *n, dibs_err *err)
{
    dibs_address addresses[2];
    size_t n_addresses = 0;
    dibs_status s = dibs_address_parse(text, addresses, &n_addresses, err);

    if (s)
        return s;
    for (size_t p = 0; p < n_protos; p++) {
        for (size_t a = 0; a < n_addresses; a++) {
            dibs_binding one = { .proto = protos[p], .address = addresses[a] };
            if (is_in(out, *n, &one))
                continue;
            if (*n == DIBS_BINDINGS_MAX)
                return err_set(err, DIBS_INVALID,
                               "more than %d bindings (protocols times addresses) for a port",
                               DIBS_BINDINGS_MAX);
            out[(*n)++] = one;
        }
    }
    return DIBS_OK;
}

dibs_status cli_bindings_from(const struct cli *cli, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n,
                              dibs_err *err)
{
    dibs_binding found[DIBS_BINDINGS_MAX];
    size_t n_found = 0;
    dibs_proto protos[PROTOS_MAX] = { DIBS_TCP };
    size_t n_protos = 1;
    const char *text = cli_value(cli, "proto");
    dibs_status s = text ? protos_from(text, protos, &n_protos, err) : DIBS_OK;

    if (s)
        return s;
    for (size_t i = 0;; i++) {
        const char *address = cli_value_at(cli, "address", i);
        if (!address && i)
            break;
        s = add_address(address ? address : "*", protos, n_protos, found, &n_found, err);
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
