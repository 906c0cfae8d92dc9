/* SPDX-License-Identifier: MIT */
/* A program that uses port numbers in every way that `dibs run --as` has to understand.
 * usage: as_calls CASE PORT     prints nothing and ends with 0, or says what is wrong */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static in_port_t port; /* in the network's order */

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "line %d: not so: %s (errno %d: %s)\n", __LINE__, #condition, errno, \
                    strerror(errno));                                                            \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

static struct sockaddr_in v4(const char *host)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };

    CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
}

static struct sockaddr_in6 v6(const char *host)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = port };

    CHECK(inet_pton(AF_INET6, host, &address.sin6_addr) == 1);
    return address;
}

#define WITH(address) (struct sockaddr *) &(address), sizeof(address)

static int tcp(int family)
{
    int yes = 1;
    int fd = socket(family, SOCK_STREAM, 0);

    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    return fd;
}

static int listen_on(const char *host, int backlog)
{
    struct sockaddr_in address = v4(host);
    int fd = tcp(AF_INET);

    CHECK(bind(fd, WITH(address)) == 0);
    CHECK(listen(fd, backlog) == 0);
    return fd;
}

static in_port_t port_of(int fd, bool of_peer)
{
    struct sockaddr_storage name = { 0 };
    socklen_t size = sizeof name;

    CHECK((of_peer ? getpeername : getsockname)(fd, (struct sockaddr *) &name, &size) == 0);
    return ((struct sockaddr_in *) &name)->sin_port;
}

/* Is a TCP socket listening on this number in the kernel's own list? */
static bool kernel_listens(void)
{
    const char *const lists[] = { "/proc/self/net/tcp", "/proc/self/net/tcp6" };
    char wanted[16];
    char line[256];
    bool found = false;

    snprintf(wanted, sizeof wanted, ":%04X ", ntohs(port));
    for (int i = 0; i < 2; i++) {
        FILE *list = fopen(lists[i], "r");

        while (list && fgets(line, sizeof line, list)) {
            char *local = strchr(line, ':');
            char *at = local ? strstr(local + 1, wanted) : NULL;

            found = found || (at && at < local + 50 && strstr(at, " 0A "));
        }
        if (list)
            fclose(list);
    }
    return found;
}

/* ---- cases ---- */

static void own_server(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    int server = listen_on("127.0.0.1", 5);
    int client = tcp(AF_INET);

    CHECK(port_of(server, false) == port);
    CHECK(!kernel_listens());
    CHECK(connect(client, WITH(address)) == 0);
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0);
    CHECK(port_of(client, true) == port);
    CHECK(port_of(accepted, false) == port);
    CHECK(port_of(accepted, true) == port_of(client, false));
    CHECK(write(client, "x", 1) == 1);
    char byte = 0;
    CHECK(read(accepted, &byte, 1) == 1 && byte == 'x');
}

static void families(void)
{
    struct sockaddr_in6 any = v6("::");
    struct sockaddr_in6 loopback = v6("::1");
    struct sockaddr_in6 mapped = v6("::ffff:127.0.0.1");
    struct sockaddr_in6 mapped_any = v6("::ffff:0.0.0.0");
    struct sockaddr_in plain = v4("127.0.0.5");
    struct sockaddr_in wildcard = v4("0.0.0.0");
    int no = 0;
    int server = tcp(AF_INET6);

    CHECK(setsockopt(server, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0);
    CHECK(bind(server, WITH(any)) == 0 && listen(server, 16) == 0);
    CHECK(port_of(server, false) == port);
    struct sockaddr_in6 *sixes[] = { &loopback, &mapped, &mapped_any, &any };
    for (size_t i = 0; i < 4; i++) {
        int client = tcp(AF_INET6);

        CHECK(connect(client, (struct sockaddr *) sixes[i], sizeof *sixes[i]) == 0);
        CHECK(port_of(client, true) == port);
        /* The kernel accepts an address without its scope. */
        client = tcp(AF_INET6);
        CHECK(connect(client, (struct sockaddr *) sixes[i], 24) == 0);
    }
    struct sockaddr_in *fours[] = { &plain, &wildcard };
    for (size_t i = 0; i < 2; i++) {
        int client = tcp(AF_INET);

        CHECK(connect(client, (struct sockaddr *) fours[i], sizeof *fours[i]) == 0);
        CHECK(port_of(client, true) == port);
    }
}

/* An IPv6-only socket and an IPv4 socket have the number together, as without dibs. */
static void both_families(void)
{
    struct sockaddr_in6 any = v6("::");
    int yes = 1;
    int six = tcp(AF_INET6);
    int four = listen_on("0.0.0.0", 1);

    CHECK(setsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) == 0);
    CHECK(bind(six, WITH(any)) == 0 && listen(six, 1) == 0);
    CHECK(port_of(six, false) == port && port_of(four, false) == port);
}

