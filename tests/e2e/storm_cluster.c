/* SPDX-License-Identifier: MIT */
#include "storm_cluster.h"

#include "base/clock.h"
#include "store/etcd/client/etcd.h"

enum { START_MS = 30000, ASK_MS = 2000 };
enum { RAGING, CALMING, CALM };

void storm_path_of(const struct storm_cluster *c, const char *name, char *out, size_t size)
{
    if (snprintf(out, size, "%s/%s", c->dir, name) >= (int) size)
        storm_die("a path is too long: %s/%s", c->dir, name);
}

/* ---- members ---- */

pid_t storm_script(const char *name, const char *first, const char *second, const char *third)
{
    const char *source = getenv("SOURCE");
    char path[1024] = "";

    (void) snprintf(path, sizeof path, "%s/tests/support/%s", source ? source : ".", name);
    pid_t pid = storm_fork();
    if (pid == 0) {
        (void) execl(path, name, first, second, third, (char *) NULL);
        _exit(127);
    }
    return pid;
}

/* Hosts that are apart do not share its loopback. */
static void start_member(struct storm_cluster *c, size_t i)
{
    char number[2] = { (char) ('0' + i), '\0' };
    char listen[64] = "";

    (void) snprintf(listen, sizeof listen, "--listen-client-urls=http://%s:%u", c->address, c->client[i]);
    c->member[i] = storm_script("etcd-member", c->dir, number, listen);
}

void storm_wait_for_file(const char *path)
{
    int64_t until = clock_monotonic_ms() + START_MS;

    while (access(path, R_OK) != 0) {
        if (clock_monotonic_ms() > until)
            storm_die("%s does not appear", path);
        storm_sleep_us(2000);
    }
}

static void read_ports(struct storm_cluster *c)
{
    char path[256] = "";
    char line[64] = "";

    storm_path_of(c, "ports", path, sizeof path);
    (void) storm_script("etcd_ports.py", "3", path, NULL);
    storm_wait_for_file(path);
    FILE *file = fopen(path, "r");
    for (size_t i = 0; i < MEMBERS; i++)
        if (!file || !fgets(line, sizeof line, file))
            storm_die("%s cannot be read", path);
        else
            c->client[i] = (unsigned) strtoul(line, NULL, 10);
    (void) fclose(file);
}

static struct etcd *client_open(void)
{
    struct etcd_config config;
    struct etcd *etcd = NULL;
    dibs_err err = { 0 };

    if (etcd_config_parse(getenv("DIBS_LEDGER"), &config, &err) != DIBS_OK ||
        etcd_open(&config, &etcd, &err) != DIBS_OK)
        storm_die("no client of etcd: %s", err.msg);
    return etcd;
}

/* The revision, once a majority answers. */
static int64_t wait_for_majority(struct etcd *etcd)
{
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = { "x", 1 } };
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + START_MS };
    struct etcd_answer answer = { 0 };
    dibs_err err = { 0 };

    if (etcd_do(etcd, &call, &look, &answer, &err) != DIBS_OK)
        storm_die("etcd does not answer: %s", err.msg);
    int64_t revision = answer.revision;
    etcd_answer_done(&answer);
    return revision;
}

struct storm_cluster *storm_cluster_begin(bool is_apart)
{
    struct storm_cluster *c = storm_share(sizeof *c);
    char uri[128] = "";

    if (access("/usr/bin/etcd", X_OK) != 0)
        return NULL;
    if (snprintf(c->dir, sizeof c->dir, "%s.etcd.XXXXXX", storm_ledger_path()) >= (int) sizeof c->dir ||
        !mkdtemp(c->dir))
        storm_die("no directory for etcd: %s", c->dir);
    c->is_apart = is_apart;
    c->address = is_apart ? STORM_HUB : "127.0.0.1";
    read_ports(c);
    (void) snprintf(uri, sizeof uri, "etcd://%s:%u,%s:%u,%s:%u/storm", c->address, c->client[0], c->address,
                    c->client[1], c->address, c->client[2]);
    if (setenv("DIBS_LEDGER", uri, 1) != 0)
        storm_die("the ledger cannot be set");
    return c;
}

