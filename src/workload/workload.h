/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_WORKLOAD_H
#define DIBS_WORKLOAD_WORKLOAD_H
/* Groups, roles and instances: what a workload needs, as one batch of named claims, and the variables that
 * its pods get.
 *
 * A group has roles. A role has instances, and in each instance one pod, or the pods of its components. A pod
 * has ports. The readers of manifests, annotations and objects fill this model; nothing here knows where it
 * came from. Strings belong to the group's arena. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/auto.h"
#include "dibs/dibs.h"
#include "dibs/settings.h"

enum {
    WORKLOAD_ROLES_MAX = 1024,
    WORKLOAD_COMPONENTS_MAX = 32,  /* of one role */
    WORKLOAD_PORTS_MAX = 128,      /* of one role or component */
    WORKLOAD_REFERENCES_MAX = 256, /* of one role or component */
    WORKLOAD_INSTANCES_MAX = 4096, /* each needs a claim, and a batch has no more; pods of one alike */
    WORKLOAD_PARTS_MAX = 65536,    /* ports and references of a group: aliases make many of a short text */
    WORKLOAD_ARGUMENTS_MAX = 1024, /* of a command */
    WORKLOAD_NAME_MAX = 253,       /* a name as people write it: what Kubernetes allows */
    WORKLOAD_ANNOTATION_MAX = 317, /* prefix, slash, name: what Kubernetes allows */
    WORKLOAD_ENV_MAX = 255,
    WORKLOAD_COUNT_MAX = 64, /* ports of one name: a node has no more devices */
};

enum workload_scope { WORKLOAD_POD_SCOPED, WORKLOAD_ROLE_SCOPED };

/* Where something stands in the text it came from; line 0: nowhere. */
struct workload_place {
    uint32_t line, column;
};

struct workload_port {
    const char *name;
    const char *env;
    const char *annotation; /* NULL: none */
    enum workload_scope scope;
    dibs_mode mode; /* RANDOM, REQUIRED (`port`), PREFERRED (`prefer`) */
    uint16_t port;
    uint16_t count;     /* 1: a single port */
    bool is_contiguous; /* one block */
    size_t n_bindings;  /* 0: tcp on "*" */
    dibs_binding bindings[DIBS_BINDINGS_MAX];
    struct workload_place place;
};

/* A port of another pod, or of another role, under a name of this one's choice. */
struct workload_reference {
    const char *env;
    const char *role;
    const char *component; /* NULL: the role has none */
    const char *port;
    int32_t instance; /* -1: not said: the own instance in the own role, else 0 */
    int32_t pod;      /* id within the component; -1: not said: 0 */
    struct workload_place place;
};

/* A pod of each instance: the role's own, or one of a component's. */
struct workload_component {
    const char *name; /* NULL: the role's only one */
    uint32_t size;    /* pods in each instance */
    struct workload_port *ports;
    size_t n_ports;
    struct workload_reference *references;
    size_t n_references;
    struct workload_place place;
};

struct workload_role {
    const char *name;
    uint32_t instances;
    struct workload_component *components; /* at least one */
    size_t n_components;
    const char **command; /* NULL-terminated; NULL: none */
    struct workload_place place;
};

struct arena;
struct workload_group {
    const char *source;                 /* file, for messages; may be NULL */
    const char *name;                   /* as written; NULL: by the project's directory */
    char group[DIBS_NAME_PART_MAX + 1]; /* first part of every claim's name; set by the caller */
    const char *project;                /* directory recorded with the claims; NULL: none */
    const char *pool;                   /* NULL: the settings' */
    struct workload_place place;        /* of the name */
    struct workload_role *roles;
    size_t n_roles;
    dibs_project_setting *settings; /* not looked at yet */
    size_t n_settings;
    struct arena *arena;
};

