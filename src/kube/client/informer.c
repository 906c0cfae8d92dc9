/* SPDX-License-Identifier: MIT */
#include "kube/client/informer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jitter.h"
#include "base/lines.h"
#include "base/text.h"

#include "base/banned.h"

enum {
    PAGE_FIRST = 500,  /* objects of a page, as kubectl asks for */
    PAGE_LATER = 5000, /* larger pages after the server dropped a list that was read too slowly */
    LIST_MS = 60000,   /* the server's own timeout of a request */
    WATCH_S = 240,     /* least duration of a watch; up to twice as long at random */
    SILENCE_MS = 2 * WATCH_S * 1000 + 30000, /* the server ends a watch before that */
    BEGIN_MS = 30000,                        /* deadline for the first answer to a watch */
    PAUSE_FIRST_MS = 500,                    /* backoff after a failure; doubled up to PAUSE_MOST_MS */
    PAUSE_MOST_MS = 30000,
    PAUSE_END_MS = 100, /* after a watch that the server ended normally */
    ABSENT_MS = 30000,  /* how often to check for an absent or forbidden resource */
    VERSION_MAX = 255,  /* of an object's resourceVersion: opaque, in practice a number */
    CONTINUE_MAX = 4096,
    NAME_MAX_BYTES = 64, /* of the name of a group's version */
    VERSIONS_MAX = 8,    /* of a group, tried in order */
    PATH_MAX_BYTES = 3 * (CONTINUE_MAX + VERSION_MAX),
};

enum doing { PAUSING, DISCOVERING, LISTING, WATCHING };

struct informer {
    struct kubeapi *api;
    struct informer_options options;
    struct informer_status status;
    enum doing doing;
    int64_t resume_ms, pause_ms; /* end of this pause; length of the next */
    struct kubeapi_call *call;
    bool wants_list;  /* list instead of resuming the watch */
    bool is_again;    /* a list was requested while one was under way */
    int64_t begun_ms; /* when the list under way began */
    unsigned page;    /* objects per page */
    char next[CONTINUE_MAX + 1];
    char version[VERSION_MAX + 1];               /* where the watch resumes */
    char versions[VERSIONS_MAX][NAME_MAX_BYTES]; /* the group's versions, the preferred one first */
    size_t n_versions, which;
    struct bytes rest; /* last line of the watch, still incomplete */
    const char *wrong; /* why we ended the watch; NULL: we did not */
    dibs_err why;
    bool is_forgotten; /* the server no longer has our version (410) */
    char path[PATH_MAX_BYTES];
};

/* ---- messages ---- */

/* Return false when the type is unknown. */
static bool read_kind(const char *type, enum informer_kind *out)
{
    static const char *const names[] = { "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR" };
    size_t i = 0;

    while (i < sizeof names / sizeof *names && strcmp(type, names[i]) != 0)
        i++;
    *out = (enum informer_kind) i;
    return i < sizeof names / sizeof *names;
}

const char *informer_message_read(const char *line, size_t n, struct informer_message *out)
{
    AUTO(free_auto) char *copy = malloc(n + 1);
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct informer_message m = { 0 };
    int64_t code = 0;

    if (!copy)
        return "out of memory";
    memcpy(copy, line, n);
    kubeapi_defuse(copy, n);
    if (jsonr_parse(copy, n, &doc, NULL) != DIBS_OK)
        return "it is no JSON";
    const jsonr_value *root = jsonr_root(doc);
    m.object = jsonr_get(root, "object");
    if (!read_kind(jsonr_text_at(root, "type"), &m.kind) || !jsonr_is_object(m.object))
        return "it is no event";
    m.version = jsonr_text_at(m.object, "metadata.resourceVersion");
    if (m.kind == INFORMER_ERROR)
        m.code = jsonr_get_int(m.object, "code", &code) && code > 0 && code < 1000 ? (int) code : 500;
    else if (!*m.version || strlen(m.version) > VERSION_MAX)
        return "its object has no version";
    m.doc = TAKE(doc);
    *out = m;
    return NULL;
}

void informer_message_done(struct informer_message *message)
{
    jsonr_free(message->doc);
    *message = (struct informer_message){ 0 };
}

static void tell(const struct informer *inf, enum informer_news what, const jsonr_value *object)
{
    inf->options.news(inf->options.ctx, what, object);
}

/* ---- pauses ---- */

static void pause_for(struct informer *inf, int64_t ms)
{
    inf->call = NULL;
    inf->doing = PAUSING;
    inf->resume_ms = clock_monotonic_ms() + ms;
}

