/* SPDX-License-Identifier: MIT */
#include "kubeapi/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lines.h"
#include "base/spread.h"
#include "base/text.h"

#include "base/banned.h"

enum {
    PAGE_FIRST = 500,  /* objects of a page, as kubectl asks; when the server forgets while we read: */
    PAGE_LATER = 5000, /* fewer pages take less long */
    LIST_MS = 60000,   /* what the server itself gives a request */
    WATCH_S = 240,     /* the least that a watch is asked to last; as much again at random */
    SILENCE_MS = 2 * WATCH_S * 1000 + 30000, /* the server ends a watch itself before that */
    BEGIN_MS = 30000,                        /* within which a watch must begin */
    PAUSE_FIRST_MS = 500,                    /* after a failure; doubled up to: */
    PAUSE_MOST_MS = 30000,
    PAUSE_END_MS = 100, /* after a watch that ended as it should */
    ABSENT_MS = 30000,  /* how often is looked whether the resource is there, or allowed, by now */
    VERSION_MAX = 255,  /* of an object: opaque, in fact a number */
    CONTINUE_MAX = 4096,
    NAME_MAX_BYTES = 64, /* of a version of a group */
    VERSIONS_MAX = 8,    /* of a group that are tried */
    PATH_MAX_BYTES = 3 * (CONTINUE_MAX + VERSION_MAX),
};

enum doing { PAUSING, DISCOVERING, LISTING, WATCHING };

struct follow {
    struct kubeapi *api;
    struct follow_options options;
    enum follow_state state;
    enum doing doing;
    int64_t resume_ms, pause_ms; /* while pausing; the next pause */
    struct kubeapi_call *call;
    bool wants_list;    /* instead of going on with the watch */
    bool is_again;      /* asked for while one was under way */
    bool is_in_trouble; /* that was told */
    int64_t begun_ms;   /* of the list under way */
    int64_t listed_ms;  /* of the last complete one */
    unsigned page;      /* objects of a page */
    char next[CONTINUE_MAX + 1];
    char version[VERSION_MAX + 1];               /* where the watch goes on */
    char versions[VERSIONS_MAX][NAME_MAX_BYTES]; /* of the group, the preferred one first */
    size_t n_versions, which;
    struct bytes rest; /* of the watch: a line that has no end yet */
    const char *wrong; /* why we ended it */
    dibs_err why;
    bool is_forgotten; /* the server said 410 */
    uint64_t n_lists, n_events;
    char path[PATH_MAX_BYTES];
};

/* ---- messages ---- */

static bool read_kind(const char *type, enum follow_kind *out)
{
    static const char *const names[] = { "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i]) == 0) {
            *out = (enum follow_kind) i;
            return true;
        }
    }
    return false;
}

DEFINE_AUTO(json_doc, json_free)

const char *follow_message_read(const char *line, size_t n, struct follow_message *out)
{
    AUTO(free_auto) char *copy = malloc(n + 1);
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct follow_message m = { 0 };
    int64_t code = 0;

    if (!copy)
        return "out of memory";
    memcpy(copy, line, n);
    kubeapi_defuse(copy, n);
    if (json_parse(copy, n, &doc, NULL) != DIBS_OK)
        return "it is no JSON";
    const json_value *root = json_root(doc);
    m.object = json_get(root, "object");
    if (!read_kind(kubeapi_text(root, "type"), &m.kind) || !json_is_object(m.object))
        return "it is no event";
    m.version = kubeapi_text(m.object, "metadata.resourceVersion");
    if (m.kind == FOLLOW_ERROR)
        m.code = json_get_int(m.object, "code", &code) && code > 0 && code < 1000 ? (int) code : 500;
    else if (!*m.version || strlen(m.version) > VERSION_MAX)
        return "its object has no version";
    m.doc = TAKE(doc);
    *out = m;
    return NULL;
}

void follow_message_done(struct follow_message *message)
{
    json_free(message->doc);
    *message = (struct follow_message){ 0 };
}

/* ---- pauses ---- */

static void pause_for(struct follow *f, int64_t ms)
{
    f->call = NULL;
    f->doing = PAUSING;
    f->resume_ms = clock_monotonic_ms() + ms;
}

static void tell_trouble(struct follow *f, const dibs_err *why)
{
    bool is_news = f->is_in_trouble != (why != NULL);

    f->is_in_trouble = why != NULL;
    if (is_news && f->options.trouble)
        f->options.trouble(f->options.ctx, why);
}

