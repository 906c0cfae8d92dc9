/* SPDX-License-Identifier: MIT */
#include "operator/grant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "lib/handle.h"
#include "operator/refer.h"

#include "base/banned.h"

enum { ROW_TRIES = 4 }; /* to either side */

/* One claim that is wanted. */
struct line {
    char name[DIBS_NAME_MAX + 1];
    const struct workload_port *port; /* NULL: of a reference, whose port is not known here */
};

struct granting {
    dibs *handle;
    const struct grant_options *options;
    const struct asking *asking;
    const struct identity *who;
    size_t n, n_own; /* lines; the pod's own come first */
    struct line *lines;
    dibs_request *requests; /* one for each line */
    const char **commands;
    dibs_claim *claims; /* the answers */
    uint16_t *told;     /* what others were told of a line before; 0: nothing. Then what cannot be true, */
    uint16_t *other;    /* ... for that is the role's */
    dibs_claim *moved;  /* what left its name for another */
    dibs_drop *drops;
    size_t n_drops;
    char *warning;
    bool *is_early;
    dibs_err *err;
};

static dibs_status no_memory(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "claiming for a pod: out of memory");
}

void grant_done(struct grant *grant)
{
    free(grant->own);
    free(grant->referred);
    *grant = (struct grant){ 0 };
}

static void granting_done(struct granting *g)
{
    free(g->lines);
    free(g->requests);
    free(g->commands);
    free(g->claims);
    free(g->told);
    free(g->other);
    free(g->moved);
    free(g->drops);
}

static bool allocate(struct granting *g)
{
    size_t max = g->n_own + g->asking->config->n_references + 1;

    g->lines = calloc(max, sizeof *g->lines);
    g->requests = calloc(max, sizeof *g->requests);
    g->commands = calloc(max, sizeof *g->commands);
    g->claims = calloc(max, sizeof *g->claims);
    g->told = calloc(max, sizeof *g->told);
    g->other = calloc(max, sizeof *g->other);
    g->moved = calloc(2 * max, sizeof *g->moved); /* of each line a claim and a mark */
    g->drops = calloc(2 * max, sizeof *g->drops);
    return g->lines && g->requests && g->commands && g->claims && g->told && g->other && g->moved && g->drops;
}

/* ---- what is wanted ---- */

static dibs_request pending(const struct granting *g, const char *name)
{
    return (dibs_request){ .name = name,
                           .pool = g->options->pool,
                           .keep = true,
                           .holder = DIBS_HELD_BY_LEASE,
                           .ttl_ms = g->options->pending_ms };
}

static void ask_for_own(struct granting *g)
{
    const struct workload_component *config = g->asking->config;
    size_t n = 0;

    for (size_t i = 0; i < config->n_ports; i++) {
        const struct workload_port *port = &config->ports[i];

        for (uint32_t number = 0; number < port->count; number++, n++) {
            struct line *line = &g->lines[n];
            dibs_request *r = &g->requests[n];

            line->port = port;
            identity_claim_name(g->who, port, number, line->name);
            *r = pending(g, line->name);
            r->mode = port->mode;
            r->port = port->port;
            r->run = port->is_contiguous && number == 0 ? port->count : 0;
            r->n_bindings = port->n_bindings;
            memcpy(r->bindings, port->bindings, sizeof r->bindings);
            g->commands[n] = port->scope == WORKLOAD_ROLE_SCOPED ? g->who->role_keeper : g->who->keeper;
        }
    }
    g->n = n;
}

/* Its target has not come yet: the name is claimed for it, and is nobody's until then. */
static size_t ask_for_target(struct granting *g, const char *name)
{
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->lines[i].name, name) == 0)
            return i;
    (void) text_copy(g->lines[g->n].name, sizeof g->lines[g->n].name, name);
    g->requests[g->n] = pending(g, g->lines[g->n].name);
    g->requests[g->n].is_lookup = true; /* when it has come meanwhile, it stays as it is */
    g->commands[g->n] = "";
    return g->n++;
}

/* ---- names that have something else ---- */

