/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_INFORMER_H
#define DIBS_KUBE_CLIENT_INFORMER_H
/* All objects of one resource, and how they change: a list, then a watch from where the list was, and a list
 * again when the server has forgotten that place.
 *
 * A list is read page by page as of one moment, and asked for without a version: the server answers with
 * what is true then, not with what it remembers. An interrupted watch goes on where it was. Pauses grow and
 * are spread, and the server's own wishes (Retry-After) count. */
#include "kube/client/kubeapi.h"

struct informer;

enum informer_state {
    INFORMER_BEGINNING, /* no list is complete yet */
    INFORMER_KNOWN,     /* the list is complete, up to the watch */
    INFORMER_ABSENT,    /* the server does not know the resource: there are none */
    INFORMER_DENIED,    /* we may not see them */
};

struct informer_status {
    enum informer_state state;
    bool is_in_trouble; /* the last call was refused, or not answered */
    /* When the list began that was completed last (clock_monotonic_ms()); 0: none was. Every
     * object of that moment was reported. */
    int64_t listed_ms;
    uint64_t n_lists, n_events; /* so far */
};

enum informer_news {
    INFORMER_LISTING, /* a list begins: objects that are not reported until it is complete are gone */
    INFORMER_CHANGED, /* an object is there */
    INFORMER_GONE,    /* an object is deleted */
    INFORMER_LISTED,  /* the list is complete; also, without objects, of a resource that is absent */
};

struct informer_options {
    const char *group;  /* "apps"; "": the core; must stay */
    const char *plural; /* "statefulsets"; must stay */
    /* Which version of the group: NULL: whichever the server prefers, for resources that come with others'
     * software. */
    const char *version;
    void (*news)(void *ctx, enum informer_news what, const jsonr_value *object);
    /* Something is wrong; or not any more (NULL). */
    void (*trouble)(void *ctx, const dibs_err *why);
    void *ctx;
};

dibs_status informer_open(struct kubeapi *api, const struct informer_options *options, struct informer **out,
                          dibs_err *err);
void informer_close(struct informer *informer); /* NULL is fine */
/* Whenever something may be due; how long that is from `now_ms` on (clock_monotonic_ms()). */
void informer_turn(struct informer *informer, int64_t now_ms);
int64_t informer_next_ms(const struct informer *informer, int64_t now_ms);

const struct informer_status *informer_status(const struct informer *informer);
/* A list is wanted that begins from now on. */
void informer_list_again(struct informer *informer);
/* Is one under way, or wanted and not begun? False while something is in its way. */
bool informer_is_listing(const struct informer *informer);

/* ---- a message of a watch (for its fuzz target, too) ---- */
enum informer_kind { INFORMER_ADDED, INFORMER_MODIFIED, INFORMER_DELETED, INFORMER_BOOKMARK, INFORMER_ERROR };
struct informer_message {
    jsonr_doc *doc;
    enum informer_kind kind;
    const jsonr_value *object;
    const char *version; /* of the object; an error has none */
    int code;            /* of an error */
};
/* NULL, or what is wrong with it; then nothing is to be freed. */
const char *informer_message_read(const char *line, size_t n, struct informer_message *out);
void informer_message_done(struct informer_message *message);
#endif