static void rest(struct follow *f, int64_t retry_after_ms)
{
    int64_t ms = spread_ms(f->pause_ms);

    f->pause_ms = f->pause_ms * 2 < PAUSE_MOST_MS ? f->pause_ms * 2 : PAUSE_MOST_MS;
    pause_for(f, retry_after_ms > ms ? retry_after_ms : ms);
}

static void failed(struct follow *f, const dibs_err *why, int64_t retry_after_ms)
{
    tell_trouble(f, why);
    rest(f, retry_after_ms);
}

/* ---- which version ---- */

static void write_root(const struct follow *f, char *out, size_t size)
{
    if (f->options.group[0] == '\0')
        (void) snprintf(out, size, "/api/v1/%s", f->options.plural);
    else
        (void) snprintf(out, size, "/apis/%s/%s/%s", f->options.group,
                        f->options.version ? f->options.version : f->versions[f->which], f->options.plural);
}

static void settle(struct follow *f, enum follow_state state)
{
    f->state = state;
    f->listed_ms = f->begun_ms;
    f->n_lists++;
    f->options.listed(f->options.ctx);
}

/* There are none: that is an answer, too. */
static void absent(struct follow *f)
{
    f->n_versions = f->which = 0;
    f->options.listing(f->options.ctx);
    settle(f, FOLLOW_ABSENT);
    tell_trouble(f, NULL);
    pause_for(f, f->is_again ? 0 : ABSENT_MS);
}

static void denied(struct follow *f, const dibs_err *why)
{
    f->state = FOLLOW_DENIED;
    tell_trouble(f, why);
    pause_for(f, ABSENT_MS);
}

static void add_version(struct follow *f, const char *version)
{
    for (size_t i = 0; i < f->n_versions; i++)
        if (strcmp(f->versions[i], version) == 0)
            return;
    if (f->n_versions < VERSIONS_MAX && *version && strpbrk(version, "/?#%") == NULL &&
        text_copy(f->versions[f->n_versions], NAME_MAX_BYTES, version))
        f->n_versions++;
}

static void list_page(struct follow *f);

static void on_group(void *ctx, const struct kubeapi_answer *answer)
{
    struct follow *f = ctx;
    const json_value *versions = answer->root ? json_get(answer->root, "versions") : NULL;

    f->call = NULL;
    if (answer->code == HTTP_NOT_FOUND) {
        absent(f);
        return;
    }
    if (answer->code == HTTP_FORBIDDEN) {
        denied(f, &answer->err);
        return;
    }
    if (answer->status != DIBS_OK) {
        failed(f, &answer->err, answer->retry_after_ms);
        return;
    }
    f->n_versions = f->which = 0;
    add_version(f, kubeapi_text(answer->root, "preferredVersion.version"));
    for (size_t i = 0; i < json_array_size(versions); i++)
        add_version(f, kubeapi_text(json_array_at(versions, i), "version"));
    if (f->n_versions == 0)
        absent(f);
    else
        list_page(f);
}

static void discover(struct follow *f)
{
    dibs_err err = { 0 };

    f->doing = DISCOVERING;
    f->n_versions = f->which = 0;
    (void) snprintf(f->path, sizeof f->path, "/apis/%s", f->options.group);
    if (kubeapi_ask(f->api,
                    &(struct kubeapi_request){
                        .method = "GET", .path = f->path, .timeout_ms = LIST_MS, .done = on_group, .ctx = f },
                    &f->call, &err) != DIBS_OK)
        failed(f, &err, 0);
}

/* ---- listing ---- */

static void begin_watch(struct follow *f);

/* The server has no answer for a version that it announces: perhaps another one has the resource. */
static void missing(struct follow *f)
{
    if (f->which + 1 < f->n_versions) {
        f->which++;
        list_page(f);
    } else {
        absent(f);
    }
}

static void take_page(struct follow *f, const struct kubeapi_answer *answer)
{
    const json_value *items = json_get(answer->root, "items");
    bool is_first = f->next[0] == '\0';

    if (is_first) {
        if (!text_copy(f->version, sizeof f->version,
                       kubeapi_text(answer->root, "metadata.resourceVersion")) ||
            !f->version[0]) {
            (void) err_set(&f->why, DIBS_UNAVAILABLE, "listing %s: the answer has no version",
                           f->options.plural);
            failed(f, &f->why, 0);
            return;
        }
        f->options.listing(f->options.ctx);
    }
    for (size_t i = 0; i < json_array_size(items); i++)
        f->options.changed(f->options.ctx, json_array_at(items, i));
    if (!text_copy(f->next, sizeof f->next, kubeapi_text(answer->root, "metadata.continue"))) {
        (void) err_set(&f->why, DIBS_UNAVAILABLE, "listing %s: the answer goes on at no readable place",
                       f->options.plural);
        f->next[0] = '\0';
        failed(f, &f->why, 0);
        return;
    }
    if (f->next[0]) {
        list_page(f);
        return;
    }
    f->page = PAGE_FIRST;
    f->wants_list = f->is_again;
    f->is_again = false;
    settle(f, FOLLOW_KNOWN);
    tell_trouble(f, NULL);
    pause_for(f, 0);
}

