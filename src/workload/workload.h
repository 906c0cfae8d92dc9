/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_WORKLOAD_H
#define DIBS_WORKLOAD_WORKLOAD_H
/* The model of a workload: groups, roles and instances, the batch of named claims that they need, and the
 * variables of their pods.
 *
 * A group has roles. A role has instances, each with one pod, or with the pods of its components. A pod has
 * ports. The readers of manifests, annotations and objects fill the model, which does not depend on the
 * source. Strings belong to the group's arena. */
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
    /* each needs a claim, up to the limit of a batch; also limits pods per component */
    WORKLOAD_INSTANCES_MAX = 4096,
    WORKLOAD_PARTS_MAX = 65536,    /* ports and references of a group; aliases can expand a short text */
    WORKLOAD_ARGUMENTS_MAX = 1024, /* of a command */
    WORKLOAD_NAME_MAX = 253,       /* longest name that Kubernetes allows */
    WORKLOAD_ANNOTATION_MAX = 317, /* prefix, slash and name, as Kubernetes allows */
    WORKLOAD_ENV_MAX = 255,
    WORKLOAD_VARIABLES_MAX = 256, /* of one role or component */
    WORKLOAD_TEXT_MAX = 4096,     /* bytes of such a variable, and of a directory */
    WORKLOAD_AS_MAX = 256,        /* numbers inside: each pod knows all, and a call is compared with each */
    WORKLOAD_COUNT_MAX = 64,      /* ports of one name; a node has no more devices */
};

enum workload_scope { WORKLOAD_POD_SCOPED, WORKLOAD_ROLE_SCOPED };

/* Position in the source; line 0: unknown. */
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
    uint16_t count;        /* 1: single port */
    bool is_contiguous;    /* adjacent ports */
    uint16_t as;           /* number inside of `dibs run`; 0: the claimed port itself */
    uint16_t container;    /* where a compose service listens in its container; 0: not said */
    bool is_reuser;        /* its program sets a reuse option, so that the port can have a guard */
    bool has_no_host_port; /* in Kubernetes: keep the scheduler out of it */
    size_t n_bindings;     /* 0: tcp on "*" */
    dibs_binding bindings[DIBS_BINDINGS_MAX];
    struct workload_place place;
};

/* A port of another pod or role, under a variable of this component. */
struct workload_reference {
    const char *env;
    const char *role;
    const char *component; /* NULL: the role has none */
    const char *port;
    int32_t instance; /* -1: default: the own instance in the own role, else 0 */
    int32_t pod;      /* id within the component; -1: default 0 */
    struct workload_place place;
};

/* A part of a variable's text. */
struct workload_piece {
    const char *text;             /* literal; NULL: the port of `to` */
    struct workload_reference to; /* `role` NULL: the pod's own port `port` */
};

/* A variable whose text contains numbers of ports: "postgres://localhost:{pg.sql}/shop". */
struct workload_variable {
    const char *env;
    struct workload_piece *pieces;
    size_t n_pieces;
    struct workload_place place;
};

/* A kind of pod in each instance: the role's only one, or a component. */
struct workload_component {
    const char *name; /* NULL: the role has no components */
    uint32_t size;    /* pods in each instance */
    struct workload_port *ports;
    size_t n_ports;
    struct workload_reference *references;
    size_t n_references;
    struct workload_variable *variables;
    size_t n_variables;
    struct workload_place place;
};

struct workload_role {
    const char *name;
    uint32_t instances;
    struct workload_component *components; /* at least one */
    size_t n_components;
    const char **command; /* NULL-terminated; NULL: none */
    const char *cwd;      /* directory of its commands, relative to the source's; NULL: the caller's */
    struct workload_place place;
};

struct arena;
struct workload_group {
    const char *source;                 /* file, for messages; may be NULL */
    const char *name;                   /* as written; NULL: derived from the project's directory */
    char group[DIBS_NAME_PART_MAX + 1]; /* first part of every claim's name; set by the caller */
    const char *project;                /* directory recorded with the claims; NULL: none */
    const char *pool;                   /* NULL: that of the settings */
    struct workload_place place;        /* of the name */
    struct workload_role *roles;
    size_t n_roles;
    dibs_project_setting *settings; /* not validated yet */
    size_t n_settings;
    struct arena *arena;
};

