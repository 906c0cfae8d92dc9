/* SPDX-License-Identifier: MIT */
/* A burst of requests in the portserver protocol: one connection for each, some of them at a time. This
 * process is the owner of every port, so all come back when it ends.
 *
 * usage: portserver ADDRESS COUNT AT-A-TIME        ADDRESS: @abstract or a path
 * Prints {"requests":N,"seconds":S,"per_second":R,"p50_us":..,"p99_us":..,"refused":N,"twice":N}: refused is
 * an answer without a port, twice a port that another request of the burst had got already. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

enum { COUNT_MAX = 1000000, AT_A_TIME_MAX = 512, EVENTS = 256, LONGEST_WAIT_MS = 10000, ANSWER_MAX = 31 };

struct request {
    int fd;
    int64_t began_ns;
    size_t n_in;
    char in[ANSWER_MAX + 1];
};

static struct burst {
    struct sockaddr_un at;
    socklen_t at_len;
    char pid[16];
    size_t pid_len;
    size_t n, n_sent, n_done, n_refused, n_twice;
    int epoll;
    double *samples_us;
    bool is_taken[65536];
} burst;

__attribute__((noreturn)) static void die(const char *what)
{
    (void) fprintf(stderr, "portserver: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void begin(struct request *request)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = request };

    if (burst.n_sent == burst.n)
        return;
    burst.n_sent++;
    request->n_in = 0;
    request->began_ns = bench_now_ns();
    request->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (request->fd < 0 || connect(request->fd, (struct sockaddr *) &burst.at, burst.at_len) != 0)
        die("connect");
    if (send(request->fd, burst.pid, burst.pid_len, MSG_NOSIGNAL) != (ssize_t) burst.pid_len)
        die("send");
    if (epoll_ctl(burst.epoll, EPOLL_CTL_ADD, request->fd, &event) != 0)
        die("epoll");
}

static void finish(struct request *request)
{
    unsigned long port = strtoul(request->in, NULL, 10);

    (void) close(request->fd);
    burst.samples_us[burst.n_done++] = (double) (bench_now_ns() - request->began_ns) / 1e3;
    if (port == 0 || port > 65535 || request->in[request->n_in - 1] != '\n')
        burst.n_refused++;
    else if (burst.is_taken[port])
        burst.n_twice++;
    else
        burst.is_taken[port] = true;
    begin(request);
}

/* The answer is over when the server has closed the connection. */
static void read_answer(struct request *request)
{
    ssize_t got = 0;

    while ((got = recv(request->fd, request->in + request->n_in, ANSWER_MAX - request->n_in, MSG_DONTWAIT)) >
           0)
        request->n_in += (size_t) got;
    request->in[request->n_in] = '\0';
    if (got < 0 && errno == EAGAIN)
        return;
    if (got < 0 && errno != EINTR && errno != ECONNRESET)
        die("recv");
    finish(request);
}

static void set_address(const char *address)
{
    size_t len = strlen(address);

    if (len == 0 || len >= sizeof burst.at.sun_path) {
        errno = ENAMETOOLONG;
        die(address);
    }
    burst.at.sun_family = AF_UNIX;
    memcpy(burst.at.sun_path, address, len);
    burst.at_len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len + (address[0] != '@'));
    if (address[0] == '@')
        burst.at.sun_path[0] = '\0';
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static struct request requests[AT_A_TIME_MAX];
    size_t at_a_time = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;

    burst.n = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    if (burst.n < 1 || burst.n > COUNT_MAX || at_a_time < 1 || at_a_time > AT_A_TIME_MAX) {
        (void) fprintf(stderr, "usage: portserver ADDRESS COUNT AT-A-TIME\n");
        return 2;
    }
    set_address(argv[1]);
    burst.pid_len = (size_t) snprintf(burst.pid, sizeof burst.pid, "%d\n", (int) getpid());
    burst.epoll = epoll_create1(EPOLL_CLOEXEC);
    burst.samples_us = calloc(burst.n, sizeof *burst.samples_us);
    if (burst.epoll < 0 || !burst.samples_us)
        die("start");
    int64_t began = bench_now_ns();
    for (size_t i = 0; i < at_a_time; i++)
        begin(&requests[i]);
    while (burst.n_done < burst.n) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(burst.epoll, events, EVENTS, LONGEST_WAIT_MS);

        if (n == 0)
            errno = ETIMEDOUT;
        if (n == 0 || (n < 0 && errno != EINTR))
            die("waiting for answers");
        for (int i = 0; i < n; i++)
            read_answer(events[i].data.ptr);
    }
    double seconds = (double) (bench_now_ns() - began) / 1e9;
    qsort(burst.samples_us, burst.n, sizeof burst.samples_us[0], ascending);
    (void) printf("{\"requests\":%zu,\"seconds\":%.3f,\"per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
                  "\"refused\":%zu,\"twice\":%zu}\n",
                  burst.n, seconds, (double) burst.n / seconds, burst.samples_us[burst.n / 2],
                  burst.samples_us[burst.n * 99 / 100], burst.n_refused, burst.n_twice);
    return burst.n_refused || burst.n_twice ? 1 : 0;
}