static void on_page(void *ctx, const struct kubeapi_answer *answer)
{
    struct follow *f = ctx;

    f->call = NULL;
    if (answer->status == DIBS_OK) {
        take_page(f, answer);
        return;
    }
    bool was_first = f->next[0] == '\0';
    f->next[0] = '\0';
    if (answer->code == HTTP_NOT_FOUND && was_first)
        missing(f);
    else if (answer->code == HTTP_FORBIDDEN)
        denied(f, &answer->err);
    else if (answer->code == HTTP_GONE && f->page == PAGE_FIRST) {
        f->page = PAGE_LATER; /* at once: only the pages took too long */
        pause_for(f, 0);
    } else {
        if (answer->code == HTTP_OK && f->page > 1)
            f->page /= 2; /* it came, and could not be taken: perhaps there was too much of it */
        failed(f, &answer->err, answer->retry_after_ms);
    }
}

static void list_page(struct follow *f)
{
    char root[512] = "";
    char at[3 * CONTINUE_MAX] = "";
    dibs_err err = { 0 };

    f->doing = LISTING;
    write_root(f, root, sizeof root);
    if (f->next[0] == '\0')
        (void) snprintf(f->path, sizeof f->path, "%s?limit=%u", root, f->page);
    else if (kubeapi_escape(f->next, at, sizeof at))
        (void) snprintf(f->path, sizeof f->path, "%s?limit=%u&continue=%s", root, f->page, at);
    if (kubeapi_ask(f->api,
                    &(struct kubeapi_request){
                        .method = "GET", .path = f->path, .timeout_ms = LIST_MS, .done = on_page, .ctx = f },
                    &f->call, &err) != DIBS_OK)
        failed(f, &err, 0);
}

static void begin_list(struct follow *f)
{
    f->wants_list = true; /* until it is complete */
    f->is_again = false;
    f->begun_ms = clock_monotonic_ms();
    f->next[0] = '\0';
    f->is_forgotten = false;
    if (f->options.group[0] && !f->options.version)
        discover(f);
    else
        list_page(f);
}

/* ---- watching ---- */

static const char *take_error(struct follow *f, const struct follow_message *m)
{
    f->is_forgotten = m->code == HTTP_GONE;
    (void) kubeapi_refusal(m->code, m->object, "watching", &f->why);
    return f->why.msg;
}

static const char *take_line(void *ctx, const char *line, size_t n)
{
    struct follow *f = ctx;
    struct follow_message m = { 0 };
    const char *wrong = follow_message_read(line, n, &m);

    if (wrong) {
        /* To go on would be to leave something out. */
        f->is_forgotten = true;
        (void) err_set(&f->why, DIBS_UNAVAILABLE, "watching %s: a message cannot be read: %s",
                       f->options.plural, wrong);
        return f->why.msg;
    }
    switch (m.kind) {
    case FOLLOW_ERROR: wrong = take_error(f, &m); break;
    case FOLLOW_DELETED: f->options.deleted(f->options.ctx, m.object); break;
    case FOLLOW_ADDED:
    case FOLLOW_MODIFIED: f->options.changed(f->options.ctx, m.object); break;
    case FOLLOW_BOOKMARK: break;
    }
    if (!wrong) {
        f->n_events++;
        f->pause_ms = PAUSE_FIRST_MS; /* not by a list: one after another would be all that the server does */
        tell_trouble(f, NULL);
        (void) text_copy(f->version, sizeof f->version, m.version);
    }
    follow_message_done(&m);
    return wrong;
}

static bool on_chunk(void *ctx, const char *bytes, size_t n)
{
    struct follow *f = ctx;

    f->wrong = lines_take(&f->rest, bytes, n, take_line, f);
    return !f->wrong;
}

