/* SPDX-License-Identifier: MIT */
/* Reports on a port. It does not probe where a claim stands in the way: its server may be about to bind. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/candidate.h"
#include "core/core.h"
#include "core/hold_report.h"
#include "host/kernel.h"
#include "net/bindings.h"

#include "base/banned.h"

struct looking {
    struct core *core;
    const struct call *call;
    dibs_port_report *report;
    const dibs_binding *bindings;
    size_t n_bindings;
    bool is_held; /* a claim that does not give way conflicts with the bindings */
    bool is_cooling;
    int64_t cooldown_ms;
};

static struct looking looking_for(struct core *core, const struct call *call,
                                  const dibs_port_question *question, dibs_port_report *report)
{
    static const dibs_binding anywhere = { DIBS_TCP, { .len = 16 } };

    return (struct looking){ .core = core,
                             .call = call,
                             .report = report,
                             .bindings = question->n ? question->bindings : &anywhere,
                             .n_bindings = question->n ? question->n : 1 };
}

static bool is_asked(const struct looking *l, dibs_proto proto)
{
    for (size_t i = 0; i < l->n_bindings; i++)
        if (l->bindings[i].proto == proto)
            return true;
    return false;
}

static bool is_in_the_way(const struct looking *l, const dibs_binding *bindings, size_t n)
{
    return bindings_conflict(l->bindings, l->n_bindings, bindings, n);
}

/* The obstacles of a port, which claims each of them stops, and the advice for it. */
enum rule {
    DECLARED,
    DEAD,
    HELD,
    HELD_BESIDE,
    BESIDE, /* a claim of another address, held or declared, when the request is for some addresses only */
    FOREIGN,
    PUBLISHED,
    EPHEMERAL,
    EPHEMERAL_ALLOWED,
    RESERVED,
    BROWSER,
    BROWSER_ALLOWED,
    PRIVILEGED,
    UNUSABLE,
    OUTSIDE,
    BAND,
    COOLING
};
static const struct {
    dibs_reason_kind kind;
    bool blocks_static, blocks_dynamic;
    const char *advice;
} rules[] = {
    [DECLARED] = { DIBS_WHY_DECLARED, false, true, "claim it by number if you know better" },
    [DEAD] = { DIBS_WHY_CLAIMED, false, false, "claim it: a dead holder gives way" },
    [HELD] = { DIBS_WHY_CLAIMED, true, true, "wait for its end, ask its holder, or take another port" },
    [HELD_BESIDE] = { DIBS_WHY_CLAIMED, false, true, "claim it by number on your own address" },
    [BESIDE] = { DIBS_WHY_CLAIMED, false, false, "nothing: your own address is free" },
    [FOREIGN] = { DIBS_WHY_FOREIGN, true, true,
                  "stop that process, or take another port; 'dibs repair' records it" },
    [PUBLISHED] = { DIBS_WHY_NAT, true, true,
                    "end what published it, such as a container, or take another port" },
    [EPHEMERAL] = { DIBS_WHY_EPHEMERAL, false, true,
                    "prefer a port outside, or allow it with --allow-ephemeral" },
    [EPHEMERAL_ALLOWED] = { DIBS_WHY_EPHEMERAL, false, false,
                            "prefer a port outside, or allow it with --allow-ephemeral" },
    [RESERVED] = { DIBS_WHY_RESERVED, false, true, "claim it by number if it was reserved for you" },
    [BROWSER] = { DIBS_WHY_BROWSER, false, true, "take another port, or allow it with --allow-blocked" },
    [BROWSER_ALLOWED] = { DIBS_WHY_BROWSER, false, false, "take another port for anything a browser opens" },
    [PRIVILEGED] = { DIBS_WHY_PRIVILEGED, true, true,
                     "take a port from there upward, or run with CAP_NET_BIND_SERVICE" },
    [UNUSABLE] = { DIBS_WHY_UNUSABLE, true, true, "use a protocol and an address of this host" },
    [OUTSIDE] = { DIBS_WHY_OUTSIDE, false, true, "claim it by number, or use another --pool or --range" },
    [BAND] = { DIBS_WHY_BAND, false, false, "nothing: it is there for claims by number" },
    [COOLING] = { DIBS_WHY_COOLING, false, false, "wait a moment, or claim it by number" },
};

