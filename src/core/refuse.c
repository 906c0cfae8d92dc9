/* SPDX-License-Identifier: MIT */
/* Writes the message of a refusal: the request, its blocker, their relation, and what to do (D18). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pod_words.h"
#include "base/text.h"
#include "core/candidate.h"
#include "net/bindings.h"

#include "base/banned.h"

/* Advice for a port number from an option or from a manifest. */
#define OTHERWISE "choose another port, or use --prefer (in a manifest: prefer)"

void core_describe(const dibs_claim *c, char *out, size_t size)
{
    char since[32];
    char ttl[24];
    char holder[128] = "kept, without a holder";
    char command[DIBS_COMMAND_MAX + 1];
    char pod[512];

    if (c->is_damaged) {
        (void) snprintf(out, size, "a damaged record of an unknown holder; see 'dibs doctor'");
        return;
    }
    clock_wall_format(c->created_ms, since);
    clock_duration_format(c->lease_ttl_ms, ttl);
    if (pod_words_port(c, pod, sizeof pod)) {
        (void) snprintf(out, size, "%s%s, since %s", pod, pod_words_is_pending(c) ? ", which is pending" : "",
                        since);
        return;
    }
    if (c->holder == DIBS_HELD_BY_PROCESS)
        (void) snprintf(holder, sizeof holder, c->command[0] ? "pid %d (%s)" : "pid %d%s", c->process.pid,
                        text_safe(c->command, command, sizeof command));
    else if (c->holder == DIBS_HELD_BY_LEASE)
        (void) snprintf(holder, sizeof holder, "a lease of %s", ttl);
    (void) snprintf(out, size, "%s%s%s, %s, %s, since %s", c->name[0] ? "'" : "unnamed", c->name,
                    c->name[0] ? "'" : "", c->principal, holder, since);
}

/* Return whether the blocker is the caller's own: its process, or for leases and kept claims its user. */
static bool is_own(const dibs_claim *wanted, const dibs_claim *b)
{
    if (strcmp(wanted->principal, b->principal) != 0)
        return false;
    if (b->holder != DIBS_HELD_BY_PROCESS)
        return true;
    return wanted->holder == DIBS_HELD_BY_PROCESS && wanted->process.pid == b->process.pid &&
           wanted->process.pidns == b->process.pidns && wanted->process.start_ticks == b->process.start_ticks;
}

/* Find the two bindings that conflict, and return their relation. */
static dibs_relation relate(const dibs_claim *wanted, const dibs_claim *b, dibs_binding *theirs)
{
    *theirs = b->n_bindings ? b->bindings[0] : (dibs_binding){ DIBS_TCP, { .len = 16 } };
    for (size_t i = 0; i < wanted->n_bindings; i++)
        for (size_t k = 0; k < b->n_bindings; k++) {
            const dibs_binding *mine = &wanted->bindings[i];

            if (mine->proto != b->bindings[k].proto ||
                !dibs_address_conflict(&mine->address, &b->bindings[k].address))
                continue;
            *theirs = b->bindings[k];
            if (!is_own(wanted, b))
                return DIBS_REL_OTHER_HOLDER;
            return dibs_address_equal(&mine->address, &theirs->address) ? DIBS_REL_SAME_HOLDER
                                                                        : DIBS_REL_OWN_WILDCARD;
        }
    return is_own(wanted, b) ? DIBS_REL_SAME_HOLDER : DIBS_REL_OTHER_HOLDER;
}

static void fill_blocker(dibs_err *err, dibs_relation relation, const dibs_claim *b,
                         const dibs_binding *theirs)
{
    err->blocker = (dibs_blocker){
        .relation = relation,
        .proto = theirs->proto,
        .address = theirs->address,
        .port = b->port,
        .pid = b->holder == DIBS_HELD_BY_PROCESS ? b->process.pid : 0,
        .uid = b->uid,
        .since_ms = b->created_ms,
    };
    (void) text_copy(err->blocker.name, sizeof err->blocker.name, b->name);
    (void) text_copy(err->blocker.command, sizeof err->blocker.command, b->command);
}

/* Describe the blocker: "'web', uid:1000, pid 12 (node), since ... (why it is not alive)". */
static void describe_judged(struct core *core, const struct call *call, dibs_claim *b, char *out, size_t size)
{
    const char *why = "";
    char who[512];
    dibs_life life = core_judge(core, call, NULL, b, &why);

    core_see_command(core, b);
    core_describe(b, who, sizeof who);
    (void) snprintf(out, size, "%s%s%s%s", who, why[0] ? " (" : "",
                    life == DIBS_DEAD      ? "kept, its holder is dead: "
                    : life == DIBS_UNKNOWN ? "it is unknown whether it is alive: "
                                           : "",
                    why);
    if (why[0])
        (void) strncat(out, ")", size - strlen(out) - 1);
}

