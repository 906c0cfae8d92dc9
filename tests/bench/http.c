/* SPDX-License-Identifier: MIT */
/* Load on the daemon's HTTP listener: one thread, many connections that stay open. On each one a claim and
 * its release take turns, so half of the requests are claims.
 *
 * usage: http SOCKET [KEY=NUMBER]...
 *   connections=64   that many at once
 *   seconds=5        measured, after a warm-up
 *   rate=0           so many requests a second, each due at its own time whatever became of the others: its
 *                    latency counts from then, also when no connection was idle. 0: as fast as it goes
 *   fill=0           instead of all that: makes so many claims, spread over several loopback addresses, and
 *                    releases none
 * Prints one JSON object. An answer that is not the expected one is an error, and the first one is shown. A
 * connection that had to wait longer than a second for an answer has stalled. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

enum {
    CONNECTIONS_MAX = 4096,
    EVENTS = 256,
    ANSWER_MAX = 8192,
    TOKEN_MAX = 79,
    SAMPLES_PER_SECOND = 200000, /* more than two cores can answer */
    FILL_ADDRESSES = 8,
};
static const int64_t second_ns = 1000000000;
static const int64_t stall_ns = 1000000000;
static const int64_t drain_ns = 5000000000;

struct connection {
    int fd;
    int64_t due_ns; /* of the request under way; 0: none */
    int64_t sent_ns;
    size_t n_in;
    uint64_t n_answers;
    char token[TOKEN_MAX + 1]; /* of the claim that is to be released next; empty: none */
    char in[ANSWER_MAX + 1];
};

static struct load {
    const char *socket;
    size_t n_connections, n_waiting;
    int64_t seconds, rate, fill;
    int epoll;
    bool is_over; /* claims no more */
    struct connection *connections;
    struct connection **idle; /* a ring */
    size_t idle_first, n_idle;
    int64_t n_due; /* requests that were sent */
    int64_t began_ns, measured_from_ns, until_ns;
    uint64_t n_answers, n_errors, n_stalls;
    uint32_t *samples; /* ns */
    size_t n_samples, samples_max;
} load = { .n_connections = 64, .seconds = 5 };

