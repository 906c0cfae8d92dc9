/* SPDX-License-Identifier: MIT */
/* How the cluster is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "etcd/inside.h"

#include "base/banned.h"

static dibs_status ask(struct etcd *etcd, struct etcd_call *call, struct post *post, const char *body,
                       dibs_err *err)
{
    post->body = body;
    post->n_body = strlen(body);
    post->is_read = true;
    return client_post(etcd, call, post, err);
}

/* ---- status of one member ---- */

static const char *understand_status(void *ctx, const json_value *root)
{
    struct etcd_status *out = ctx;
    struct reading r = { 0 };
    const json_value *header = json_get(root, "header");
    struct etcd_status status = {
        .cluster = read_uint(&r, header, "cluster_id"),
        .member = read_uint(&r, header, "member_id"),
        .revision = read_int(&r, header, "revision"),
        .leader = read_uint(&r, root, "leader"),
        .term = read_uint(&r, root, "raftTerm"),
        .index = read_uint(&r, root, "raftIndex"),
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
    struct post post = { .path = "/v3/maintenance/status",
                         .endpoint = (int) endpoint,
                         .understand = understand_status,
                         .ctx = out };

    return ask(etcd, call, &post, "{}", err);
}

/* ---- the quota ---- */

enum { METRICS_MAX_BYTES = 4 << 20, QUOTA_DIGITS = 32 };

/* Numbers there are floating: "2.147483648e+09". */
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

dibs_status etcd_quota(struct etcd *etcd, struct etcd_call *call, size_t endpoint, int64_t *bytes,
                       dibs_err *err)
{
    AUTO(web_answer_done) struct web_answer answer = { 0 };
    char url[ETCD_URL_MAX + 1] = "";
    struct web_request request = {
        .method = "GET", .url = url, .deadline_ms = call->deadline_ms, .answer_max_bytes = METRICS_MAX_BYTES
    };

    (void) snprintf(url, sizeof url, "%s/metrics", etcd->config.origin[endpoint]);
    if (web_ask(etcd->web, &request, &answer) != DIBS_OK)
        return err_set(err, answer.status, "%s", answer.err.msg);
    if (answer.http_status != 200 || !quota_read(answer.body.at, answer.body.n, bytes))
        return err_set(err, DIBS_UNAVAILABLE, "etcd: %s does not tell its quota", url);
    return DIBS_OK;
}

/* ---- members ---- */

struct list {
    void *out; /* room for ETCD_MEMBERS_MAX */
    size_t n;
};

static dibs_status ask_list(struct etcd *etcd, struct etcd_call *call, struct post *post, const char *body,
                            size_t *n, dibs_err *err)
{
    dibs_status s = ask(etcd, call, post, body, err);

    if (s == DIBS_OK)
        *n = ((const struct list *) post->ctx)->n;
    return s;
}

static const char *understand_members(void *ctx, const json_value *root)
{
    struct list *members = ctx;
    struct etcd_member *out = members->out;
    struct reading r = { 0 };
    const json_value *list = NULL;
    size_t n = read_size(&r, root, "members", &list);

    if (n > ETCD_MEMBERS_MAX)
        return "it has too many members";
    for (size_t i = 0; i < n; i++) {
        const json_value *member = json_array_at(list, i);
        const json_value *urls = NULL;
        const char *url = "";
        struct etcd_member *to = &out[i];

        *to = (struct etcd_member){ .id = read_uint(&r, member, "ID"),
                                    .is_learner = read_bool(&r, member, "isLearner") };
        (void) text_safe(read_string(&r, member, "name"), to->name, sizeof to->name);
        if (read_size(&r, member, "clientURLs", &urls) > 0)
            (void) json_as_string(json_array_at(urls, 0), &url);
        (void) text_safe(url, to->url, sizeof to->url);
    }
    members->n = n;
    return r.wrong;
}

dibs_status etcd_members(struct etcd *etcd, struct etcd_call *call, struct etcd_member out[ETCD_MEMBERS_MAX],
                         size_t *n, dibs_err *err)
{
    struct list members = { .out = out };
    struct post post = {
        .path = "/v3/cluster/member/list", .endpoint = -1, .understand = understand_members, .ctx = &members
    };

    return ask_list(etcd, call, &post, "{}", n, err);
}

/* ---- alarms ---- */

static enum etcd_alarm_kind alarm_kind(const char *name)
{
    if (strcmp(name, "NOSPACE") == 0)
        return ETCD_ALARM_NO_SPACE;
    return strcmp(name, "CORRUPT") == 0 ? ETCD_ALARM_CORRUPT : ETCD_ALARM_OTHER;
}

static const char *understand_alarms(void *ctx, const json_value *root)
{
    struct list *alarms = ctx;
    struct etcd_alarm *out = alarms->out;
    struct reading r = { 0 };
    const json_value *list = NULL;
    size_t n = read_size(&r, root, "alarms", &list);

    if (n > ETCD_MEMBERS_MAX)
        n = ETCD_MEMBERS_MAX; /* the first ones say enough */
    for (size_t i = 0; i < n; i++) {
        const json_value *alarm = json_array_at(list, i);

        out[i] = (struct etcd_alarm){ .member = read_uint(&r, alarm, "memberID"),
                                      .kind = alarm_kind(read_string(&r, alarm, "alarm")) };
    }
    alarms->n = n;
    return r.wrong;
}

dibs_status etcd_alarms(struct etcd *etcd, struct etcd_call *call, struct etcd_alarm out[ETCD_MEMBERS_MAX],
                        size_t *n, dibs_err *err)
{
    struct list alarms = { .out = out };
    struct post post = {
        .path = "/v3/maintenance/alarm", .endpoint = -1, .understand = understand_alarms, .ctx = &alarms
    };

    return ask_list(etcd, call, &post, "{\"action\":\"GET\"}", n, err);
}