static void add_reason(dibs_port_report *report, enum rule rule, const char *fmt, ...) DIBS_PRINTF(3, 4);

static void add_reason(dibs_port_report *report, enum rule rule, const char *fmt, ...)
{
    va_list ap;

    if (report->n_reasons == DIBS_REPORT_REASONS_MAX)
        return;
    dibs_reason *r = &report->reasons[report->n_reasons++];
    *r = (dibs_reason){ .kind = rules[rule].kind,
                        .blocks_static = rules[rule].blocks_static,
                        .blocks_dynamic = rules[rule].blocks_dynamic };
    (void) text_copy(r->advice, sizeof r->advice, rules[rule].advice);
    va_start(ap, fmt);
    (void) vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
    report->can_claim = report->can_claim && !r->blocks_static;
    report->can_choose = report->can_choose && !r->blocks_static && !r->blocks_dynamic;
}

static bool note_claim(void *ctx, const dibs_claim *claim)
{
    struct looking *l = ctx;
    bool is_shown = false;

    for (size_t i = 0; i < claim->n_bindings; i++)
        is_shown = is_shown || is_asked(l, claim->bindings[i].proto);
    if (!is_shown)
        return true;
    size_t i = l->report->n_claims;
    if (i ==
        DIBS_REPORT_CLAIMS_MAX) { /* a claim that stands in the way takes the place of one that does not */
        l->report->is_cut = true;
        if (!is_in_the_way(l, claim->bindings, claim->n_bindings))
            return true;
        do
            i--;
        while (i > 0 && is_in_the_way(l, l->report->claims[i].bindings, l->report->claims[i].n_bindings));
        l->report->claims[i] = *claim;
        return i > 0;
    }
    l->report->claims[l->report->n_claims++] = *claim;
    return true;
}

static void explain_claim(struct looking *l, dibs_claim *claim)
{
    char who[512];
    const char *why = "";
    dibs_life life = core_judge(l->core, l->call, NULL, claim, &why);
    bool is_conflict = is_in_the_way(l, claim->bindings, claim->n_bindings);

    core_see_command(l->core, claim);
    core_describe(claim, who, sizeof who);
    if (!is_conflict && candidate_is_specific(l->bindings, l->n_bindings))
        add_reason(l->report, BESIDE, "another address of it is %s by %s: dynamic choice can still take it",
                   claim->is_exclusive ? "held" : "declared", who);
    else if (!claim->is_exclusive)
        add_reason(l->report, DECLARED, "declared by %s, which takes this number without a claim", who);
    else if (is_conflict && life == DIBS_DEAD && !claim->is_kept)
        add_reason(l->report, DEAD, "was held by %s, which is dead (%s)", who, why);
    else if (is_conflict) {
        l->is_held = true;
        add_reason(l->report, HELD, "held by %s%s%s", who, why[0] ? ": " : "", why);
    } else
        add_reason(l->report, HELD_BESIDE, "another address of it is held by %s", who);
}

/* ---- sockets ---- */

static bool note_socket(void *ctx, const struct kernel_socket *socket)
{
    struct looking *l = ctx;

    l->report->is_cut = l->report->is_cut || l->report->n_sockets == DIBS_REPORT_SOCKETS_MAX;
    if (l->report->n_sockets == DIBS_REPORT_SOCKETS_MAX)
        return false;
    l->report->sockets[l->report->n_sockets++] =
        (dibs_socket){ .proto = socket->proto,
                       .address = socket->address,
                       .port = socket->port,
                       .uid = uid_map_above_seen(&l->core->view.users, socket->uid),
                       .inode = socket->inode,
                       .serves = socket->serves };
    return true;
}

/* Find the owners of sockets; processes that hold claims are searched first, see kernel.h. */

enum { HOLDERS_MAX = 65536 };

struct holders {
    struct core *core;
    struct portbits ports; /* ports of the sockets */
    pid_t *first, *last;
    size_t n_first, n_last, max;
};