/* Write "port 26001", "any port" or "any port of 8000-8099 that is a multiple of 8". */
static void describe_ports(const struct ledger_want *want, char *out, size_t size)
{
    char ranges[DIBS_RANGES_TEXT_MAX + 1];

    (void) snprintf(out, size, "any port");
    if (want->required) {
        (void) snprintf(out, size, "port %u", want->required);
        return;
    }
    if (want->within) {
        dibs_ranges_format(want->within, ranges);
        (void) snprintf(out, size, "any port of %.200s", ranges);
    }
    if (want->align > 1)
        (void) snprintf(out + strlen(out), size - strlen(out), " that is a multiple of %u", want->align);
}

/* Write "port 26001 on tcp 127.0.0.1, tcp ::1"; add exclusive or declared only where `other` differs. */
static void describe_request(const dibs_claim *c, const char *number, const dibs_claim *other, char *out,
                             size_t size)
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1];
    size_t n = 0;

    (void) snprintf(out, size, "%s%s on ",
                    c->is_exclusive == other->is_exclusive ? ""
                    : c->is_exclusive                      ? "exclusive "
                                                           : "declared ",
                    number);
    for (size_t i = 0; i < c->n_bindings && n < size; i++) {
        n = strlen(out);
        dibs_address_format(&c->bindings[i].address, address);
        (void) snprintf(out + n, size - n, "%s%s %s", i ? ", " : "", dibs_proto_text(c->bindings[i].proto),
                        address);
    }
}

static dibs_status refuse_name(struct core *core, const struct call *call, const struct ledger_want *want,
                               const struct ledger_refusal *r, dibs_err *err)
{
    const dibs_claim *wanted = &want->claim;
    dibs_claim b = r->blocker;
    dibs_binding theirs = { 0 };
    char who[700];
    char ports[300];
    char has[200];
    char asked[500];

    if (!r->has_blocker)
        return DIBS_TAKEN; /* the ledger has already written the error */
    (void) relate(wanted, &b, &theirs);
    describe_judged(core, call, &b, who, sizeof who);
    (void) snprintf(ports, sizeof ports, "port %u", b.port);
    describe_request(&b, ports, wanted, has, sizeof has);
    describe_ports(want, ports, sizeof ports);
    describe_request(wanted, ports, &b, asked, sizeof asked);
    if (r->breaks_run)
        (void) err_set(err, DIBS_TAKEN,
                       "name '%s' has port %u, around which the requested run does not fit; release "
                       "it first, or use another name (it is held by %s)",
                       b.name, b.port, who);
    else if (r->differs)
        (void) err_set(err, DIBS_TAKEN,
                       "name '%s' has %s, which is not what is asked for now: %s; release it first, or use "
                       "another name (it is held by %s)",
                       wanted->name, has, asked, who);
    else
        (void) err_set(err, DIBS_TAKEN, "name '%s' (port %u) is held by %s; %s", wanted->name, b.port, who,
                       b.is_damaged ? "run 'dibs doctor --fix', or use another name"
                       : b.is_orphan
                           ? "end the process that has its socket ('dibs who' shows it), or use another name"
                           : "wait for its end, use another name, or 'dibs transfer' it");
    fill_blocker(err, DIBS_REL_SAME_NAME, &b, &theirs);
    err->blocker.differs = r->differs || r->breaks_run;
    return DIBS_TAKEN;
}

static dibs_status refuse_claimed(struct core *core, const struct call *call, const dibs_claim *wanted,
                                  dibs_claim *b, dibs_err *err)
{
    dibs_binding theirs = { 0 };
    dibs_relation relation = relate(wanted, b, &theirs);
    char who[700];
    char project[DIBS_PROJECT_MAX + 1];
    char address[DIBS_ADDRESS_TEXT_MAX + 1];
    const char *proto = dibs_proto_text(theirs.proto);

    bool is_own_claim = relation == DIBS_REL_SAME_HOLDER || relation == DIBS_REL_OWN_WILDCARD;

    dibs_address_format(&theirs.address, address);
    describe_judged(core, call, b, who, sizeof who);
    if (b->is_damaged)
        (void) err_set(err, DIBS_TAKEN, "port %u is kept by a damaged record; see 'dibs doctor'", b->port);
    else if (is_own_claim && b->project[0] && strcmp(b->project, wanted->project) != 0)
        (void) err_set(err, DIBS_TAKEN,
                       "port %u belongs to your project %.300s (%s); " OTHERWISE
                       ", or if that project does not need it: dibs release --project '%.300s' %u",
                       b->port, text_safe(b->project, project, sizeof project), who, project, b->port);
    else if (relation == DIBS_REL_OWN_WILDCARD)
        (void) err_set(
            err, DIBS_TAKEN,
            bindings_include(b->bindings, b->n_bindings, wanted->bindings, wanted->n_bindings)
                ? "port %u conflicts with your own wildcard claim on %s %s (%s); it covers what is asked "
                  "for: use it, or release it first"
                : "port %u conflicts with your own claim on %s %s (%s), which is only a part of what is "
                  "asked "
                  "for; release it first",
            b->port, proto, address, who);
    else if (relation == DIBS_REL_SAME_HOLDER)
        (void) err_set(err, DIBS_TAKEN,
                       "port %u is already your own claim on %s %s (%s); release it first, or give it a name "
                       "to find it again",
                       b->port, proto, address, who);
    else
        (void) err_set(err, DIBS_TAKEN, "port %u is held on %s %s by %s; " OTHERWISE, b->port, proto, address,
                       who);
    fill_blocker(err, relation, b, &theirs);
    return DIBS_TAKEN;
}

