/* SPDX-License-Identifier: MIT */
#include "storm_daemon.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ANSWER_MS = 20000, START_MS = 20000, INSIST_MS = 30000, RETRY_US = 2000 };
enum { STARTING = 0, RAGING, CALMING, CALM, ENDING };

/* ---- the process ---- */

static bool does_answer(void)
{
    struct storm_http http = { .fd = -1 };
    struct storm_answer answer = { 0 };
    bool is_there = storm_http_ask(&http, "GET /readyz", NULL, NULL, &answer) && answer.status == 200;

    storm_http_disconnect(&http);
    return is_there;
}

static pid_t start(struct storm_daemon *daemon)
{
    char *program = getenv("DIBS");
    int64_t until = storm_now_ns() + START_MS * INT64_C(1000000);
    pid_t pid = storm_fork();

    if (pid == 0) {
        /* All clients are one user, and more than one user may be. */
        (void) execl(program, program, "serve", "--socket", daemon->socket, "--quota", "1000000", "--rate",
                     "1000000000", (char *) NULL);
        _exit(127);
    }
    daemon->n_lives++;
    while (!does_answer()) {
        if (storm_now_ns() > until)
            storm_die("the daemon does not answer after its start number %u", daemon->n_lives);
        storm_sleep_us(RETRY_US);
    }
    return pid;
}

/* The daemon is this process' child, so that it ends with it. */
_Noreturn static void keep(struct storm_daemon *daemon, uint64_t seed)
{
    struct storm_random random = storm_random_of(seed, 77);
    pid_t pid = start(daemon);
    bool is_calm = false;

    atomic_store(&daemon->state, RAGING);
    while (!is_calm) {
        for (uint32_t ms = 200 + storm_below(&random, 1500); ms > 0 && !is_calm; ms--) {
            storm_sleep_us(1000);
            is_calm = atomic_load(&daemon->state) == CALMING;
        }
        atomic_fetch_add(&daemon->upsets, 1);
        (void) kill(pid, SIGKILL);
        int code = storm_wait(pid);
        if (code != 128 + SIGKILL)
            storm_violation("the daemon had ended by itself, with %d", code);
        pid = start(daemon);
        atomic_fetch_add(&daemon->upsets, 1);
    }
    atomic_store(&daemon->state, CALM);
    while (atomic_load(&daemon->state) != ENDING)
        storm_sleep_us(1000);
    (void) kill(pid, SIGTERM);
    _exit(storm_wait(pid));
}

static void wait_for(const struct storm_daemon *daemon, int state)
{
    int64_t until = storm_now_ns() + 2 * START_MS * INT64_C(1000000);

    while (atomic_load(&daemon->state) != state) {
        if (storm_now_ns() > until)
            storm_die("the daemon's keeper is stuck");
        storm_sleep_us(1000);
    }
}

struct storm_daemon *storm_daemon_begin(uint64_t seed)
{
    struct storm_daemon *daemon = storm_share(sizeof *daemon);
    int n = snprintf(daemon->socket, sizeof daemon->socket, "%s.sock", storm_ledger_path());

    if (n < 0 || n >= (int) sizeof daemon->socket || setenv("DIBS_SOCKET", daemon->socket, 1) != 0)
        storm_die("the socket's path is too long: %s", daemon->socket);
    daemon->keeper = storm_fork();
    if (daemon->keeper == 0)
        keep(daemon, seed);
    wait_for(daemon, RAGING);
    return daemon;
}

void storm_daemon_calm(struct storm_daemon *daemon)
{
    atomic_store(&daemon->state, CALMING);
    wait_for(daemon, CALM);
}

void storm_daemon_end(struct storm_daemon *daemon)
{
    atomic_store(&daemon->state, ENDING);
    int code = storm_wait(daemon->keeper);
    if (code != 0)
        storm_violation("after SIGTERM the daemon ended with %d", code);
    printf("  the daemon had %u lives\n", daemon->n_lives);
}

/* ---- HTTP ---- */

void storm_http_disconnect(struct storm_http *http)
{
    if (http->fd >= 0)
        (void) close(http->fd);
    http->fd = -1;
}

