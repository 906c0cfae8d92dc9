/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_POD_H
#define DIBS_CLI_POD_H
/* A pod of the manifest as a command with ports, for `dibs run ROLE` and `dibs run --all`. */
#include "cli/job.h"
#include "cli/manifest.h"

struct pod {
    const struct workload_group *group;
    struct workload_pod pod;
    struct workload_needs needs;
    bool has_sign; /* it has no port of its own, by which it would be seen to run */
    char sign[DIBS_NAME_MAX + 1];
    char **argv;
};
dibs_status pod_init(struct pod *pod, const struct workload_group *group, const struct workload_pod *which,
                     dibs_err *err);
void pod_free(struct pod *pod);
/* The request for its i-th need. */
dibs_request pod_request(const struct pod *pod, size_t i);
/* The request for its sign, a declared claim of the first number that it is told; which one that is is left
 * to job_claim(). */
dibs_request pod_sign_request(const struct pod *pod);
/* What it is told when its needs have these ports; `ctx` is the pod. */
void pod_say(void *ctx, const uint16_t *ports, struct job_words *out);
/* "web", "web/1", "web/1/worker/2": as short as it is clear. */
void pod_title(const struct workload_pod *pod, char *out, size_t size);
#endif