static bool note_holder(void *ctx, const dibs_claim *claim)
{
    struct holders *h = ctx;

    if (claim->holder != DIBS_HELD_BY_PROCESS || claim->process.pidns != h->core->view.pidns)
        return true;
    if (portbits_has(&h->ports, claim->port))
        h->first[h->n_first++] = claim->process.pid;
    else
        h->last[h->n_last++] = claim->process.pid;
    return h->n_first < h->max && h->n_last < h->max;
}

void core_socket_owners(struct core *core, const struct call *call, uint64_t netns,
                        struct kernel_socket *sockets, pid_t *pids, size_t n)
{
    AUTO(free_auto) uint64_t *inodes = calloc(n + 1, sizeof *inodes);
    AUTO(free_auto) pid_t *first = calloc(HOLDERS_MAX, sizeof *first);
    AUTO(free_auto) pid_t *last = calloc(HOLDERS_MAX, sizeof *last);
    struct holders h = { .core = core, .first = first, .last = last, .max = HOLDERS_MAX };
    struct ledger_filter held = { .held_only = true };

    memset(pids, 0, n * sizeof *pids);
    if (n == 0 || !inodes || !first || !last)
        return;
    kernel_settle(&core->inventory, netns, sockets, n);
    for (size_t i = 0; i < n; i++) {
        inodes[i] = sockets[i].inode;
        if (inodes[i] != 0)
            portbits_add(&h.ports, sockets[i].port);
    }
    /* Without the list, /proc is searched in its own order: correct, but it may delay a holder's server. */
    (void) ledger_list(core->ledger, call, &held, note_holder, &h, NULL);
    struct kernel_suspects suspects = { first, h.n_first, last, h.n_last };
    kernel_socket_owners(inodes, pids, n, &suspects);
}

static void name_owners(struct core *core, const struct call *call, uint64_t netns, dibs_socket *sockets,
                        size_t n)
{
    struct kernel_socket seen[DIBS_REPORT_SOCKETS_MAX];
    pid_t pids[DIBS_REPORT_SOCKETS_MAX];
    struct process_facts facts;

    for (size_t i = 0; i < n; i++)
        seen[i] = (struct kernel_socket){ .proto = sockets[i].proto,
                                          .port = sockets[i].port,
                                          .inode = sockets[i].inode };
    core_socket_owners(core, call, netns, seen, pids, n);
    for (size_t i = 0; i < n; i++) {
        struct process_details details;
        bool is_own = call->is_admin || call->uid == sockets[i].uid;

        sockets[i].pid = pids[i];
        process_details(pids[i], is_own, &details);
        (void) text_copy(sockets[i].arguments, sizeof sockets[i].arguments, details.arguments);
        (void) text_copy(sockets[i].unit, sizeof sockets[i].unit, details.unit);
        (void) text_copy(sockets[i].directory, sizeof sockets[i].directory, details.directory);
        if (pids[i] && process_identify(&core->view, pids[i], &facts, NULL) == DIBS_OK)
            (void) text_copy(sockets[i].command, sizeof sockets[i].command, facts.command);
    }
}

static dibs_status look_in(struct looking *l, uint64_t netns, uint16_t port, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++)
        if (is_asked(l, proto))
            s = kernel_sockets(netns, proto, port, note_socket, l, err);
    return s;
}

/* Return the network namespace where the claim's holder listens; without a holder, the caller's. 0: ours. */
static uint64_t netns_of(const struct core *core, const struct call *call, const dibs_claim *claim)
{
    pid_t pid = claim->holder == DIBS_HELD_BY_PROCESS ? process_pid_here(&core->view, &claim->process) : 0;
    uint64_t held = pid > 0 ? kernel_netns_of(pid) : claim->netns;
    uint64_t netns = claim->holder == DIBS_HELD_BY_NOBODY ? call->netns : held;

    return netns == kernel_netns() ? 0 : netns;
}

/* Add the sockets of holders in other network namespaces, as far as these can be entered. */
static void look_at_holders(struct looking *l, uint16_t port)
{
    dibs_port_report *report = l->report;
    uint64_t seen[DIBS_REPORT_CLAIMS_MAX];

    for (size_t i = 0; i < report->n_claims; i++) {
        bool is_new = report->claims[i].holder != DIBS_HELD_BY_NOBODY;
        size_t n = report->n_sockets;

        seen[i] = netns_of(l->core, l->call, &report->claims[i]);
        for (size_t k = 0; k < i; k++)
            is_new = is_new && seen[k] != seen[i];
        if (is_new && seen[i] != 0 && look_in(l, seen[i], port, NULL) == DIBS_OK)
            name_owners(l->core, l->call, seen[i], report->sockets + n, report->n_sockets - n);
    }
}