__attribute__((noreturn)) static void die(const char *what)
{
    (void) fprintf(stderr, "http: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- one request ---- */

static void send_request(struct connection *c, int64_t due_ns)
{
    static const char claim[] = "{\"mode\":\"random\",\"holder\":{\"kind\":\"lease\",\"ttl\":\"10m\"}}";
    char text[512];
    int n = 0;

    if (c->token[0]) {
        n = snprintf(text, sizeof text, "DELETE /v1/claims/%s HTTP/1.1\r\nHost: dibs\r\n\r\n", c->token);
    } else {
        char body[256];
        int len = (int) sizeof claim - 1;

        memcpy(body, claim, sizeof claim);
        if (load.fill)
            len =
                snprintf(body, sizeof body,
                         "{\"ranges\":\"1024-65535\",\"settings\":{\"allow_ephemeral\":\"true\"},\"holder\":"
                         "{\"kind\":\"lease\",\"ttl\":\"1d\"},\"bindings\":[{\"proto\":\"tcp\",\"address\":"
                         "\"127.0.%zu.1\"}]}",
                         (size_t) (c - load.connections) % FILL_ADDRESSES);
        n = snprintf(text, sizeof text,
                     "POST /v1/claims HTTP/1.1\r\nHost: dibs\r\nContent-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n%s",
                     len, body);
    }
    c->due_ns = due_ns;
    c->sent_ns = bench_now_ns();
    load.n_waiting++;
    load.n_due++;
    /* A request is far smaller than a socket's buffer, and there is one at a time. */
    if (send(c->fd, text, (size_t) n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
        die("send");
}

/* ---- one answer ---- */

/* How long the whole answer is; 0: its head is not complete. */
static size_t answer_size(const struct connection *c)
{
    const char *end = memmem(c->in, c->n_in, "\r\n\r\n", 4);
    size_t length = 0;

    if (!end)
        return 0;
    for (const char *line = c->in; line < end; line = strstr(line, "\r\n") + 2)
        if (!strncasecmp(line, "content-length:", 15))
            length = strtoul(line + 15, NULL, 10);
    return (size_t) (end - c->in) + 4 + length;
}

static bool take_token(struct connection *c)
{
    static const char key[] = "\"token\":\"";
    const char *at = strstr(c->in, key);
    size_t len = at ? strcspn(at += sizeof key - 1, "\"") : 0;

    if (len == 0 || len > TOKEN_MAX)
        return false;
    memcpy(c->token, at, len);
    c->token[len] = '\0';
    return true;
}

static void judge(struct connection *c)
{
    bool is_success = c->n_in > 12 && c->in[9] == '2';

    if (c->token[0]) {
        c->token[0] = '\0';
        is_success = is_success && strstr(c->in, "\"released\":1");
    } else if (is_success) {
        is_success = take_token(c);
        if (load.fill)
            c->token[0] = '\0';
    }
    if (!is_success && load.n_errors++ == 0)
        (void) fprintf(stderr, "http: the first unexpected answer:\n%s\n", c->in);
}

static void count(struct connection *c, int64_t now_ns)
{
    int64_t took_ns = now_ns - c->due_ns;

    if (now_ns - c->sent_ns > stall_ns)
        load.n_stalls++;
    if (now_ns >= load.measured_from_ns && now_ns < load.until_ns) {
        c->n_answers++;
        load.n_answers++;
        if (load.n_samples < load.samples_max)
            load.samples[load.n_samples++] = took_ns > UINT32_MAX ? UINT32_MAX : (uint32_t) took_ns;
    }
    c->due_ns = 0;
    c->n_in = 0;
    load.n_waiting--;
}

static void make_idle(struct connection *c)
{
    load.idle[(load.idle_first + load.n_idle++) % load.n_connections] = c;
}

static void next_request(struct connection *c, int64_t now_ns)
{
    if (load.fill ? load.n_due == load.fill : load.is_over && !c->token[0])
        return;
    if (load.rate && !load.is_over)
        make_idle(c);
    else
        send_request(c, now_ns);
}

static void read_answer(struct connection *c)
{
    ssize_t got = recv(c->fd, c->in + c->n_in, ANSWER_MAX - c->n_in, MSG_DONTWAIT);

    if (got <= 0) {
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        die(got ? "recv" : "the daemon closed a connection");
    }
    c->n_in += (size_t) got;
    c->in[c->n_in] = '\0';
    size_t size = answer_size(c);
    if (size > ANSWER_MAX || (size && c->n_in > size) || (!c->due_ns && c->n_in)) {
        errno = EPROTO;
        die(c->in);
    }
    if (!size || c->n_in < size)
        return;
    int64_t now = bench_now_ns();
    judge(c);
    count(c, now);
    next_request(c, now);
}

/* ---- the run ---- */

static void connect_all(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct rlimit files = { 0 };

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files);
    }
    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", load.socket);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    load.connections = calloc(load.n_connections, sizeof *load.connections);
    load.idle = calloc(load.n_connections, sizeof *load.idle);
    if (load.epoll < 0 || !load.connections || !load.idle)
        die("start");
    for (size_t i = 0; i < load.n_connections; i++) {
        struct connection *c = &load.connections[i];
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

        c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *) &at, sizeof at) != 0 ||
            epoll_ctl(load.epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
            die(load.socket);
    }
}

/* Waits for answers until `deadline_ns` at most, and reads those that are there. */
static void turn(int64_t deadline_ns)
{
    struct epoll_event events[EVENTS];
    int64_t wait_ns = deadline_ns - bench_now_ns();
    struct timespec wait = { .tv_sec = wait_ns / second_ns, .tv_nsec = wait_ns % second_ns };
    int n = epoll_pwait2(load.epoll, events, EVENTS, wait_ns > 0 ? &wait : &(struct timespec){ 0 }, NULL);

    if (n < 0 && errno != EINTR)
        die("epoll");
    for (int i = 0; i < n; i++)
        read_answer(events[i].data.ptr);
}

static int64_t due_at(int64_t i)
{
    return load.began_ns + i * second_ns / load.rate;
}

static void send_due(void)
{
    while (load.n_idle && due_at(load.n_due) <= bench_now_ns()) {
        struct connection *c = load.idle[load.idle_first];

        load.idle_first = (load.idle_first + 1) % load.n_connections;
        load.n_idle--;
        send_request(c, due_at(load.n_due));
    }
}

static void run(void)
{
    load.began_ns = bench_now_ns();
    load.measured_from_ns = load.fill ? 0 : load.began_ns + load.seconds * second_ns / 4;
    load.until_ns = load.fill ? INT64_MAX : load.measured_from_ns + load.seconds * second_ns;
    for (size_t i = 0; i < load.n_connections; i++) {
        if (load.rate)
            make_idle(&load.connections[i]);
        else
            next_request(&load.connections[i], bench_now_ns());
    }
    while (load.fill ? load.n_waiting > 0 : bench_now_ns() < load.until_ns) {
        if (load.rate)
            send_due();
        turn(load.rate && load.n_idle ? due_at(load.n_due) : bench_now_ns() + second_ns);
    }
    /* Release the claims again; a request without an answer by then never gets one. */
    load.is_over = true;
    int64_t ended = bench_now_ns();
    for (size_t i = 0; i < load.n_connections; i++)
        if (!load.connections[i].due_ns && load.connections[i].token[0])
            send_request(&load.connections[i], ended);
    while (load.n_waiting && bench_now_ns() < ended + drain_ns)
        turn(ended + drain_ns);
    load.n_stalls += load.n_waiting;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a;
    uint32_t y = *(const uint32_t *) b;

    return x < y ? -1 : x > y;
}

static double quantile_us(double q)
{
    size_t i = (size_t) ((double) load.n_samples * q);

    return load.n_samples ? load.samples[i < load.n_samples ? i : load.n_samples - 1] / 1e3 : 0;
}

static void report(double seconds)
{
    uint64_t fewest = UINT64_MAX;

    for (size_t i = 0; i < load.n_connections; i++)
        if (load.connections[i].n_answers < fewest)
            fewest = load.connections[i].n_answers;
    qsort(load.samples, load.n_samples, sizeof load.samples[0], ascending);
    (void) printf("{\"connections\":%zu,\"sent\":%" PRId64 ",\"requests\":%" PRIu64
                  ",\"seconds\":%.3f,\"per_second\":%.0f,"
                  "\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"errors\":%" PRIu64 ",\"stalls\":%" PRIu64
                  ",\"fewest_of_a_connection\":%" PRIu64 "}\n",
                  load.n_connections, load.n_due, load.n_answers, seconds, (double) load.n_answers / seconds,
                  quantile_us(0.5), quantile_us(0.99), quantile_us(1), load.n_errors, load.n_stalls, fewest);
}

static void read_arguments(int argc, char **argv)
{
    load.socket = argv[1];
    for (int i = 2; i < argc; i++) {
        char *number = strchr(argv[i], '=');
        long value = number ? strtol(number + 1, NULL, 10) : -1;

        if (!strncmp(argv[i], "connections=", 12) && value > 0 && value <= CONNECTIONS_MAX)
            load.n_connections = (size_t) value;
        else if (!strncmp(argv[i], "seconds=", 8) && value > 0 && value <= 600)
            load.seconds = value;
        else if (!strncmp(argv[i], "rate=", 5) && value >= 0)
            load.rate = value;
        else if (!strncmp(argv[i], "fill=", 5) && value >= 0)
            load.fill = value;
        else {
            (void) fprintf(stderr, "http: what is '%s'?\n", argv[i]);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void) fprintf(stderr, "usage: http SOCKET [connections=|seconds=|rate=|fill=N]...\n");
        return 2;
    }
    read_arguments(argc, argv);
    load.samples_max = (size_t) load.seconds * SAMPLES_PER_SECOND;
    load.samples = calloc(load.samples_max, sizeof *load.samples);
    if (!load.samples)
        die("start");
    connect_all();
    run();
    report((double) (load.fill ? bench_now_ns() - load.began_ns : load.seconds * second_ns) / 1e9);
    return load.n_errors || load.n_stalls ? 1 : 0;
}
