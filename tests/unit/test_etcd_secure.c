/* SPDX-License-Identifier: MIT */
/* TLS, users and quotas of a real etcd: it works, or says clearly why not. */
#include <poll.h>

#include "base/auto.h"
#include "http/client.h"
#include "store/etcd/client/watch.h"
#include "store/report.h"
#include "support/etcd.h"

enum { SHORT_MS = 2000, LONG_MS = 30000 };

struct fixture {
    struct cluster *cluster;
    struct etcd *etcd;
    struct etcd_call call;
    struct etcd_answer answer;
    dibs_err err;
};

static struct fixture *begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    *state = f;
    return f;
}

static int setup(void **state)
{
    struct fixture *f = begin(state);

    if (has_etcd())
        f->cluster = cluster_open(1, false, NULL);
    return 0;
}

static int setup_tls(void **state)
{
    struct fixture *f = begin(state);

    if (has_etcd())
        f->cluster = cluster_open(1, true, NULL);
    return 0;
}

static int setup_small(void **state)
{
    static const char *const flags[] = { "--quota-backend-bytes", "4194304", NULL };
    struct fixture *f = begin(state);

    if (has_etcd())
        f->cluster = cluster_open(1, false, flags);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    etcd_answer_done(&f->answer);
    etcd_close(f->etcd);
    cluster_close(f->cluster);
    free(f);
    return 0;
}

static dibs_status ask_for(struct fixture *f, const struct etcd_config *config, const char *key, int64_t ms)
{
    const struct etcd_op op = { .kind = ETCD_PUT, .key = ETCD_BYTES(key), .value = ETCD_BYTES("x") };

    etcd_close(TAKE(f->etcd));
    etcd_answer_done(&f->answer);
    f->call.deadline_ms = in_ms(ms);
    ASSERT_OK(etcd_open(config, &f->etcd, &f->err), &f->err);
    return etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err);
}

static dibs_status ask(struct fixture *f, const struct etcd_config *config, int64_t ms)
{
    return ask_for(f, config, "/t/x", ms);
}

static void refused(struct fixture *f, const struct etcd_config *config, dibs_status status, const char *text)
{
    dibs_status s = ask(f, config, SHORT_MS);

    if (s != status || !strstr(f->err.msg, text))
        fail_msg("%s: %s (wanted %s: %s)", dibs_status_text(s), f->err.msg, dibs_status_text(status), text);
    assert_null(f->answer.memory);
}

/* ---- TLS ---- */

static void set_file(const struct cluster *c, char *to, const char *name)
{
    (void) snprintf(to, ETCD_FILE_MAX + 1, "%s/tls/%s", c->dir, name);
}

static void client_certificates_are_shown_and_wanted(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    struct etcd_config config = f->cluster->config;
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
    *config.cert = *config.key = '\0';
    refused(f, &config, DIBS_UNAVAILABLE, "certificate");
    config = f->cluster->config;
    set_file(f->cluster, config.cert, "stranger.cert");
    set_file(f->cluster, config.key, "stranger.key");
    refused(f, &config, DIBS_UNAVAILABLE, "does the server accept our certificate");
    set_file(f->cluster, config.cert, "expired.cert");
    set_file(f->cluster, config.key, "expired.key");
    refused(f, &config, DIBS_UNAVAILABLE, "does the server accept our certificate");
    config = f->cluster->config;
    set_file(f->cluster, config.key, "stranger.key"); /* not that certificate's */
    refused(f, &config, DIBS_INVALID, "our own certificate");
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    set_file(f->cluster, config.cert, "none.cert");
    refused(f, &config, DIBS_INVALID, "our own certificate");
}

