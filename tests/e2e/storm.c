/* SPDX-License-Identifier: MIT */
#include "storm.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static _Atomic int *violations; /* shared with the children */
static bool is_network_own;

__attribute__((format(printf, 3, 0))) static void print_line(FILE *to, const char *first, const char *format,
                                                             va_list args)
{
    char text[1024];

    (void) vsnprintf(text, sizeof text, format, args);
    (void) fprintf(to, "%s%s\n", first, text);
    (void) fflush(to);
}

void storm_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line(stdout, "storm cannot go on: ", format, args);
    va_end(args);
    exit(2);
}

void storm_violation(const char *format, ...)
{
    va_list args;

    if (atomic_fetch_add(violations, 1) > 50)
        return; /* the first ones tell enough */
    va_start(args, format);
    print_line(stdout, "VIOLATION: ", format, args);
    va_end(args);
}

int storm_end(const char *what)
{
    printf("%s: %d violations\n", what, atomic_load(violations));
    return atomic_load(violations) ? 1 : 0;
}

long storm_number(int argc, char **argv, const char *key, long otherwise)
{
    size_t len = strlen(key);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], key, len) == 0 && argv[i][len] == '=')
            return strtol(argv[i] + len + 1, NULL, 10);
    return otherwise;
}

static void enter_own_network(void)
{
    struct ifreq lo = { .ifr_name = "lo" };
    int fd = -1;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        printf("network: the host's\n");
        return;
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &lo) != 0)
        storm_die("no loopback device: %s", strerror(errno));
    lo.ifr_flags = (short) (lo.ifr_flags | IFF_UP);
    if (ioctl(fd, SIOCSIFFLAGS, &lo) != 0)
        storm_die("loopback does not come up: %s", strerror(errno));
    (void) close(fd);
    is_network_own = true;
    printf("network: a namespace of its own\n");
}

uint64_t storm_begin(const char *name)
{
    const char *given = getenv("SEED");
    uint64_t seed = 0;

    (void) setvbuf(stdout, NULL, _IOLBF, 0);
    if (!getenv("DIBS") || !storm_ledger_path())
        storm_die("DIBS and DIBS_LEDGER must be set");
    if (given && *given)
        seed = strtoull(given, NULL, 10);
    else if (getrandom(&seed, sizeof seed, 0) != (ssize_t) sizeof seed)
        storm_die("no seed: %s", strerror(errno));
    /* No client gives up because the machine is busy; the test's own limit ends one that waits for ever. */
    if (setenv("DIBS_LEDGER_MODE", "strict", 1) != 0 || setenv("DIBS_TIMEOUT", "60s", 1) != 0)
        storm_die("the settings cannot be made");
    violations = storm_share(sizeof *violations);
    /* Orphans become our children, so that none is forgotten. */
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
    printf("%s: SEED=%llu\n", name, (unsigned long long) seed);
    enter_own_network();
    return seed;
}

bool storm_has_own_network(void)
{
    return is_network_own;
}

