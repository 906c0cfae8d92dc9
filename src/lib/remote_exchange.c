/* SPDX-License-Identifier: MIT */
/* One request to the daemon and its answer, repeated within the deadline where that is safe. */
#include "lib/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "lib/answer.h"

#include "base/banned.h"

enum {
    PAUSE_MS = 20,        /* between two attempts: a daemon restarts within a few of them */
    ATTEMPTS_MAX = 10000, /* the deadline comes far sooner */
    HEAD_MAX = 512,       /* our header lines */
    KEY_TEXT = 33,        /* 128 random bits as hex digits */
    READ_BYTES = 65536,
    HTTP_TARGET_TOO_LONG = 414,
    HTTP_TOO_MANY = 429,
    HTTP_HEAD_TOO_LARGE = 431,
    PATIENCE = 12, /* timeouts that a request with many steps may take */
};

/* The outcome of one attempt. */
enum outcome {
    ANSWERED,
    LOST,   /* the connection was closed, or could not be opened */
    REFUSED /* deadline, or not a daemon; see err */
};

/* ---- connecting ---- */

static dibs_status unreachable(const struct remote *r, int os_errno, const char *what, dibs_err *err)
{
    char why[128] = "";

    (void) err_trouble(err, DIBS_TROUBLE_NONE, "daemon socket %.300s: %s%s%s; start it with '%s', %s",
                       r->path, what, os_errno ? ": " : "",
                       os_errno ? strerror_r(os_errno, why, sizeof why) : "", remote_start_command(r),
                       r->is_named ? "name another one, or set DIBS_SOCKET=none to use the ledger itself"
                                   : "remove that file, or set DIBS_SOCKET=none to use the ledger itself");
    if (err)
        err->os_errno = os_errno;
    return DIBS_UNAVAILABLE;
}

static dibs_status too_late(const struct remote *r, dibs_err *err)
{
    char timeout[24] = "";

    clock_duration_format(r->settings->timeout_ms, timeout);
    return err_trouble(err, DIBS_TROUBLE_NONE,
                       "daemon socket %.300s: no answer within %s; check it with 'dibs doctor', or "
                       "wait longer with DIBS_TIMEOUT",
                       r->path, timeout);
}

dibs_status remote_connect(struct remote *r, int64_t deadline_ms, dibs_err *err)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int64_t left = deadline_ms - clock_monotonic_ms();
    /* Bound the wait for a daemon that does not accept. */
    struct timeval wait = { .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };
    size_t n = strlen(r->path);

    if (n >= sizeof to.sun_path)
        return err_set(err, DIBS_INVALID, "daemon socket %.300s: a socket's path has at most %zu bytes",
                       r->path, sizeof to.sun_path - 1);
    if (left <= 0)
        return too_late(r, err);
    memcpy(to.sun_path, r->path, n + 1);
    fd_auto(&r->fd);
    r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->fd < 0 || setsockopt(r->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) != 0)
        return err_os(err, DIBS_FAILURE, errno, "daemon socket %.300s", r->path);
    if (connect(r->fd, (const struct sockaddr *) &to, sizeof to) == 0)
        return DIBS_OK;
    int why = errno;

    fd_auto(&r->fd);
    if (why == EACCES || why == EPERM)
        return err_os(
            err, DIBS_UNAVAILABLE, why,
            "daemon socket %.300s: you may not use it; name another one with DIBS_SOCKET, or none to use "
            "the ledger itself",
            r->path);
    return why == EAGAIN ? too_late(r, err) : unreachable(r, why, "no daemon answers", err);
}

/* Return whether the connection can be reused: not closed, and no unexpected bytes. */
static bool is_usable(const struct remote *r)
{
    struct pollfd p = { .fd = r->fd, .events = POLLIN };

    return r->fd >= 0 && poll(&p, 1, 0) == 0;
}

/* ---- one attempt ---- */

