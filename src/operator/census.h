/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_CENSUS_H
#define DIBS_OPERATOR_CENSUS_H
/* What is alive in the cluster, as far as claims are concerned: pods with what they were given, objects with
 * what they keep, and numbers that are used by others. Fed with the objects of lists and watches; asks
 * nobody. Memory: of a pod its claims and its names, some hundred bytes; of an object what it keeps. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "operator/identity.h"
#include "operator/table.h"

/* What a pod says that it was given. */
struct census_claim {
    char *name; /* of the claim */
    uint16_t port;
    uint8_t protos; /* bit (1 << proto) for each */
    char keeper[DIBS_COMMAND_MAX + 1];
    unsigned n_refused; /* times that it could not be restored */
    int64_t again_ms;   /* not to be tried before; 0: at once */
};

struct census_number {
    uint16_t port;
    uint8_t protos;
    bool is_told; /* that somebody else has it */
};

enum census_kind { CENSUS_POD, CENSUS_SERVICE, CENSUS_KEEPER };

/* A pod, a Service, or an object that keeps claims. */
struct census_object {
    struct table_item item; /* by uid */
    enum census_kind kind;
    uint32_t epoch; /* of the list that has told it last */
    char uid[64];
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* "ns:NAMESPACE" */
    char *name;
    char id[IDENTITY_ID_MAX + 2]; /* of a pod: "~ID", the instance of its claims; "": it has none */
    char *place;      /* of a pod that is a named instance: "GROUP/ROLE/INSTANCE/COMPONENT/"; NULL: none */
    bool is_finished; /* a pod that will not run again */
    bool is_gone;     /* ... and is not there any more; remembered until census_forget() */
    struct census_claim *claims;
    size_t n_claims;
    uint64_t
        *refers; /* of a pod: names of claims, by their hash, that it was told before their pod came, maybe */
    size_t n_refers;
    struct census_number *numbers; /* used without a claim */
    size_t n_numbers;
    struct census_keep *keeps;
    size_t n_keeps;
};

struct census_keep {
    struct table_item item; /* by principal and keeper */
    struct identity_keep keep;
};

struct census; /* opaque */
dibs_status census_open(struct census **out, dibs_err *err);
void census_close(struct census *census); /* NULL is fine */

/* An object was told; `source` says by whom (a small number), `kind` what it is. False: memory is short, and
 * the census is not complete any more. */
bool census_put(struct census *census, unsigned source, const char *kind, const json_value *object);
void census_drop(struct census *census, unsigned source, const json_value *object);
/* A list of that source begins; it is complete: what it has not told is gone. */
void census_begin(struct census *census, unsigned source);
void census_end(struct census *census, unsigned source);

enum { CENSUS_SOURCES_MAX = 32 };

/* Does a pod that is alive say that it has the claim, with its number? */
bool census_has_pod(const struct census *census, const dibs_claim *claim);
/* Is the pod for which it was made, by its id, finished or gone? Then it has come, and nobody has to wait for
 * it. Who is gone is remembered until census_forget(). */
bool census_had_pod(const struct census *census, const dibs_claim *claim);
void census_forget(struct census *census);
/* Does an object keep it? Not what its instance had before: a pod of that instance, which is there and does
 * not say that it has the claim, has it no more, and never will. What was made before its own pod came is
 * kept by those who refer to it, too: they were told the number. */
bool census_is_kept(struct census *census, const dibs_claim *claim);
/* Does somebody use the number without a claim? */
bool census_is_used(const struct census *census, dibs_proto proto, uint16_t port);

/* Every pod and every Service. `fn` may change what it is told of, and nothing else. */
typedef void census_fn(void *ctx, struct census_object *object);
void census_each(struct census *census, census_fn *fn, void *ctx);
size_t census_pods(const struct census *census);
/* Counts every change of what the others tell. */
uint64_t census_changes(const struct census *census);
/* What was told and could not be understood, so far. */
uint64_t census_damaged(const struct census *census);
#endif
