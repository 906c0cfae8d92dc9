/* SPDX-License-Identifier: MIT */
#include "storm_raw.h"

#include "storm_daemon.h"

struct raw {
    struct storm_http http;
    struct storm_random random;
    unsigned n_keys;
};

static void *raw_open(void)
{
    struct raw *raw = calloc(1, sizeof *raw);

    if (!raw)
        storm_die("out of memory");
    raw->http.fd = -1;
    raw->random = storm_random_of((uint64_t) storm_now_ns(), (uint64_t) getpid());
    return raw;
}

/* The status that the library's callers get for an answer that is no success. */
static dibs_status trouble(const struct storm_answer *answer, dibs_err *err)
{
    (void) snprintf(err->msg, sizeof err->msg, "%d %.600s", answer->status, answer->body);
    return (dibs_status) storm_json_number(answer->body, "code", DIBS_FAILURE);
}

static dibs_status cut_off(dibs_err *err)
{
    (void) snprintf(err->msg, sizeof err->msg, "the connection was cut off");
    return DIBS_UNAVAILABLE;
}

static dibs_status take_claim(const struct storm_answer *answer, dibs_claim *out, dibs_err *err)
{
    long port = storm_json_number(answer->body, "port", 0);

    if (answer->status / 100 != 2)
        return trouble(answer, err);
    if (port < 1 || port > 65535) {
        (void) snprintf(err->msg, sizeof err->msg, "no claim: %.600s", answer->body);
        return DIBS_FAILURE;
    }
    *out = (dibs_claim){ .port = (uint16_t) port };
    out->is_degraded = strstr(answer->body, "\"degraded\":true") != NULL;
    (void) storm_json_text(answer->body, "token", out->token, sizeof out->token);
    return DIBS_OK;
}

static void write_holder(char *to, size_t size, dibs_holder holder, int32_t pid, int64_t ttl_ms)
{
    if (holder == DIBS_HELD_BY_PROCESS)
        (void) snprintf(to, size, "{\"kind\":\"process\",\"pid\":%d}", pid);
    else if (holder == DIBS_HELD_BY_LEASE)
        (void) snprintf(to, size, "{\"kind\":\"lease\",\"ttl\":\"%lldms\"}", (long long) ttl_ms);
    else
        (void) snprintf(to, size, "null");
}

static void write_request(char *to, size_t size, const dibs_request *request)
{
    static const char *const modes[] = { [DIBS_RANDOM] = "random",
                                         [DIBS_REQUIRED] = "required",
                                         [DIBS_PREFERRED] = "preferred",
                                         [DIBS_DECLARED] = "declared" };
    char ranges[DIBS_RANGES_TEXT_MAX + 1] = "";
    char holder[80] = "";
    char bindings[256] = "";
    char port[32] = "";
    char name[DIBS_NAME_MAX + 16] = "";
    size_t n = 0;

    dibs_ranges_format(request->ranges, ranges);
    write_holder(holder, sizeof holder, request->holder, request->pid, request->ttl_ms);
    for (size_t i = 0; i < request->n_bindings; i++) {
        char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";

        dibs_address_format(&request->bindings[i].address, address);
        n += (size_t) snprintf(bindings + n, sizeof bindings - n, "%s{\"proto\":\"%s\",\"address\":\"%s\"}",
                               i ? "," : "", dibs_proto_text(request->bindings[i].proto), address);
    }
    if (request->mode != DIBS_RANDOM)
        (void) snprintf(port, sizeof port, ",\"port\":%u", request->port);
    if (request->name)
        (void) snprintf(name, sizeof name, ",\"name\":\"%s\"", request->name);
    (void) snprintf(
        to, size, "{\"mode\":\"%s\",\"ranges\":\"%s\",\"holder\":%s,\"keep\":%s,\"bindings\":[%s]%s%s}",
        modes[request->mode], ranges, holder, request->keep ? "true" : "false", bindings, port, name);
}