static void refusals(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    struct sockaddr_in foreign = v4("192.0.2.77"); /* no address of this host */
    int fd = tcp(AF_INET);
    int other = tcp(AF_INET);

    CHECK(connect(fd, WITH(address)) == -1 && errno == ECONNREFUSED);
    CHECK(bind(other, WITH(foreign)) == -1 && errno == EADDRNOTAVAIL);
    CHECK(bind(other, (struct sockaddr *) 1, sizeof address) == -1 && errno == EFAULT);
    CHECK(bind(other, (struct sockaddr *) &address, 3) == -1 && errno == EINVAL);
    CHECK(bind(other, (struct sockaddr *) &address, (socklen_t) -1) == -1 && errno == EINVAL);
    CHECK(bind(-1, WITH(address)) == -1 && errno == EBADF);
    CHECK(bind(0, WITH(address)) == -1 && errno == ENOTSOCK);
    CHECK(bind(other, WITH(address)) == 0 && listen(other, 1) == 0);
    CHECK(bind(other, WITH(address)) == -1 && errno == EINVAL);
    int second = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(second, WITH(address)) == -1 && errno == EADDRINUSE);
    CHECK(connect(second, WITH(address)) == 0);
    CHECK(connect(second, WITH(address)) == -1 && errno == EISCONN);
    struct sockaddr_in6 six = v6("::1");
    CHECK(bind(tcp(AF_INET), WITH(six)) == -1 && errno == EAFNOSUPPORT);
    struct sockaddr_in name = { 0 };
    socklen_t size = sizeof name;
    CHECK(getpeername(other, (struct sockaddr *) &name, &size) == -1 && errno == ENOTCONN);
    CHECK(getsockname(other, (struct sockaddr *) 1, &size) == -1 && errno == EFAULT);
    size = (socklen_t) -1;
    CHECK(getsockname(other, (struct sockaddr *) &name, &size) == -1 && errno == EINVAL);
    size = 4;
    CHECK(getsockname(other, (struct sockaddr *) &name, &size) == 0 && size == sizeof name);
    CHECK(name.sin_port == port && name.sin_addr.s_addr == 0);
}

/* What is no TCP socket, and what has another number, is none of dibs' business. */
static void untouched(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    int other = tcp(AF_INET);
    int pair[2];

    CHECK(connect(udp, WITH(address)) == 0);
    CHECK(port_of(udp, true) == port);
    address.sin_port = 0;
    CHECK(bind(other, WITH(address)) == 0 && port_of(other, false) != port && port_of(other, false) != 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    CHECK(getsockname(pair[0], (struct sockaddr *) &name, &size) == 0 && name.ss_family == AF_UNIX);
    /* A filter sees no operation of a ring; the kernel's programs do. */
    const char *way = getenv("DIBS_TEST_AS");
    if (!way || strcmp(way, "bpf") != 0)
        CHECK(syscall(SYS_io_uring_setup, 1, NULL) == -1 && errno == EPERM);
}

static void non_blocking(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    int client = tcp(AF_INET);
    int error = -1;
    socklen_t size = sizeof error;

    CHECK(fcntl(client, F_SETFL, O_NONBLOCK) == 0);
    CHECK(connect(client, WITH(address)) == -1 && errno == EINPROGRESS);
    CHECK(poll(&(struct pollfd){ .fd = client, .events = POLLOUT }, 1, 5000) == 1);
    CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ECONNREFUSED);
    int server = listen_on("127.0.0.1", 5);
    client = tcp(AF_INET);
    CHECK(fcntl(client, F_SETFL, O_NONBLOCK) == 0);
    CHECK(connect(client, WITH(address)) == -1 && errno == EINPROGRESS);
    CHECK(poll(&(struct pollfd){ .fd = client, .events = POLLOUT }, 1, 5000) == 1);
    CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
    CHECK(connect(client, WITH(address)) == 0 || errno == EISCONN);
    CHECK(fcntl(client, F_GETFL) & O_NONBLOCK);
    client = tcp(AF_INET);
    CHECK(connect(client, WITH(address)) == 0);
    CHECK(!(fcntl(client, F_GETFL) & O_NONBLOCK));
    CHECK(accept(server, NULL, NULL) >= 0);
}