static dibs_status refuse_shared(struct core *core, const struct call *call, dibs_claim *b, dibs_err *err)
{
    char who[700];

    describe_judged(core, call, b, who, sizeof who);
    (void) err_set(err, DIBS_TAKEN, "a port that was to be dropped is in use: %s", who);
    fill_blocker(err, DIBS_REL_USES, b, &b->bindings[0]);
    return DIBS_TAKEN;
}

const char *core_owner_text(const dibs_socket *socket, char out[CORE_OWNER_TEXT])
{
    char command[DIBS_COMMAND_MAX + 1];

    if (socket->pid == 0)
        (void) snprintf(out, CORE_OWNER_TEXT, "a process that is not visible from here, uid %u", socket->uid);
    else if (!socket->command[0])
        (void) snprintf(out, CORE_OWNER_TEXT, "pid %d, uid %u", socket->pid, socket->uid);
    else
        (void) snprintf(out, CORE_OWNER_TEXT, "pid %d (%s), uid %u", socket->pid,
                        text_safe(socket->command, command, sizeof command), socket->uid);
    return out;
}

void core_blame_socket(const dibs_socket *socket, dibs_err *err)
{
    if (!err)
        return;
    err->blocker = (dibs_blocker){ .relation = DIBS_REL_FOREIGN,
                                   .proto = socket->proto,
                                   .address = socket->address,
                                   .port = socket->port,
                                   .pid = socket->pid,
                                   .uid = socket->uid };
    (void) text_copy(err->blocker.command, sizeof err->blocker.command, socket->command);
}

static dibs_status refuse_published(const dibs_nat_rule *rule, dibs_err *err)
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1];

    dibs_address_format(&rule->address, address);
    (void) err_set(err, DIBS_TAKEN, "port %u is published on %s %s by a NAT rule: %s; " OTHERWISE, rule->port,
                   dibs_proto_text(rule->proto), address, rule->text);
    err->blocker = (dibs_blocker){
        .relation = DIBS_REL_NAT, .proto = rule->proto, .address = rule->address, .port = rule->port
    };
    return DIBS_TAKEN;
}

static dibs_status refuse_foreign(struct core *core, const struct call *call, const dibs_claim *wanted,
                                  uint16_t port, dibs_err *err)
{
    const dibs_port_question question = { .port = port,
                                          .bindings = wanted->bindings,
                                          .n = wanted->n_bindings };
    dibs_port_report report = { 0 };
    const dibs_socket *foreign = NULL;
    char address[DIBS_ADDRESS_TEXT_MAX + 1];
    char who[CORE_OWNER_TEXT];

    (void) core_port_sockets(core, call, &question, &report, NULL);
    for (size_t i = report.n_sockets; i-- > 0;)
        if (core_socket_uses(&report.sockets[i], wanted))
            foreign = &report.sockets[i];
    if (!foreign && report.n_nat > 0)
        return refuse_published(&report.nat[0], err);
    if (!foreign) {
        (void) err_set(err, DIBS_TAKEN,
                       "port %u is in use by a socket that no claim covers and that the kernel does not "
                       "show; " OTHERWISE,
                       port);
        core_blame_socket(&(dibs_socket){ .proto = wanted->bindings[0].proto,
                                          .address = wanted->bindings[0].address,
                                          .port = port },
                          err);
        return DIBS_TAKEN;
    }
    dibs_address_format(&foreign->address, address);
    (void) err_set(err, DIBS_TAKEN, "port %u is in use on %s %s by a process without a claim: %s; " OTHERWISE,
                   port, dibs_proto_text(foreign->proto), address, core_owner_text(foreign, who));
    core_blame_socket(foreign, err);
    return DIBS_TAKEN;
}

