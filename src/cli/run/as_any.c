/* SPDX-License-Identifier: MIT */
/* `dibs run --as any`: claim a port for each number when a process of the command binds it. The notifier's
 * thread calls this, so it has a handle of its own. */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "cli/run/as.h"
#include "net/bindings.h"

#include "base/banned.h"

struct run_as_any {
    struct as_any hooks;
    const struct cli *cli;
    dibs *handle;
    char (*tokens)[DIBS_TOKEN_MAX + 1]; /* of the claims, to release them when the command has ended */
    size_t n, max;
};

static dibs_status open_own(struct run_as_any *any, dibs_err *err)
{
    return any->handle ? DIBS_OK : dibs_open(&any->cli->settings, &any->handle, err);
}

static int errno_of(dibs_status status)
{
    return status == DIBS_DENIED                              ? EACCES
           : status == DIBS_EXHAUSTED || status == DIBS_TAKEN ? EADDRINUSE
                                                              : ENOBUFS;
}

/* Without memory the claim ends by itself: its holder is dead then. */
static void note_token(struct run_as_any *any, const dibs_claim *claim)
{
    if (grow((void **) &any->tokens, any->n, &any->max, sizeof *any->tokens))
        (void) text_copy(any->tokens[any->n++], sizeof *any->tokens, claim->token);
}

/* The process that binds holds the claim. */
static int claim(void *ctx, dibs_proto proto, uint16_t inside, uint16_t preferred, pid_t pid)
{
    struct run_as_any *any = ctx;
    dibs_request request = { .mode = DIBS_PREFERRED,
                             .port = preferred,
                             .as_port = inside,
                             .hold = DIBS_HOLD_NONE, /* the process binds at once, by us */
                             .holder = DIBS_HELD_BY_PROCESS,
                             .pid = pid };
    dibs_claim got = { 0 };
    dibs_err err = { 0 };
    dibs_status s = open_own(any, &err);

    if (!s)
        s = bindings_add("*", &proto, 1, request.bindings, &request.n_bindings, &err);
    if (!s)
        s = dibs_claim_ports(any->handle, &(dibs_batch){ .requests = &request, .n = 1 }, &got, &err);
    if (s) {
        cli_warn("port %u of the command cannot be bound: %s", inside, err.msg);
        return -errno_of(s);
    }
    note_token(any, &got);
    if (got.port != preferred || preferred == inside)
        cli_note(any->cli, "port %u%s of the command is %u outside", inside, proto == DIBS_UDP ? "/udp" : "",
                 got.port);
    return got.port;
}

/* A claim that is used under its own number is that of another tree: this one has no server of it. */
static bool is_neighbours(void *ctx, dibs_proto proto, uint16_t port)
{
    struct run_as_any *any = ctx;
    dibs_claim found = { 0 };
    dibs_err err = { 0 };

    return open_own(any, &err) == DIBS_OK &&
           dibs_claim_find(any->handle, &(dibs_which){ .port = port, .proto = proto }, &found, &err) ==
               DIBS_OK &&
           found.as_port == port;
}

struct run_as_any *run_as_any_new(const struct cli *cli)
{
    struct run_as_any *any = calloc(1, sizeof *any);

    if (any)
        *any = (struct run_as_any){ .cli = cli, .hooks = { claim, is_neighbours, any } };
    return any;
}

void run_as_any_free(struct run_as_any *any)
{
    for (size_t i = 0; any && i < any->n; i++) {
        const dibs_which which = { .token = any->tokens[i] };
        dibs_err err = { 0 };

        (void) dibs_claim_release(any->handle, &which, DIBS_RELEASE_UNHOLD, NULL, &err);
    }
    if (any) {
        dibs_close(any->handle);
        free(any->tokens);
    }
    free(any);
}

const struct as_any *run_as_any_hooks(const struct run_as_any *any)
{
    return &any->hooks;
}