static void tell_trouble(struct informer *inf, const dibs_err *why)
{
    bool is_news = inf->status.is_in_trouble != (why != NULL);

    inf->status.is_in_trouble = why != NULL;
    if (is_news && inf->options.trouble)
        inf->options.trouble(inf->options.ctx, why);
}

static void rest(struct informer *inf, int64_t retry_after_ms)
{
    int64_t ms = jitter_ms(inf->pause_ms);

    inf->pause_ms = inf->pause_ms * 2 < PAUSE_MOST_MS ? inf->pause_ms * 2 : PAUSE_MOST_MS;
    pause_for(inf, retry_after_ms > ms ? retry_after_ms : ms);
}

static void failed(struct informer *inf, const dibs_err *why, int64_t retry_after_ms)
{
    tell_trouble(inf, why);
    rest(inf, retry_after_ms);
}

static void refused(struct informer *inf, const struct kubeapi_answer *answer)
{
    if (answer->code != HTTP_FORBIDDEN) {
        failed(inf, &answer->err, answer->retry_after_ms);
        return;
    }
    inf->status.state = INFORMER_DENIED;
    tell_trouble(inf, &answer->err);
    pause_for(inf, ABSENT_MS);
}

/* Send a GET of inf->path. */
static void get(struct informer *inf, enum doing doing, struct kubeapi_request request)
{
    dibs_err err = { 0 };

    inf->doing = doing;
    request.method = "GET";
    request.path = inf->path;
    request.ctx = inf;
    if (kubeapi_ask(inf->api, &request, &inf->call, &err) != DIBS_OK)
        failed(inf, &err, 0);
}

/* ---- API version ---- */

static void write_root(const struct informer *inf, char *out, size_t size)
{
    if (inf->options.group[0] == '\0')
        (void) snprintf(out, size, "/api/v1/%s", inf->options.plural);
    else
        (void) snprintf(out, size, "/apis/%s/%s/%s", inf->options.group,
                        inf->options.version ? inf->options.version : inf->versions[inf->which],
                        inf->options.plural);
}

static void settle(struct informer *inf, enum informer_state state)
{
    inf->status.state = state;
    inf->status.listed_ms = inf->begun_ms;
    inf->status.n_lists++;
    tell(inf, INFORMER_LISTED, NULL);
}

/* Report an empty list: the server does not have the resource. */
static void absent(struct informer *inf)
{
    inf->n_versions = inf->which = 0;
    tell(inf, INFORMER_LISTING, NULL);
    settle(inf, INFORMER_ABSENT);
    tell_trouble(inf, NULL);
    pause_for(inf, inf->is_again ? 0 : ABSENT_MS);
}

static void add_version(struct informer *inf, const char *version)
{
    for (size_t i = 0; i < inf->n_versions; i++)
        if (strcmp(inf->versions[i], version) == 0)
            return;
    if (inf->n_versions < VERSIONS_MAX && *version && strpbrk(version, "/?#%") == NULL &&
        text_copy(inf->versions[inf->n_versions], NAME_MAX_BYTES, version))
        inf->n_versions++;
}

static void list_page(struct informer *inf);

static void on_group(void *ctx, const struct kubeapi_answer *answer)
{
    struct informer *inf = ctx;
    const jsonr_value *versions = answer->root ? jsonr_get(answer->root, "versions") : NULL;

    inf->call = NULL;
    if (answer->status != DIBS_OK && answer->code != HTTP_NOT_FOUND) {
        refused(inf, answer);
        return;
    }
    inf->n_versions = inf->which = 0;
    add_version(inf, jsonr_text_at(answer->root, "preferredVersion.version"));
    for (size_t i = 0; i < jsonr_array_size(versions); i++)
        add_version(inf, jsonr_text_at(jsonr_array_at(versions, i), "version"));
    if (inf->n_versions == 0)
        absent(inf);
    else
        list_page(inf);
}

static void discover(struct informer *inf)
{
    inf->n_versions = inf->which = 0;
    (void) snprintf(inf->path, sizeof inf->path, "/apis/%s", inf->options.group);
    get(inf, DISCOVERING, (struct kubeapi_request){ .timeout_ms = LIST_MS, .done = on_group });
}

/* ---- listing ---- */

/* Try the next version of the group: the server announces this one, but does not serve the resource in it. */
static void missing(struct informer *inf)
{
    if (inf->which + 1 < inf->n_versions) {
        inf->which++;
        list_page(inf);
    } else {
        absent(inf);
    }
}