/* ---- building (model.c) ---- */
/* An empty group with its arena; NULL without memory. */
struct workload_group *workload_new(void);
void workload_free(struct workload_group *group); /* NULL is fine */
DEFINE_AUTO(struct workload_group, workload_free)
/* From the group's arena: zeroed bytes, a copy. NULL without memory. */
void *workload_take(struct workload_group *group, size_t size);
char *workload_text(struct workload_group *group, const char *text);
/* Everything that a reader cannot see by looking at one value: names twice, variables twice, references to
 * what is not there (with the nearest name that is), bounds. INVALID, "SOURCE:LINE:COLUMN: ..." in front. */
dibs_status workload_check(const struct workload_group *group, dibs_err *err);
/* Has the group what the reference of role `from`, perhaps another group's, means? Part of the former. */
dibs_status workload_check_target(const struct workload_group *group, const struct workload_role *from,
                                  const struct workload_reference *reference, dibs_err *err);
/* INVALID, with the place in front of the message. */
dibs_status workload_error(const struct workload_group *group, struct workload_place place, dibs_err *err,
                           const char *fmt, ...) DIBS_PRINTF(4, 5);
/* For readers and checks that go on after a fault: the first one stays. */
struct workload_faults {
    const struct workload_group *group;
    dibs_status status;
    dibs_err *err;
};
void workload_fault(struct workload_faults *faults, struct workload_place place, const char *fmt, ...)
    DIBS_PRINTF(3, 4);
/* NULL when there is none. `component` NULL: the one without a name. */
const struct workload_role *workload_role(const struct workload_group *group, const char *name);
const struct workload_component *workload_component(const struct workload_role *role, const char *name);
const struct workload_port *workload_port(const struct workload_component *component, const char *name);
/* The port's bindings, said or not. */
const dibs_binding *workload_bindings(const struct workload_port *port, size_t *n);

/* "PodScoped" or "RoleScoped"; false: neither. */
bool workload_scope_parse(const char *text, enum workload_scope *out);

/* ---- references as text (reference.c) ---- */
/* "role.port", "role.component.port", "role[1].port", "role[1].component[0].port". INVALID says what is
 * wrong. Sets all but `env` and `place`. */
dibs_status workload_reference_parse(struct workload_group *group, const char *text,
                                     struct workload_reference *out, dibs_err *err);
/* The same without copies: cuts `text` up, and *out points into it. Returns what is wrong, or NULL. */
const char *workload_reference_cut(char *text, struct workload_reference *out);
/* Is `env` a name that a shell and a container can have? */
bool workload_is_env_name(const char *env);
/* Return the program that such a variable would mislead if it were a port number ("bash"), or NULL. */
const char *workload_env_danger(const char *env);
/* The variable of a port whose manifest names none: "web/http" is WEB_HTTP_PORT, "9p" is _9P_PORT. It is
 * cut to what fits. */
void workload_port_env(const char *name, char *out, size_t size);

/* ---- names (names.c) ---- */
/* One pod. RoleScoped ports are the same for all pods of a component. */
struct workload_pod {
    const struct workload_role *role;
    const struct workload_component *component;
    uint32_t instance;
    uint32_t id; /* within the component */
};
/* A component's or port's part of a name: "name", or "name.2" for the third: growing from one to several
 * renames nothing. A '.' of the name itself is written %2E, so that no name looks like another's number. */
void workload_part(const char *name, uint32_t number, char out[DIBS_NAME_PART_MAX + 1]);
/* "group/role/instance/component": what the names of its own ports begin with. */
void workload_pod_prefix(const struct workload_group *group, const struct workload_pod *pod,
                         char out[DIBS_NAME_MAX + 1]);
/* "group/role/instance/component/port", the number-th of the port's `count`. Different things never get one
 * name, and it always fits: what a part cannot contain is written %XX, what is too long ends in a hash. */
void workload_claim_name(const struct workload_group *group, const struct workload_pod *pod,
                         const struct workload_port *port, uint32_t number, char out[DIBS_NAME_MAX + 1]);

