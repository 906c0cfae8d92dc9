/* SPDX-License-Identifier: MIT */
/* The objects that bring dibs into a cluster. Their purpose is shown in e2e/kube_install.bats. */
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "codec/yaml.h"
#include "kube/install/install.h"
#include "support/t.h"

/* "-----BEGIN X", "-----BEGIN Y" and "-----BEGIN Z" */
#define CA "LS0tLS1CRUdJTiBY"
#define CRT "LS0tLS1CRUdJTiBZ"
#define KEY "LS0tLS1CRUdJTiBa"

static const struct install_secrets tls = { (char[]){ "-----BEGIN X" }, (char[]){ "-----BEGIN Y" },
                                            (char[]){ "-----BEGIN Z" },
                                            (char[]){ "id one\nkey 0123456789abcdef0123456789abcdef\n" } };
#define INSTALLATION "aWQgb25lCmtleSAwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZgo="

static bool has(const struct bytes *text, const char *what)
{
    return memmem(text->at, text->n, what, strlen(what)) != NULL;
}

static size_t count(const struct bytes *text, const char *what)
{
    size_t n = 0;

    for (const char *at = text->at; (at = memmem(at, text->n - (size_t) (at - text->at), what, strlen(what)));
         at += strlen(what))
        n++;
    return n;
}

static void values_stand_where_the_files_name_them_and_no_mark_is_left(void **state)
{
    const struct install_value values[] = { { .name = "namespace", .text = "ports" },
                                            { .name = "image", .text = "r/dibs:2" },
                                            { .name = "ledger", .text = "etcd://a:1/\"b\\" },
                                            { .name = "start-port", .text = NULL },
                                            { 0 } };
    struct bytes text = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(install_write(values, &tls, &text, &err), &err);
    assert_false(has(&text, "# {"));
    assert_false(has(&text, "namespace: dibs"));
    assert_true(has(&text, "kind: Namespace\nmetadata:\n  name: \"ports\"\n"));
    assert_int_equal(count(&text, "image: \"r/dibs:2\""), 3);
    assert_true(has(&text, "ledger: \"etcd://a:1/\\\"b\\\\\"\n"));
    assert_true(has(&text, "start-port: \"20000\"\n"));
    assert_true(has(&text, "caBundle: \"" CA "\"\n"));
    assert_true(has(&text, "name: dibs-webhook-tls\n  namespace: \"ports\"\n"));
    assert_true(has(&text, "  ca.crt: \"" CA "\"\n  tls.crt: \"" CRT "\"\n  tls.key: \"" KEY "\"\n"));
    secret_done(&text);
}

static void without_values_the_files_say_everything(void **state)
{
    const struct install_value none[] = { { 0 } };
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    struct bytes text = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(install_write(none, &tls, &text, &err), &err);
    ASSERT_OK(yaml_parse("printed", text.at, text.n, &yaml, &err), &err);
    for (size_t i = 0; i < yaml_count(yaml); i++)
        assert_non_null(yaml_string(yaml_get(yaml_root(yaml, i), "kind")));
    assert_true(has(&text, "name: dibs-webhook-tls\n  namespace: \"dibs\"\n"));
    secret_done(&text);
}

static void a_value_that_kubernetes_would_refuse_is_refused_here(void **state)
{
    static const char *const namespaces[] = {
        "",   "A",   "a.b", "-a",
        "a-", "a b", "a\"", "a234567890123456789012345678901234567890123456789012345678901234"
    };
    static const char *const images[] = { "", "a b", "a\n", "a\"", "{a}" };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++)
        assert_int_equal(install_check_namespace(namespaces[i], &err), DIBS_INVALID);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        assert_int_equal(install_check_image(images[i], &err), DIBS_INVALID);
    ASSERT_OK(install_check_namespace("a", &err), &err);
    ASSERT_OK(
        install_check_namespace("a23456789012345678901234567890123456789012345678901234567890123", &err),
        &err);
    ASSERT_OK(install_check_image("registry.example:5000/team/dibs@sha256:0123", &err), &err);
}