/* ---- building (model.c) ---- */
/* Return an empty group with its arena; NULL without memory. */
struct workload_group *workload_new(void);
void workload_free(struct workload_group *group); /* NULL is fine */
DEFINE_AUTO(struct workload_group, workload_free)
/* Allocate zeroed bytes, or copy a text, in the group's arena. NULL without memory. */
void *workload_take(struct workload_group *group, size_t size);
char *workload_text(struct workload_group *group, const char *text);
/* Check what the readers of single values cannot: duplicate names and variables, references without a
 * target (suggesting the nearest name), bounds. INVALID begins with "SOURCE:LINE:COLUMN: ". */
dibs_status workload_check(const struct workload_group *group, dibs_err *err);
/* Check that the group has the target of a reference of role `from`, perhaps of another group. */
dibs_status workload_check_target(const struct workload_group *group, const struct workload_role *from,
                                  const struct workload_reference *reference, dibs_err *err);
/* Return INVALID with the place in front of the message. */
dibs_status workload_error(const struct workload_group *group, struct workload_place place, dibs_err *err,
                           const char *fmt, ...) DIBS_PRINTF(4, 5);
/* For readers and checks that continue after a fault: the first fault stays. */
struct workload_faults {
    const struct workload_group *group;
    dibs_status status;
    dibs_err *err;
};
void workload_fault(struct workload_faults *faults, struct workload_place place, const char *fmt, ...)
    DIBS_PRINTF(3, 4);
/* Return NULL when there is none. `component` NULL: the one without a name. */
const struct workload_role *workload_role(const struct workload_group *group, const char *name);
const struct workload_component *workload_component(const struct workload_role *role, const char *name);
const struct workload_port *workload_port(const struct workload_component *component, const char *name);
/* Return the port's bindings, by default tcp on "*". */
const dibs_binding *workload_bindings(const struct workload_port *port, size_t *n);

/* Parse "PodScoped" or "RoleScoped"; false: neither. */
bool workload_scope_parse(const char *text, enum workload_scope *out);

/* ---- references as text (reference.c) ---- */
/* Parse "role.port", "role.component.port", "role[1].port" or "role[1].component[0].port". Sets all but
 * `env` and `place`. INVALID names the fault. */
dibs_status workload_reference_parse(struct workload_group *group, const char *text,
                                     struct workload_reference *out, dibs_err *err);
/* Parse without copying: split `text` in place; *out points into it. Return the fault, or NULL. */
const char *workload_reference_cut(char *text, struct workload_reference *out);
/* Return whether shells and containers accept `env` as a name of a variable. */
bool workload_is_env_name(const char *env);
/* Return the program that such a variable would mislead if it were a port number ("bash"), or NULL. */
const char *workload_env_danger(const char *env);
/* Derive the variable of a port, truncated to fit: "web/http" is WEB_HTTP_PORT, "9p" is _9P_PORT. */
void workload_port_env(const char *name, char *out, size_t size);

/* ---- names (names.c) ---- */
/* One pod. RoleScoped ports are the same for all pods of a component. */
struct workload_pod {
    const struct workload_role *role;
    const struct workload_component *component;
    uint32_t instance;
    uint32_t id; /* within the component */
};
/* Write a component's or port's part of a name: "name", or "name.2" for the third, so that growing from one
 * to several renames nothing. A '.' in the name itself becomes %2E to avoid collisions. */
void workload_part(const char *name, uint32_t number, char out[DIBS_NAME_PART_MAX + 1]);
/* Write "group/role/instance/component", the prefix of the pod's own ports. */
void workload_pod_prefix(const struct workload_group *group, const struct workload_pod *pod,
                         char out[DIBS_NAME_MAX + 1]);
/* Write "group/role/instance/component/port" for the number-th of the port's `count`. Different ports never
 * share a name, and it always fits: invalid bytes become %XX, and an overlong part ends in a hash. */
void workload_claim_name(const struct workload_group *group, const struct workload_pod *pod,
                         const struct workload_port *port, uint32_t number, char out[DIBS_NAME_MAX + 1]);