/* ---- what is wanted (needs.c) ---- */
/* One claim. */
struct workload_need {
    struct workload_pod pod;
    const struct workload_port *port;
    uint32_t number; /* of port->count */
    bool is_own;     /* PodScoped, of the pod that was asked about: its process may hold it */
    char name[DIBS_NAME_MAX + 1];
};
struct workload_needs {
    struct workload_need *all;
    size_t n, max;
};
void workload_needs_free(struct workload_needs *needs);
/* Every claim of the group. */
dibs_status workload_needs_all(const struct workload_group *group, struct workload_needs *out, dibs_err *err);
/* Every claim that one pod gets the number of: its own, its role's, and what it refers to; each once. */
dibs_status workload_needs_of(const struct workload_group *group, const struct workload_pod *pod,
                              struct workload_needs *out, dibs_err *err);
/* The request that makes or finds the claim, kept, without a holder. */
dibs_request workload_request(const struct workload_group *group, const struct workload_need *need);
/* The claim's name and the port that a reference of `pod` means. */
dibs_status workload_reference_name(const struct workload_group *group, const struct workload_pod *pod,
                                    const struct workload_reference *reference, char out[DIBS_NAME_MAX + 1],
                                    const struct workload_port **port, dibs_err *err);
/* ---- what a person types (typed.c) ---- */
/* The role as it is written in the manifest, or as it stands in claims' names ("a%2Fb"). NULL: none. */
const struct workload_role *workload_role_typed(const struct workload_group *group, const char *typed);
/* "web", "web/1", "web/1/worker", "web/1/worker/2": without an instance 0, without a component the first.
 * NOT_FOUND says what there is. */
dibs_status workload_pod_parse(const struct workload_group *group, const char *text, struct workload_pod *out,
                               dibs_err *err);
/* "web/http" and "web/worker/http" (RoleScoped, or of instance 0), "web/1/http", "web/1/worker/http",
 * "web/1/worker/2/http", the whole name after the group, "web/1/worker.2/http", "web/-/-/gossip", or as in a
 * reference, "web[1].http". NOT_FOUND: it names nothing of this group; the error suggests what is near.
 * *is_like (may be NULL) is then whether it looks as if it was meant to: it begins with a role, is the name
 * of a port alone, or is one slip of the finger away from a port. */
dibs_status workload_need_parse(const struct workload_group *group, const char *text,
                                struct workload_need *out, bool *is_like, dibs_err *err);

/* ---- deciding (sync.c) ---- */
enum workload_change_kind {
    WORKLOAD_KEEP,
    WORKLOAD_ADD,
    WORKLOAD_MOVE, /* another number, protocol or address than it has: dropped and added */
    WORKLOAD_DROP,
    WORKLOAD_STAY, /* not wanted any more, but in use: it ends with its holder, or that of a whole role by a
                      sync after its pods have ended */
};
struct workload_change {
    enum workload_change_kind kind;
    const dibs_claim *before; /* what an undo goes back to: the claim as it was before a MOVE, DROP or STAY;
                                 NULL when there was none, or when it had left its name already */
    bool needs_restart;       /* pods run that do not know of it yet */
    size_t n_pods;            /* how many; of a STAY 1 */
    char pod[DIBS_NAME_MAX + 1]; /* the first of them, "shop/web/0/-" */
    bool is_leased;              /* it does not run, a lease has a port of it */
    dibs_claim claim;            /* as it will be; DROP: as it was */
};
struct workload_difference {
    const char *variable;
    const char *was, *now; /* NULL: none */
    bool is_covered;       /* a change of the same plan says so already */
};
/* A pod whose process was started with other variables than it would get now. */
struct workload_restart {
    dibs_claim claim;            /* by which it is known to run */
    char pod[DIBS_NAME_MAX + 1]; /* "shop/web/0/-" */
    struct workload_difference *all;
    size_t n;
    char *was, *now; /* texts of workload_env_text(), which `all` points into */
};
struct workload_plan {
    struct workload_change *changes;
    size_t n;
    size_t count[WORKLOAD_STAY + 1]; /* by kind */
    struct workload_restart *restarts;
    size_t n_restarts;
    dibs_claim *present; /* what was there; `before` points into it */
};
void workload_plan_free(struct workload_plan *plan);
/* Has the claim the number, protocols and addresses that the port asks for? *is_narrowed: as far as a host
 * without IPv6 can. */
