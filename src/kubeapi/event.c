/* SPDX-License-Identifier: MIT */
#include "kubeapi/event.h"

#include <stdio.h>

#include "base/clock.h"

#include "base/banned.h"

enum { SEND_MS = 10000, MESSAGE_MAX = 1024 /* what the API server takes */ };

static void write_object(struct json_writer *w, const struct kubeapi_event *e)
{
    json_key(w, "involvedObject");
    json_object(w);
    json_key_string(w, "apiVersion", e->api_version);
    json_key_string(w, "kind", e->kind);
    json_key_string(w, "namespace", e->ns);
    json_key_string(w, "name", e->name);
    json_key_string(w, "uid", e->uid);
    json_end_object(w);
}

static void write_event(struct json_writer *w, const struct kubeapi_event *e)
{
    char when[40] = "";
    char message[MESSAGE_MAX] = "";

    clock_wall_format(e->wall_ms, when);
    (void) snprintf(message, sizeof message, "%s", e->message);
    json_object(w);
    json_key_string(w, "apiVersion", "v1");
    json_key_string(w, "kind", "Event");
    json_key(w, "metadata");
    json_object(w);
    json_key_string(w, "namespace", e->ns);
    json_key_string(w, "generateName", "dibs-");
    json_end_object(w);
    write_object(w, e);
    json_key_string(w, "reason", e->reason);
    json_key_string(w, "message", message);
    json_key_string(w, "type", "Warning");
    json_key_string(w, "firstTimestamp", when);
    json_key_string(w, "lastTimestamp", when);
    json_key_int(w, "count", 1);
    json_key(w, "source");
    json_object(w);
    json_key_string(w, "component", e->component);
    json_end_object(w);
    json_key_string(w, "reportingComponent", e->component);
    json_key_string(w, "reportingInstance", "");
    json_end_object(w);
}

bool kubeapi_event_send(struct kubeapi *api, const struct kubeapi_event *event)
{
    struct bytes body = { 0 };
    struct json_writer w;
    char path[160] = "";

    json_begin_bytes(&w, &body);
    write_event(&w, event);
    (void) snprintf(path, sizeof path, "/api/v1/namespaces/%s/events", event->ns);
    bool is_sent =
        !body.is_lost &&
        kubeapi_ask(
            api,
            &(struct kubeapi_request){
                .method = "POST", .path = path, .body = body.at, .n_body = body.n, .timeout_ms = SEND_MS },
            NULL, NULL) == DIBS_OK;
    bytes_done(&body);
    return is_sent;
}
