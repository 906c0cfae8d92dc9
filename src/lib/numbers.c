/* SPDX-License-Identifier: MIT */
/* Port numbers of a command's own, by the kernel's programs of the daemon. */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "host/process.h"
#include "lib/verb.h"

#include "base/banned.h"

enum {
    MOVE_MS = 2000, /* the daemon moves a process within some milliseconds, on a busy machine later */
    CGROUP_MAX = 1023,
};

static void add_address(struct wire_numbers *to, const struct sockaddr *address)
{
    dibs_address *out = &to->address[to->n_addresses];

    if (!address || to->n_addresses == WIRE_ADDRESSES_MAX)
        return;
    if (address->sa_family == AF_INET) {
        *out = (dibs_address){ .len = 4 };
        memcpy(out->bytes, &((const struct sockaddr_in *) (const void *) address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        *out = (dibs_address){ .len = 16 };
        memcpy(out->bytes, &((const struct sockaddr_in6 *) (const void *) address)->sin6_addr, 16);
    } else {
        return;
    }
    to->n_addresses++;
}

/* List the addresses of this host, also those that are given to the loopback device. Without them only
 * connections to loopback are the host's own. */
static void add_addresses(struct wire_numbers *to)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next)
        add_address(to, one->ifa_addr);
    freeifaddrs(all);
}

static dibs_status read_cgroup(const jsonr_value *v, void *out, dibs_err *err)
{
    const char *text = NULL;

    if (!jsonr_get_string(v, "cgroup", &text) || !text_copy(out, CGROUP_MAX + 1, text))
        return err_set(err, DIBS_FAILURE, "the daemon's answer has no cgroup");
    return DIBS_OK;
}

/* Wait until the daemon's thread has moved the process. */
static dibs_status wait_for_move(int32_t pid, const char *cgroup, dibs_err *err)
{
    int64_t end_ms = clock_monotonic_ms() + MOVE_MS;

    while (!process_is_in_cgroup(pid, cgroup)) {
        if (clock_monotonic_ms() >= end_ms)
            return err_set(err, DIBS_UNAVAILABLE, "the daemon has not moved process %d into its cgroup", pid);
        (void) poll(NULL, 0, 1);
    }
    return DIBS_OK;
}

dibs_status dibs_numbers_set(dibs *handle, const dibs_numbers *numbers, dibs_err *err)
{
    static const struct exchange_type type = { read_cgroup, CGROUP_MAX + 1, NULL };
    char cgroup[CGROUP_MAX + 1];

    NEED(handle, numbers && (numbers->numbers || !numbers->n), DIBS_OK, err);
    if (numbers->n > DIBS_NUMBERS_MAX)
        return err_set(err, DIBS_INVALID, "a command has at most %d port numbers", DIBS_NUMBERS_MAX);
    if (!handle->to->remote)
        return err_set(err, DIBS_UNAVAILABLE, "numbers in the kernel need a daemon that enforces claims");
    AUTO(free_auto) struct wire_numbers *asked = calloc(1, sizeof *asked);
    AUTO(exchange_done) struct exchange exchange = exchange_begin(handle->to->remote, "POST", EXCHANGE_TWICE);
    if (!asked)
        return err_set(err, DIBS_FAILURE, "setting numbers: out of memory");
    asked->pid = numbers->pid;
    asked->n = (uint32_t) numbers->n;
    for (size_t i = 0; i < numbers->n; i++)
        asked->number[i] = numbers->numbers[i];
    add_addresses(asked);
    bytes_add_text(&exchange.target, "/v1/numbers");
    struct jsonw w = exchange_body(&exchange);
    wire_numbers(&w, asked);
    dibs_status s = exchange_ask_value(&exchange, &type, cgroup, err);
    return s == DIBS_OK ? wait_for_move(numbers->pid, cgroup, err) : s;
}

bool dibs_is_enforced(dibs *handle)
{
    struct wire_daemon daemon = { 0 };

    return handle && handle->to->remote && remote_daemon(handle->to->remote, &daemon, NULL) == DIBS_OK &&
           daemon.enforces;
}
