/* SPDX-License-Identifier: MIT */
#include "kube/client/election.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/jitter.h"
#include "base/text.h"

#include "base/banned.h"

enum { CALL_MS = 5000, IDENTITY_MAX = 255, VERSION_MAX = 255 };

/* The content of a Lease. */
struct record {
    char holder[IDENTITY_MAX + 1];
    char version[VERSION_MAX + 1]; /* resourceVersion */
    char acquired[48], renewed[48];
    int64_t duration_ms;
    int64_t transitions;
};

struct election {
    struct kubeapi *api;
    struct election_self self;
    char ns[KUBEAPI_NAMESPACE_MAX + 1];
    char name[64];
    char identity[IDENTITY_MAX + 1];
    int64_t next_ms;
    struct kubeapi_call *call; /* NULL: idle until next_ms */
    struct record seen;
    int64_t seen_ms;              /* when `seen` last changed, by our clock; 0: nothing seen yet */
    int64_t sent_ms;              /* when the pending write was sent */
    int64_t until_ms;             /* we lead until then; 0: we do not lead */
    bool is_resigning, is_giving; /* resignation requested; its write is still to be sent */
    struct record wanted;         /* content of the pending write */
    dibs_err trouble;
};

static void rest(struct election *e)
{
    e->call = NULL;
    e->next_ms = clock_monotonic_ms() + jitter_ms(ELECTION_RETRY_MS);
}

/* Call the API server about the Lease, or about the collection in order to create it. */
static void ask(struct election *e, struct kubeapi_request request)
{
    char path[256] = "";
    bool is_new = strcmp(request.method, "POST") == 0;

    (void) snprintf(path, sizeof path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", e->ns,
                    is_new ? "" : "/", is_new ? "" : e->name);
    request.path = path;
    request.timeout_ms = CALL_MS;
    request.ctx = e;
    if (kubeapi_ask(e->api, &request, &e->call, &e->trouble) != DIBS_OK)
        rest(e);
}

static bool is_ours(const struct election *e)
{
    return strcmp(e->seen.holder, e->identity) == 0;
}

static void read_record(const jsonr_value *lease, struct record *out)
{
    int64_t seconds = 0;

    *out = (struct record){ 0 };
    (void) text_copy(out->holder, sizeof out->holder, jsonr_text_at(lease, "spec.holderIdentity"));
    (void) text_copy(out->version, sizeof out->version, jsonr_text_at(lease, "metadata.resourceVersion"));
    (void) text_copy(out->acquired, sizeof out->acquired, jsonr_text_at(lease, "spec.acquireTime"));
    (void) text_copy(out->renewed, sizeof out->renewed, jsonr_text_at(lease, "spec.renewTime"));
    const jsonr_value *spec = jsonr_get(lease, "spec");
    if (spec && jsonr_get_int(spec, "leaseDurationSeconds", &seconds) && seconds > 0 && seconds <= 3600)
        out->duration_ms = seconds * 1000;
    if (spec)
        (void) jsonr_get_int(spec, "leaseTransitions", &out->transitions);
}

static bool is_same(const struct record *a, const struct record *b)
{
    return strcmp(a->version, b->version) == 0 && strcmp(a->holder, b->holder) == 0 &&
           strcmp(a->renewed, b->renewed) == 0;
}

/* Store the Lease of an answer in `seen`. Return false, and keep the reason, when the answer has none. */
static bool store_answer(struct election *e, const struct kubeapi_answer *answer)
{
    struct record now;

    rest(e);
    e->trouble = answer->err;
    if (answer->status != DIBS_OK)
        return false;
    read_record(answer->root, &now);
    if (e->seen_ms == 0 || !is_same(&now, &e->seen))
        e->seen_ms = clock_monotonic_ms();
    e->seen = now;
    return true;
}

static void on_written(void *ctx, const struct kubeapi_answer *answer)
{
    struct election *e = ctx;

    /* On failure another process was first, or the outcome is unknown: the next turn reads the Lease. The
     * margin that earlier renewals gave stays valid. */
    if (store_answer(e, answer))
        e->until_ms = is_ours(e) && !e->is_resigning ? e->sent_ms + ELECTION_DURATION_MS : 0;
}

static void write_lease(const struct election *e, struct bytes *out)
{
    const struct record *r = &e->wanted;
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    jsonw_object(&w);
    jsonw_key_string(&w, "apiVersion", "coordination.k8s.io/v1");
    jsonw_key_string(&w, "kind", "Lease");
    jsonw_key_object(&w, "metadata");
    jsonw_key_string(&w, "name", e->name);
    jsonw_key_string(&w, "namespace", e->ns);
    if (r->version[0])
        jsonw_key_string(&w, "resourceVersion", r->version);
    jsonw_end_object(&w);
    jsonw_key_object(&w, "spec");
    if (r->holder[0])
        jsonw_key_string(&w, "holderIdentity", r->holder);
    jsonw_key_int(&w, "leaseDurationSeconds", r->duration_ms / 1000);
    jsonw_key_string(&w, "acquireTime", r->acquired);
    jsonw_key_string(&w, "renewTime", r->renewed);
    jsonw_key_int(&w, "leaseTransitions", r->transitions);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
}

