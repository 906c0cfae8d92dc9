/* SPDX-License-Identifier: MIT */
/* The state of each etcd member, for `dibs doctor` and for metrics. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/text.h"
#include "store/etcd/client/internal.h"
#include "store/report.h"

#include "base/banned.h"

static const char *read_status(void *ctx, const jsonr_value *root)
{
    struct etcd_status *out = ctx;
    struct reading r = { 0 };
    const jsonr_value *header = jsonr_get(root, "header");
    struct etcd_status status = {
        .member = read_uint(&r, header, "member_id"),
        .revision = read_int(&r, header, "revision"),
        .leader = read_uint(&r, root, "leader"),
        .db_bytes = read_int(&r, root, "dbSize"),
        .db_used_bytes = read_int(&r, root, "dbSizeInUse"),
        .is_learner = read_bool(&r, root, "isLearner"),
    };

    (void) text_safe(read_string(&r, root, "version"), status.version, sizeof status.version);
    if (!r.wrong && status.member == 0)
        r.wrong = "it has no member";
    if (!r.wrong)
        *out = status;
    return r.wrong;
}

dibs_status etcd_status(struct etcd *etcd, struct etcd_call *call, size_t endpoint, struct etcd_status *out,
                        dibs_err *err)
{
    const struct post post = { .path = "/v3/maintenance/status",
                               .body = "{}",
                               .n_body = 2,
                               .is_read = true,
                               .endpoint = (int) endpoint,
                               .understand = read_status,
                               .ctx = out };

    return client_post(etcd, call, &post, err);
}

enum { METRICS_MAX_BYTES = 4 << 20, QUOTA_DIGITS = 32 };

/* Prometheus writes numbers as floating point: "2.147483648e+09". */
bool quota_read(const char *text, size_t n, int64_t *out)
{
    static const char name[] = "\netcd_server_quota_backend_bytes ";
    const char *at = memmem(text, n, name, sizeof name - 1);
    char number[QUOTA_DIGITS + 1] = "";
    char *end = NULL;

    if (!at)
        return false;
    at += sizeof name - 1;
    size_t left = n - (size_t) (at - text);
    memcpy(number, at, left < QUOTA_DIGITS ? left : QUOTA_DIGITS);
    double value = strtod(number, &end);
    if (end == number || *end != '\n' || !(value >= 1 && value < (double) ((int64_t) 1 << 62)))
        return false;
    *out = (int64_t) value;
    return true;
}

struct survey {
    struct etcd *etcd;
    int64_t timeout_ms; /* of each request */
    uint64_t id[LEDGER_MEMBERS_MAX];
    struct ledger_cluster *out;
};

static struct etcd_call within(const struct survey *s)
{
    return (struct etcd_call){ .deadline_ms = clock_monotonic_ms() + s->timeout_ms };
}

/* Return whether our user, password or certificate is at fault, not the cluster. */
static bool is_ours(dibs_status status)
{
    return status == DIBS_DENIED || status == DIBS_INVALID;
}

/* Read the database quota from the member's metrics: the gateway does not have it. It stays unknown when the
 * metrics have another address or are forbidden. */
static void ask_quota(const struct survey *s, size_t i)
{
    AUTO(web_answer_done) struct web_answer answer = { 0 };
    char url[ETCD_URL_MAX + 1] = "";
    struct web_request request = { .method = "GET",
                                   .url = url,
                                   .deadline_ms = within(s).deadline_ms,
                                   .answer_max_bytes = METRICS_MAX_BYTES };

    (void) snprintf(url, sizeof url, "%s/metrics", s->etcd->config.origin[i]);
    if (web_ask(s->etcd->web, &request, &answer) == DIBS_OK && answer.http_status == 200)
        (void) quota_read(answer.body.at, answer.body.n, &s->out->member[i].quota_bytes);
}

/* Ask twice: the first request also pays for the connection. */
static void ask_endpoint(struct survey *s, size_t i)
{
    struct ledger_member *m = &s->out->member[i];
    struct etcd_status status = { 0 };
    dibs_err err = { 0 };
    dibs_status result = DIBS_OK;

    m->is_named = true;
    (void) text_copy(m->url, sizeof m->url, s->etcd->config.origin[i]);
    for (int k = 0; k < 2 && result == DIBS_OK; k++) {
        struct etcd_call call = within(s);
        int64_t began_us = clock_monotonic_us();

        result = etcd_status(s->etcd, &call, i, &status, &err);
        m->took_us = clock_monotonic_us() - began_us;
    }
    m->answers = result == DIBS_OK;
    s->out->n = i + 1;
    if (result != DIBS_OK) {
        (void) text_copy(m->why, sizeof m->why, err.msg);
        m->is_refused = is_ours(result);
        return;
    }
    s->id[i] = status.member;
    memcpy(m->version, status.version, sizeof m->version);
    m->is_leader = status.leader == status.member;
    m->has_leader = status.leader != 0;
    m->is_learner = status.is_learner;
    m->revision = status.revision;
    m->bytes = status.db_bytes;
    m->used_bytes = status.db_used_bytes;
    ask_quota(s, i);
}

