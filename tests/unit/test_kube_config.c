/* SPDX-License-Identifier: MIT */
/* Where the API server is and who we are: kubeconfig and service account. */
#include "support/t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kube/client/config.h"

#define HEAD               \
    "current-context: c\n" \
    "contexts: [{name: other, context: {}}, {name: c, context: {cluster: k, user: u, namespace: here}}]\n"
#define CLUSTER \
    "clusters: [{name: k, cluster: {server: 'https://10.0.0.1:6443/', certificate-authority-data: Q0E=}}]\n"

static dibs_status parse(const char *text, struct kubeapi_config *out, dibs_err *err)
{
    return kubeconfig_parse("config", text, strlen(text), "/nowhere", out, err);
}

static void refused(const char *text, const char *why)
{
    struct kubeapi_config config = { .server = "untouched" };
    dibs_err err = { 0 };

    assert_int_equal(parse(text, &config, &err), DIBS_INVALID);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    assert_string_equal(config.server, "untouched");
}

static void the_current_context_has_user_and_server(void **state)
{
    struct kubeapi_config config = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(parse(HEAD CLUSTER "users: [{name: u, user: {token: t0k, client-certificate-data: QQ==, "
                                 "client-key-data: Qg==}}]\n",
                    &config, &err),
              &err);
    assert_string_equal(config.server, "https://10.0.0.1:6443");
    assert_string_equal(config.credentials[KUBEAPI_CA].text, "CA");
    assert_string_equal(config.credentials[KUBEAPI_CERT].text, "A");
    assert_string_equal(config.credentials[KUBEAPI_KEY].text, "B");
    assert_string_equal(config.credentials[KUBEAPI_TOKEN].text, "t0k");
    assert_string_equal(config.ns, "here");
    kubeapi_config_done(&config);
}

static void files_are_relative_to_the_configuration(void **state)
{
    struct kubeapi_config config = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(parse(HEAD CLUSTER "users: [{name: u, user: {tokenFile: token}}]\n", &config, &err), &err);
    assert_string_equal(config.credentials[KUBEAPI_TOKEN].file, "/nowhere/token");
    kubeapi_config_done(&config);
    ASSERT_OK(parse(HEAD CLUSTER "users: [{name: u, user: {tokenFile: /a/token}}]\n", &config, &err), &err);
    assert_string_equal(config.credentials[KUBEAPI_TOKEN].file, "/a/token");
    kubeapi_config_done(&config);
}

static void an_unsupported_field_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { HEAD CLUSTER "users: [{name: u, user: {exec: {command: aws}}}]", "'exec' would start a program" },
        { HEAD CLUSTER "users: [{name: u, user: {auth-provider: {name: gcp}}}]", "'auth-provider'" },
        { HEAD CLUSTER "users: [{name: u, user: {username: a, password: b}}]", "'username'" },
        { HEAD CLUSTER "users: [{name: u, user: {client-key-data: QQ==}}]", "belong together" },
        { HEAD CLUSTER "users: [{name: v, user: {}}]", "no 'u' in users" },
        { HEAD CLUSTER "users: [{name: u, user: {client-key-data: '*'}}]", "base64" },
        { HEAD CLUSTER "users: [{name: u, user: {client-key: key}}]", "client-key /nowhere/key" },
        { HEAD "clusters: [{name: k, cluster: {server: 'https://a', insecure-skip-tls-verify: true}}]",
          "always checks the server's certificate" },
        { HEAD "clusters: [{name: k, cluster: {server: 'https://a', proxy-url: 'http://b'}}]",
          "'proxy-url'" },
        { HEAD "clusters: [{name: k, cluster: {server: 'http://10.0.0.1'}}]", "https://" },
        { HEAD "clusters: [{name: k, cluster: {server: 'http://127.0.0.1.evil'}}]", "https://" },
        { HEAD "clusters: [{name: k, cluster: {}}]", "no 'server'" },
        { HEAD "clusters: []", "no 'k' in clusters" },
        { "current-context: x\ncontexts: []", "no 'x' in contexts" },
        { "contexts: []", "no current-context" },
        { "", "empty" },
        { "- 1", "no current-context" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].text, rows[i].why);
}