static dibs_status find(struct granting *g, const char *name, dibs_claim *out)
{
    dibs_err why = { 0 };
    dibs_status s = dibs_claim_find(g->handle, &(dibs_which){ .name = name }, out, &why);

    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        *g->err = why;
    return s;
}

/* The claim goes on as NAME/PORT, for a pod may use it; its name is free. One that nobody has come for ends.
 */
static void leave_name(struct granting *g, const dibs_claim *claim)
{
    g->moved[g->n_drops] = *claim;
    g->drops[g->n_drops] =
        (dibs_drop){ .claim = &g->moved[g->n_drops], .frees_name = true, .stays = claim->command[0] != '\0' };
    g->n_drops++;
}

static bool is_in_block(const struct line *line)
{
    return line->port && line->port->is_contiguous;
}

/* A port that dibs chooses keeps its number where it can: others were told of it. */
static void prefer(struct granting *g, size_t i, uint16_t port, dibs_mode mode)
{
    if (g->requests[i].mode == DIBS_REQUIRED || is_in_block(&g->lines[i]))
        return;
    g->requests[i].mode = mode;
    g->requests[i].port = port;
}

/* Why a name that has something else cannot be had. */
static dibs_status check_movable(const struct granting *g, size_t i, const dibs_claim *claim)
{
    const struct line *line = &g->lines[i];

    if (claim->command[0] && strcmp(claim->command, g->commands[i]) != 0)
        return err_set(
            g->err, DIBS_TAKEN,
            "allocations '%s': port %u is claimed as %s for %s, and this pod is of %s; two objects cannot "
            "be one role of a group",
            line->port->name, claim->port, line->name, claim->command, g->commands[i]);
    /* Under another name nothing but the pods themselves would keep it, and they do not know that name. */
    if (strcmp(claim->command, IDENTITY_KEPT_BY_POD) == 0)
        return err_set(
            g->err, DIBS_TAKEN,
            "allocations '%s': other pods share port %u as %s, and not as it is asked for here; give the "
            "port another name",
            line->port->name, claim->port, line->name);
    return DIBS_OK;
}

/* The configuration has changed since the name was claimed. */
static dibs_status move_changed(struct granting *g)
{
    dibs_pool pool = { 0 };
    dibs_status s = dibs_pool_get(g->handle, g->options->pool, &pool, g->err);

    for (size_t i = 0; i < g->n_own && s == DIBS_OK; i++) {
        dibs_claim claim = { 0 };
        bool is_narrowed = false;

        s = find(g, g->lines[i].name, &claim);
        if (s == DIBS_NOT_FOUND) {
            s = DIBS_OK;
            continue;
        }
        bool is_member = dibs_ranges_contain(&pool.ranges, claim.port);
        bool is_same = !claim.command[0] || strcmp(claim.command, g->commands[i]) == 0;
        if (s != DIBS_OK ||
            (is_same && is_member && workload_is_as_wanted(&claim, g->lines[i].port, &is_narrowed)))
            continue;
        s = check_movable(g, i, &claim);
        if (s != DIBS_OK)
            return s;
        leave_name(g, &claim);
        if (is_member)
            prefer(g, i, claim.port, DIBS_PREFERRED);
    }
    return s;
}

/* It was claimed before its pod came: nobody holds it, whoever told its number. */
static dibs_status let_go(struct granting *g, const char *name, uint16_t *port)
{
    const dibs_which which = { .name = name };
    dibs_claim claim = { 0 };
    dibs_status s = find(g, name, &claim);

    if (s == DIBS_OK && claim.holder != DIBS_HELD_BY_NOBODY) {
        s = dibs_claim_release(g->handle, &which, DIBS_RELEASE_UNHOLD | DIBS_RELEASE_FORCE, NULL, g->err);
        if (s == DIBS_OK)
            s = find(g, name, &claim);
    }
    if (s != DIBS_OK)
        return s;
    leave_name(g, &claim);
    *port = claim.port;
    return DIBS_OK;
}