/* A key asked for again, now or after the daemon's death, brings the claim that it brought. */
static void ask_again(struct raw *raw, const char *key, const char *body, const dibs_claim *claim)
{
    struct storm_answer answer = { 0 };
    dibs_claim again = { 0 };
    dibs_err err = { 0 };

    if (storm_http_insist(&raw->http, "POST /v1/claims", key, body, &answer) &&
        take_claim(&answer, &again, &err) == DIBS_OK &&
        (again.port != claim->port || strcmp(again.token, claim->token) != 0))
        storm_violation("key %s brought port %u and, asked again, %u: %s", key, claim->port, again.port,
                        answer.body);
}

static dibs_status raw_claim(void *at, const dibs_request *request, dibs_claim *out, dibs_err *err)
{
    struct raw *raw = at;
    struct storm_answer answer = { 0 };
    char key[80] = "";
    char body[2048] = "";

    (void) snprintf(key, sizeof key, "%d-%lld-%u", (int) getpid(), (long long) storm_now_ns(), raw->n_keys++);
    write_request(body, sizeof body, request);
    if (!storm_http_insist(&raw->http, "POST /v1/claims", key, body, &answer)) {
        storm_violation("no answer to a claim at all");
        return cut_off(err);
    }
    dibs_status s = take_claim(&answer, out, err);
    if (s == DIBS_OK && storm_below(&raw->random, 4) == 0)
        ask_again(raw, key, body, out);
    return s;
}

static dibs_status raw_release(void *at, const char *token, size_t *n, dibs_err *err)
{
    struct raw *raw = at;
    struct storm_answer answer = { 0 };
    char target[160] = "";

    (void) snprintf(target, sizeof target, "DELETE /v1/claims/%s", token);
    if (!storm_http_ask(&raw->http, target, NULL, NULL, &answer))
        return cut_off(err);
    long released = storm_json_number(answer.body, "released", -1);
    if (answer.status != 200 || released < 0)
        return trouble(&answer, err);
    *n = (size_t) released;
    return DIBS_OK;
}

static dibs_status raw_renew(void *at, const char *token, int64_t ttl_ms, dibs_claim *out, dibs_err *err)
{
    struct raw *raw = at;
    struct storm_answer answer = { 0 };
    char target[160] = "";
    char body[64] = "";

    (void) snprintf(target, sizeof target, "POST /v1/claims/%s/renew", token);
    (void) snprintf(body, sizeof body, "{\"ttl\":\"%lldms\"}", (long long) ttl_ms);
    if (!storm_http_ask(&raw->http, target, NULL, body, &answer))
        return cut_off(err);
    return take_claim(&answer, out, err);
}

static dibs_status raw_transfer(void *at, const char *token, const dibs_heir *heir, dibs_claim *out,
                                dibs_err *err)
{
    struct raw *raw = at;
    struct storm_answer answer = { 0 };
    char target[160] = "";
    char holder[80] = "";
    char body[128] = "";

    (void) snprintf(target, sizeof target, "POST /v1/claims/%s/transfer", token);
    write_holder(holder, sizeof holder, heir->holder, heir->pid, heir->ttl_ms);
    (void) snprintf(body, sizeof body, "{\"holder\":%s,\"keep\":%s}", holder, heir->keep ? "true" : "false");
    if (!storm_http_ask(&raw->http, target, NULL, body, &answer))
        return cut_off(err);
    return take_claim(&answer, out, err);
}

static dibs_status raw_find(void *at, const char *token, dibs_claim *out, dibs_err *err)
{
    struct raw *raw = at;
    struct storm_answer answer = { 0 };
    char target[160] = "";

    (void) snprintf(target, sizeof target, "GET /v1/claims/%s", token);
    if (!storm_http_insist(&raw->http, target, NULL, NULL, &answer))
        return cut_off(err);
    return take_claim(&answer, out, err);
}

const struct mix_access mix_raw = {
    .open = raw_open,
    .claim = raw_claim,
    .release = raw_release,
    .renew = raw_renew,
    .transfer = raw_transfer,
    .find = raw_find,
};
