/* SPDX-License-Identifier: MIT */
/* The HTTP client: libcurl's sockets and timer behind one descriptor. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/secret.h"
#include "http/client_internal.h"

#include "base/banned.h"

enum {
    TURN_EVENTS = 64,      /* the rest follows in the next turn */
    CONNECTIONS_KEPT = 16, /* more than a cluster has members */
    GRACE_MS = 250,        /* after the deadline; for a libcurl whose timer does not end the call */
};

/* ---- callbacks of libcurl ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *unused)
{
    const struct web *web = ctx;
    struct epoll_event event = { .data.fd = fd };

    (void) easy;
    (void) unused;
    if (what == CURL_POLL_REMOVE) {
        (void) epoll_ctl(web->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (epoll_ctl(web->epoll, EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST)
        (void) epoll_ctl(web->epoll, EPOLL_CTL_MOD, fd, &event);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    struct web *web = ctx;

    (void) multi;
    web->due_ms = timeout_ms < 0 ? -1 : clock_monotonic_ms() + timeout_ms;
    return 0;
}

/* Return when a stream has been silent for too long; below 0: never. */
static int64_t silence_due_ms(const struct web_call *call)
{
    if (!call->request.chunk)
        return -1;
    if (call->silent_ms == 0)
        return call->request.deadline_ms;
    return call->request.silence_max_ms > 0 ? call->silent_ms + call->request.silence_max_ms : -1;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Set the timer after every call that may have changed the next deadline. A timer that expires too early is
 * left alone: deadlines move with every call, and one needless turn costs less than setting it each time. */
static void arm(struct web *web)
{
    const struct web_call *call = NULL;
    int64_t due = earlier(web->due_ms, web->alarm_ms > 0 ? web->alarm_ms : -1);

    LIST_FOREACH(call, &web->calls, link)
    due = earlier(due, silence_due_ms(call));
    if (due < 0 || (web->set_ms >= 0 && web->set_ms <= due))
        return;
    struct itimerspec at = { .it_value.tv_sec = due / 1000,
                             .it_value.tv_nsec = due % 1000 * 1000000 + 1 }; /* 0 would stop it */
    (void) timerfd_settime(web->timer, TFD_TIMER_ABSTIME, &at, NULL);
    web->set_ms = due;
}

static void call_free(struct web_call *call)
{
    if (call->easy)
        call_put_back(call->web, call->easy);
    curl_slist_free_all(call->headers);
    web_answer_done(&call->answer);
    free(call);
}

static void unlink_call(struct web_call *call)
{
    LIST_REMOVE(call, link);
    (void) curl_multi_remove_handle(call->web->multi, call->easy);
}

static void end(struct web_call *call)
{
    unlink_call(call);
    if (call->request.done)
        call->request.done(call->request.ctx, &call->answer);
    call_free(call);
}

dibs_status web_start(struct web *web, const struct web_request *request, struct web_call **out,
                      dibs_err *err)
{
    struct web_call *call = calloc(1, sizeof *call);

    if (!call)
        return err_set(err, DIBS_FAILURE, "HTTP client: out of memory");
    call->web = web;
    call->request = *request;
    call->begun_ms = clock_monotonic_ms();
    dibs_status status = call_prepare(call, err);
    if (status == DIBS_OK && curl_multi_add_handle(web->multi, call->easy) != CURLM_OK)
        status = err_set(err, DIBS_FAILURE, "request to %s: out of memory", call->origin);
    if (status != DIBS_OK) {
        call_free(call);
        return status;
    }
    LIST_INSERT_HEAD(&web->calls, call, link);
    arm(web);
    *out = call;
    return DIBS_OK;
}

void web_cancel(struct web_call *call)
{
    if (!call)
        return;
    struct web *web = call->web;
    unlink_call(call);
    call_free(call);
    arm(web);
}

void web_answer_done(struct web_answer *answer)
{
    bytes_done(&answer->body);
}

static void serve_sockets(struct web *web)
{
    struct epoll_event ready[TURN_EVENTS];
    uint64_t rings = 0;
    int running = 0;
    int n = epoll_wait(web->epoll, ready, TURN_EVENTS, 0);

    for (int i = 0; i < n; i++) {
        int fd = ready[i].data.fd;
        uint32_t events = ready[i].events;
        int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);

        if (fd != web->timer)
            (void) curl_multi_socket_action(web->multi, fd, mask, &running);
        else if (read(fd, &rings, sizeof rings) > 0)
            web->set_ms = -1;
    }
    if (web->due_ms >= 0 && web->due_ms <= clock_monotonic_ms()) {
        web->due_ms = -1; /* libcurl sets a new time itself */
        (void) curl_multi_socket_action(web->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

/* Return the first ended call that was not reported yet. Bounded, because each is reported once. */
static struct web_call *next_ended(struct web *web)
{
    int left = 0;
    CURLMsg *message = NULL;
    struct web_call *call = NULL;

    while ((message = curl_multi_info_read(web->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        LIST_FOREACH(call, &web->calls, link)
        if (call->easy == message->easy_handle) {
            call_conclude(call, message->data.result);
            return call;
        }
    }
    int64_t now_ms = clock_monotonic_ms();
    LIST_FOREACH(call, &web->calls, link)
    {
        int64_t due_ms = silence_due_ms(call);

        if (due_ms >= 0 && due_ms <= now_ms) {
            call_conclude(call, CURLE_OPERATION_TIMEDOUT);
            return call;
        }
    }
    return NULL;
}

void web_turn(struct web *web)
{
    struct web_call *call = NULL;

    serve_sockets(web);
    while ((call = next_ended(web)))
        end(call);
    arm(web);
}

/* ---- waiting for one answer ---- */

struct waiting {
    struct web_answer *answer;
    bool is_over;
};

static void on_answer(void *ctx, struct web_answer *answer)
{
    struct waiting *waiting = ctx;

    *waiting->answer = *answer;
    answer->body = (struct bytes){ 0 };
    waiting->is_over = true;
}

dibs_status web_ask(struct web *web, const struct web_request *request, struct web_answer *answer)
{
    struct web_request own = *request;
    struct waiting waiting = { .answer = answer };
    struct web_call *call = NULL;
    struct pollfd at = { .fd = web->epoll, .events = POLLIN };

    *answer = (struct web_answer){ 0 };
    own.done = on_answer;
    own.ctx = &waiting;
    answer->status = web_start(web, &own, &call, &answer->err);
    if (!call)
        return answer->status;
    int64_t until_ms = own.deadline_ms + GRACE_MS;
    web_turn(web); /* libcurl may have work now, without a timer */
    for (int64_t left_ms = 1; !waiting.is_over && left_ms > 0;) {
        left_ms = clock_until_ms(until_ms);
        /* Ignore the result of poll(): the turn checks everything. */
        (void) poll(&at, 1, left_ms > 60000 ? 60000 : (int) left_ms);
        web_turn(web);
    }
    if (!waiting.is_over) {
        call_conclude(call, CURLE_OPERATION_TIMEDOUT);
        end(call);
    }
    return answer->status;
}

static void free_texts(char *texts[WEB_TEXTS])
{
    for (int i = 0; i < WEB_TEXTS; i++)
        secret_free(texts[i]);
}

/* Replace texts by copies of others; false: out of memory, and nothing has changed. */
static bool copy_texts(char *to[WEB_TEXTS], const char *const from[WEB_TEXTS])
{
    char *fresh[WEB_TEXTS] = { 0 };

    for (int i = 0; i < WEB_TEXTS; i++) {
        fresh[i] = from[i] ? strdup(from[i]) : NULL;
        if (from[i] && !fresh[i]) {
            free_texts(fresh);
            return false;
        }
    }
    free_texts(to);
    memcpy(to, fresh, sizeof fresh);
    return true;
}

bool web_set_pem(struct web *web, const char *ca_pem, const char *cert_pem, const char *key_pem)
{
    return copy_texts(web->pem, (const char *const[WEB_TEXTS]){ ca_pem, cert_pem, key_pem });
}

static dibs_status open_waits(struct web *web, dibs_err *err)
{
    struct epoll_event event = { .events = EPOLLIN };

    web->epoll = epoll_create1(EPOLL_CLOEXEC);
    web->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    event.data.fd = web->timer;
    if (web->epoll < 0 || web->timer < 0 || epoll_ctl(web->epoll, EPOLL_CTL_ADD, web->timer, &event) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "HTTP client");
    return DIBS_OK;
}

static dibs_status open_multi(struct web *web, dibs_err *err)
{
    web->multi = curl_multi_init();
    web->due_ms = -1;
    if (!web->multi || curl_multi_setopt(web->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
        curl_multi_setopt(web->multi, CURLMOPT_SOCKETDATA, web) != CURLM_OK ||
        curl_multi_setopt(web->multi, CURLMOPT_TIMERFUNCTION, on_timer) != CURLM_OK ||
        curl_multi_setopt(web->multi, CURLMOPT_TIMERDATA, web) != CURLM_OK ||
        curl_multi_setopt(web->multi, CURLMOPT_MAXCONNECTS, (long) CONNECTIONS_KEPT) != CURLM_OK)
        return err_set(err, DIBS_FAILURE, "HTTP client: out of memory");
    return DIBS_OK;
}

DEFINE_AUTO(struct web, web_close)

dibs_status web_open(const struct web_options *options, struct web **out, dibs_err *err)
{
    dibs_status status = DIBS_OK;
    CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT); /* may be repeated, in any thread */

    if (code != CURLE_OK)
        return err_set(err, DIBS_FAILURE, "libcurl: %s", curl_easy_strerror(code));
    AUTO(web_close_auto) struct web *web = calloc(1, sizeof *web);
    if (!web)
        return err_set(err, DIBS_FAILURE, "HTTP client: out of memory");
    *web = (struct web){ .epoll = -1, .timer = -1, .set_ms = -1, .due_ms = -1 };
    if (!copy_texts(web->file, (const char *const[WEB_TEXTS]){ options->ca, options->cert, options->key }) ||
        !web_set_pem(web, options->ca_pem, options->cert_pem, options->key_pem))
        return err_set(err, DIBS_FAILURE, "HTTP client: out of memory");
    status = open_waits(web, err);
    if (status == DIBS_OK)
        status = open_multi(web, err);
    if (status != DIBS_OK)
        return status;
    *out = TAKE(web);
    return DIBS_OK;
}

void web_drop_connections(struct web *web)
{
    CURLM *old = web->multi;

    assert(LIST_EMPTY(&web->calls));
    if (open_multi(web, NULL) == DIBS_OK) {
        (void) curl_multi_cleanup(old);
        return;
    }
    if (web->multi) /* half made: keep the old one, which is the only choice without memory */
        (void) curl_multi_cleanup(web->multi);
    web->multi = old;
}

void web_close(struct web *web)
{
    if (!web)
        return;
    while (!LIST_EMPTY(&web->calls)) {
        struct web_call *call = LIST_FIRST(&web->calls);

        unlink_call(call);
        call_free(call);
    }
    if (web->spare)
        curl_easy_cleanup(web->spare);
    if (web->multi)
        (void) curl_multi_cleanup(web->multi);
    fd_auto(&web->timer);
    fd_auto(&web->epoll);
    free_texts(web->file);
    free_texts(web->pem);
    free(web);
}

void web_set_alarm(struct web *web, int64_t at_ms)
{
    web->alarm_ms = at_ms;
    arm(web);
}

int web_fd(const struct web *web)
{
    return web->epoll;
}