/* A reference came first: the number that it was told is the port's, under whichever name. */
static dibs_status adopt(struct granting *g, size_t i)
{
    dibs_claim has = { 0 };
    struct refer_foreseen foreseen = { 0 };
    uint16_t mark = 0;
    dibs_status s = find(g, g->lines[i].name, &has);
    bool is_there = s == DIBS_OK && !refer_is_mark(&has);

    if ((s != DIBS_OK && s != DIBS_NOT_FOUND) || (is_there && has.command[0]))
        return s;
    s = refer_foreseen(g->handle, g->who, g->lines[i].port, &foreseen, g->err);
    if (s == DIBS_OK && foreseen.mark[0])
        s = let_go(g, foreseen.mark, &mark);
    if (s == DIBS_OK && is_there)
        g->told[i] = has.port;
    else if (s == DIBS_OK && foreseen.name[0])
        s = let_go(g, foreseen.name, &g->told[i]);
    if (s == DIBS_OK && g->told[i] && !is_there)
        prefer(g, i, g->told[i], DIBS_PREFERRED);
    if (foreseen.other)
        g->other[i] = foreseen.other;
    return s;
}

static dibs_status adopt_all(struct granting *g)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < g->n_own && s == DIBS_OK && !g->options->is_dry_run; i++)
        if (i == 0 || g->lines[i].port != g->lines[i - 1].port) {
            s = adopt(g, i);
            if (s == DIBS_NOT_FOUND)
                s = DIBS_OK;
        }
    return s;
}

/* Who was told another number than it has turned out to be, or one of several, cannot be helped any more. */
static void warn_of_told(struct granting *g)
{
    for (size_t i = 0; i < g->n_own; i++) {
        const struct workload_port *port = g->lines[i].port;
        uint16_t told = g->told[i] && g->told[i] != g->claims[i].port ? g->told[i] : g->other[i];

        if (told)
            (void) snprintf(
                g->warning, GRANT_WARNING_MAX,
                "dibs: pods that refer to port '%.63s' of this role were told %u, and it is %u: delete them",
                port->name, told, g->claims[i].port);
        else if (g->told[i] && port->count > 1 && !port->is_contiguous)
            (void) snprintf(g->warning, GRANT_WARNING_MAX,
                            "dibs: pods that refer to port '%.63s' of this role were told the first of its "
                            "%u numbers: delete them",
                            port->name, port->count);
    }
}

/* ---- claiming ---- */

static dibs_status claim_all(struct granting *g)
{
    const dibs_batch batch = { .requests = g->requests,
                               .n = g->n,
                               .drops = g->drops,
                               .n_drops = g->n_drops,
                               .is_dry_run = g->options->is_dry_run };

    return g->n > 0 ? handle_claim_for(g->handle, &batch, g->commands, g->claims, g->err) : DIBS_OK;
}

static dibs_status claim_or_move(struct granting *g)
{
    dibs_status s = adopt_all(g);

    if (s == DIBS_OK)
        s = claim_all(g);
    if (s != DIBS_TAKEN || g->err->blocker.relation != DIBS_REL_SAME_NAME || !g->err->blocker.differs)
        return s;
    g->n_drops = 0;
    s = move_changed(g);
    return s == DIBS_OK ? claim_all(g) : s;
}

static bool is_row(const uint16_t *ports, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (ports[i] != ports[0] + i)
            return false;
    return true;
}

/* Another number for the last one of a port that is several, and by chance a row: a neighbour, which may be
 * somebody's already. */
