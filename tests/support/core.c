/* SPDX-License-Identifier: MIT */
#include "support/core.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"

bool e_has_network;

struct instant e_clock(void *ctx)
{
    struct engine *e = ctx;

    e->clock_looks++;
    e->now.boot_ms += e->clock_step_ms;
    e->now.wall_ms += e->clock_step_ms;
    return e->now;
}

void e_pass(struct engine *e, int64_t ms)
{
    e->now.boot_ms += ms;
    e->now.wall_ms += ms;
}

void e_own_network(void)
{
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    char map[64];
    unsigned uid = (unsigned) geteuid();

    if (unshare(CLONE_NEWNET) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
            return;
        (void) snprintf(map, sizeof map, "%u %u 1", uid, uid);
        if (child_write_file("/proc/self/uid_map", map) != 0)
            return;
    }
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    e_has_network = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    if (fd >= 0)
        (void) close(fd);
}

void need_network(void)
{
    if (!e_has_network)
        SKIP_BECAUSE("needs a network namespace of its own");
}

/* ---- engines ---- */

struct core *e_open(struct engine *e, const char *principal, uint32_t uid, bool is_admin,
                    const dibs_settings *settings)
{
    const struct ledger_options options = { .timeout_ms = settings->timeout_ms, .node = e->node };
    struct core_options core_options = { .uid = uid, .now = e_clock, .now_ctx = e };
    struct ledger *ledger = NULL;
    struct core *core = NULL;
    size_t i = 0;

    ASSERT_OK(ledger_open(e->uri, &options, &ledger, &e->err), &e->err);
    ASSERT_OK(core_open(ledger, &core_options, &core, &e->err), &e->err);
    while (i < E_USERS && e->users[i].core)
        i++;
    assert_true(i < E_USERS);
    e->users[i] = (struct e_user){ .core = core,
                                   .call = { .settings = settings,
                                             .principal = principal,
                                             .uid = uid,
                                             .pid = (int32_t) getpid(),
                                             .is_admin = is_admin } };
    return core;
}

struct e_user *e_user(struct engine *e, const struct core *core)
{
    size_t i = 0;

    while (i < E_USERS && e->users[i].core != core)
        i++;
    assert_true(i < E_USERS);
    return &e->users[i];
}

struct call e_call(struct engine *e, const struct core *core)
{
    struct call call = e_user(e, core)->call;

    call.now = e_clock(e);
    call.tx = e_user(e, core)->tx;
    return call;
}

void e_begin(struct engine *e, struct core *core)
{
    e_user(e, core)->tx = ledger_begin(core->ledger, true);
}

dibs_status e_commit(struct engine *e, struct core *core)
{
    dibs_status s = ledger_commit(e_user(e, core)->tx, NULL, &e->err);

    e_user(e, core)->tx = NULL;
    return s;
}

struct core *e_more(struct engine *e, const char *principal, uint32_t uid, bool is_admin)
{
    size_t i = 0;

    while (i < E_CORES && e->more[i])
        i++;
    assert_true(i < E_CORES);
    return e->more[i] = e_open(e, principal, uid, is_admin, &e->settings);
}

struct core *e_twin(struct engine *e)
{
    const struct call *call = &e_user(e, e->core)->call;

    return e_more(e, call->principal, call->uid, false);
}

struct core *e_other(struct engine *e)
{
    if (!e->other)
        e->other = e_open(e, "uid:2000", 2000, false, &e->settings);
    return e->other;
}

int e_setup(void **state)
{
    struct engine *e = calloc(1, sizeof *e);

    assert_non_null(e);
    /* Far from 0, so that nothing of an hour ago is negative. */
    e->now = (struct instant){ 1700000000000, 5000000 };
    e->settings = (dibs_settings){
        .ledger_mode = DIBS_LEDGER_STRICT,
        .range = { .item = { { 20000, 32767 } }, .n = 1 },
        .pool = "default",
        .band = DIBS_BAND_AUTO,
        .order = "stride",
        .socket = "none",
        .cooldown_ms = 5000,
        .ttl_ms = E_LEASE,
        .timeout_ms = 5000,
    };
    t_make_directory(e->dir);
    (void) snprintf(e->uri, sizeof e->uri, "sqlite:%s/ledger.db", e->dir);
    (void) snprintf(e->settings.ledger, sizeof e->settings.ledger, "%s", e->uri);
    (void) snprintf(e->settings.mru_file, sizeof e->settings.mru_file, "%s/mru", e->dir);
    /* The uid is the test's own, so that its processes and sockets are its claims' rightful users. */
    e->core = e_open(e, "uid:1000", (uint32_t) geteuid(), false, &e->settings);
    *state = e;
    return 0;
}

int e_teardown(void **state)
{
    struct engine *e = *state;

    core_close(e->core);
    core_close(e->other);
    for (size_t i = 0; i < E_CORES; i++)
        core_close(e->more[i]);
    t_remove_directory(e->dir);
    free(e);
    return 0;
}

/* ---- requests ---- */