/* Wait for one of `events`; false: deadline. */
static bool wait_for(int fd, short events, int64_t deadline_ms, short *got)
{
    struct pollfd p = { .fd = fd, .events = events };

    for (;;) {
        int64_t left = deadline_ms - clock_monotonic_ms();
        int n = left > 0 ? poll(&p, 1, (int) (left < INT32_MAX ? left : INT32_MAX)) : 0;

        if (n > 0) {
            *got = p.revents;
            return true;
        }
        if (left <= 0 || (n < 0 && errno != EINTR))
            return false;
    }
}

/* Send all bytes; stop when the daemon answers (it will not read the rest) or has closed the connection. */
static enum outcome send_all(const struct exchange *exchange, const struct bytes *text, bool *is_sent,
                             dibs_err *err)
{
    const struct remote *r = exchange->r;
    size_t sent = 0;

    while (sent < text->n) {
        ssize_t n = send(r->fd, text->at + sent, text->n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        short got = 0;

        if (n > 0) {
            sent += (size_t) n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return ANSWERED; /* it may have sent an error before it closed */
        if (!wait_for(r->fd, POLLIN | POLLOUT, exchange->deadline_ms, &got)) {
            (void) too_late(r, err);
            return REFUSED;
        }
        if (got & POLLIN)
            return ANSWERED;
    }
    *is_sent = true;
    return ANSWERED;
}

static enum outcome receive(const struct exchange *exchange, struct answer *answer, dibs_err *err)
{
    const struct remote *r = exchange->r;
    AUTO(free_auto) char *buffer = malloc(READ_BYTES);

    if (!buffer) {
        (void) err_set(err, DIBS_FAILURE, "out of memory");
        return REFUSED;
    }
    while (answer->state != ANSWER_DONE) {
        ssize_t n = recv(r->fd, buffer, READ_BYTES, MSG_DONTWAIT);
        short got = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (wait_for(r->fd, POLLIN, exchange->deadline_ms, &got))
                continue;
            (void) too_late(r, err);
            return REFUSED;
        }
        if (n <= 0) /* killed while answering: a retry finds the commit */
            return LOST;
        const char *fault = answer_take(answer, buffer, (size_t) n);
        if (fault) {
            (void) err_trouble(err, DIBS_TROUBLE_NONE,
                               "daemon socket %.300s: the program that answers is no dibs daemon: %s",
                               r->path, fault);
            return REFUSED;
        }
    }
    return ANSWERED;
}

static void write_request(const struct exchange *exchange, const char *key, struct bytes *out)
{
    char text[HEAD_MAX] = "";

    bytes_add_text(out, exchange->method);
    bytes_add_text(out, " ");
    bytes_add(out, exchange->target.at, exchange->target.n);
    (void) snprintf(text, sizeof text, " HTTP/1.1\r\nHost: dibs\r\n%s%s%s", key[0] ? "Idempotency-Key: " : "",
                    key, key[0] ? "\r\n" : "");
    bytes_add_text(out, text);
    if (exchange->body.n > 0 || strcmp(exchange->method, "GET") != 0) {
        (void) snprintf(text, sizeof text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                        exchange->body.n);
        bytes_add_text(out, text);
    }
    bytes_add_text(out, "\r\n");
    bytes_add(out, exchange->body.at ? exchange->body.at : "", exchange->body.n);
}

static enum outcome attempt(const struct exchange *exchange, const struct bytes *text, struct answer *answer,
                            bool *is_sent, dibs_err *err)
{
    struct remote *r = exchange->r;

    *is_sent = false;
    if (!is_usable(r) && remote_connect(r, exchange->deadline_ms, err) != DIBS_OK)
        return err->os_errno == ECONNREFUSED || err->os_errno == ENOENT ? LOST : REFUSED;
    enum outcome outcome = send_all(exchange, text, is_sent, err);
    if (outcome == ANSWERED)
        outcome = receive(exchange, answer, err);
    if (outcome == LOST)
        (void) unreachable(r, 0, "the connection was lost before the answer came", err);
    if (outcome != ANSWERED || answer->is_closing || !*is_sent)
        fd_auto(&r->fd);
    return outcome;
}

/* ---- an exchange ---- */

struct exchange exchange_begin(struct remote *r, const char *method, enum exchange_repeat repeat)
{
    return (struct exchange){ .r = r,
                              .method = method,
                              .repeat = repeat,
                              .deadline_ms = clock_monotonic_ms() + r->settings->timeout_ms };
}

void exchange_be_patient(struct exchange *exchange)
{
    exchange->deadline_ms += (PATIENCE - 1) * exchange->r->settings->timeout_ms;
}

struct jsonw exchange_body(struct exchange *exchange)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, &exchange->body);
    return w;
}