dibs_status core_port_sockets(struct core *core, const struct call *call, const dibs_port_question *question,
                              dibs_port_report *out, dibs_err *err)
{
    struct looking l = looking_for(core, call, question, out);
    dibs_status s = look_in(&l, 0, question->port, err);

    /* Connections of a server have its port, too. */
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK && out->n_sockets == 0; proto++)
        if (is_asked(&l, proto))
            s = kernel_blocking_sockets(0, proto, question->port, note_socket, &l, err);
    name_owners(core, call, 0, out->sockets, out->n_sockets);
    const struct nat_question published = { l.bindings, l.n_bindings, question->port };
    out->n_nat = core_nat_rules(core, &published, out->nat, DIBS_REPORT_NAT_MAX);
    return s;
}

size_t core_nat_rules(const struct core *core, const struct nat_question *question, dibs_nat_rule *out,
                      size_t max)
{
    const struct nat_rule *found[DIBS_REPORT_NAT_MAX];
    size_t n = nat_find(core->nat, question, found, max < DIBS_REPORT_NAT_MAX ? max : DIBS_REPORT_NAT_MAX);

    for (size_t i = 0; i < n; i++) {
        out[i] = (dibs_nat_rule){ found[i]->proto, found[i]->address, question->port, "" };
        (void) text_copy(out[i].text, sizeof out[i].text, found[i]->text);
    }
    return n;
}

bool core_socket_uses(const dibs_socket *socket, const dibs_claim *claim)
{
    const dibs_binding used = { socket->proto, socket->address };

    return bindings_conflict(claim->bindings, claim->n_bindings, &used, 1);
}

/* Return whether a claim explains the socket: one on the same address that is reported as an obstacle and
 * does not give way. */
static bool is_covered(const struct looking *l, const dibs_socket *socket)
{
    for (size_t i = 0; i < l->report->n_claims && l->is_held; i++) {
        const dibs_claim *claim = &l->report->claims[i];

        if (claim->is_exclusive && claim->uid == socket->uid && core_socket_uses(socket, claim) &&
            is_in_the_way(l, claim->bindings, claim->n_bindings))
            return true;
    }
    return false;
}

/* Return whether a probe can disturb no server. The server of a claim on other addresses is elsewhere, and a
 * dead holder has none. */
static bool may_probe(const struct looking *l)
{
    return !l->is_held && l->report->n_claims < DIBS_REPORT_CLAIMS_MAX;
}

/* Report the socket as an obstacle; return whether it is one. */
static bool explain_socket(struct looking *l, const dibs_socket *socket)
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1];
    char who[CORE_OWNER_TEXT];
    const dibs_binding used = { socket->proto, socket->address };

    if (is_covered(l, socket) || !is_in_the_way(l, &used, 1))
        return false;
    dibs_address_format(&socket->address, address);
    add_reason(l->report, FOREIGN, "in use on %s %s by %s, without a claim%s", dibs_proto_text(socket->proto),
               address, core_owner_text(socket, who), socket->serves ? "" : "; its socket does not listen");
    return true;
}

/* Explain with a probe, as a claim would: a socket that does not listen may let others bind its port, and
 * kernels before 6.8 do not list a socket that is only bound. */
static void explain_sockets(struct looking *l, uint16_t port, size_t n_here)
{
    dibs_port_report *report = l->report;
    bool is_probed = may_probe(l);
    dibs_err err = { 0 };
    bool is_busy = is_probed && kernel_probe(l->bindings, l->n_bindings, port, &err) == KERNEL_BUSY;
    bool is_explained = false;

    if (err.os_errno == EADDRNOTAVAIL || err.os_errno == EPROTONOSUPPORT || err.os_errno == EINVAL)
        add_reason(report, UNUSABLE, "%s", err.msg);

    for (size_t i = 0; i < n_here && (is_busy || !is_probed); i++)
        if (report->sockets[i].serves || is_probed)
            is_explained = explain_socket(l, &report->sockets[i]) || is_explained;
    if (is_busy && !is_explained)
        add_reason(report, FOREIGN,
                   "in use by a socket that the kernel does not show: bound but not listening (shown from "
                   "Linux 6.8 on), or of another network namespace");
}

