/* SPDX-License-Identifier: MIT */
/* The file of an installation, and the signatures that its keys make. */
#include "support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kube/install/installation.h"

#define KEY_A "0123456789abcdef0123456789abcdef"
#define KEY_B "fedcba9876543210fedcba9876543210"

static struct installation parsed(const char *text)
{
    struct installation out = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(installation_parse("file", text, &out, &err), &err);
    return out;
}

static void an_installation_is_made_with_another_id_and_key_each_time(void **state)
{
    char texts[2][INSTALLATION_TEXT_MAX];
    struct installation made[2];
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        ASSERT_OK(installation_make(texts[i], &err), &err);
        made[i] = parsed(texts[i]);
        assert_int_equal(made[i].n_keys, 1);
        assert_int_equal(strlen(made[i].keys[0]), 64);
    }
    assert_string_not_equal(made[0].id, made[1].id);
    assert_string_not_equal(made[0].keys[0], made[1].keys[0]);
}

static void a_file_of_another_form_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "", "there is no line 'id ...'" },
        { "id a\n", "there is no line 'key ...'" },
        { "key " KEY_A "\n", "there is no line 'id ...'" },
        { "id a\nid b\nkey " KEY_A "\n", "file:2: " },
        { "id a\nkey short\n", "file:2: " },
        { "id a\n\nkey " KEY_A " \n", "file:3: " },
        { "id \nkey " KEY_A "\n", "file:1: " },
        { "id 0123456789012345678901234567890123456789012345678901234567890123\n", "file:1: " },
        { "id a\nkeys " KEY_A "\n", "file:2: " },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct installation out = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(installation_parse("file", rows[i].text, &out, &err), DIBS_INVALID);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("%zu: %s", i, err.msg);
        assert_int_equal(out.n_keys, 0);
    }
    /* a last line without its end, and ends of lines as an editor may write them */
    assert_int_equal(parsed("id a\r\nkey " KEY_A "\r\nkey " KEY_B).n_keys, 2);
}

static void a_file_that_others_can_read_is_refused(void **state)
{
    char path[] = "/tmp/dibs-installation-XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "id a\nkey " KEY_A "\n";
    struct installation out = { 0 };
    dibs_err err = { 0 };

    (void) state;
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text));
    ASSERT_OK(installation_read(path, &out, &err), &err);
    assert_string_equal(out.id, "a");
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(installation_read(path, &out, &err), DIBS_DENIED);
    assert_int_equal(installation_read(NULL, &out, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "--installation"));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

/* RFC 2104 with SHA-256, of the statement's parts with a NUL byte behind each. */
static void a_signature_is_what_another_program_computes(void **state)
{
    const struct installation installation = parsed("id a\nkey " KEY_A "\n");
    const struct installation_statement says = { "ns:shop", "1", "[]" };
    char signature[INSTALLATION_SIGNATURE_MAX + 1];
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(installation_sign(&installation, &says, signature, &err), &err);
    assert_string_equal(signature, "f17a29171fb09e1db72da877b33add9711b4bc1c78e7a18e9f1f127f879f5213");
}

static void a_signature_is_for_one_statement_of_one_installation(void **state)
{
    const struct installation a = parsed("id a\nkey " KEY_A "\n");
    const struct installation other_id = parsed("id b\nkey " KEY_A "\n");
    const struct installation other_key = parsed("id a\nkey " KEY_B "\n");
    const struct installation_statement says = { "ns:shop", "12", "[]" };
    static const struct installation_statement others[] = {
        { "ns:shoq", "12", "[]" }, { "ns:shop", "13", "[]" }, { "ns:shop", "12", "[1]" },
        { "ns:shop", "1", "2[]" }, { "ns:shop1", "2", "[]" },
    };
    char signature[INSTALLATION_SIGNATURE_MAX + 1];
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(installation_sign(&a, &says, signature, &err), &err);
    assert_true(installation_has_signed(&a, &says, signature));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(installation_has_signed(&a, &others[i], signature));
    assert_false(installation_has_signed(&other_id, &says, signature));
    assert_false(installation_has_signed(&other_key, &says, signature));
    assert_false(installation_has_signed(&a, &says, NULL));
    assert_false(installation_has_signed(&a, &says, ""));
    signature[63] = (char) (signature[63] == '0' ? '1' : '0');
    assert_false(installation_has_signed(&a, &says, signature));
}

static void after_a_rotation_the_first_key_signs_and_all_are_accepted(void **state)
{
    const struct installation before = parsed("id a\nkey " KEY_A "\n");
    const struct installation during = parsed("id a\nkey " KEY_B "\nkey " KEY_A "\n");
    const struct installation after = parsed("id a\nkey " KEY_B "\n");
    const struct installation_statement says = { "ns:shop", "1", "[]" };
    char old[INSTALLATION_SIGNATURE_MAX + 1];
    char new[INSTALLATION_SIGNATURE_MAX + 1];
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(installation_sign(&before, &says, old, &err), &err);
    ASSERT_OK(installation_sign(&during, &says, new, &err), &err);
    assert_true(installation_has_signed(&during, &says, old));
    assert_true(installation_has_signed(&during, &says, new));
    assert_true(installation_has_signed(&after, &says, new));
    assert_false(installation_has_signed(&after, &says, old));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_installation_is_made_with_another_id_and_key_each_time),
        cmocka_unit_test(a_file_of_another_form_is_refused_with_its_line),
        cmocka_unit_test(a_file_that_others_can_read_is_refused),
        cmocka_unit_test(a_signature_is_what_another_program_computes),
        cmocka_unit_test(a_signature_is_for_one_statement_of_one_installation),
        cmocka_unit_test(after_a_rotation_the_first_key_signs_and_all_are_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