static bool reach(struct storm_http *http)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const char *path = getenv("DIBS_SOCKET");

    if (http->fd >= 0)
        return true;
    http->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", path ? path : "");
    if (http->fd >= 0 && connect(http->fd, (struct sockaddr *) &at, sizeof at) == 0)
        return true;
    storm_http_disconnect(http);
    return false;
}

bool storm_http_say(struct storm_http *http, const char *method_and_target, const char *key, const char *body)
{
    char text[8192] = "";
    int n =
        snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: dibs\r\n%s%s%s%sContent-Length: %zu\r\n\r\n%s",
                 method_and_target, key ? "Idempotency-Key: " : "", key ? key : "", key ? "\r\n" : "",
                 body ? "Content-Type: application/json\r\n" : "", body ? strlen(body) : 0, body ? body : "");

    if (n < 0 || n >= (int) sizeof text)
        storm_die("a request is too long: %s", method_and_target);
    /* A connection that was open before may be one to a daemon that has died since: nothing was delivered. */
    for (int attempts = http->fd >= 0 ? 2 : 1; attempts > 0; attempts--) {
        if (reach(http) && send(http->fd, text, (size_t) n, MSG_NOSIGNAL) == n)
            return true;
        storm_http_disconnect(http);
    }
    return false;
}

/* Reads on; false at the end of the connection, or when nothing comes for too long. */
static bool read_more(const struct storm_http *http, char *text, size_t size, size_t *n)
{
    struct pollfd ready = { .fd = http->fd, .events = POLLIN };

    if (poll(&ready, 1, ANSWER_MS) == 0)
        storm_violation("the daemon does not answer within %d s", ANSWER_MS / 1000);
    ssize_t got = *n + 1 < size ? recv(http->fd, text + *n, size - 1 - *n, MSG_DONTWAIT) : -1;
    if (got <= 0)
        return false;
    *n += (size_t) got;
    text[*n] = '\0';
    return true;
}

static bool read_answer(struct storm_http *http, struct storm_answer *answer)
{
    char text[sizeof answer->body + 2048] = "";
    const char *body = NULL;
    size_t n = 0;

    while (!(body = strstr(text, "\r\n\r\n")))
        if (!read_more(http, text, sizeof text, &n))
            return false;
    body += 4;
    const char *length = strcasestr(text, "\r\nContent-Length:");
    size_t wanted = length && length < body ? strtoul(length + 17, NULL, 10) : 0;
    while (n - (size_t) (body - text) < wanted)
        if (!read_more(http, text, sizeof text, &n))
            return false;
    answer->status = (int) strtol(text + 9, NULL, 10);
    (void) snprintf(answer->body, sizeof answer->body, "%s", body);
    return true;
}

bool storm_http_hear(struct storm_http *http, struct storm_answer *answer)
{
    if (read_answer(http, answer))
        return true;
    storm_http_disconnect(http);
    return false;
}

bool storm_http_ask(struct storm_http *http, const char *method_and_target, const char *key, const char *body,
                    struct storm_answer *answer)
{
    return storm_http_say(http, method_and_target, key, body) && storm_http_hear(http, answer);
}

bool storm_http_insist(struct storm_http *http, const char *method_and_target, const char *key,
                       const char *body, struct storm_answer *answer)
{
    int64_t until = storm_now_ns() + INSIST_MS * INT64_C(1000000);

    while (!storm_http_ask(http, method_and_target, key, body, answer)) {
        if (storm_now_ns() > until)
            return false;
        storm_sleep_us(RETRY_US);
    }
    return true;
}

static const char *member(const char *json, const char *name)
{
    char key[64] = "";
    const char *at = NULL;

    (void) snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(json, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), " ") : NULL;
}

bool storm_json_text(const char *json, const char *name, char *out, size_t size)
{
    const char *at = member(json, name);
    size_t n = at && *at == '"' ? strcspn(++at, "\"\\") : 0;

    if (n == 0 || n >= size)
        return false;
    memcpy(out, at, n);
    out[n] = '\0';
    return true;
}

long storm_json_number(const char *json, const char *name, long otherwise)
{
    const char *at = member(json, name);

    return at && (*at == '-' || (*at >= '0' && *at <= '9')) ? strtol(at, NULL, 10) : otherwise;
}