static dibs_status break_row(struct granting *g, size_t first, uint32_t n)
{
    size_t last = first + n - 1;
    uint16_t ports[WORKLOAD_COUNT_MAX];
    dibs_pool pool = { 0 };
    dibs_status s = DIBS_OK;

    for (uint32_t i = 0; i < 2 * ROW_TRIES && s == DIBS_OK; i++) {
        uint16_t old = 0;

        for (uint32_t k = 0; k < n; k++)
            ports[k] = g->claims[first + k].port;
        if (!is_row(ports, n))
            return DIBS_OK;
        int32_t other = i % 2 ? ports[0] - 1 - (int32_t) i / 2 : ports[n - 1] + 1 + (int32_t) i / 2;
        s = dibs_pool_get(g->handle, g->options->pool, &pool, g->err);
        if (s != DIBS_OK || other < 1 || other > DIBS_PORT_MAX ||
            !dibs_ranges_contain(&pool.ranges, (uint16_t) other))
            continue;
        g->n_drops = 0;
        s = let_go(g, g->lines[last].name, &old);
        prefer(g, last, (uint16_t) other, DIBS_PREFERRED);
        if (s == DIBS_OK)
            s = claim_all(g);
    }
    if (s != DIBS_EXHAUSTED)
        return s;
    g->requests[last].mode = DIBS_RANDOM; /* there is no other: it is pending again */
    g->n_drops = 0;
    return claim_all(g);
}

static dibs_status claim(struct granting *g)
{
    dibs_status s = claim_or_move(g);
    uint32_t n = 0;

    for (size_t i = 0; i < g->n_own && s == DIBS_OK && !g->options->is_dry_run; i += n) {
        n = g->lines[i].port->count;
        if (n > 1 && !is_in_block(&g->lines[i]) && !g->claims[i].was_there)
            s = break_row(g, i, n);
    }
    return s;
}

/* Of what was foreseen for a pod whose scope nobody knows. */
static dibs_status mark(struct granting *g, const struct refer *found)
{
    dibs_claim made = { 0 };
    const char *const nobody = "";
    dibs_request r = pending(g, found->mark);
    uint16_t old = 0;

    if (!found->mark[0] || g->options->is_dry_run)
        return DIBS_OK;
    r.mode = DIBS_DECLARED;
    r.port = g->claims[found->line].port;
    g->n_drops = 0;
    dibs_status s = let_go(g, found->mark, &old); /* one that was left behind */
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    const dibs_batch batch = { .requests = &r, .n = 1, .drops = g->drops, .n_drops = g->n_drops };
    return handle_claim_for(g->handle, &batch, &nobody, &made, g->err);
}

/* By a reference of the same pod: the first number that was told counts. */
static bool is_marked(const struct refer *found, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(found[k].mark, found[i].mark) == 0)
            return true;
    return false;
}

/* The ledger speaks of a port that the pool does not have; the pod's author knows it by its field. */
static dibs_status name_field(const struct granting *g)
{
    const struct workload_component *config = g->asking->config;
    dibs_pool pool = { 0 };

    if (dibs_pool_get(g->handle, g->options->pool, &pool, NULL) != DIBS_OK)
        return DIBS_INVALID;
    for (size_t i = 0; i < config->n_ports; i++)
        if (config->ports[i].mode != DIBS_RANDOM && !dibs_ranges_contain(&pool.ranges, config->ports[i].port))
            return err_wrap(g->err, DIBS_INVALID, "metadata.annotations[%s]: allocations[%zu].%s",
                            g->asking->key, i, config->ports[i].mode == DIBS_PREFERRED ? "prefer" : "port");
    return DIBS_INVALID;
}

/* A block tells its first number, others tell all. Of others' claims only the numbers are known: who is given
 * several without asking for a block is never given a row (break_row). */
static void take_referred(const struct granting *g, const struct refer *found, struct grant_numbers *out)
{
    const struct workload_port *own = found->n ? NULL : g->lines[found->line].port;
    uint32_t n = own ? own->count : found->n ? found->n : 1;

    for (uint32_t i = 0; i < n; i++)
        out->ports[i] = found->n ? found->ports[i] : g->claims[found->line + i].port;
    out->shape.count = (uint16_t) n;
    out->shape.is_contiguous = own ? own->is_contiguous : n > 1 && is_row(out->ports, n);
}