static void servers_that_cannot_be_trusted_are_asked_nothing(void **state)
{
    struct fixture *f = *state;
    char command[1000] = "";

    NEED_ETCD();
    struct etcd_config config = f->cluster->config;
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
    set_file(f->cluster, config.cacert, "other-ca.cert");
    refused(f, &config, DIBS_UNAVAILABLE, "certificate is not trusted");
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    set_file(f->cluster, config.cacert, "none.cert");
    refused(f, &config, DIBS_INVALID, "authorities");
    assert_int_equal(f->call.n_tries, 1);
    config = f->cluster->config;
    (void) snprintf(config.origin[0], sizeof config.origin[0], "https://127.0.0.2:%u", f->cluster->client[0]);
    refused(f, &config, DIBS_UNAVAILABLE, "127.0.0.2"); /* nobody listens there */
    config = f->cluster->config;
    memmove(config.origin[0] + 4, config.origin[0] + 5, strlen(config.origin[0] + 4)); /* http:// */
    refused(f, &config, DIBS_UNAVAILABLE, "does the server want TLS?");

    (void) snprintf(command, sizeof command,
                    "cd %s/tls && cp expired.cert server.cert && cp expired.key server.key", f->cluster->dir);
    assert_int_equal(child_run(child_shell, command), 0);
    refused(f, &f->cluster->config, DIBS_UNAVAILABLE, "expired");
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
}

static void copy_certificate(const struct cluster *c, const char *from, const char *to)
{
    char command[500] = "";

    (void) snprintf(command, sizeof command, "cd %s/tls && cp %s.cert %s.cert && cp %s.key %s.key", c->dir,
                    from, to, from, to);
    assert_int_equal(child_run(child_shell, command), 0);
}

static dibs_status ask_web(const struct fixture *f, struct web *web, dibs_err *err)
{
    AUTO(web_answer_done) struct web_answer answer = { 0 };
    char url[ETCD_ORIGIN_MAX + 64] = "";

    (void) snprintf(url, sizeof url, "%s/v3/kv/range", f->cluster->config.origin[0]);
    const struct web_request request = { .method = "POST",
                                         .url = url,
                                         .body = "{\"key\":\"eA==\"}",
                                         .n_body = sizeof "{\"key\":\"eA==\"}" - 1,
                                         .deadline_ms = in_ms(LONG_MS) };
    dibs_status s = web_ask(web, &request, &answer);

    *err = answer.err;
    return s;
}

/* A session of TLS that is taken up again has the certificate with which it began: one that was replaced, and
 * may be over or revoked by now. */
static void a_new_connection_shows_the_certificate_that_there_is_now(void **state)
{
    struct fixture *f = *state;
    struct web *web = NULL;
    struct etcd_config config = { 0 };

    NEED_ETCD();
    cluster_wait(&f->cluster->config);
    copy_certificate(f->cluster, "client", "changing");
    set_file(f->cluster, config.cert, "changing.cert");
    set_file(f->cluster, config.key, "changing.key");
    const struct web_options options = { .ca = f->cluster->config.cacert,
                                         .cert = config.cert,
                                         .key = config.key };
    ASSERT_OK(web_open(&options, &web, &f->err), &f->err);
    ASSERT_OK(ask_web(f, web, &f->err), &f->err);
    copy_certificate(f->cluster, "stranger", "changing");
    web_drop_connections(web);
    assert_int_equal(ask_web(f, web, &f->err), DIBS_UNAVAILABLE);
    copy_certificate(f->cluster, "client", "changing");
    web_drop_connections(web);
    ASSERT_OK(ask_web(f, web, &f->err), &f->err);
    web_close(web);
}

/* ---- users ---- */

/* Users root and dibs, who may do everything below /t. */
static void make_users(struct fixture *f)
{
    static const char *const steps[][2] = {
        { "user/add", "{\"name\":\"root\",\"password\":\"top\"}" },
        { "role/add", "{\"name\":\"root\"}" },
        { "user/grant", "{\"user\":\"root\",\"role\":\"root\"}" },
        { "user/add", "{\"name\":\"dibs\",\"password\":\"sesame\"}" },
        { "role/add", "{\"name\":\"dibs\"}" },
        { "role/grant", "{\"name\":\"dibs\",\"perm\":{\"permType\":\"READWRITE\",\"key\":\"L3Q=\",\"range_"
                        "end\":\"L3U=\"}}" },
        { "user/grant", "{\"user\":\"dibs\",\"role\":\"dibs\"}" },
        { "enable", "{}" },
    };

    cluster_wait(&f->cluster->config);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char command[1000] = "";

        (void) snprintf(command, sizeof command,
                        "tls=%s/tls; test ! -d $tls || set -- --cacert $tls/ca.cert --cert $tls/client.cert "
                        "--key $tls/client.key\n"
                        "curl \"$@\" -sS --noproxy '*' -f -m 10 -o /dev/null %s/v3/auth/%s -d '%s'",
                        f->cluster->dir, f->cluster->config.origin[0], steps[i][0], steps[i][1]);
        assert_int_equal(child_run(child_shell, command), 0);
    }
}