/* ---- upsets ---- */

static size_t find_leader(const struct storm_cluster *c, struct etcd *etcd)
{
    struct etcd_status status = { 0 };

    for (int64_t until = clock_monotonic_ms() + START_MS; clock_monotonic_ms() < until; storm_sleep_us(20000))
        for (size_t i = 0; i < MEMBERS; i++) {
            struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + ASK_MS };

            if (c->member[i] > 0 && etcd_status(etcd, &call, i, &status, NULL) == DIBS_OK &&
                status.leader == status.member)
                return i;
        }
    storm_die("nobody leads");
}

static void pause_ms(const struct storm_cluster *c, uint32_t ms)
{
    for (; ms > 0 && atomic_load(&c->state) == RAGING; ms--)
        storm_sleep_us(1000);
}

static void kill_member(struct storm_cluster *c, size_t which, uint32_t away_ms)
{
    storm_kill(c->member[which]);
    c->n_kills++;
    pause_ms(c, away_ms);
    start_member(c, which);
}

static void stop_member(struct storm_cluster *c, size_t which, uint32_t away_ms)
{
    (void) kill(c->member[which], SIGSTOP);
    c->n_stops++;
    pause_ms(c, away_ms);
    (void) kill(c->member[which], SIGCONT);
}

static void compact(struct storm_cluster *c, struct etcd *etcd, int64_t revision)
{
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + ASK_MS };

    c->n_compactions += etcd_compact(etcd, &call, revision, NULL) == DIBS_OK;
}

_Noreturn static void upset(struct storm_cluster *c, uint64_t seed)
{
    struct storm_random random = storm_random_of(seed, 55);
    struct etcd *etcd = NULL;

    for (size_t i = 0; i < MEMBERS; i++)
        start_member(c, i);
    etcd = client_open();
    (void) wait_for_majority(etcd);
    atomic_store(&c->state, CALM);
    while (atomic_load(&c->state) == CALM)
        storm_sleep_us(1000);
    for (unsigned n = 0; atomic_load(&c->state) == RAGING; n++) {
        uint32_t away_ms = 300 + storm_below(&random, 2200);
        size_t which = storm_below(&random, MEMBERS);

        if (n % 4 == 0) {
            which = find_leader(c, etcd);
            c->n_leaders++;
        }
        compact(c, etcd, wait_for_majority(etcd));
        if (n % 4 == 0 || storm_below(&random, 2))
            kill_member(c, which, away_ms);
        else
            stop_member(c, which, away_ms);
        compact(c, etcd, wait_for_majority(etcd)); /* what it missed is gone */
        pause_ms(c, 200 + storm_below(&random, 1500));
    }
    (void) wait_for_majority(etcd);
    atomic_store(&c->state, CALM);
    storm_stay(600);
}

static void wait_for_state(const struct storm_cluster *c, int state)
{
    int64_t until = clock_monotonic_ms() + INT64_C(2) * START_MS;

    while (atomic_load(&c->state) != state) {
        if (clock_monotonic_ms() > until)
            storm_die("who upsets the members is stuck");
        storm_sleep_us(1000);
    }
}

void storm_cluster_upset(struct storm_cluster *c, uint64_t seed)
{
    if (c->upsetter > 0) {
        atomic_store(&c->state, RAGING);
        return;
    }
    atomic_store(&c->state, CALMING);
    pid_t pid = storm_fork(); /* what is shared is written by one of the two */
    if (pid == 0)
        upset(c, seed);
    c->upsetter = pid;
    wait_for_state(c, CALM);
}

void storm_cluster_calm(struct storm_cluster *c)
{
    atomic_store(&c->state, CALMING);
    wait_for_state(c, CALM);
}