/* splitmix64 */
static uint64_t next_random(struct storm_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct storm_random storm_random_of(uint64_t seed, uint64_t number)
{
    struct storm_random random = { seed ^ (number * 0xd1342543de82ef95u) };

    (void) next_random(&random);
    return random;
}

uint32_t storm_below(struct storm_random *random, uint32_t n)
{
    return n ? (uint32_t) (next_random(random) >> 32) % n : 0;
}

int64_t storm_now_ns(void)
{
    struct timespec now = { 0 };

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

void storm_sleep_us(long us)
{
    struct timespec pause = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

    (void) nanosleep(&pause, NULL);
}

_Noreturn void storm_stay(unsigned seconds)
{
    (void) alarm(seconds);
    (void) pause();
    _exit(0);
}

void *storm_share(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        storm_die("no shared memory: %s", strerror(errno));
    return at;
}

/* ---- children ---- */

pid_t storm_fork(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        storm_die("fork: %s", strerror(errno));
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(99);
    }
    return pid;
}

int storm_wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void storm_kill(pid_t pid)
{
    (void) kill(pid, SIGKILL);
    (void) storm_wait(pid);
}

/* posix_spawn returns after the exec: a delay that follows is counted from the program's own start. */
struct storm_child storm_spawn(const char *const *args)
{
    struct storm_child child = { .out = -1, .err = -1 };
    char *argv[STORM_ARGS_MAX + 2] = { getenv("DIBS") };
    posix_spawn_file_actions_t actions;
    int out[2] = { -1, -1 };
    int err[2] = { -1, -1 };

    for (size_t i = 0; args[i] && i < STORM_ARGS_MAX; i++)
        memcpy(&argv[i + 1], &args[i], sizeof argv[0]); /* exec's argv is not const, but is not written */
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        storm_die("pipe: %s", strerror(errno));
    (void) posix_spawn_file_actions_init(&actions);
    (void) posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    (void) posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    child.start_ns = storm_now_ns();
    int rc = argv[0] ? posix_spawn(&child.pid, argv[0], &actions, NULL, argv, environ) : ENOENT;
    if (rc != 0)
        storm_die("%s: %s", argv[0] ? argv[0] : "DIBS", strerror(rc));
    (void) posix_spawn_file_actions_destroy(&actions);
    (void) close(out[1]);
    (void) close(err[1]);
    child.out = out[0];
    child.err = err[0];
    return child;
}

/* Both pipes together, so that neither fills up; the rest beyond `size` is read and dropped. */
static bool drain(int fd, char *text, size_t size, size_t *n)
{
    char waste[4096];
    size_t room = size - 1 - *n;
    ssize_t got = read(fd, room ? text + *n : waste, room ? room : sizeof waste);

    if (got > 0 && room)
        *n += (size_t) got;
    text[*n] = '\0';
    return got > 0 || (got < 0 && errno == EINTR);
}

void storm_finish(struct storm_child *child, struct storm_run *run)
{
    struct pollfd fds[2] = { { .fd = child->out, .events = POLLIN }, { .fd = child->err, .events = POLLIN } };
    size_t n_out = 0;
    size_t n_err = 0;

    run->out[0] = run->err[0] = '\0';
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 2, 60000) == 0) {
            (void) kill(child->pid, SIGKILL);
            storm_violation("the program did not end within a minute");
        }
        if (fds[0].revents && !drain(child->out, run->out, sizeof run->out, &n_out))
            fds[0].fd = -1;
        if (fds[1].revents && !drain(child->err, run->err, sizeof run->err, &n_err))
            fds[1].fd = -1;
    }
    run->code = storm_wait(child->pid);
    run->wall_ns = storm_now_ns() - child->start_ns;
    (void) close(child->out);
    (void) close(child->err);
    if (strstr(run->err, "degraded"))
        storm_violation("degraded: %s", run->err);
}

void storm_dibs(struct storm_run *run, const char *const *args)
{
    struct storm_child child = storm_spawn(args);

    storm_finish(&child, run);
}

/* ---- sockets ---- */

int storm_listen(const dibs_binding *binding, uint16_t port)
{
    bool is_v4 = binding->address.len == 4;
    bool is_tcp = binding->proto == DIBS_TCP;
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    int fd = socket(is_v4 ? AF_INET : AF_INET6, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
    int on = 1;
    int off = 0;
    int rc = 0;

    if (fd < 0)
        return -1;
    memcpy(&v4.sin_addr, binding->address.bytes, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, binding->address.bytes, sizeof v6.sin6_addr);
    /* UDP without it: with it, two could share the port and no violation would show. */
    if (is_tcp)
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!is_v4)
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    rc = is_v4 ? bind(fd, (struct sockaddr *) &v4, sizeof v4) : bind(fd, (struct sockaddr *) &v6, sizeof v6);
    if (rc == 0 && is_tcp)
        rc = listen(fd, 16);
    if (rc == 0)
        return fd;
    rc = errno;
    (void) close(fd);
    errno = rc;
    return -1;
}

/* ---- the ledger ---- */