static void explain_nat(struct looking *l)
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1];

    for (size_t i = 0; i < l->report->n_nat; i++) {
        const dibs_nat_rule *rule = &l->report->nat[i];

        dibs_address_format(&rule->address, address);
        add_reason(l->report, PUBLISHED, "published on %s %s by a NAT rule: %s", dibs_proto_text(rule->proto),
                   address, rule->text);
    }
}

/* ---- the host's and the pool's rules ---- */

static bool note_cooling(void *ctx, const struct ledger_slot *slot)
{
    struct looking *l = ctx;
    int64_t age = l->call->now.boot_ms - slot->released_ms;

    l->is_cooling = l->is_cooling || (slot->claim_id == 0 && is_asked(l, slot->proto) &&
                                      age > -l->cooldown_ms && age < l->cooldown_ms);
    return true;
}

static void explain_rules(struct looking *l, uint16_t port, const dibs_pool *pool)
{
    const struct core_host *host = core_host(l->core, l->call);
    dibs_port_report *report = l->report;
    struct portbits blocked = { 0 };
    char ranges[DIBS_RANGES_TEXT_MAX + 1];
    uint32_t band = core_band(pool);

    if (port >= host->ephemeral.first && port <= host->ephemeral.last)
        add_reason(
            report, l->call->settings->allow_ephemeral ? EPHEMERAL_ALLOWED : EPHEMERAL,
            "in the kernel's ephemeral range %u-%u (%s): an outgoing connection may take it at any moment",
            host->ephemeral.first, host->ephemeral.last,
            host->is_ephemeral_detected ? "detected" : "default");
    if (portbits_has(&host->reserved, port))
        add_reason(report, RESERVED, "reserved by the administrator in ip_local_reserved_ports");
    portbits_add_browser_blocked(&blocked);
    if (is_asked(l, DIBS_TCP) && portbits_has(&blocked, port))
        add_reason(report, l->call->settings->allow_blocked ? BROWSER_ALLOWED : BROWSER,
                   "browsers refuse to open it");
    if (port < host->unprivileged_from && l->call->uid != 0)
        add_reason(report, PRIVILEGED, "below %u, where binding needs a privilege", host->unprivileged_from);
    dibs_ranges_format(&pool->ranges, ranges);
    if (!dibs_ranges_contain(&pool->ranges, port))
        add_reason(report, OUTSIDE, "outside of pool '%s' (%.200s)", pool->name, ranges);
    else if (band > 0 && port < dibs_ranges_at(&pool->ranges, band))
        add_reason(report, BAND, "in the static band of pool '%s': dynamic choice takes it last", pool->name);
    if (l->is_cooling)
        add_reason(report, COOLING,
                   "released a moment ago: dynamic choice takes it after all others of its band");
}

/* ---- does the holder listen? ---- */

static bool is_holders(struct core *core, const dibs_claim *claim, const dibs_socket *socket)
{
    struct process_facts listener;
    struct process_facts holder;

    bool is_users = socket->uid == claim->uid;
    if (claim->holder == DIBS_HELD_BY_NOBODY && claim->project[0])
        return is_users && process_works_in(socket->pid, claim->project); /* one user has many work trees */
    if (claim->holder != DIBS_HELD_BY_PROCESS)
        return is_users; /* a lease belongs to its user */
    pid_t pid = process_pid_here(&core->view, &claim->process);
    if (pid == 0 || socket->pid == 0)
        return false;
    if (process_descends_from(&core->view, socket->pid, pid))
        return true; /* also as another user: servers give up the rights of root */
    if (!is_users)
        return false;
    /* A detached server still has the session of the command that `dibs run` started. */
    return process_identify(&core->view, socket->pid, &listener, NULL) == DIBS_OK &&
           process_identify(&core->view, pid, &holder, NULL) == DIBS_OK && listener.session == pid;
}

