/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_ASKING_H
#define DIBS_OPERATOR_ASKING_H
/* What a pod, or a template of pods, asks for: the annotation, read and checked; with it what RBG's discovery
 * of components asks for, which are references within the role of the pod. */
#include "operator/identity.h"
#include "workload/annotation.h"
#include "workload/discovery.h"

/* Ports of one pod: what it was given stands in one annotation, and Kubernetes takes 256 KiB of them. */
enum { ASKING_PORTS_MAX = 512 };

struct asking {
    struct workload_group *group; /* owns the rest; NULL: nothing is asked for */
    const char *key;              /* of the annotation */
    enum workload_dialect dialect;
    const struct workload_component *config;
    size_t n_written; /* references of that annotation: what follows is discovered, and has no role */
    struct workload_discovery discovery;
};

/* `pod`: a map with metadata. INVALID names the field, with `where` ("spec.template.", or "") in front. The
 * caller ends it with asking_done(). */
dibs_status asking_read(const json_value *pod, const char *where, struct asking *out, dibs_err *err);
void asking_done(struct asking *asking);
/* The field of the i-th reference, for messages. */
enum { ASKING_FIELD_MAX = 128 };
void asking_field(const struct asking *asking, size_t reference, char out[ASKING_FIELD_MAX]);
/* Does it ask for anything? */
bool asking_is_some(const struct asking *asking);
/* How many ports, each number counted. */
size_t asking_count(const struct asking *asking);
/* The annotation of either key, for comparing; NULL: none. */
const char *asking_annotation(const json_value *pod, const char *key);
#endif
