/* SPDX-License-Identifier: MIT */
#include "kube/indexed_job.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "base/banned.h"

#define INDEX_KEY "batch.kubernetes.io/job-completion-index"
#define SET_NAME "jobset.sigs.k8s.io/jobset-name"
#define SET_ROLE "jobset.sigs.k8s.io/replicatedjob-name"
#define SET_JOBS "jobset.sigs.k8s.io/replicatedjob-replicas"
#define SET_INDEX "jobset.sigs.k8s.io/job-index"

/* Kubernetes' generated names: at most so many bytes, then random ones of these. */
enum { GENERATED_BASE_MAX = 58, GENERATED_BYTES = 5 };
#define GENERATED "bcdfghjklmnpqrstvwxz2456789"

/* Return whether the pod is called as the Job controller calls the pods of that index, JOB-INDEX-RANDOM; the
 * random part is still missing when the pod is admitted. A copy has a name of its own. */
static bool has_name(const jsonr_value *metadata, const char *job, uint32_t index)
{
    char tail[16];
    char base[GENERATED_BASE_MAX + 1];
    const char *name = jsonr_text_at(metadata, "name");

    (void) snprintf(tail, sizeof tail, "-%u-", index);
    /* The Job controller shortens the name, not the index. */
    (void) snprintf(base, sizeof base, "%.*s%s", (int) (GENERATED_BASE_MAX - strlen(tail)), job, tail);
    size_t n = strlen(base);
    return strcmp(jsonr_text_at(metadata, "generateName"), base) == 0 &&
           (!*name || (strncmp(name, base, n) == 0 && strlen(name) == n + GENERATED_BYTES &&
                       strspn(name + n, GENERATED) == GENERATED_BYTES));
}

/* The place of a Job in its JobSet. */
struct place {
    const char *set, *role; /* names of the JobSet and of the replicated Job */
    uint32_t job;           /* number of the Job among those of its role */
    bool is_only;           /* its role has one Job */
};

/* Read the labels. Return false if the Job does not belong to a JobSet. */
static bool read_place(const struct identity_labels *labels, const char *job, struct place *out)
{
    const char *jobs = identity_label(labels, SET_JOBS);
    struct place place = { .set = identity_label(labels, SET_NAME),
                           .role = identity_label(labels, SET_ROLE),
                           .is_only = jobs && strcmp(jobs, "1") == 0 };
    char expected[3 * IDENTITY_RAW_MAX];

    if (!place.set || !place.role || !identity_index(identity_label(labels, SET_INDEX), &place.job))
        return false;
    (void) snprintf(expected, sizeof expected, "%.253s-%.253s-%u", place.set, place.role, place.job);
    if (strcmp(expected, job) != 0)
        return false;
    *out = place;
    return true;
}

bool indexed_job_identify(const jsonr_value *metadata, const struct identity_labels *labels,
                          struct identity_owner *owner, struct identity *out)
{
    struct place place = { .is_only = true };
    char job[IDENTITY_RAW_MAX + 1];
    const char *text = NULL;
    uint32_t index = 0;

    if (strcmp(owner->kind, "Job") != 0)
        return false;
    (void) text_copy(job, sizeof job, owner->name);
    bool has_index = jsonr_get_string(jsonr_get(metadata, "annotations"), INDEX_KEY, &text) &&
                     identity_index(text, &index);
    if (read_place(labels, job, &place)) {
        owner->kind = "JobSet";
        owner->role = place.role;
        (void) text_copy(owner->name, sizeof owner->name, place.set);
    }
    if (has_index && !place.is_only) {
        out->component = "pod";
        out->component_id = index;
    }
    identity_place(labels, owner, out);
    /* Two pods may have one index while Kubernetes replaces the first: they have its ports in common. */
    if (!has_index || !has_name(metadata, job, index))
        return true;
    (void) snprintf(out->instance, sizeof out->instance, "%u", place.is_only ? index : place.job);
    identity_keeper(owner->kind, owner->name, out->keeper);
    out->is_named = out->runs_once = true;
    return true;
}