static bool is_below(struct core *core, const dibs_claim *claim, const dibs_socket *socket)
{
    return claim->holder == DIBS_HELD_BY_PROCESS &&
           socket->pid != process_pid_here(&core->view, &claim->process);
}

/* Set is_holders of the sockets that belong to the claims' holders, and is_below. */
static void mark_holders(struct looking *l)
{
    const dibs_port_report *report = l->report;

    for (size_t i = 0; i < report->n_sockets; i++) {
        dibs_socket *socket = &l->report->sockets[i];

        for (size_t k = 0; k < report->n_claims && !socket->is_holders; k++) {
            const dibs_claim *claim = &report->claims[k];

            socket->is_holders = core_socket_uses(socket, claim) && is_holders(l->core, claim, socket);
            socket->is_below = socket->is_holders && is_below(l->core, claim, socket);
        }
    }
}

dibs_status core_explain(struct core *core, const struct call *call, const dibs_port_question *question,
                         dibs_port_report *out, dibs_err *err)
{
    struct looking l = looking_for(core, call, question, out);
    struct ledger_filter filter = { .port = question->port };
    struct portbits port = { 0 };
    dibs_pool pool;

    if (question->port == 0)
        return err_set(err, DIBS_INVALID, "port 0 is no port");
    memset(out, 0, sizeof *out);
    out->can_claim = out->can_choose = true;
    nat_refresh(core->nat, call->now.boot_ms);
    dibs_status s = core_pool(core, call, question->pool, NULL, &pool, err);
    if (s == DIBS_OK)
        s = ledger_list(core->ledger, call, &filter, note_claim, &l, err);
    if (s == DIBS_OK)
        s = core_port_sockets(core, call, question, out, err);
    size_t n_here = out->n_sockets;
    l.cooldown_ms = pool.cooldown_ms;
    portbits_add(&port, question->port);
    if (s == DIBS_OK)
        s = ledger_slots(core->ledger, call, &port, note_cooling, &l, err);
    if (s != DIBS_OK)
        return s;
    look_at_holders(&l, question->port);
    mark_holders(&l);
    for (size_t i = 0; i < out->n_claims; i++) {
        explain_claim(&l, &out->claims[i]);
        hold_report(&out->claims[i]);
        hold_report_enforced(core, &out->claims[i]);
    }
    explain_sockets(&l, question->port, n_here);
    explain_nat(&l);
    explain_rules(&l, question->port, &pool);
    return DIBS_OK;
}

dibs_status core_assert(struct core *core, const struct call *call, const dibs_which *which, dibs_socket *out,
                        dibs_err *err)
{
    dibs_port_report report = { 0 };
    dibs_claim claim;
    const dibs_socket *own = NULL;
    const dibs_socket *other = NULL;
    char who[CORE_OWNER_TEXT];
    dibs_status s = core_find(core, call, which, &claim, err);

    if (s != DIBS_OK)
        return s;
    const dibs_port_question question = { .port = claim.port,
                                          .bindings = claim.bindings,
                                          .n = claim.n_bindings };
    struct looking l = looking_for(core, call, &question, &report);
    uint64_t netns = netns_of(core, call, &claim);
    s = look_in(&l, netns, claim.port, err);
    if (s != DIBS_OK && s != DIBS_NOT_FOUND) /* NOT_FOUND: the namespace is gone with its sockets */
        return err_wrap(err, DIBS_UNAVAILABLE, "who listens on port %u cannot be seen from here", claim.port);
    name_owners(core, call, netns, report.sockets, report.n_sockets);
    for (size_t i = 0; i < report.n_sockets; i++) {
        const dibs_socket *socket = &report.sockets[i];

        if (!socket->serves || !core_socket_uses(socket, &claim))
            continue;
        if (is_holders(core, &claim, socket))
            own = socket;
        else
            other = socket; /* a client may reach this socket: one foreign socket is enough */
    }
    if (own && !other) {
        *out = *own;
        out->is_holders = true;
        return DIBS_OK;
    }
    if (!other)
        return err_set(err, DIBS_TAKEN, "no process listens on port %u", claim.port);
    (void) err_set(err, DIBS_TAKEN, "port %u is yours, but another process listens on it: %s", claim.port,
                   core_owner_text(other, who));
    core_blame_socket(other, err);
    return DIBS_TAKEN;
}