static dibs_status take_answers(const struct granting *g, const struct refer *found, struct grant *out)
{
    size_t n_references = g->asking->config->n_references;

    out->own = calloc(g->n_own + 1, sizeof *out->own);
    out->referred = calloc(n_references + 1, sizeof *out->referred);
    if (!out->own || !out->referred)
        return no_memory(g->err);
    out->n_own = g->n_own;
    out->n_referred = n_references;
    for (size_t i = 0; i < g->n_own; i++)
        out->own[i] = g->claims[i].port;
    for (size_t i = 0; i < n_references; i++)
        take_referred(g, &found[i], &out->referred[i]);
    return DIBS_OK;
}

/* Where each reference leads: a number that is there, one of the pod's own lines, or a new one. */
static dibs_status follow(struct granting *g, struct refer *found)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < g->asking->config->n_references && s == DIBS_OK; i++) {
        s = refer_find(g->handle, g->asking, g->who, i, &found[i], g->err);
        if (s == DIBS_OK && found[i].n == 0)
            found[i].line = ask_for_target(g, found[i].name);
    }
    return s;
}

static dibs_status grant(struct granting *g, struct grant *out)
{
    AUTO(free_auto) struct refer *found = calloc(g->asking->config->n_references + 1, sizeof *found);

    if (!found || !allocate(g))
        return no_memory(g->err);
    ask_for_own(g);
    dibs_status s = follow(g, found);
    *g->is_early = s == DIBS_TAKEN;
    if (s != DIBS_OK)
        return s;
    s = claim(g);
    if (s == DIBS_INVALID)
        s = name_field(g);
    for (size_t i = 0; i < g->asking->config->n_references && s == DIBS_OK; i++)
        s = is_marked(found, i) ? DIBS_OK : mark(g, &found[i]);
    if (s != DIBS_OK)
        return s;
    warn_of_told(g);
    return take_answers(g, found, out);
}

/* ---- which pod ---- */

/* Are all claims that would be the pod's own by its id still pending? */
static bool is_pending(dibs *handle, const struct asking *asking, const struct identity *who)
{
    for (size_t i = 0; i < asking->config->n_ports; i++) {
        const struct workload_port *port = &asking->config->ports[i];
        char name[DIBS_NAME_MAX + 1];
        dibs_claim claim = { 0 };

        if (port->scope == WORKLOAD_ROLE_SCOPED)
            continue;
        identity_claim_name(who, port, 0, name);
        if (dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, NULL) != DIBS_OK ||
            claim.holder != DIBS_HELD_BY_LEASE ||
            (!claim.node[0] && claim.lease_until_ms <= dibs_boot_ms(handle)))
            return false;
    }
    return true;
}

/* An id that it brings along is its own when this is the same creation once more. A named pod is known by its
 * name, and for others claiming anew is always safe. */
static dibs_status settle_id(dibs *handle, const struct grant_question *q, dibs_err *err)
{
    char id[IDENTITY_ID_MAX + 1];
    int64_t wall_ms = core_now(handle->core).wall_ms;

    if (identity_may_be_asked_again(q->who, q->pod, wall_ms) &&
        (q->who->is_named || is_pending(handle, q->asking, q->who)))
        return DIBS_OK;
    dibs_status s = identity_draw_id(q->pod, wall_ms, id, err);
    if (s == DIBS_OK)
        identity_take_id(q->who, id);
    return s;
}

dibs_status grant_make(dibs *handle, const struct grant_options *options,
                       const struct grant_question *question, struct grant *out, dibs_err *err)
{
    struct granting g = { .handle = handle,
                          .options = options,
                          .asking = question->asking,
                          .who = question->who,
                          .n_own = asking_count(question->asking),
                          .is_early = question->is_early,
                          .err = err };
    struct grant made = { 0 };

    g.warning = made.warning;
    dibs_status s = handle_speak_for(handle, g.who->principal, g.who->keeper, err);

    if (s == DIBS_OK)
        s = settle_id(handle, question, err);
    if (s == DIBS_OK)
        s = grant(&g, &made);
    granting_done(&g);
    memcpy(made.id, g.who->id, sizeof made.id);
    if (s == DIBS_OK)
        *out = made;
    else
        grant_done(&made);
    return s;
}