static void do_nothing(int number)
{
    (void) number;
}

static void *connect_elsewhere(void *arg)
{
    struct sockaddr_in address = v4("127.0.0.1");
    int *server = arg;
    int client = tcp(AF_INET);

    address.sin_port = port_of(*server, false);
    return connect(client, WITH(address)) == 0 ? arg : NULL;
}

/* A connect that waits is interrupted by a signal, obeys SO_SNDTIMEO, and delays nobody. */
static void waiting_connect(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    struct sigaction action = { .sa_handler = do_nothing };
    struct itimerval soon = { .it_value.tv_usec = 200000 };
    struct timeval limit = { .tv_usec = 200000 };
    int server = listen_on("127.0.0.1", 0);
    int fd = -1;
    int other = tcp(AF_INET);
    struct sockaddr_in zero = { .sin_family = AF_INET };
    pthread_t thread;
    void *result = NULL;

    for (int i = 0; i < 2; i++) { /* fill the queue: from then on the kernel drops what arrives */
        fd = tcp(AF_INET);
        CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
        CHECK(connect(fd, WITH(address)) == -1 && errno == EINPROGRESS);
    }
    usleep(100000);
    CHECK(bind(other, WITH(zero)) == 0 && listen(other, 5) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &(sigset_t){ 0 }, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, connect_elsewhere, &other) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result);
    fd = tcp(AF_INET);
    CHECK(connect(fd, WITH(address)) == -1 && errno == EINTR);
    fd = tcp(AF_INET);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    /* Without dibs EINPROGRESS; the notifier has started to connect, so the kernel says EALREADY. */
    CHECK(connect(fd, WITH(address)) == -1 && (errno == EINPROGRESS || errno == EALREADY));
    CHECK(accept(server, NULL, NULL) >= 0);
}

/* No call is lost or made twice when signals arrive all the time. Before the notifier has received a call,
 * the kernel lets a handler without SA_RESTART interrupt it: then nothing has happened. */
static void signals(void)
{
    struct itimerval often = { .it_value.tv_usec = 100, .it_interval.tv_usec = 100 };
    struct itimerval never = { 0 };

    for (int flags = 0; flags <= 1; flags++) {
        struct sigaction action = { .sa_handler = do_nothing, .sa_flags = flags ? SA_RESTART : 0 };

        CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
        for (int i = 0; i < 1000; i++) {
            struct sockaddr_in address = v4("127.0.0.1");
            int fd = tcp(AF_INET);

            int code = -1;

            while ((code = bind(fd, WITH(address))) == -1 && errno == EINTR && !flags)
                ;
            CHECK(code == 0);
            if (flags)
                CHECK(port_of(fd, false) == port);
            close(fd);
        }
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    }
}

static void *many_calls(void *arg)
{
    struct sockaddr_in address = v4("127.0.0.1");

    for (int i = 0; i < 200; i++) {
        int client = tcp(AF_INET);

        CHECK(connect(client, WITH(address)) == 0);
        CHECK(port_of(client, true) == port);
        close(client);
    }
    return arg;
}