/* ---- needs (needs.c) ---- */
/* A needed claim. */
struct workload_need {
    struct workload_pod pod;
    const struct workload_port *port;
    uint32_t number; /* index within port->count */
    bool is_own;     /* PodScoped, of the pod in question: its process may hold it */
    char name[DIBS_NAME_MAX + 1];
};
struct workload_needs {
    struct workload_need *all;
    size_t n, max;
};
void workload_needs_free(struct workload_needs *needs);
/* List every claim of the group. */
dibs_status workload_needs_all(const struct workload_group *group, struct workload_needs *out, dibs_err *err);
/* List every claim whose number a pod gets, each once: its own, its role's, and those of its references. */
dibs_status workload_needs_of(const struct workload_group *group, const struct workload_pod *pod,
                              struct workload_needs *out, dibs_err *err);
/* Has any port of the group an `as` number? Then its pods' needs include all ports that have one. */
bool workload_has_as(const struct workload_group *group);
/* Return whether the port has a binding of the protocol. */
bool workload_has_proto(const struct workload_port *port, dibs_proto proto);
/* Return the request that makes or finds the claim, kept and without a holder. */
dibs_request workload_request(const struct workload_group *group, const struct workload_need *need);
/* Find the name of the claim and the port that a reference of `pod` means; without a role, the pod's own. */
dibs_status workload_reference_name(const struct workload_group *group, const struct workload_pod *pod,
                                    const struct workload_reference *reference, char out[DIBS_NAME_MAX + 1],
                                    const struct workload_port **port, dibs_err *err);
/* ---- typed names (typed.c) ---- */
/* Find a role as written in the manifest or as encoded in claim names ("a%2Fb"). NULL: none. */
const struct workload_role *workload_role_typed(const struct workload_group *group, const char *typed);
/* Parse "web", "web/1", "web/1/worker" or "web/1/worker/2"; the defaults are instance 0 and the first
 * component. NOT_FOUND lists what exists. */
dibs_status workload_pod_parse(const struct workload_group *group, const char *text, struct workload_pod *out,
                               dibs_err *err);
/* Find a claim by "web/http" or "web/worker/http" (RoleScoped, or of instance 0), "web/1/http",
 * "web/1/worker/http", "web/1/worker/2/http", its name after the group ("web/1/worker.2/http",
 * "web/-/-/gossip"), or a reference ("web[1].http"). NOT_FOUND suggests a near name; *is_like (may be NULL)
 * then tells whether the text resembles one of this group: it begins with a role, is a port's name, or is
 * one typing error away from one. */
dibs_status workload_need_parse(const struct workload_group *group, const char *text,
                                struct workload_need *out, bool *is_like, dibs_err *err);
/* Find the port of ROLE or ROLE/INSTANCE when it has only one. NOT_FOUND: it has none or several. */
dibs_status workload_need_of_role(const struct workload_group *group, const char *text,
                                  struct workload_need *out);

/* ---- sync (sync.c) ---- */
enum workload_change_kind {
    WORKLOAD_KEEP,
    WORKLOAD_ADD,
    WORKLOAD_MOVE, /* other number, protocol or address: dropped and added */
    WORKLOAD_DROP,
    /* no longer wanted but in use: ends with its holder; if RoleScoped, by a later sync */
    WORKLOAD_STAY,
};
struct workload_change {
    enum workload_change_kind kind;
    /* the claim before a MOVE, DROP or STAY, for an undo; NULL: none, or it had left its name */
    const dibs_claim *before;
    bool needs_restart;          /* running pods do not know the change */
    size_t n_pods;               /* number of these pods; 1 for STAY */
    char pod[DIBS_NAME_MAX + 1]; /* the first of them, "shop/web/0/-" */
    bool is_leased;              /* that pod is not running: a lease holds one of its ports */
    dibs_claim claim;            /* after the change; DROP: before */
};
struct workload_difference {
    const char *variable;
    const char *was, *now; /* NULL: absent */
    char *text;            /* owned: what `now` points to when the record has only its checksum; or NULL */
    bool is_covered;       /* a change of the same plan already reports it */
};
/* A pod whose process was started with stale variables. */
struct workload_restart {
    dibs_claim claim;            /* that shows that it runs */
    char pod[DIBS_NAME_MAX + 1]; /* "shop/web/0/-" */
    struct workload_difference *all;
    size_t n;
    char *was, *now; /* texts of workload_env_text(); `all` points into them */
};
struct workload_plan {
    struct workload_change *changes;
    size_t n;
    size_t count[WORKLOAD_STAY + 1]; /* by kind */
    struct workload_restart *restarts;
    size_t n_restarts;
    dibs_claim *present; /* claims before the sync; `before` points into them */
};
void workload_plan_free(struct workload_plan *plan);
/* Return whether the claim has the port's number, protocols and addresses. *is_narrowed: except for IPv6. */
bool workload_is_as_wanted(const dibs_claim *claim, const struct workload_port *port, bool *is_narrowed);
/* Make the group's claims match the group, all or nothing: add missing claims, end obsolete ones, keep the
 * rest. `is_dry_run`: only plan. */