static void allowed_clients_are_a_list_of_address_ranges(void **state)
{
    static const char *const good[] = { "10.0.0.0/28", "fd00::/8", "0.0.0.0/0", "192.0.2.1/32", "::1/128" };
    static const char *const bad[] = { "",
                                       "10.0.0.0",
                                       "10.0.0.0/",
                                       "10.0.0.0/33",
                                       "10.0.0/8",
                                       "::/129",
                                       "10.0.0.0/ 8",
                                       "10.0.0.0/-1",
                                       "localhost/8",
                                       "/8",
                                       "10.0.0.0/8/8",
                                       "\"/8" };
    struct bytes peers = { 0 };
    struct bytes text = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(install_write_ingress(good, 5, &peers, &err), &err);
    const struct install_value values[] = { { .name = "api-server", .text = peers.at, .is_yaml = true },
                                            { 0 } };
    ASSERT_OK(install_write(values, &tls, &text, &err), &err);
    assert_true(has(&text, "  ingress: [{\"from\":[{\"ipBlock\":{\"cidr\":\"10.0.0.0/28\"}},"));
    secret_done(&text);
    bytes_done(&peers);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(install_write_ingress(&bad[i], 1, &peers, &err), DIBS_INVALID);
        bytes_done(&peers);
    }
}

static dibs_status read_secret(const char *text, struct install_secrets *out, dibs_err *err)
{
    return install_secrets_read("secret", text, strlen(text), out, err);
}

static void a_secret_is_read_as_it_was_written(void **state)
{
    struct install_secrets got = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(read_secret("{data: {ca.crt: " CA ", tls.crt: " CRT ", tls.key: " KEY "}}", &got, &err), &err);
    assert_string_equal(got.authority, tls.authority);
    assert_string_equal(got.server, tls.server);
    assert_string_equal(got.key, tls.key);
    install_secrets_done(&got);
}

static void secrets_are_read_from_a_list_and_from_several_documents(void **state)
{
    static const char *const texts[] = {
        "kind: List\nitems:\n- data: {installation: " INSTALLATION "}\n- data: {ca.crt: " CA ", tls.crt: " CRT
        ", tls.key: " KEY "}\n",
        "data: {ca.crt: " CA ", tls.crt: " CRT ", tls.key: " KEY "}\n---\ndata: {installation: " INSTALLATION
        "}\n",
    };

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct install_secrets got = { 0 };
        dibs_err err = { 0 };

        ASSERT_OK(read_secret(texts[i], &got, &err), &err);
        assert_string_equal(got.key, tls.key);
        assert_string_equal(got.installation, tls.installation);
        install_secrets_done(&got);
    }
}

static void a_secret_that_lacks_something_is_refused_with_its_name(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "no ca.crt" },
        { "[]", "no ca.crt" },
        { "data: {ca.crt: []}", "no ca.crt" },
        { "data: {ca.crt: " CA "}", "no tls.crt" },
        { "data: {ca.crt: " CA ", tls.crt: " CRT "}", "no tls.key" },
        { "data: {ca.crt: x}", "ca.crt does not begin with" },
        { "data: {ca.crt: AAAA}", "ca.crt does not begin with" },
        { "data: {ca.crt: \"\"}", "ca.crt does not begin with" },
        { "data: {ca.crt: " CA ", tls.crt: eHh4}", "tls.crt does not begin with" },
        { "data: {ca.crt: " CA ", tls.crt: " CRT ", tls.key: " KEY ", installation: eHh4}",
          "installation does not begin with 'id '" },
        { "data: {ca.crt: " CA ", tls.crt: " CRT ", tls.key: " KEY ", installation: aWQgYQo=}",
          "there is no line 'key ...'" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct install_secrets got = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(read_secret(cases[i].text, &got, &err), DIBS_INVALID);
        assert_non_null(strstr(err.msg, cases[i].why));
        assert_null(got.authority);
    }
}

static void certificates_are_made_for_the_longest_name_and_no_two_are_the_same(void **state)
{
    static const char name[] =
        "dibs-webhook.a23456789012345678901234567890123456789012345678901234567890123.svc";
    struct install_secrets a = { 0 };
    struct install_secrets b = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(install_tls_make(name, 1767225600000, &a, &err), &err);
    ASSERT_OK(install_tls_make(name, 1767225600000, &b, &err), &err);
    assert_non_null(strstr(a.key, "-----BEGIN PRIVATE KEY-----\n"));
    assert_string_not_equal(a.key, b.key);
    assert_string_not_equal(a.authority, b.authority);
    assert_string_not_equal(a.server, b.server);
    install_secrets_done(&a);
    install_secrets_done(&b);
    assert_null(a.key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stand_where_the_files_name_them_and_no_mark_is_left),
        cmocka_unit_test(without_values_the_files_say_everything),
        cmocka_unit_test(a_value_that_kubernetes_would_refuse_is_refused_here),
        cmocka_unit_test(allowed_clients_are_a_list_of_address_ranges),
        cmocka_unit_test(a_secret_is_read_as_it_was_written),
        cmocka_unit_test(secrets_are_read_from_a_list_and_from_several_documents),
        cmocka_unit_test(a_secret_that_lacks_something_is_refused_with_its_name),
        cmocka_unit_test(certificates_are_made_for_the_longest_name_and_no_two_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