static void *accept_all(void *arg)
{
    for (;;) {
        int fd = accept(*(int *) arg, NULL, NULL);

        CHECK(fd >= 0 && port_of(fd, false) == port);
        close(fd);
    }
    return NULL;
}

static void threads(void)
{
    int server = listen_on("127.0.0.1", 4096);
    pthread_t all[8];
    pthread_t acceptor;

    CHECK(pthread_create(&acceptor, NULL, accept_all, &server) == 0);
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_create(&all[i], NULL, many_calls, NULL) == 0);
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

static void a_vfork(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    int server = listen_on("127.0.0.1", 5);
    int client = tcp(AF_INET);
    int status = 0;
    pid_t pid = vfork();

    if (pid == 0)
        _exit(connect(client, (struct sockaddr *) &address, sizeof address) ? 1 : 0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(accept(server, NULL, NULL) >= 0);
}

/* Workers that share the number, as cluster modes do. */
static void reuse_port(void)
{
    pid_t workers[4];
    int started[2];
    char byte = 0;

    CHECK(pipe(started) == 0);
    for (int i = 0; i < 4; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            struct sockaddr_in address = v4("0.0.0.0");
            int yes = 1;
            int fd = socket(AF_INET, SOCK_STREAM, 0);

            CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) == 0);
            CHECK(bind(fd, WITH(address)) == 0 && listen(fd, 5) == 0 && port_of(fd, false) == port);
            CHECK(write(started[1], "x", 1) == 1);
            sleep(30);
            _exit(1);
        }
    }
    for (int i = 0; i < 4; i++)
        CHECK(read(started[0], &byte, 1) == 1);
    struct sockaddr_in address = v4("127.0.0.1");
    CHECK(connect(tcp(AF_INET), WITH(address)) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(kill(workers[i], SIGKILL) == 0);
}

#if defined(__x86_64__)
static int call_i386(int number, uintptr_t a, uintptr_t b, uintptr_t c)
{
    int result = 0;

    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

/* The calls of 32-bit programs, directly and by socketcall(). */
static void old_calls(void)
{
    struct low {
        struct sockaddr_in address;
        socklen_t size;
        uint32_t args[3];
    } *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    int fd = tcp(AF_INET);

    CHECK(low != MAP_FAILED);
    *low = (struct low){ .address = v4("127.0.0.1"), .size = sizeof low->address };
    int result = call_i386(361, (uintptr_t) fd, (uintptr_t) &low->address, sizeof low->address);
    if (result == -ENOSYS)
        exit(77); /* a kernel without them */
    CHECK(result == 0 && port_of(fd, false) == port);
    low->args[0] = (uint32_t) fd;
    low->args[1] = (uint32_t) (uintptr_t) &low->address;
    low->args[2] = (uint32_t) (uintptr_t) &low->size;
    low->address.sin_port = 0;
    CHECK(call_i386(102, 6, (uintptr_t) low->args, 0) == 0 && low->address.sin_port == port);
    close(fd);
    fd = tcp(AF_INET);
    low->args[0] = (uint32_t) fd;
    low->args[2] = sizeof low->address;
    CHECK(call_i386(102, 2, (uintptr_t) low->args, 0) == 0 && port_of(fd, false) == port);
    CHECK(!kernel_listens() && listen(fd, 1) == 0 && !kernel_listens());
}
#else
static void old_calls(void)
{
    exit(77);
}
#endif

/* Use the number for a moment, without an end of its own if a call should hang. Without a notifier all calls
 * fail with ENOSYS, and never by reaching something else. */
static void churn(void)
{
    struct timespec began;
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &began) == 0);
    do {
        struct sockaddr_in address = v4("127.0.0.1");
        int server = tcp(AF_INET);
        int client = tcp(AF_INET);

        if (bind(server, WITH(address))) {
            CHECK(errno == ENOSYS);
            exit(0);
        }
        CHECK(listen(server, 1) == 0);
        if (connect(client, WITH(address))) {
            CHECK(errno == ENOSYS);
            exit(0);
        }
        CHECK(!kernel_listens());
        close(client);
        close(server);
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    } while ((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < 150);
}

