/* SPDX-License-Identifier: MIT */
/* How the members of a cluster are, for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

struct asking {
    struct etcd_config config;
    struct etcd *etcd;
    int64_t timeout_ms; /* of each question */
    uint64_t id[LEDGER_MEMBERS_MAX];
    struct ledger_cluster *out;
};

static struct etcd_call within(const struct asking *a)
{
    return (struct etcd_call){ .deadline_ms = clock_monotonic_ms() + a->timeout_ms };
}

/* What we ask with is not let in, or cannot be used at all: no fault of the cluster's. */
static bool is_ours(dibs_status s)
{
    return s == DIBS_DENIED || s == DIBS_INVALID;
}

/* Twice: the first time a connection is made. */
static void ask_endpoint(struct asking *a, size_t i)
{
    struct ledger_member *m = &a->out->member[i];
    struct etcd_status status = { 0 };
    dibs_err err = { 0 };
    dibs_status s = DIBS_OK;

    m->is_named = true;
    (void) text_copy(m->url, sizeof m->url, a->config.origin[i]);
    for (int k = 0; k < 2 && s == DIBS_OK; k++) {
        struct etcd_call call = within(a);
        int64_t began_us = clock_monotonic_us();

        s = etcd_status(a->etcd, &call, i, &status, &err);
        m->took_us = clock_monotonic_us() - began_us;
    }
    m->answers = s == DIBS_OK;
    a->out->n = i + 1;
    if (s != DIBS_OK) {
        (void) text_copy(m->why, sizeof m->why, err.msg);
        m->is_refused = is_ours(s);
        return;
    }
    a->id[i] = status.member;
    memcpy(m->version, status.version, sizeof m->version);
    m->is_leader = status.leader == status.member;
    m->has_leader = status.leader != 0;
    m->is_learner = status.is_learner;
    m->revision = status.revision;
    m->bytes = status.db_bytes;
    m->used_bytes = status.db_used_bytes;
    struct etcd_call call = within(a);
    (void) etcd_quota(a->etcd, &call, i, &m->quota_bytes, NULL); /* it may be told elsewhere, or to nobody */
}

static void ask_majority(struct asking *a)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    char key[sizeof a->config.prefix + 1];
    struct etcd_op look = { .kind = ETCD_RANGE, .is_count_only = true };
    struct etcd_call call = within(a);
    dibs_err err = { 0 };
    int64_t began_us = clock_monotonic_us();

    /* A key below the prefix: our user may have rights to nothing else. */
    (void) snprintf(key, sizeof key, "%s/", a->config.prefix);
    look.key = ETCD_BYTES(key);
    dibs_status s = etcd_do(a->etcd, &call, &look, &answer, &err);
    a->out->is_quorate = s == DIBS_OK;
    a->out->is_refused = is_ours(s);
    a->out->quorum_us = clock_monotonic_us() - began_us;
    if (!a->out->is_quorate)
        (void) text_copy(a->out->why, sizeof a->out->why, err.msg);
}

static struct ledger_member *member_of(struct asking *a, uint64_t id)
{
    for (size_t i = 0; i < a->out->n; i++)
        if (a->id[i] == id)
            return &a->out->member[i];
    return NULL;
}

/* An endpoint may be a proxy, or the same member by another address: they are told apart by what they say. */
static void ask_members(struct asking *a)
{
    struct etcd_member members[ETCD_MEMBERS_MAX];
    struct etcd_call call = within(a);
    size_t n = 0;

    if (etcd_members(a->etcd, &call, members, &n, NULL) != DIBS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        struct ledger_member *m = member_of(a, members[i].id);

        for (size_t k = 0; k < a->out->n && !m; k++) /* it does not answer, and is named all the same */
            if (!a->id[k] && strcmp(a->out->member[k].url, members[i].url) == 0)
                m = &a->out->member[k];
        if (!m && a->out->n < LEDGER_MEMBERS_MAX) {
            m = &a->out->member[a->out->n];
            (void) text_copy(m->url, sizeof m->url, members[i].url);
            m->is_learner = members[i].is_learner;
            a->id[a->out->n++] = members[i].id;
        }
        if (m)
            (void) text_copy(m->name, sizeof m->name, members[i].name);
    }
}

static void ask_alarms(struct asking *a)
{
    struct etcd_alarm alarms[ETCD_MEMBERS_MAX];
    struct etcd_call call = within(a);
    size_t n = 0;

    if (etcd_alarms(a->etcd, &call, alarms, &n, NULL) != DIBS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        struct ledger_member *m = member_of(a, alarms[i].member);

        if (m && alarms[i].kind == ETCD_ALARM_NO_SPACE)
            m->is_full = true;
        else if (m && alarms[i].kind == ETCD_ALARM_CORRUPT)
            m->is_corrupt = true;
        else
            a->out->has_other_alarm = true;
    }
}

dibs_status store_cluster(const char *rest, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err)
{
    struct asking a = { .out = out };
    dibs_status s = store_configure(rest, &a.config, err);

    *out = (struct ledger_cluster){ 0 };
    if (s == DIBS_OK)
        s = etcd_open(&a.config, &a.etcd, err);
    if (s != DIBS_OK)
        return s;
    /* Three questions for each endpoint, and three more. */
    a.timeout_ms = timeout_ms / (int64_t) (3 * a.config.n_origins + 3) + 1;
    for (size_t i = 0; i < a.config.n_origins; i++)
        ask_endpoint(&a, i);
    ask_majority(&a);
    ask_members(&a);
    ask_alarms(&a);
    etcd_close(a.etcd);
    etcd_config_wipe(&a.config);
    return DIBS_OK;
}
