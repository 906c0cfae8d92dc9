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
    struct made *made; /* the claims, to release them when the command has ended */
    size_t n, max;
};

struct made {
    char token[DIBS_TOKEN_MAX + 1];
    dibs_proto proto;
    uint16_t port;
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

static struct made *find(const struct run_as_any *any, dibs_proto proto, uint16_t port)
{
    for (size_t i = 0; i < any->n; i++)
        if (any->made[i].port == port && any->made[i].proto == proto)
            return &any->made[i];
    return NULL;
}

/* Without memory the claim ends by itself: its holder is dead then. */
static void note_claim(struct run_as_any *any, dibs_proto proto, const dibs_claim *claim)
{
    struct made *made = find(any, proto, claim->port);

    if (!made && grow((void **) &any->made, any->n, &any->max, sizeof *any->made))
        made = &any->made[any->n++];
    if (!made)
        return;
    *made = (struct made){ .proto = proto, .port = claim->port };
    (void) text_copy(made->token, sizeof made->token, claim->token);
}

static void end_claim(const struct run_as_any *any, const struct made *made)
{
    const dibs_which which = { .token = made->token };
    dibs_err err = { 0 };

    (void) dibs_claim_release(any->handle, &which, DIBS_RELEASE_UNHOLD, NULL, &err);
}

static void release(void *ctx, dibs_proto proto, uint16_t port)
{
    struct run_as_any *any = ctx;
    struct made *made = find(any, proto, port);

    if (!made)
        return;
    end_claim(any, made);
    *made = any->made[--any->n];
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
    note_claim(any, proto, &got);
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
        *any = (struct run_as_any){ .cli = cli, .hooks = { claim, release, is_neighbours, any } };
    return any;
}

void run_as_any_free(struct run_as_any *any)
{
    for (size_t i = 0; any && i < any->n; i++)
        end_claim(any, &any->made[i]);
    if (any) {
        dibs_close(any->handle);
        free(any->made);
    }
    free(any);
}

const struct as_any *run_as_any_hooks(const struct run_as_any *any)
{
    return &any->hooks;
}