/* ---- datagrams ---- */

static int udp(int family)
{
    int fd = socket(family, SOCK_DGRAM, 0);

    CHECK(fd >= 0);
    return fd;
}

static void *echo(void *arg)
{
    char data[65536];

    for (;;) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        ssize_t n = recvfrom(*(int *) arg, data, sizeof data, 0, (struct sockaddr *) &from, &size);

        CHECK(n >= 0 && size >= sizeof(struct sockaddr_in));
        CHECK(sendto(*(int *) arg, data, (size_t) n, 0, (struct sockaddr *) &from, size) == n);
    }
    return NULL;
}

static void datagrams(void)
{
    static char large[65000];
    static char got[65536];
    struct sockaddr_in address = v4("127.0.0.1");
    struct sockaddr_in6 mapped = v6("::ffff:127.0.0.1");
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;
    int server = udp(AF_INET);
    int client = udp(AF_INET);
    int six = udp(AF_INET6);
    pthread_t thread;

    CHECK(bind(server, WITH(address)) == 0 && port_of(server, false) == port);
    CHECK(pthread_create(&thread, NULL, echo, &server) == 0);
    memset(large, 'x', sizeof large);
    CHECK(sendto(client, large, sizeof large, 0, WITH(address)) == sizeof large);
    CHECK(recvfrom(client, got, sizeof got, 0, (struct sockaddr *) &from, &size) == sizeof large);
    CHECK(((struct sockaddr_in *) &from)->sin_port == port && size == sizeof address);
    CHECK(memcmp(large, got, sizeof large) == 0);
    CHECK(sendto(six, "six", 3, 0, WITH(mapped)) == 3);
    size = sizeof from;
    CHECK(recvfrom(six, got, 2, MSG_TRUNC, (struct sockaddr *) &from, &size) == 3);
    CHECK(((struct sockaddr_in6 *) &from)->sin6_port == port && size == sizeof mapped);
    CHECK(connect(client, WITH(address)) == 0 && port_of(client, true) == port);
    CHECK(send(client, "c", 1, 0) == 1 && recv(client, got, 9, 0) == 1);
    CHECK(recvfrom(client, got, 9, MSG_DONTWAIT, (struct sockaddr *) &from, &size) == -1 && errno == EAGAIN);
    CHECK(sendto(six, large, 65508, 0, WITH(mapped)) == -1 && errno == EMSGSIZE);
}