const jsonr_value *exchange_root(const struct exchange *exchange)
{
    return exchange->doc ? jsonr_root(exchange->doc) : NULL;
}

void exchange_done(struct exchange *exchange)
{
    bytes_done(&exchange->target);
    bytes_done(&exchange->body);
    jsonr_free(exchange->doc);
}

dibs_status exchange_not_understood(const struct exchange *exchange, dibs_err *err)
{
    (void) err_wrap(err, DIBS_UNAVAILABLE,
                    "daemon socket %.300s: its answer is not understood; is it of another version?",
                    exchange->r->path);
    return DIBS_UNAVAILABLE;
}

static dibs_status understand(struct exchange *exchange, const struct answer *answer, dibs_err *err)
{
    jsonr_free(exchange->doc);
    exchange->doc = NULL;
    /* The HTTP library of the daemon answers these by itself, in HTML. */
    if (answer->status == HTTP_TARGET_TOO_LONG || answer->status == HTTP_HEAD_TOO_LARGE)
        return err_set(err, DIBS_INVALID, "a name, a directory or another text is too long for a request");
    dibs_status s =
        answer->body.n > 0 ? jsonr_parse(answer->body.at, answer->body.n, &exchange->doc, err) : DIBS_OK;

    if (s == DIBS_OK && answer->status >= 200 && answer->status < 300)
        return DIBS_OK;
    if (s == DIBS_OK && wire_problem_read(exchange_root(exchange), err))
        return err->code;
    if (s == DIBS_OK)
        (void) err_set(err, DIBS_UNAVAILABLE, "HTTP status %d without a reason", answer->status);
    return exchange_not_understood(exchange, err);
}

/* Sleep. False: the pause would end after the deadline. */
static bool pause_until(int64_t deadline_ms, int64_t pause_ms)
{
    if (clock_monotonic_ms() + pause_ms >= deadline_ms)
        return false;
    (void) poll(NULL, 0, (int) pause_ms);
    return true;
}

/* Return whether to send the request again; if not, `err` has the reason. */
static bool goes_on(const struct exchange *exchange, const struct answer *answer, enum outcome outcome,
                    dibs_err *err)
{
    int64_t after_ms = answer->retry_after_s < DIBS_TIMEOUT_MAX_MS / 1000 ? answer->retry_after_s * 1000 : 0;

    if (outcome == REFUSED)
        return false;
    if (pause_until(exchange->deadline_ms, after_ms > PAUSE_MS ? after_ms : PAUSE_MS))
        return true;
    if (outcome == ANSWERED)
        (void) err_trouble(err, DIBS_TROUBLE_NONE,
                           "daemon socket %.300s: too many requests at once; ask again later",
                           exchange->r->path);
    return false;
}