dibs *storm_open(void)
{
    dibs *handle = NULL;
    dibs_err err = { 0 };

    if (dibs_open(NULL, &handle, &err) != DIBS_OK)
        storm_die("the ledger does not open: %s", err.msg);
    if (dibs_is_degraded(handle, NULL, 0))
        storm_violation("degraded");
    return handle;
}

const char *storm_ledger_path(void)
{
    const char *uri = getenv("DIBS_LEDGER");

    return uri && strncmp(uri, "sqlite:", 7) == 0 ? uri + 7 : NULL;
}

static int take_first(void *ctx, int n, char **values, char **names)
{
    char *out = ctx;

    (void) names;
    if (n > 0 && !out[0])
        (void) snprintf(out, 256, "%s", values[0] ? values[0] : "");
    return 0;
}

static void query(const char *sql, char out[256])
{
    sqlite3 *db = NULL;
    char *why = NULL;

    out[0] = '\0';
    if (sqlite3_open_v2(storm_ledger_path(), &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        storm_violation("the ledger file does not open: %s", sqlite3_errmsg(db));
    (void) sqlite3_busy_timeout(db, 10000);
    if (sqlite3_exec(db, sql, take_first, out, &why) != SQLITE_OK)
        storm_violation("%s: %s", sql, why ? why : "?");
    sqlite3_free(why);
    (void) sqlite3_close(db);
}

int64_t storm_sql(const char *sql)
{
    char text[256];

    query(sql, text);
    return text[0] ? strtoll(text, NULL, 10) : -1;
}

void storm_check_ledger(const char *when)
{
    static const struct {
        const char *what, *sql;
    } none[] = {
        { "claims without slots",
          "SELECT count(*) FROM claims c WHERE NOT EXISTS (SELECT 1 FROM slots s WHERE s.claim = c.id)" },
        { "slots without their claim", "SELECT count(*) FROM slots s WHERE s.claim <> 0 AND NOT EXISTS"
                                       " (SELECT 1 FROM claims c WHERE c.id = s.claim AND c.port = s.port)" },
        { "exclusive slots of two claims on one address",
          "SELECT count(*) FROM (SELECT 1 FROM slots WHERE claim <> 0 AND exclusive"
          " GROUP BY proto, port, address HAVING count(*) > 1)" },
        { "named claims that their name does not lead to",
          "SELECT count(*) FROM claims c WHERE name <> '' AND NOT EXISTS (SELECT 1 FROM names n"
          " WHERE n.principal = c.principal AND n.name = c.name AND n.claim = c.id AND n.port = c.port)" },
        { "names that lead to no claim",
          "SELECT count(*) FROM names n WHERE claim <> 0 AND NOT EXISTS"
          " (SELECT 1 FROM claims c WHERE c.id = n.claim AND c.name = n.name)" },
        /* claimed 1, released 2, renewed 3, transferred 4, reaped 5 */
        { "claims whose last event is not of their life",
          "SELECT count(*) FROM claims c WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.claim = c.id AND"
          " e.generation = c.generation AND e.port = c.port AND e.kind IN (1, 3, 4))"
          " AND (SELECT min(seq) FROM events) = 1" },
        { "claims with an event of their end",
          "SELECT count(*) FROM claims c JOIN events e ON e.claim = c.id AND e.generation = c.generation"
          " WHERE e.kind IN (2, 5)" },
        { "ended claims more or fewer than claimed ones less those that are there",
          "SELECT abs((SELECT count(*) FROM events WHERE kind = 1) -"
          " (SELECT count(*) FROM events WHERE kind IN (2, 5)) - (SELECT count(*) FROM claims))"
          " * ((SELECT coalesce(min(seq), 1) FROM events) = 1)" },
        { "damaged records", "SELECT count(*) FROM claims WHERE command='damaged record'" },
    };
    char text[256];

    query("PRAGMA integrity_check", text);
    if (strcmp(text, "ok") != 0)
        storm_violation("%s: integrity check: %s", when, text);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        int64_t n = storm_sql(none[i].sql);

        if (n != 0)
            storm_violation("%s: %lld %s", when, (long long) n, none[i].what);
    }
}
