/* SPDX-License-Identifier: MIT */
/* The route for port numbers of a command's own (dibs run --as). */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "daemon/api/internal.h"
#include "hold/bpf/numbers_map.h"
#include "net/proto.h"

#include "base/banned.h"

_Static_assert((int) NUMBERS_MAX == (int) DIBS_NUMBERS_MAX, "the kernel's programs know as many numbers");
_Static_assert((int) NUMBERS_ADDRESSES_MAX == (int) WIRE_ADDRESSES_MAX, "and as many addresses");

static void fill(const struct wire_numbers *asked, const struct call *caller, struct numbers *out)
{
    *out = (struct numbers){ .netns = caller->netns,
                             .is_users = caller->uid != 0,
                             .n = (uint16_t) asked->n,
                             .n_addresses = (uint16_t) asked->n_addresses };
    for (uint32_t i = 0; i < asked->n; i++)
        out->number[i] = (struct number){ .inside = asked->number[i].inside,
                                          .outside = asked->number[i].outside,
                                          .proto = (uint8_t) proto_row(asked->number[i].proto)->ip_proto,
                                          .is_own = asked->number[i].is_own };
    for (uint32_t i = 0; i < asked->n_addresses; i++)
        enforce_address(&asked->address[i], out->address[i]);
}

dibs_status api_numbers(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct engine *engine = request->api->options.engine;
    AUTO(free_auto) struct wire_numbers *asked = calloc(1, sizeof *asked);
    AUTO(free_auto) struct numbers *numbers = calloc(1, sizeof *numbers);
    char cgroup[RUN_CGROUP_PATH_MAX + 1];

    (void) handle;
    if (!asked || !numbers)
        return err_set(err, DIBS_FAILURE, "setting numbers: out of memory");
    dibs_status s = wire_numbers_read(jsonr_root(request->body.doc), asked, err);
    if (s == DIBS_OK)
        s = caller_translate(&request->api->view, request->caller, DIBS_HELD_BY_PROCESS, &asked->pid, err);
    if (s != DIBS_OK)
        return s;
    fill(asked, &request->caller->call, numbers);
    s = engine_number(engine, request->caller->peer.pid, asked->pid, numbers, cgroup, err);
    if (s != DIBS_OK)
        return s;
    jsonw_object(&request->w);
    jsonw_key_string(&request->w, "cgroup", cgroup);
    jsonw_end_object(&request->w);
    return DIBS_OK;
}