static void messages(void)
{
    static char large[16384];
    struct sockaddr_in address = v4("127.0.0.1");
    struct sockaddr_in to[2] = { address, address };
    struct sockaddr_in from[2];
    char a[4] = "abc";
    char b[4] = "def";
    char got[2][8];
    char control[64];
    int yes = 1;
    int server = udp(AF_INET);
    int client = udp(AF_INET);
    pthread_t thread;
    struct iovec parts[2] = { { a, 3 }, { b, 3 } };
    struct iovec into[2] = { { got[0], 2 }, { got[1], 8 } };
    struct msghdr header = {
        .msg_name = &to[0], .msg_namelen = sizeof to[0], .msg_iov = parts, .msg_iovlen = 2
    };

    CHECK(setsockopt(client, IPPROTO_IP, IP_PKTINFO, &yes, sizeof yes) == 0);
    CHECK(bind(server, WITH(address)) == 0 && pthread_create(&thread, NULL, echo, &server) == 0);
    CHECK(sendmsg(client, &header, 0) == 6);
    header = (struct msghdr){ .msg_name = &from[0],
                              .msg_namelen = sizeof from[0],
                              .msg_iov = into,
                              .msg_iovlen = 2,
                              .msg_control = control,
                              .msg_controllen = sizeof control };
    CHECK(recvmsg(client, &header, 0) == 6 && header.msg_namelen == sizeof from[0] && !header.msg_flags);
    CHECK(from[0].sin_port == port && !memcmp(got[0], "ab", 2) && !memcmp(got[1], "cdef", 4));
    struct cmsghdr *found = CMSG_FIRSTHDR(&header);
    CHECK(found && found->cmsg_level == IPPROTO_IP && found->cmsg_type == IP_PKTINFO);
    struct mmsghdr both[2] = {
        { .msg_hdr = { .msg_name = &to[0],
                       .msg_namelen = sizeof to[0],
                       .msg_iov = &parts[0],
                       .msg_iovlen = 1 } },
        { .msg_hdr = { .msg_name = &to[1],
                       .msg_namelen = sizeof to[1],
                       .msg_iov = &parts[1],
                       .msg_iovlen = 1 } },
    };
    CHECK(sendmmsg(client, both, 2, 0) == 2 && both[0].msg_len == 3 && both[1].msg_len == 3);
    usleep(50000);
    for (int i = 0; i < 2; i++) {
        into[i] = (struct iovec){ got[i], 8 };
        both[i].msg_hdr = (struct msghdr){
            .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &into[i], .msg_iovlen = 1
        };
    }
    memset(from, 0, sizeof from);
    both[1].msg_hdr.msg_name = NULL; /* each message has a form of its own */
    both[1].msg_hdr.msg_control = large;
    both[1].msg_hdr.msg_controllen = sizeof large;
    int n = recvmmsg(client, both, 2, MSG_WAITFORONE, NULL);
    CHECK(n >= 1 && from[0].sin_port == port && both[0].msg_len == 3 && !memcmp(got[0], "abc", 3));
    CHECK(n == 1 ||
          (both[1].msg_len == 3 && both[1].msg_hdr.msg_controllen < 100 && !both[1].msg_hdr.msg_flags));
}

/* A receive that waits is interrupted by a signal as without dibs, obeys SO_RCVTIMEO, and delays nobody. */
static void waiting_receive(void)
{
    struct timeval limit = { .tv_usec = 100000 };
    struct itimerval soon = { .it_value.tv_usec = 100000 };
    struct sockaddr_in address = v4("127.0.0.1");
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    char byte = 0;
    int fd = udp(AF_INET);

    CHECK(bind(fd, WITH(address)) == 0);
    struct sigaction action = { .sa_handler = do_nothing };
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *) &from, &size) == -1 && errno == EINTR);
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    if (fork() == 0) {
        usleep(400000);
        CHECK(sendto(udp(AF_INET), "x", 1, 0, WITH(address)) == 1);
        _exit(0);
    }
    CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *) &from, &size) == 1 && byte == 'x');
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *) &from, &size) == -1 && errno == EAGAIN);
}

/* Serve until killed. */
static void serve(void)
{
    int server = listen_on("0.0.0.0", 50);

    for (;;) {
        int fd = accept(server, NULL, NULL);

        CHECK(fd >= 0);
        CHECK(write(fd, "served\n", 7) == 7);
        close(fd);
    }
}

/* A send with the first packet of a connection reaches the own server or fails; programs connect then. */
static void fast_open(void)
{
    struct sockaddr_in address = v4("127.0.0.1");
    int server = listen_on("127.0.0.1", 4);
    int client = tcp(AF_INET);

    if (sendto(client, "x", 1, MSG_FASTOPEN, WITH(address)) < 0)
        CHECK(errno == EOPNOTSUPP && connect(client, WITH(address)) == 0);
    CHECK(port_of(client, true) == port);
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0);
    close(accepted);
    close(client);
    close(server);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    { "own_server", own_server },
    { "families", families },
    { "both_families", both_families },
    { "refusals", refusals },
    { "untouched", untouched },
    { "non_blocking", non_blocking },
    { "signals", signals },
    { "waiting_connect", waiting_connect },
    { "threads", threads },
    { "vfork", a_vfork },
    { "reuse_port", reuse_port },
    { "old_calls", old_calls },
    { "fast_open", fast_open },
    { "datagrams", datagrams },
    { "messages", messages },
    { "waiting_receive", waiting_receive },
    { "serve", serve },
    { "churn", churn },
};

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    port = htons((in_port_t) strtoul(argv[2], NULL, 10));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