void e_bind_to(dibs_request *r, dibs_proto proto, const char *address)
{
    dibs_address out[2] = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    ASSERT_OK(dibs_address_parse(address, out, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        r->bindings[r->n_bindings++] = (dibs_binding){ .proto = proto, .address = out[i] };
}

dibs_request e_request(const char *name, const char *address)
{
    dibs_request r = { .name = name, .holder = DIBS_HELD_BY_LEASE, .ttl_ms = E_LEASE };

    if (address)
        e_bind_to(&r, DIBS_TCP, address);
    return r;
}

dibs_request e_required(const char *name, const char *address, uint16_t port)
{
    dibs_request r = e_request(name, address);

    r.mode = DIBS_REQUIRED;
    r.port = port;
    return r;
}

dibs_request e_kept(const char *name, const char *address)
{
    dibs_request r = e_request(name, address);

    r.holder = DIBS_HELD_BY_NOBODY;
    r.ttl_ms = 0;
    r.keep = true;
    return r;
}

dibs_request e_held(const char *name, const char *address, pid_t pid)
{
    dibs_request r = e_request(name, address);

    r.holder = DIBS_HELD_BY_PROCESS;
    r.ttl_ms = 0;
    r.pid = (int32_t) pid;
    return r;
}

dibs_status e_try(struct engine *e, struct core *core, const dibs_request *r, dibs_claim *out)
{
    const dibs_batch batch = { .requests = r, .n = 1 };

    memset(&e->err, 0, sizeof e->err);
    return core_claim(core, E_CALL(e, core), &batch, out, &e->err);
}

dibs_claim e_must(struct engine *e, struct core *core, const dibs_request *r)
{
    dibs_claim out = { 0 };

    ASSERT_OK(e_try(e, core, r, &out), &e->err);
    return out;
}

dibs_claim e_port(struct engine *e, struct core *core, const char *address, uint16_t port)
{
    dibs_request r = e_required(NULL, address, port);
    dibs_claim out = e_must(e, core, &r);

    assert_int_equal(out.port, port);
    return out;
}

size_t e_release(struct engine *e, struct core *core, const dibs_claim *claim)
{
    const dibs_which which = { .token = claim->token };
    size_t n = 99;

    ASSERT_OK(core_release(core, E_CALL(e, core), &which, 0, &n, &e->err), &e->err);
    return n;
}

dibs_ranges e_ranges(const char *text)
{
    dibs_ranges out = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(dibs_ranges_parse(text, &out, &err), &err);
    return out;
}

void e_pool(struct engine *e, const char *name, const char *ranges, int32_t band, int64_t cooldown_ms)
{
    dibs_pool pool = {
        .ranges = e_ranges(ranges), .band = band, .cooldown_ms = cooldown_ms, .order = "stride"
    };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    ASSERT_OK(core_pool_put(e->core, E_CALL(e, e->core), &pool, &e->err), &e->err);
}

/* ---- the ledger's content ---- */

bool e_note(void *ctx, const dibs_claim *claim)
{
    struct e_list *list = ctx;

    if (list->n < sizeof list->claims / sizeof list->claims[0])
        list->claims[list->n] = *claim;
    list->n++;
    return true;
}

size_t e_count(struct engine *e, const dibs_filter *filter)
{
    static struct e_list list;
    const dibs_filter all = { 0 };

    list.n = 0;
    ASSERT_OK(core_list(e->core, E_CALL(e, e->core), filter ? filter : &all, e_note, &list, &e->err),
              &e->err);
    return list.n;
}

dibs_status e_reap_with(struct engine *e, struct core *core, unsigned flags, dibs_claim_fn fn, void *ctx,
                        size_t *n)
{
    struct core_reaping r = { flags, fn, ctx, 0 };
    dibs_status s = core_reap(core, E_CALL(e, core), &r, &e->err);

    *n = r.n;
    return s;
}

size_t e_reap(struct engine *e, struct core *core)
{
    size_t n = 99;

    ASSERT_OK(e_reap_with(e, core, 0, NULL, NULL, &n), &e->err);
    return n;
}

/* ---- sockets ---- */

int e_serve(dibs_proto proto, const char *address, uint16_t port)
{
    dibs_address a = t_address(address);
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    int one = 1;
    int zero = 0;
    int fd = socket(a.len == 4 ? AF_INET : AF_INET6,
                    (proto == DIBS_UDP ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    memcpy(&v4.sin_addr, a.bytes, 4);
    memcpy(&v6.sin6_addr, a.bytes, 16);
    if (proto == DIBS_TCP)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    if (a.len == 16)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero), 0);
    if (bind(fd, a.len == 4 ? (struct sockaddr *) &v4 : (struct sockaddr *) &v6,
             a.len == 4 ? sizeof v4 : sizeof v6) != 0)
        fail_msg("cannot bind %s port %u: %s", address, port, strerror(errno));
    if (proto == DIBS_TCP)
        assert_int_equal(listen(fd, 4), 0);
    return fd;
}