static void on_end(void *ctx, const struct kubeapi_answer *answer)
{
    struct follow *f = ctx;
    const dibs_err *why = f->wrong ? &f->why : &answer->err;

    f->call = NULL;
    f->rest.n = 0;
    f->is_forgotten = f->is_forgotten || answer->code == HTTP_GONE || answer->code == HTTP_NOT_FOUND;
    if (f->is_forgotten)
        f->wants_list = true;
    /* A stream that ends once, or a place that is forgotten, happens with every change of servers. */
    bool is_routine = f->pause_ms == PAUSE_FIRST_MS;
    if (answer->code == HTTP_FORBIDDEN)
        denied(f, &answer->err);
    else if ((f->wrong || answer->status != DIBS_OK) && is_routine)
        rest(f, answer->retry_after_ms);
    else if (f->wrong || answer->status != DIBS_OK)
        failed(f, why, answer->retry_after_ms);
    else
        pause_for(f, spread_ms(PAUSE_END_MS));
    f->wrong = NULL;
}

static void begin_watch(struct follow *f)
{
    char root[512] = "";
    char version[3 * VERSION_MAX] = "";
    dibs_err err = { 0 };

    f->doing = WATCHING;
    f->rest.n = 0;
    f->wrong = NULL;
    write_root(f, root, sizeof root);
    (void) kubeapi_escape(f->version, version, sizeof version);
    (void) snprintf(f->path, sizeof f->path,
                    "%s?watch=1&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u", root, version,
                    WATCH_S + spread_number() % WATCH_S);
    if (kubeapi_ask(f->api,
                    &(struct kubeapi_request){ .method = "GET",
                                               .path = f->path,
                                               .timeout_ms = BEGIN_MS,
                                               .chunk = on_chunk,
                                               .silence_max_ms = SILENCE_MS,
                                               .done = on_end,
                                               .ctx = f },
                    &f->call, &err) != DIBS_OK)
        failed(f, &err, 0);
}

/* ---- turns ---- */

void follow_turn(struct follow *f, int64_t now_ms)
{
    if (f->doing == WATCHING && f->wants_list) { /* somebody wants certainty */
        kubeapi_cancel(TAKE(f->call));
        pause_for(f, 0);
        now_ms = clock_monotonic_ms();
    }
    if (f->doing != PAUSING || now_ms < f->resume_ms)
        return;
    if (f->wants_list || f->state != FOLLOW_KNOWN)
        begin_list(f);
    else
        begin_watch(f);
}

int64_t follow_next_ms(const struct follow *f, int64_t now_ms)
{
    if (f->doing == WATCHING && f->wants_list)
        return 0;
    if (f->doing != PAUSING)
        return -1;
    return f->resume_ms > now_ms ? f->resume_ms - now_ms : 0;
}

void follow_list_again(struct follow *f)
{
    if (f->doing == LISTING || f->doing == DISCOVERING)
        f->is_again = true; /* the one under way may have begun too early */
    else
        f->wants_list = true;
    /* A pause after a failure stays; one that only waits for what is absent does not. */
    if (f->doing == PAUSING && (f->state == FOLLOW_ABSENT || f->state == FOLLOW_KNOWN) && !f->is_in_trouble)
        f->resume_ms = clock_monotonic_ms();
}

bool follow_is_in_trouble(const struct follow *f)
{
    return f->is_in_trouble;
}

bool follow_is_listing(const struct follow *f)
{
    bool is_under_way = f->doing == LISTING || f->doing == DISCOVERING;

    return (is_under_way || (f->wants_list && f->state == FOLLOW_KNOWN)) && !f->is_in_trouble;
}

enum follow_state follow_state(const struct follow *f)
{
    return f->state;
}

int64_t follow_listed_ms(const struct follow *f)
{
    return f->listed_ms;
}

uint64_t follow_lists(const struct follow *f)
{
    return f->n_lists;
}

uint64_t follow_events(const struct follow *f)
{
    return f->n_events;
}

dibs_status follow_open(struct kubeapi *api, const struct follow_options *options, struct follow **out,
                        dibs_err *err)
{
    struct follow *f = calloc(1, sizeof *f);

    if (!f)
        return err_set(err, DIBS_FAILURE, "following %s: out of memory", options->plural);
    f->api = api;
    f->options = *options;
    f->wants_list = true;
    f->page = PAGE_FIRST;
    f->pause_ms = PAUSE_FIRST_MS;
    *out = f;
    return DIBS_OK;
}

void follow_close(struct follow *f)
{
    if (!f)
        return;
    kubeapi_cancel(f->call);
    bytes_done(&f->rest);
    free(f);
}
