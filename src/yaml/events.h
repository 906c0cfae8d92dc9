/* SPDX-License-Identifier: MIT */
#ifndef DIBS_YAML_EVENTS_H
#define DIBS_YAML_EVENTS_H
/* What libfyaml reads, one event at a time, in neutral words. */
#include "yaml/yaml.h"

enum yaml_event_kind {
    YAML_EVENT_DOCUMENT,
    YAML_EVENT_SCALAR,
    YAML_EVENT_ALIAS,
    YAML_EVENT_LIST,
    YAML_EVENT_MAP,
    YAML_EVENT_END, /* of a list or map */
};

struct yaml_event {
    enum yaml_event_kind kind;
    enum yaml_style style;
    bool has_place; /* a value that is not written has none */
    uint32_t line, column;
    size_t start, end;
    const char *text; /* of a scalar, or the name of an alias; borrowed for the call */
    size_t len;
    const char *anchor; /* NULL: none */
    size_t anchor_len;
};

/* What it returns ends the reading when not OK. */
typedef dibs_status (*yaml_event_fn)(void *ctx, const struct yaml_event *event, dibs_err *err);

dibs_status yaml_events(const char *name, const char *text, size_t len, yaml_event_fn fn, void *ctx,
                        dibs_err *err);
#endif