/* All tokens end when users are switched off and on. (Not when a member dies: it creates them again from its
 * log.) */
static void end_tokens(const struct fixture *f)
{
    char command[1000] = "";

    (void) snprintf(command, sizeof command,
                    "set -e; ask() { curl -sS --noproxy '*' -f -m 10 -H \"Authorization: $token\" "
                    "%s/v3/auth/$1 -d \"$2\"; }\n"
                    "token=; token=$(ask authenticate '{\"name\":\"root\",\"password\":\"top\"}' | "
                    "sed 's/.*\"token\":\"\\([^\"]*\\)\".*/\\1/')\n"
                    "ask disable '{}' >/dev/null; token=; ask enable '{}' >/dev/null",
                    f->cluster->config.origin[0]);
    assert_int_equal(child_run(child_shell, command), 0);
}

static void users_are_known_by_their_password(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    make_users(f);
    struct etcd_config config = f->cluster->config;
    refused(f, &config, DIBS_DENIED, "DIBS_ETCD_USER");
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    ASSERT_OK(etcd_config_login(&config, "dibs", "hunter2", &f->err), &f->err);
    refused(f, &config, DIBS_DENIED, "invalid user ID or password");
    assert_null(strstr(f->err.msg, "hunter2"));
    assert_int_equal(f->call.fault, ETCD_FAULT_DENIED);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    ASSERT_OK(etcd_config_login(&config, "dibs", "sesame", &f->err), &f->err);
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
    assert_int_equal(ask_for(f, &config, "/elsewhere", LONG_MS), DIBS_DENIED);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
}

/* Etcd itself wants it so: its gateway could not tell the user of a certificate's name from that of a login.
 */
static void where_there_are_users_certificates_have_no_names(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    make_users(f);
    struct etcd_config config = f->cluster->config;
    ASSERT_OK(etcd_config_login(&config, "dibs", "sesame", &f->err), &f->err);
    refused(f, &config, DIBS_DENIED, "without a common name");
    assert_int_equal(f->call.n_tries, 1);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    set_file(f->cluster, config.cert, "nameless.cert");
    set_file(f->cluster, config.key, "nameless.key");
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
}

static void a_token_that_has_ended_is_replaced(void **state)
{
    struct fixture *f = *state;
    const struct etcd_op op = { .kind = ETCD_PUT, .key = ETCD_BYTES("/t/x"), .value = ETCD_BYTES("y") };

    NEED_ETCD();
    make_users(f);
    struct etcd_config config = f->cluster->config;
    ASSERT_OK(etcd_config_login(&config, "dibs", "sesame", &f->err), &f->err);
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
    assert_int_equal(f->call.n_tries, 2); /* the login, and this */
    end_tokens(f);
    etcd_answer_done(&f->answer);
    f->call.deadline_ms = in_ms(LONG_MS);
    ASSERT_OK(etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err), &f->err);
    assert_int_equal(f->call.n_tries, 3); /* in vain, the login, again */
    etcd_answer_done(&f->answer);
    ASSERT_OK(etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err), &f->err);
    assert_int_equal(f->call.n_tries, 1);
}

static void a_client_with_a_user_is_served_without_authentication(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    struct etcd_config config = f->cluster->config;
    ASSERT_OK(etcd_config_login(&config, "dibs", "sesame", &f->err), &f->err);
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
}

struct watched {
    int64_t revision;
    size_t n_connected, n_interrupted;
};

static void on_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    struct watched *w = ctx;

    (void) events;
    (void) n;
    w->revision = revision;
}

static void on_cut(void *ctx, int64_t revision)
{
    (void) ctx;
    (void) revision;
    fail_msg("nothing was compacted");
}

static void on_connected(void *ctx, const char *endpoint, bool is_connected)
{
    struct watched *w = ctx;

    (void) endpoint;
    w->n_connected += is_connected;
    w->n_interrupted += !is_connected;
}

