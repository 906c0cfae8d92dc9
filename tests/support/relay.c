/* SPDX-License-Identifier: MIT */
#include "support/relay.h"

static int relay_main(void *arg)
{
    const struct relay_start *start = arg;
    char port[16] = "";
    char *argv[] = { (char[]){ "relay.py" }, port, NULL };

    (void) snprintf(port, sizeof port, "%u", start->upstream);
    if (dup2(start->in, STDIN_FILENO) < 0 || dup2(start->out, STDOUT_FILENO) < 0)
        return 126;
    return support_exec(argv);
}

static const char *relay_hear(struct relay *relay)
{
    assert_non_null(fgets(relay->said, sizeof relay->said, relay->from));
    return relay->said;
}

void relay_open(struct relay *relay, uint16_t upstream)
{
    int in[2];
    int out[2];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    relay->pid = child_fork(relay_main, &(struct relay_start){ upstream, in[0], out[1] });
    (void) close(in[0]);
    (void) close(out[1]);
    relay->to = fdopen(in[1], "w");
    relay->from = fdopen(out[0], "r");
    relay->port = (unsigned) strtoul(relay_hear(relay), NULL, 10);
}

const char *relay_tell(struct relay *relay, char command)
{
    assert_int_equal(fputc(command, relay->to), command);
    assert_int_equal(fflush(relay->to), 0);
    return relay_hear(relay);
}

unsigned relay_lost(struct relay *relay)
{
    return (unsigned) strtoul(relay_tell(relay, '?'), NULL, 10);
}

void relay_close(struct relay *relay)
{
    child_end(relay->pid);
    (void) fclose(relay->to);
    (void) fclose(relay->from);
}

/* ---- spoilt answers ---- */

static int unruly_main(void *arg)
{
    struct unruly *u = arg;
    char *argv[] = { (char[]){ "unruly.py" }, u->port, u->seed, u->path, NULL };

    return support_exec(argv);
}

unsigned unruly_seed(void)
{
    const char *given = getenv("DIBS_TEST_SEED");
    unsigned seed = given ? (unsigned) strtoul(given, NULL, 10) : (unsigned) clock_now(0).wall_ms % 100000;

    print_message("DIBS_TEST_SEED=%u\n", seed);
    return seed;
}

pid_t unruly_start(const struct cluster *cluster, struct etcd_config *config, unsigned seed)
{
    struct unruly u = { 0 };
    char line[16] = "";

    (void) snprintf(u.port, sizeof u.port, "%u", cluster->client[0]);
    (void) snprintf(u.seed, sizeof u.seed, "%u", seed);
    (void) snprintf(u.path, sizeof u.path, "%s/unruly.%u", cluster->dir, seed);
    pid_t pid = child_fork(unruly_main, &u);
    UNTIL(access(u.path, R_OK) == 0);
    FILE *file = fopen(u.path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void) fclose(file);
    *config = cluster->config;
    config->n_origins = 1;
    (void) snprintf(config->origin[0], sizeof config->origin[0], "http://127.0.0.1:%lu",
                    strtoul(line, NULL, 10));
    return pid;
}