static void send(struct election *e)
{
    struct bytes body = { 0 };
    bool is_new = e->wanted.version[0] == '\0';

    write_lease(e, &body);
    e->sent_ms = clock_monotonic_ms();
    if (body.is_lost)
        rest(e);
    else
        ask(e,
            (struct kubeapi_request){
                .method = is_new ? "POST" : "PUT", .body = body.at, .n_body = body.n, .done = on_written });
    bytes_done(&body);
}

static void want(struct election *e)
{
    struct record r = e->seen;
    char now[40] = "";

    kubeapi_time(clock_now(0).wall_ms, now);
    (void) text_copy(r.renewed, sizeof r.renewed, now);
    if (!is_ours(e) || !r.acquired[0]) {
        (void) text_copy(r.acquired, sizeof r.acquired, now);
        r.transitions += e->seen.version[0] != '\0';
    }
    (void) text_copy(r.holder, sizeof r.holder, e->identity);
    r.duration_ms = ELECTION_DURATION_MS;
    e->wanted = r;
    send(e);
}

/* Return whether we may acquire the Lease: it is ours, free, expired, or of a dead process. */
static bool may_take(const struct election *e)
{
    int64_t duration_ms = e->seen.duration_ms > 0 ? e->seen.duration_ms : ELECTION_DURATION_MS;

    return !e->seen.holder[0] || is_ours(e) || clock_monotonic_ms() >= e->seen_ms + duration_ms ||
           (e->self.is_dead && e->self.is_dead(e->self.ctx, e->seen.holder));
}

static void on_seen(void *ctx, const struct kubeapi_answer *answer)
{
    struct election *e = ctx;
    bool is_seen = store_answer(e, answer);
    bool is_absent = answer->code == HTTP_NOT_FOUND;

    if (is_absent) {
        e->seen = (struct record){ 0 };
        e->trouble = (dibs_err){ 0 };
    }
    if (is_seen && !is_ours(e))
        e->until_ms = 0;
    if ((is_absent || (is_seen && may_take(e))) && !e->is_resigning)
        want(e);
}

void election_turn(struct election *e, int64_t now_ms)
{
    if (e->call || now_ms < e->next_ms || e->is_resigning)
        return;
    if (election_margin_ms(e, now_ms) > 0 && is_ours(e) && e->trouble.code == DIBS_OK) {
        want(e); /* the resourceVersion detects a concurrent change */
        return;
    }
    ask(e, (struct kubeapi_request){ .method = "GET", .done = on_seen });
}

int64_t election_next_ms(const struct election *e, int64_t now_ms)
{
    if (e->call || e->is_resigning)
        return -1;
    return e->next_ms > now_ms ? e->next_ms - now_ms : 0;
}

int64_t election_margin_ms(const struct election *e, int64_t now_ms)
{
    return e->until_ms > now_ms && !e->is_resigning ? e->until_ms - now_ms : 0;
}

const char *election_holder(const struct election *e)
{
    return e->seen.holder;
}

const char *election_trouble(const struct election *e)
{
    return e->trouble.code == DIBS_TAKEN ? "" : e->trouble.msg;
}

const char *election_loss(const struct election *e)
{
    if (e->seen.holder[0] && !is_ours(e))
        return "another process has the Lease";
    if (e->trouble.msg[0])
        return e->trouble.msg;
    return is_ours(e) ? "the Lease was not renewed in time: this process or the API server stood still"
                      : "the Lease was released";
}

bool election_resign(struct election *e)
{
    if (!e->is_resigning) {
        e->is_giving = election_margin_ms(e, clock_monotonic_ms()) > 0;
        e->is_resigning = true;
        e->until_ms = 0;
    }
    /* Wait for a renewal under way: after a cancel it could still be executed and change the version. */
    if (!e->call && e->is_giving) {
        e->is_giving = false;
        e->wanted = e->seen;
        e->wanted.holder[0] = '\0';
        e->wanted.duration_ms = 1000;
        send(e);
    }
    return e->call != NULL;
}

dibs_status election_open(struct kubeapi *api, const char *ns, const char *name,
                          const struct election_self *self, struct election **out, dibs_err *err)
{
    struct election *e = calloc(1, sizeof *e);

    if (!e)
        return err_set(err, DIBS_FAILURE, "electing a leader: out of memory");
    e->api = api;
    (void) text_copy(e->ns, sizeof e->ns, ns);
    (void) text_copy(e->name, sizeof e->name, name);
    e->self = *self;
    (void) text_copy(e->identity, sizeof e->identity, self->identity);
    *out = e;
    return DIBS_OK;
}

void election_close(struct election *e)
{
    if (!e)
        return;
    kubeapi_cancel(e->call);
    free(e);
}