#define TURN_UNTIL(watch, condition)                                              \
    do {                                                                          \
        int64_t until_ = in_ms(LONG_MS);                                          \
        while (!(condition)) {                                                    \
            struct pollfd at_ = { .fd = etcd_watch_fd(watch), .events = POLLIN }; \
            if (clock_monotonic_ms() >= until_)                                   \
                fail_msg("not in time: %s", #condition);                          \
            (void) poll(&at_, 1, 100);                                            \
            etcd_watch_turn(watch);                                               \
        }                                                                         \
    } while (0)

static void a_watch_logs_in_by_itself(void **state)
{
    struct fixture *f = *state;
    struct watched seen = { 0 };
    struct etcd_watch *watch = NULL;
    const struct etcd_watch_options options = { .key = ETCD_BYTES("/t/x"),
                                                .changed = on_changed,
                                                .cut = on_cut,
                                                .connected = on_connected,
                                                .ctx = &seen };

    NEED_ETCD();
    make_users(f);
    struct etcd_config config = f->cluster->config;
    ASSERT_OK(etcd_config_login(&config, "dibs", "wrong", &f->err), &f->err);
    ASSERT_OK(etcd_watch_open(&config, &options, &watch, &f->err), &f->err);
    TURN_UNTIL(watch, seen.n_interrupted >= 2);
    assert_int_equal(seen.n_connected, 0);
    etcd_watch_close(watch);
    ASSERT_OK(etcd_config_login(&config, "dibs", "sesame", &f->err), &f->err);
    ASSERT_OK(etcd_watch_open(&config, &options, &watch, &f->err), &f->err);
    TURN_UNTIL(watch, seen.n_connected == 1);
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
    TURN_UNTIL(watch, seen.revision == f->answer.revision);
    end_tokens(f);
    member_kill(f->cluster, 0); /* else the watch would go on: etcd asks for a token only at its beginning */
    member_begin(f->cluster, 0);
    TURN_UNTIL(watch, seen.n_connected == 2);
    ASSERT_OK(ask(f, &config, LONG_MS), &f->err);
    TURN_UNTIL(watch, seen.revision == f->answer.revision);
    etcd_watch_close(watch);
}

/* ---- space ---- */

static void a_store_that_is_full_says_so(void **state)
{
    struct fixture *f = *state;
    static struct ledger_cluster seen;
    size_t bytes = 1000000;
    dibs_status s = DIBS_OK;

    NEED_ETCD();
    ASSERT_OK(ask(f, &f->cluster->config, LONG_MS), &f->err);
    char *value = calloc(1, bytes);
    assert_non_null(value);
    for (int i = 0; i < 50 && s == DIBS_OK; i++) {
        const struct etcd_op op = { .kind = ETCD_PUT,
                                    .key = ETCD_BYTES("/t/large"),
                                    .value = { value, bytes } };

        etcd_answer_done(&f->answer);
        f->call.deadline_ms = in_ms(LONG_MS);
        s = etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err);
    }
    free(value);
    assert_int_equal(s, DIBS_UNAVAILABLE);
    assert_int_equal(f->call.fault, ETCD_FAULT_NO_SPACE);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    ASSERT_OK(etcd_cluster(&f->cluster->config, LONG_MS, &seen, &f->err), &f->err);
    assert_int_equal(seen.n, 1);
    assert_true(seen.member[0].is_full && !seen.member[0].is_corrupt && !seen.has_other_alarm);
}

#define WITH(setup_fn, name) cmocka_unit_test_setup_teardown(name, setup_fn, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(setup_tls, client_certificates_are_shown_and_wanted),
        WITH(setup_tls, servers_that_cannot_be_trusted_are_asked_nothing),
        WITH(setup_tls, a_new_connection_shows_the_certificate_that_there_is_now),
        WITH(setup, users_are_known_by_their_password),
        WITH(setup_tls, where_there_are_users_certificates_have_no_names),
        WITH(setup, a_token_that_has_ended_is_replaced),
        WITH(setup, a_client_with_a_user_is_served_without_authentication),
        WITH(setup, a_watch_logs_in_by_itself),
        WITH(setup_small, a_store_that_is_full_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
