/* SPDX-License-Identifier: MIT */
/* The cost of bind, connect and an open connection, to be run plain and under `dibs run --as PORT`.
 *
 * usage: hold PORT ROUNDS      prints {"bind_ns": ..., "connect_ns": ..., "mib_per_s": ...}: medians */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 1000000, CHUNK = 65536, STREAM_MS = 500, PORT_MAX = 65535 };

static struct sockaddr_in address;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void need(int is_true, const char *what)
{
    if (!is_true) {
        perror(what);
        exit(1);
    }
}

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    need(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) == 0, "socket");
    return fd;
}

/* Close a connection without TIME_WAIT: thousands of these would slow down the next bind of the port. */
static void reset(int fd)
{
    need(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger)) == 0,
         "linger");
    close(fd);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a;
    int64_t y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

static int64_t median(int64_t *all, int n)
{
    qsort(all, (size_t) n, sizeof *all, by_size);
    return all[n / 2];
}

static void *drain(void *ctx)
{
    static char chunk[CHUNK];
    int64_t *bytes = ctx;
    int fd = (int) *bytes;

    *bytes = 0;
    for (ssize_t n = read(fd, chunk, sizeof chunk); n > 0; n = read(fd, chunk, sizeof chunk))
        *bytes += n;
    close(fd);
    return NULL;
}

static int64_t stream(int listener)
{
    static char chunk[CHUNK];
    int fd = open_socket();
    pthread_t reader;

    need(connect(fd, (struct sockaddr *) &address, sizeof address) == 0, "connect");
    int64_t bytes = accept(listener, NULL, NULL);
    need(bytes >= 0 && pthread_create(&reader, NULL, drain, &bytes) == 0, "accept");
    int64_t began = now_ns();
    while (now_ns() - began < (int64_t) STREAM_MS * 1000000)
        need(write(fd, chunk, sizeof chunk) > 0, "write");
    close(fd);
    pthread_join(reader, NULL);
    return bytes * 1000 / STREAM_MS / (1 << 20);
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 ? (int) strtol(argv[2], NULL, 10) : 0;
    long port = argc == 3 ? strtol(argv[1], NULL, 10) : 0;

    if (rounds < 1 || rounds > ROUNDS_MAX || port < 1 || port > PORT_MAX)
        return 2;
    int64_t *times = calloc((size_t) rounds, sizeof *times);
    need(times != NULL, "memory");
    address = (struct sockaddr_in){ .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t) port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (int i = 0; i < rounds; i++) {
        int fd = open_socket();
        int64_t began = now_ns();

        need(bind(fd, (struct sockaddr *) &address, sizeof address) == 0, "bind");
        times[i] = now_ns() - began;
        close(fd);
    }
    int64_t bind_ns = median(times, rounds);
    int listener = open_socket();
    need(bind(listener, (struct sockaddr *) &address, sizeof address) == 0 && listen(listener, 64) == 0,
         "listen");
    for (int i = 0; i < rounds; i++) {
        int fd = open_socket();
        int64_t began = now_ns();

        need(connect(fd, (struct sockaddr *) &address, sizeof address) == 0, "connect");
        times[i] = now_ns() - began;
        reset(accept(listener, NULL, NULL));
        reset(fd);
    }
    printf("{\"bind_ns\": %lld, \"connect_ns\": %lld, \"mib_per_s\": %lld}\n", (long long) bind_ns,
           (long long) median(times, rounds), (long long) stream(listener));
    return 0;
}