static void ask_majority(struct survey *s)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    char key[ETCD_PREFIX_MAX + 2];
    struct etcd_op look = { .kind = ETCD_RANGE, .is_count_only = true };
    struct etcd_call call = within(s);
    dibs_err err = { 0 };
    int64_t began_us = clock_monotonic_us();

    /* Use a key below the prefix: our user may have no other rights. */
    (void) snprintf(key, sizeof key, "%s/", s->etcd->config.prefix);
    look.key = ETCD_BYTES(key);
    dibs_status result = etcd_do(s->etcd, &call, &look, &answer, &err);
    s->out->is_quorate = result == DIBS_OK;
    s->out->is_refused = is_ours(result);
    s->out->quorum_us = clock_monotonic_us() - began_us;
    if (!s->out->is_quorate)
        (void) text_copy(s->out->why, sizeof s->out->why, err.msg);
}

static struct ledger_member *member_of(const struct survey *s, uint64_t id)
{
    for (size_t i = 0; i < s->out->n; i++)
        if (s->id[i] == id)
            return &s->out->member[i];
    return NULL;
}

/* Add a member. An endpoint may be a proxy, or another address of the same member: ids tell them apart. */
static void add_member(struct survey *s, struct reading *r, const jsonr_value *member)
{
    uint64_t id = read_uint(r, member, "ID");
    struct ledger_member *m = member_of(s, id);
    const jsonr_value *urls = NULL;
    const char *first = "";
    char url[sizeof m->url];

    if (read_size(r, member, "clientURLs", &urls) > 0)
        (void) jsonr_as_string(jsonr_array_at(urls, 0), &first);
    (void) text_safe(first, url, sizeof url);
    for (size_t i = 0; i < s->out->n && !m; i++) /* an endpoint that did not answer has no id yet */
        if (!s->id[i] && strcmp(s->out->member[i].url, url) == 0)
            m = &s->out->member[i];
    if (!m && s->out->n < LEDGER_MEMBERS_MAX) {
        s->id[s->out->n] = id;
        m = &s->out->member[s->out->n++];
        memcpy(m->url, url, sizeof url);
        m->is_learner = read_bool(r, member, "isLearner");
    }
    if (m)
        (void) text_safe(read_string(r, member, "name"), m->name, sizeof m->name);
}

static const char *read_members(void *ctx, const jsonr_value *root)
{
    struct reading r = { 0 };
    const jsonr_value *list = NULL;
    size_t n = read_size(&r, root, "members", &list);

    for (size_t i = 0; i < n && i < LEDGER_MEMBERS_MAX; i++)
        add_member(ctx, &r, jsonr_array_at(list, i));
    return r.wrong;
}

static const char *read_alarms(void *ctx, const jsonr_value *root)
{
    struct survey *s = ctx;
    struct reading r = { 0 };
    const jsonr_value *list = NULL;
    size_t n = read_size(&r, root, "alarms", &list);

    for (size_t i = 0; i < n && i < LEDGER_MEMBERS_MAX; i++) { /* more are not shown */
        const jsonr_value *alarm = jsonr_array_at(list, i);
        struct ledger_member *m = member_of(s, read_uint(&r, alarm, "memberID"));
        const char *kind = read_string(&r, alarm, "alarm");

        if (m && strcmp(kind, "NOSPACE") == 0)
            m->is_full = true;
        else if (m && strcmp(kind, "CORRUPT") == 0)
            m->is_corrupt = true;
        else
            s->out->has_other_alarm = true;
    }
    return r.wrong;
}

static void ask_all(struct survey *s, const char *path, const char *body,
                    const char *(*understand)(void *ctx, const jsonr_value *root))
{
    struct etcd_call call = within(s);
    const struct post post = { path, body, strlen(body), true, -1, understand, s };

    (void) client_post(s->etcd, &call, &post, NULL);
}

dibs_status etcd_cluster(const struct etcd_config *config, int64_t timeout_ms, struct ledger_cluster *out,
                         dibs_err *err)
{
    struct survey s = { .out = out };
    dibs_status result = etcd_open(config, &s.etcd, err);

    *out = (struct ledger_cluster){ 0 };
    if (result != DIBS_OK)
        return result;
    /* Three requests to each endpoint, and three more. */
    s.timeout_ms = timeout_ms / (int64_t) (3 * config->n_origins + 3) + 1;
    for (size_t i = 0; i < config->n_origins; i++)
        ask_endpoint(&s, i);
    ask_majority(&s);
    ask_all(&s, "/v3/cluster/member/list", "{}", read_members);
    ask_all(&s, "/v3/maintenance/alarm", "{\"action\":\"GET\"}", read_alarms);
    etcd_close(s.etcd);
    return DIBS_OK;
}