static void unreadable(struct informer *inf, const char *why)
{
    (void) err_set(&inf->why, DIBS_UNAVAILABLE, "listing %s: the answer %s", inf->options.plural, why);
    inf->next[0] = '\0';
    failed(inf, &inf->why, 0);
}

static void take_page(struct informer *inf, const struct kubeapi_answer *answer)
{
    const jsonr_value *items = jsonr_get(answer->root, "items");
    const char *version = jsonr_text_at(answer->root, "metadata.resourceVersion");
    bool is_first = inf->next[0] == '\0';

    if (is_first && (!text_copy(inf->version, sizeof inf->version, version) || !*version)) {
        unreadable(inf, "has no version");
        return;
    }
    if (is_first)
        tell(inf, INFORMER_LISTING, NULL);
    for (size_t i = 0; i < jsonr_array_size(items); i++)
        tell(inf, INFORMER_CHANGED, jsonr_array_at(items, i));
    if (!text_copy(inf->next, sizeof inf->next, jsonr_text_at(answer->root, "metadata.continue"))) {
        unreadable(inf, "goes on at no readable place");
        return;
    }
    if (inf->next[0]) {
        list_page(inf);
        return;
    }
    inf->page = PAGE_FIRST;
    inf->wants_list = inf->is_again;
    inf->is_again = false;
    settle(inf, INFORMER_KNOWN);
    tell_trouble(inf, NULL);
    pause_for(inf, 0);
}

static void on_page(void *ctx, const struct kubeapi_answer *answer)
{
    struct informer *inf = ctx;

    inf->call = NULL;
    if (answer->status == DIBS_OK) {
        take_page(inf, answer);
        return;
    }
    bool was_first = inf->next[0] == '\0';
    inf->next[0] = '\0';
    if (answer->code == HTTP_NOT_FOUND && was_first) {
        missing(inf);
    } else if (answer->code == HTTP_GONE && inf->page == PAGE_FIRST) {
        inf->page = PAGE_LATER; /* retry at once: reading many pages took too long */
        pause_for(inf, 0);
    } else {
        if (answer->code == HTTP_OK && inf->page > 1)
            inf->page /= 2; /* the answer arrived but could not be processed: it may be too large */
        refused(inf, answer);
    }
}

static void list_page(struct informer *inf)
{
    char root[512] = "";
    char at[3 * CONTINUE_MAX] = "";

    write_root(inf, root, sizeof root);
    if (inf->next[0] == '\0')
        (void) snprintf(inf->path, sizeof inf->path, "%s?limit=%u", root, inf->page);
    else if (kubeapi_escape(inf->next, at, sizeof at))
        (void) snprintf(inf->path, sizeof inf->path, "%s?limit=%u&continue=%s", root, inf->page, at);
    get(inf, LISTING, (struct kubeapi_request){ .timeout_ms = LIST_MS, .done = on_page });
}

static void begin_list(struct informer *inf)
{
    inf->wants_list = true; /* until the list is complete */
    inf->is_again = false;
    inf->begun_ms = clock_monotonic_ms();
    inf->next[0] = '\0';
    inf->is_forgotten = false;
    if (inf->options.group[0] && !inf->options.version)
        discover(inf);
    else
        list_page(inf);
}

/* ---- watching ---- */

/* Process one line of the watch. Return why the watch has to end, or NULL. */
static const char *take_line(void *ctx, const char *line, size_t n)
{
    struct informer *inf = ctx;
    struct informer_message m = { 0 };
    const char *wrong = informer_message_read(line, n, &m);

    if (wrong) {
        /* Skipping the message would lose a change. */
        inf->is_forgotten = true;
        (void) err_set(&inf->why, DIBS_UNAVAILABLE, "watching %s: a message cannot be read: %s",
                       inf->options.plural, wrong);
        return inf->why.msg;
    }
    if (m.kind == INFORMER_ERROR) {
        inf->is_forgotten = m.code == HTTP_GONE;
        (void) kubeapi_refusal(m.code, m.object, "watching", &inf->why);
        informer_message_done(&m);
        return inf->why.msg;
    }
    if (m.kind != INFORMER_BOOKMARK)
        tell(inf, m.kind == INFORMER_DELETED ? INFORMER_GONE : INFORMER_CHANGED, m.object);
    inf->status.n_events++;
    /* only an event resets it: after lists alone, repeated lists could overload the server */
    inf->pause_ms = PAUSE_FIRST_MS;
    tell_trouble(inf, NULL);
    (void) text_copy(inf->version, sizeof inf->version, m.version);
    informer_message_done(&m);
    return NULL;
}