static dibs_status make_key(char out[KEY_TEXT], dibs_err *err)
{
    uint64_t random[2] = { 0 };

    if (getrandom(random, sizeof random, 0) != (ssize_t) sizeof random)
        return err_os(err, DIBS_FAILURE, errno, "no random numbers are available");
    (void) snprintf(out, KEY_TEXT, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return DIBS_OK;
}

static dibs_status ask(struct exchange *exchange, const struct bytes *text, dibs_err *err)
{
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        AUTO(answer_done) struct answer answer = { 0 };
        bool is_sent = false;
        enum outcome outcome = attempt(exchange, text, &answer, &is_sent, err);

        if (outcome == ANSWERED && answer.status != HTTP_TOO_MANY)
            return understand(exchange, &answer, err);
        if (outcome == LOST && is_sent && exchange->repeat == EXCHANGE_ONCE)
            return err_trouble(
                err, DIBS_TROUBLE_NONE,
                "daemon socket %.300s: the connection was lost before the answer came, so that it is "
                "not known whether it was done; check before you repeat it",
                exchange->r->path);
        if (!goes_on(exchange, &answer, outcome, err))
            break;
    }
    return err->code;
}

dibs_status exchange_ask(struct exchange *exchange, dibs_err *err)
{
    AUTO(bytes_done) struct bytes text = { 0 };
    char made[KEY_TEXT] = "";
    dibs_err local = { 0 };

    if (!err)
        err = &local;
    dibs_status s = exchange->repeat == EXCHANGE_KEYED && !exchange->key ? make_key(made, err) : DIBS_OK;
    if (s != DIBS_OK)
        return s;
    write_request(exchange, exchange->key ? exchange->key : made, &text);
    if (text.is_lost || exchange->body.is_lost || exchange->target.is_lost)
        return err_set(err, DIBS_INVALID, "this is more than a daemon takes at once (%u bytes)",
                       DIBS_INPUT_MAX_BYTES);
    return ask(exchange, &text, err);
}

/* ---- reading answers ---- */

dibs_status exchange_not_a_list(const struct exchange *exchange, const char *key, dibs_err *err)
{
    (void) err_set(err, DIBS_INVALID, "\"%s\" must be a list, and no longer than asked for", key);
    return exchange_not_understood(exchange, err);
}

dibs_status exchange_ask_value(struct exchange *exchange, const struct exchange_type *type, void *out,
                               dibs_err *err)
{
    AUTO(free_auto) void *found = calloc(1, type->size);

    if (!found)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = exchange_ask(exchange, err);
    if (s != DIBS_OK)
        return s;
    if (type->read(exchange_root(exchange), found, err) != DIBS_OK)
        return exchange_not_understood(exchange, err);
    memcpy(out, found, type->size);
    return DIBS_OK;
}

dibs_status exchange_ask_list(struct exchange *exchange, const struct exchange_type *type, void *items,
                              size_t *n, dibs_err *err)
{
    dibs_status s = exchange_ask(exchange, err);

    if (s != DIBS_OK)
        return s;
    const jsonr_value *list = jsonr_get(exchange_root(exchange), type->key);
    size_t count = jsonr_array_size(list);

    if (!jsonr_is_array(list) || (exchange->most && count > exchange->most))
        return exchange_not_a_list(exchange, type->key, err);
    AUTO(free_auto) char *found = calloc(count + 1, type->size);
    if (!found)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < count; i++)
        if (type->read(jsonr_array_at(list, i), found + i * type->size, err) != DIBS_OK)
            return exchange_not_understood(exchange, err);
    *(void **) items = TAKE(found);
    *n = count;
    return DIBS_OK;
}

dibs_status exchange_ask_count(struct exchange *exchange, const char *key, size_t *n, dibs_err *err)
{
    uint64_t count = 0;
    dibs_status s = exchange_ask(exchange, err);

    if (s == DIBS_OK && !jsonr_get_uint(exchange_root(exchange), key, &count)) {
        (void) err_set(err, DIBS_INVALID, "\"%s\" must be a number", key);
        s = exchange_not_understood(exchange, err);
    }
    if (s == DIBS_OK && n)
        *n = (size_t) count;
    return s;
}