dibs_status workload_sync(dibs *handle, const struct workload_group *group, bool is_dry_run,
                          struct workload_plan *out, dibs_err *err);
/* Sync several groups in one batch; plans[i] belongs to groups[i]. */
dibs_status workload_sync_all(dibs *handle, const struct workload_group *const *groups, size_t n,
                              bool is_dry_run, struct workload_plan *plans, dibs_err *err);
/* Undo syncs in one batch: end what they added, and restore moved and dropped ports as static claims. If
 * one port is no longer available, nothing changes. */
dibs_status workload_undo(dibs *handle, const struct workload_plan *plans, size_t n, dibs_err *err);
/* End every claim of the group; OK when there is none. */
dibs_status workload_cleanup(dibs *handle, const struct workload_group *group, struct workload_plan *out,
                             dibs_err *err);

/* ---- running pods (present.c) ---- */
/* Check that no process holds a port of these pods, also a port that the group has dropped: an instance
 * must not run twice. TAKEN names the process. */
dibs_status workload_check_idle(dibs *handle, const struct workload_group *group,
                                const struct workload_pod *const *pods, size_t n, dibs_err *err);

/* ---- variables (values.c) ---- */
enum { WORKLOAD_VALUE_MAX = 8 * WORKLOAD_COUNT_MAX }; /* text of a port's numbers */
struct workload_value {
    const char *env;
    const char *annotation;           /* NULL: none */
    const struct workload_port *port; /* NULL: a variable */
    bool is_reference;
    uint16_t first;
    const char *text;
};
/* Return the number of a component's values: its ports, references and variables. */
size_t workload_n_values(const struct workload_component *component);
/* Write "20001" for a single port or a block, "20001,20005" for others, from `count` ports. */
void workload_value_text(const struct workload_port *port, const uint16_t *ports, char *out, size_t size);
/* Compute the values of a pod whose needs have these ports: one per port of its component, then one per
 * reference, then one per variable. The caller frees *out, which contains the texts. */
dibs_status workload_values(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_needs *needs, const uint16_t *ports,
                            struct workload_value **out, dibs_err *err);
/* Write the directory of a role's commands, absolute and with links resolved if it exists. False: it has
 * none of its own, or it is too long. */
bool workload_directory(const struct workload_group *group, const struct workload_role *role, char *out,
                        size_t size);
/* Call `fn` for every variable of the pod: $PORT, unless a value has that name, $DIBS_POD when there are
 * several pods, $PWD when the role has a directory, and the values. */
typedef void workload_variable_fn(void *ctx, const char *variable, const char *text);
void workload_each_variable(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_value *values, workload_variable_fn *fn, void *ctx);
/* Write all of them in one text, "PORT=20001 URL=~1f2e3d4c", as the pod's claim records it
 * (dibs_request.env). A text that is no number is recorded by a checksum: it may contain a password, and
 * listings show records to every user. The caller frees it; NULL without memory. */
char *workload_env_text(const struct workload_group *group, const struct workload_pod *pod,
                        const struct workload_value *values);
/* Get the ports of these needs, claiming missing ones, all or nothing: kept, or with a `pid` held by that
 * process until it ends; TAKEN when another one holds them. The caller frees *out. */
dibs_status workload_obtain(dibs *handle, const struct workload_group *group,
                            const struct workload_needs *needs, int32_t pid, uint16_t **out, dibs_err *err);
/* Complete the error of a request for the group's claims: advise a sync when one of them differs from the
 * group. Return the status. */
dibs_status workload_advise(const struct workload_group *group, dibs_status status, dibs_err *err);
/* Find the process that uses a claim and blocks a sync: its holder, or a pod of its role. False: none. */
bool workload_user_of(dibs *handle, const struct workload_group *group, const dibs_blocker *blocker,
                      dibs_claim *out);
#endif
