/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBEAPI_FOLLOW_H
#define DIBS_KUBEAPI_FOLLOW_H
/* All objects of one resource, and how they change: a list, then a watch from where the list was, and a list
 * again when the server has forgotten that place.
 *
 * A list is read page by page as of one moment, and asked for without a version: the server answers with
 * what is true then, not with what it remembers. An interrupted watch goes on where it was. Pauses grow and
 * are spread, and the server's own wishes (Retry-After) count. */
#include "kubeapi/kubeapi.h"

struct follow;

enum follow_state {
    FOLLOW_BEGINNING, /* no list is complete yet */
    FOLLOW_KNOWN,     /* what was told is complete, up to the watch */
    FOLLOW_ABSENT,    /* the server does not know the resource: there are none */
    FOLLOW_DENIED,    /* we may not see them */
};

struct follow_options {
    const char *group;  /* "apps"; "": the core; must stay */
    const char *plural; /* "statefulsets"; must stay */
    /* Which version of the group: NULL: whichever the server prefers, for resources that come with others'
     * software. */
    const char *version;
    /* A list begins: what is not told again until listed() is gone. */
    void (*listing)(void *ctx);
    void (*changed)(void *ctx, const json_value *object);
    void (*deleted)(void *ctx, const json_value *object);
    /* It is complete. Also, with nothing told, of a resource that is absent. */
    void (*listed)(void *ctx);
    /* Something is wrong; or not any more (NULL). */
    void (*trouble)(void *ctx, const dibs_err *why);
    void *ctx;
};

dibs_status follow_open(struct kubeapi *api, const struct follow_options *options, struct follow **out,
                        dibs_err *err);
void follow_close(struct follow *follow); /* NULL is fine */
/* Whenever something may be due; how long that is from `now_ms` on (clock_monotonic_ms()). */
void follow_turn(struct follow *follow, int64_t now_ms);
int64_t follow_next_ms(const struct follow *follow, int64_t now_ms);

enum follow_state follow_state(const struct follow *follow);
/* What was asked last was refused, or not answered. */
bool follow_is_in_trouble(const struct follow *follow);
/* When the list began that was completed last (clock_monotonic_ms()); 0: none was. Whatever was there at that
 * moment has been told. */
int64_t follow_listed_ms(const struct follow *follow);
/* A list is wanted that begins from now on. */
void follow_list_again(struct follow *follow);
/* Is one under way, or wanted and not begun? False while something is in its way. */
bool follow_is_listing(const struct follow *follow);
/* How many lists, and how many events, so far. */
uint64_t follow_lists(const struct follow *follow);
uint64_t follow_events(const struct follow *follow);

/* ---- a message of a watch (for its fuzz target, too) ---- */
enum follow_kind { FOLLOW_ADDED, FOLLOW_MODIFIED, FOLLOW_DELETED, FOLLOW_BOOKMARK, FOLLOW_ERROR };
struct follow_message {
    json_doc *doc;
    enum follow_kind kind;
    const json_value *object;
    const char *version; /* of the object; an error has none */
    int code;            /* of an error */
};
/* NULL, or what is wrong with it; then nothing is to be freed. */
const char *follow_message_read(const char *line, size_t n, struct follow_message *out);
void follow_message_done(struct follow_message *message);
#endif