dibs_status core_refuse(struct core *core, const struct call *call, const struct ledger_want *want,
                        struct ledger_refusal *refusal, dibs_err *err)
{
    dibs_err unused = { 0 };

    if (!err)
        err = &unused;
    if (refusal->is_shared)
        return refuse_shared(core, call, &refusal->blocker, err);
    if (refusal->by_name)
        return refuse_name(core, call, want, refusal, err);
    if (refusal->is_busy)
        return refuse_foreign(core, call, &want->claim, refusal->port, err);
    /* The blocker has a live holder if any of the claims on the port has one. */
    return refusal->has_blocker ? refuse_claimed(core, call, &want->claim, &refusal->blocker, err)
                                : DIBS_TAKEN;
}

struct declared {
    const struct candidate_source *source;
    struct portbits ports;
};

static bool note_declared(void *ctx, const struct ledger_slot *slot)
{
    struct declared *d = ctx;

    if (slot->claim_id != 0 && !slot->is_exclusive && (d->source->kind.protos & 1u << slot->proto) &&
        portbits_has(&d->source->choosable, slot->port))
        portbits_add(&d->ports, slot->port);
    return true;
}

/* Write "free port" or "contiguous run of 4 ports that begins at a multiple of 8". */
static void describe_run(struct candidate_run run, char *out, size_t size)
{
    (void) snprintf(out, size, "free port");
    if (run.n > 1)
        (void) snprintf(out, size, "contiguous run of %u ports", run.n);
    if (run.align > 1)
        (void) snprintf(out + strlen(out), size - strlen(out), " that %s a multiple of %u",
                        run.n > 1 ? "begins at" : "is", run.align);
}

static uint32_t longest_range(const dibs_ranges *ranges)
{
    uint32_t longest = 0;

    for (size_t i = 0; i < ranges->n; i++) {
        uint32_t n = (uint32_t) (ranges->item[i].last - ranges->item[i].first) + 1;

        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Append what a setting adds to the pool's choice, if that is anything. `without`: the ports without it. */
static void advise_setting(char help[200], const char *flag, const struct candidate_source *source,
                           const struct portbits *without)
{
    uint32_t n = source->size - portbits_count(without);

    if (n > 0)
        (void) snprintf(help + strlen(help), 200 - strlen(help), "%s adds up to %u, ", flag, n);
}

dibs_status core_refuse_exhausted(struct core *core, const struct call *call,
                                  const struct candidate_source *source, struct candidate_run run,
                                  dibs_err *err)
{
    struct declared declared = { .source = source };
    struct portbits left = { 0 };
    struct portbits blocked = { 0 };
    char ranges[DIBS_RANGES_TEXT_MAX + 1];
    char wanted[96] = "";
    char help[200] = "";
    uint32_t longest = longest_range(&source->pool.ranges);
    bool for_tcp = source->kind.protos & 1u << DIBS_TCP;

    describe_run(run, wanted, sizeof wanted);
    dibs_ranges_format(&source->pool.ranges, ranges);
    if (run.n > longest)
        return err_set(err, DIBS_EXHAUSTED,
                       "%u ports in a row can never fit in pool '%s' (%.200s), which has at most %u in a row",
                       run.n, source->pool.name, ranges, longest);
    portbits_add_ranges(&left, &source->pool.ranges);
    if (!call->settings->allow_ephemeral) {
        struct portbits others = left;

        portbits_remove_range(&others, core_host(core, call)->ephemeral);
        advise_setting(help, "--allow-ephemeral", source, &others);
    }
    if (for_tcp && !call->settings->allow_blocked) {
        struct portbits others = left;

        portbits_add_browser_blocked(&blocked);
        portbits_subtract(&others, &blocked);
        advise_setting(help, "--allow-blocked", source, &others);
    }
    core_withhold(core, call, for_tcp, &left);
    (void) ledger_slots(core->ledger, call, NULL, note_declared, &declared, NULL);
    uint32_t n_declared = portbits_count(&declared.ports);
    if (n_declared > 0)
        (void) snprintf(help + strlen(help), sizeof help - strlen(help),
                        "%u are declared and can be had by number only, ", n_declared);
    return err_set(err, DIBS_EXHAUSTED,
                   "no %s left in pool '%s' (%.200s): %u of its %u ports are withheld (ephemeral, reserved, "
                   "privileged or blocked by browsers), too few of the others are free; %ssee 'dibs ls "
                   "--all' and 'dibs pool'",
                   wanted, source->pool.name, ranges, source->size - portbits_count(&left), source->size,
                   help);
}
