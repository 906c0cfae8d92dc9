/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_AS_AS_H
#define DIBS_HOLD_AS_AS_H
/* Let the processes of a command use port numbers of their own (`dibs run --as 3000`), without privileges.
 *
 * The command's first process loads a seccomp filter before exec; its descendants inherit it. The kernel then
 * reports each call that contains a port number to a notifier in dibs, which makes the call on the program's
 * own socket with the claimed port, or lets the kernel continue it. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/net.h"

/* One port number of a tree of processes. */
struct as_number {
    dibs_proto proto;
    uint16_t inside;  /* what the processes see */
    uint16_t outside; /* what the kernel sees: the claimed port */
    bool is_own;      /* false: another tree binds it; this one can only connect to it */
    int holder;       /* with as_any: pidfd of the process that bound it; 0: none */
};

/* ---- the filter ---- */
struct as_filter;
/* Make the filter; calls that only datagrams need are reported with `has_udp`. FAILURE: libseccomp cannot. */
dibs_status as_filter_make(bool has_udp, struct as_filter **out, dibs_err *err);
void as_filter_free(struct as_filter *filter); /* NULL is fine */
/* Load it into this process, the later command. Returns the listener for the notifier, or a negative errno:
 * EBUSY when another notifier already serves the process. From then on only calls that the filter does not
 * report may be made until a notifier serves the listener. Without CAP_SYS_ADMIN setuid programs gain no
 * rights any more. */
int as_filter_load(const struct as_filter *filter);
/* Return why this errno came from as_filter_load(). */
const char *as_filter_why(int code);
/* Does a notifier of dibs serve this process? */
bool as_is_served(void);
/* Must the processes be descendants of the notifier for it to reach their sockets (Yama)? */
bool as_needs_descendants(void);
/* Can the notifier reach the sockets of processes that have another user? Containers' root often cannot. */
bool as_reaches_other_users(void);
/* Get the process's file descriptor `fd`; a negative errno when this process may not. */
int as_borrow(pid_t pid, int fd);

/* ---- the notifier ---- */
/* How a tree gets a port for each number that it binds (`--as any`). Called in the notifier's thread. */
struct as_any {
    /* Claim a port for the process: `preferred`, or another one. Returns it, or a negative errno. */
    int (*claim)(void *ctx, dibs_proto proto, uint16_t inside, uint16_t preferred, pid_t pid);
    /* End the claim of a port that nobody has bound any more. */
    void (*release)(void *ctx, dibs_proto proto, uint16_t port);
    /* Is this port the number of another tree, too? Then a connection must not reach it. */
    bool (*is_neighbours)(void *ctx, dibs_proto proto, uint16_t port);
    void *ctx;
};
/* Numbers that a tree may have bound at once with as_any; each has a file descriptor. */
#define AS_ANY_MAX 256

/* A tree of processes with one filter. */
struct as_tree {
    int listener;              /* owned by the notifier once it has started; -1: none */
    struct as_number *numbers; /* with `any` there is room for AS_ANY_MAX more */
    size_t n;
    size_t max;               /* 0: `n` of them is all */
    size_t oldest;            /* with `any`: where the search for one that is not bound any more begins */
    const struct as_any *any; /* NULL: other numbers are the kernel's */
};

struct as_notifier;
/* Serve these trees in a thread of its own, with all signals blocked, until they have ended. The numbers stay
 * the caller's, and must stay as long as the notifier. */
dibs_status as_notifier_start(struct as_tree *trees, size_t n, struct as_notifier **out, dibs_err *err);
/* Is any tree still alive? */
bool as_notifier_serves(const struct as_notifier *notifier);
/* Wait until all trees have ended, and free it. NULL is fine. */
void as_notifier_finish(struct as_notifier *notifier);
#endif
