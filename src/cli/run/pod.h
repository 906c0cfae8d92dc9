/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_POD_H
#define DIBS_CLI_RUN_POD_H
/* Pods of the manifest as commands with ports, for `dibs run ROLE` and `dibs run --all`. */
#include "cli/manifest.h"
#include "cli/run/launch.h"

enum {
    PODS_MAX = 512, /* processes of one call; each needs a few file descriptors */
    PODS_TITLE_MAX = 3 * 64,
};

struct pod {
    const struct workload_group *group;
    struct workload_pod pod;
    struct workload_needs needs;
    size_t holds;  /* index of the need whose claim shows that the pod runs; needs.n: it has none of its own,
                      and declares the first that it uses */
    size_t *which; /* index of the request of each need, and of the declared claim */
    char declared[DIBS_NAME_MAX + 1]; /* name of the declared claim */
    char *env;                        /* variables that its claim records */
    char title[PODS_TITLE_MAX];       /* shortest unambiguous one: "web", "web/1", "web/1/worker/2" */
    char *directory;                  /* in which its command runs; NULL: that of dibs */
    char **argv;                      /* borrowed strings */
    struct run_as_port *as; /* what its needs are inside; NULL: no port of the group has an `as` number */
};
/* Prepare a pod. `command` ends with NULL. Call pod_free() in any case. */
dibs_status pod_init(struct pod *pod, const struct workload_group *group, const struct workload_pod *which,
                     const char *const *command, dibs_err *err);
void pod_free(struct pod *pod);
/* Write the ports of its needs. */
void pod_ports(const struct pod *pod, const struct launch_claims *claims, uint16_t *out);
/* Call `fn` for each variable and each placeholder (the other is NULL) of the pod with these ports. */
typedef void pod_word_fn(void *ctx, const char *variable, const char *placeholder, const char *text);
dibs_status pod_each_word(const struct pod *pod, const uint16_t *ports, pod_word_fn *fn, void *ctx,
                          dibs_err *err);
/* Set variables and placeholders for these ports of its needs; the launch's context is the pod. */
void pod_set_words(struct launch *launch, const uint16_t *ports);
/* Find the numbers by which the pod knows its ports (pod_as.c). */
dibs_status pod_find_as(struct pod *pod, dibs_err *err);
/* Replace the ports of its needs by the numbers inside. */
void pod_use_as(const struct pod *pod, uint16_t *ports);
/* Split dibs into two processes if a pod has numbers of its own, see run_as_begin(). */
dibs_status pods_begin_as(struct cli *cli, const struct pod *pods, size_t n, bool *is_first, dibs_err *err);
/* Describe the launch of its command. INVALID: the manifest's directory for it cannot be entered. */
dibs_status pod_launch(struct pod *pod, struct launch *out, dibs_err *err);

/* The pods of one call. */
struct pods {
    struct pod *all;
    size_t n;
};
/* Prepare the pods that the typed words mean, "web" for all of a role, "web/1" for one; without words, all
 * whose role has a command. INVALID: one of them has none. Call pods_done() in any case. */
dibs_status pods_find(const struct workload_group *group, char *const *typed, size_t n_typed,
                      struct pods *out, dibs_err *err);
void pods_done(struct pods *pods);
/* Plan each claim of the pods once; the caller frees the requests and claims of *out, also on failure. The
 * pid of a request is the index of its pod. If one pod holds what another refers to, the holder's request
 * counts, and the claim is kept: the other pod may outlive the holder, and must not reach another process. */
dibs_status pods_plan(struct pods *pods, struct launch_claims *out, dibs_err *err);
/* Open the manifest, and check that none of the pods is running. */
dibs_status pods_check_idle(struct cli *cli, const struct pods *pods, dibs_err *err);
#endif
