/* SPDX-License-Identifier: MIT */
#include "kube/pod_edit.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "kube/protocol.h"

#include "base/banned.h"

static void add_pair(struct pod_edit *edit, struct pod_edit_pair **list, size_t *n, size_t *max,
                     const char *name, const char *value)
{
    const char *copy = arena_text(&edit->texts, value, strlen(value));

    if (!copy || !grow((void **) list, *n, max, sizeof **list))
        edit->is_lost = true;
    else
        (*list)[(*n)++] = (struct pod_edit_pair){ name, copy };
}

void pod_edit_variable(struct pod_edit *edit, const char *name, const char *value)
{
    add_pair(edit, &edit->env, &edit->n_env, &edit->max_env, name, value);
}

void pod_edit_annotation(struct pod_edit *edit, const char *key, const char *value)
{
    add_pair(edit, &edit->annotations, &edit->n_annotations, &edit->max_annotations, key, value);
}

static void add_ports(struct pod_edit *edit, struct pod_edit_port **list, size_t *n, size_t *max,
                      uint16_t number, uint8_t protos)
{
    for (unsigned proto = DIBS_TCP; proto < PROTOCOLS_END; proto++) {
        if (!(protos & 1u << proto))
            continue;
        if (grow((void **) list, *n, max, sizeof **list))
            (*list)[(*n)++] = (struct pod_edit_port){ number, protocol_name((dibs_proto) proto) };
        else
            edit->is_lost = true;
    }
}

void pod_edit_own_port(struct pod_edit *edit, const struct workload_port *port, const uint16_t *numbers)
{
    char text[8 * WORKLOAD_COUNT_MAX];

    workload_value_text(port, numbers, text, sizeof text);
    pod_edit_variable(edit, port->env, text);
    if (port->annotation)
        pod_edit_annotation(edit, port->annotation, text);
    for (uint32_t i = 0; i < port->count && !port->has_no_host_port; i++)
        add_ports(edit, &edit->ports, &edit->n_ports, &edit->max_ports, numbers[i], protocols_of(port));
}

void pod_edit_obsolete(struct pod_edit *edit, uint16_t number, uint8_t protos)
{
    add_ports(edit, &edit->obsolete, &edit->n_obsolete, &edit->max_obsolete, number, protos);
}

void pod_edit_done(struct pod_edit *edit)
{
    arena_free(edit->texts);
    free(edit->env);
    free(edit->annotations);
    free(edit->ports);
    free(edit->obsolete);
    *edit = (struct pod_edit){ 0 };
}
