/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_INFORMER_H
#define DIBS_KUBE_CLIENT_INFORMER_H
/* List and watch all objects of one resource: a list, then a watch from the list's version on, and a new
 * list when the server no longer has that version.
 *
 * A list is read page by page as one consistent snapshot, and without a version, so the server does not
 * answer from a stale cache. An interrupted watch resumes where it stopped. Retries use jittered
 * exponential backoff and respect Retry-After. */
#include "kube/client/kubeapi.h"

struct informer;

enum informer_state {
    INFORMER_BEGINNING, /* no complete list yet */
    INFORMER_KNOWN,     /* the list is complete and the watch keeps it current */
    INFORMER_ABSENT,    /* the server does not have the resource: no objects */
    INFORMER_DENIED,    /* we are not allowed to read the resource */
};

struct informer_status {
    enum informer_state state;
    bool is_in_trouble; /* the last call was refused or not answered */
    /* When the last complete list began (clock_monotonic_ms()); 0: none yet. */
    int64_t listed_ms;
    uint64_t n_lists, n_events; /* totals */
};

enum informer_news {
    INFORMER_LISTING, /* a list begins: objects that are not reported before INFORMER_LISTED are gone */
    INFORMER_CHANGED, /* an object was added or changed */
    INFORMER_GONE,    /* an object was deleted */
    INFORMER_LISTED,  /* the list is complete; also reported, without objects, for an absent resource */
};

struct informer_options {
    const char *group;  /* "apps"; "": the core group; borrowed */
    const char *plural; /* "statefulsets"; borrowed */
    /* Version of the group. NULL: the one that the server prefers, for resources of other projects. */
    const char *version;
    void (*news)(void *ctx, enum informer_news what, const jsonr_value *object);
    /* Report a failure; NULL: the failure is over. */
    void (*trouble)(void *ctx, const dibs_err *why);
    void *ctx;
};

dibs_status informer_open(struct kubeapi *api, const struct informer_options *options, struct informer **out,
                          dibs_err *err);
void informer_close(struct informer *informer); /* NULL is fine */
/* Do what is due; informer_next_ms() returns the time from `now_ms` (clock_monotonic_ms()) until then. */
void informer_turn(struct informer *informer, int64_t now_ms);
int64_t informer_next_ms(const struct informer *informer, int64_t now_ms);

const struct informer_status *informer_status(const struct informer *informer);
/* Request a list that begins after this call. */
void informer_list_again(struct informer *informer);
/* Return whether a list is under way or requested. False while a failure delays it. */
bool informer_is_listing(const struct informer *informer);

/* ---- a message of a watch (public for its fuzz target) ---- */
enum informer_kind { INFORMER_ADDED, INFORMER_MODIFIED, INFORMER_DELETED, INFORMER_BOOKMARK, INFORMER_ERROR };
struct informer_message {
    jsonr_doc *doc;
    enum informer_kind kind;
    const jsonr_value *object;
    const char *version; /* the object's; NULL for an error */
    int code;            /* of an error */
};
/* Parse a message. Return NULL, or the fault; after a fault there is nothing to free. */
const char *informer_message_read(const char *line, size_t n, struct informer_message *out);
void informer_message_done(struct informer_message *message);
#endif