static bool on_chunk(void *ctx, const char *bytes, size_t n)
{
    struct informer *inf = ctx;

    inf->wrong = lines_take(&inf->rest, bytes, n, take_line, inf);
    return !inf->wrong;
}

static void on_end(void *ctx, const struct kubeapi_answer *answer)
{
    struct informer *inf = ctx;
    bool has_failed = inf->wrong || answer->status != DIBS_OK;

    inf->call = NULL;
    inf->rest.n = 0;
    inf->is_forgotten = inf->is_forgotten || answer->code == HTTP_GONE || answer->code == HTTP_NOT_FOUND;
    if (inf->is_forgotten)
        inf->wants_list = true;
    /* One broken stream or expired version is normal when an API server is replaced. */
    bool is_routine = inf->pause_ms == PAUSE_FIRST_MS;
    if (!has_failed)
        pause_for(inf, jitter_ms(PAUSE_END_MS));
    else if (is_routine && answer->code != HTTP_FORBIDDEN)
        rest(inf, answer->retry_after_ms);
    else if (inf->wrong)
        failed(inf, &inf->why, answer->retry_after_ms);
    else
        refused(inf, answer);
    inf->wrong = NULL;
}

static void begin_watch(struct informer *inf)
{
    char root[512] = "";
    char version[3 * VERSION_MAX] = "";

    inf->rest.n = 0;
    inf->wrong = NULL;
    write_root(inf, root, sizeof root);
    (void) kubeapi_escape(inf->version, version, sizeof version);
    (void) snprintf(inf->path, sizeof inf->path,
                    "%s?watch=1&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u", root, version,
                    WATCH_S + jitter_random() % WATCH_S);
    get(inf, WATCHING,
        (struct kubeapi_request){
            .timeout_ms = BEGIN_MS, .chunk = on_chunk, .silence_max_ms = SILENCE_MS, .done = on_end });
}

/* ---- turns ---- */

void informer_turn(struct informer *inf, int64_t now_ms)
{
    if (inf->doing == WATCHING && inf->wants_list) { /* the caller needs a proof by a fresh list */
        kubeapi_cancel(TAKE(inf->call));
        pause_for(inf, 0);
        now_ms = clock_monotonic_ms();
    }
    if (inf->doing != PAUSING || now_ms < inf->resume_ms)
        return;
    if (inf->wants_list || inf->status.state != INFORMER_KNOWN)
        begin_list(inf);
    else
        begin_watch(inf);
}

int64_t informer_next_ms(const struct informer *inf, int64_t now_ms)
{
    if (inf->doing == WATCHING && inf->wants_list)
        return 0;
    if (inf->doing != PAUSING)
        return -1;
    return inf->resume_ms > now_ms ? inf->resume_ms - now_ms : 0;
}

void informer_list_again(struct informer *inf)
{
    if (inf->doing == LISTING || inf->doing == DISCOVERING)
        inf->is_again = true; /* the list under way may have begun too early */
    else
        inf->wants_list = true;
    /* Keep the backoff after a failure; cut short only the wait for an absent resource. */
    if (inf->doing == PAUSING &&
        (inf->status.state == INFORMER_ABSENT || inf->status.state == INFORMER_KNOWN) &&
        !inf->status.is_in_trouble)
        inf->resume_ms = clock_monotonic_ms();
}

bool informer_is_listing(const struct informer *inf)
{
    bool is_under_way = inf->doing == LISTING || inf->doing == DISCOVERING;

    return (is_under_way || (inf->wants_list && inf->status.state == INFORMER_KNOWN)) &&
           !inf->status.is_in_trouble;
}

const struct informer_status *informer_status(const struct informer *inf)
{
    return &inf->status;
}

dibs_status informer_open(struct kubeapi *api, const struct informer_options *options, struct informer **out,
                          dibs_err *err)
{
    struct informer *inf = calloc(1, sizeof *inf);

    if (!inf)
        return err_set(err, DIBS_FAILURE, "watching %s: out of memory", options->plural);
    inf->api = api;
    inf->options = *options;
    inf->wants_list = true;
    inf->page = PAGE_FIRST;
    inf->pause_ms = PAUSE_FIRST_MS;
    *out = inf;
    return DIBS_OK;
}

void informer_close(struct informer *inf)
{
    if (!inf)
        return;
    kubeapi_cancel(inf->call);
    bytes_done(&inf->rest);
    free(inf);
}