static void loopback_may_be_plain(void **state)
{
    struct kubeapi_config config = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(parse(HEAD "clusters: [{name: k, cluster: {server: 'http://localhost:8001'}}]\n"
                         "users: [{name: u, user: {}}]",
                    &config, &err),
              &err);
    assert_null(config.credentials[KUBEAPI_CA].text);
    assert_null(config.credentials[KUBEAPI_TOKEN].text);
    kubeapi_config_done(&config);
}

static void without_a_server_it_says_what_to_do(void **state)
{
    struct kubeapi_config config = { 0 };
    dibs_err err = { 0 };

    (void) state;
    assert_int_equal(unsetenv("KUBECONFIG"), 0);
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_int_equal(kubeapi_config_load(NULL, &config, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "--kubeconfig"));
    assert_int_equal(setenv("KUBECONFIG", "/a:/b", 1), 0);
    assert_int_equal(kubeapi_config_load(NULL, &config, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "--flatten"));
    assert_int_equal(unsetenv("KUBECONFIG"), 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* So that they can be read again. */
static void a_configuration_says_where_its_certificates_came_from(void **state)
{
    char directory[] = "/tmp/dibs-pem-XXXXXX";
    char path[sizeof directory + 8] = "";
    char text[512] = "";
    struct kubeapi_config config = { 0 };
    dibs_err err = { 0 };

    (void) state;
    assert_non_null(mkdtemp(directory));
    (void) snprintf(path, sizeof path, "%s/pem", directory);
    write_file(path, "-----BEGIN\n");
    (void) snprintf(text, sizeof text,
                    HEAD "clusters: [{name: k, cluster: {server: 'https://a', certificate-authority: %s}}]\n"
                         "users: [{name: u, user: {client-certificate: %s, client-key-data: QQ==}}]\n",
                    path, path);
    ASSERT_OK(parse(text, &config, &err), &err);
    assert_string_equal(config.credentials[KUBEAPI_CA].file, path);
    assert_string_equal(config.credentials[KUBEAPI_CA].text, "-----BEGIN\n");
    assert_string_equal(config.credentials[KUBEAPI_CERT].file, path);
    assert_string_equal(config.credentials[KUBEAPI_KEY].file, "");
    kubeapi_config_done(&config);
    assert_int_equal(unlink(path) | rmdir(directory), 0);
}

static void a_token_is_read_again_when_its_file_changes(void **state)
{
    char directory[] = "/tmp/dibs-token-XXXXXX";
    struct kubeapi_config config = { 0 };
    struct kubeapi_credential *token = &config.credentials[KUBEAPI_TOKEN];
    bool is_new = false;
    dibs_err err = { 0 };
    char other[sizeof directory + 8] = "";

    (void) state;
    assert_non_null(mkdtemp(directory));
    (void) snprintf(token->file, sizeof token->file, "%s/token", directory);
    (void) snprintf(other, sizeof other, "%s/other", directory);
    assert_int_equal(kubeapi_renew(&config, KUBEAPI_TOKEN, &is_new, &err), DIBS_INVALID);
    assert_false(is_new);
    write_file(token->file, "one\n");
    ASSERT_OK(kubeapi_renew(&config, KUBEAPI_TOKEN, &is_new, &err), &err);
    assert_true(is_new);
    assert_string_equal(token->text, "one\n");
    write_file(other, "two");
    assert_int_equal(rename(other, token->file), 0);
    ASSERT_OK(kubeapi_renew(&config, KUBEAPI_TOKEN, &is_new, &err), &err);
    assert_string_equal(token->text, "two");
    assert_int_equal(unlink(token->file), 0); /* kubelet is just replacing it */
    ASSERT_OK(kubeapi_renew(&config, KUBEAPI_TOKEN, &is_new, &err), &err);
    assert_string_equal(token->text, "two");
    kubeapi_config_done(&config);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_current_context_has_user_and_server),
        cmocka_unit_test(files_are_relative_to_the_configuration),
        cmocka_unit_test(an_unsupported_field_is_refused_by_name),
        cmocka_unit_test(loopback_may_be_plain),
        cmocka_unit_test(without_a_server_it_says_what_to_do),
        cmocka_unit_test(a_configuration_says_where_its_certificates_came_from),
        cmocka_unit_test(a_token_is_read_again_when_its_file_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