bool workload_is_as_wanted(const dibs_claim *claim, const struct workload_port *port, bool *is_narrowed);
/* Make the group's claims what the group says, all or nothing: what is missing is claimed, what is obsolete
 * ends, everything else stays. `is_dry_run`: plan, and change nothing. */
dibs_status workload_sync(dibs *handle, const struct workload_group *group, bool is_dry_run,
                          struct workload_plan *out, dibs_err *err);
/* The same for several groups in one step; plans[i] is that of groups[i]. */
dibs_status workload_sync_all(dibs *handle, const struct workload_group *const *groups, size_t n,
                              bool is_dry_run, struct workload_plan *plans, dibs_err *err);
/* Put back what syncs changed, in one step: what they added ends, what they moved or dropped gets its port
 * again, as a static claim. When a port is not to be had any more, everything stays as the syncs left it. */
dibs_status workload_undo(dibs *handle, const struct workload_plan *plans, size_t n, dibs_err *err);
/* End every claim of the group; nothing there is OK. */
dibs_status workload_cleanup(dibs *handle, const struct workload_group *group, struct workload_plan *out,
                             dibs_err *err);

/* ---- running pods (present.c) ---- */
/* Check that no process holds a port of one of these pods, also a port that the group has dropped: an
 * instance does not run twice. TAKEN names the process. */
dibs_status workload_check_idle(dibs *handle, const struct workload_group *group,
                                const struct workload_pod *const *pods, size_t n, dibs_err *err);

/* ---- variables (values.c) ---- */
struct workload_value {
    const char *env;
    const char *annotation; /* NULL: none */
    const struct workload_port *port;
    bool is_reference;
    uint16_t first;
    char text[8 * WORKLOAD_COUNT_MAX];
};
/* "20001": the port, or the first of a block; "20001,20005" for several that are none. `ports` are all
 * `count` of them. */
void workload_value_text(const struct workload_port *port, const uint16_t *ports, char *out, size_t size);
/* The values of the pod when its needs have these ports: one for each port of its component, then one for
 * each reference. The caller frees *out. */
dibs_status workload_values(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_needs *needs, const uint16_t *ports,
                            struct workload_value **out, dibs_err *err);
/* Call `fn` for every variable of the pod that has a number: $PORT, unless the values have one of that name,
 * $DIBS_POD where there are several pods, and the values. */
typedef void workload_variable_fn(void *ctx, const char *variable, const char *text);
void workload_each_variable(const struct workload_pod *pod, const struct workload_value *values,
                            workload_variable_fn *fn, void *ctx);
/* All of them in one text, "PORT=20001 API=20002", as the pod's claim records it (dibs_request.env). The
 * caller frees it; NULL without memory. */
char *workload_env_text(const struct workload_pod *pod, const struct workload_value *values);
/* The ports of these needs, claimed where missing, kept, all or nothing. The caller frees *out. */
dibs_status workload_obtain(dibs *handle, const struct workload_group *group,
                            const struct workload_needs *needs, uint16_t **out, dibs_err *err);
/* The status of a request for claims of the group. When one of them is not what the group says now, the error
 * advises a sync. */
dibs_status workload_advise(const struct workload_group *group, dibs_status status, dibs_err *err);
/* The process that runs with a claim of the group, which is in the way of a sync: the claim's own holder, or
 * a pod of the role whose it is. False: there is none. */
bool workload_user_of(dibs *handle, const struct workload_group *group, const dibs_blocker *blocker,
                      dibs_claim *out);
#endif
