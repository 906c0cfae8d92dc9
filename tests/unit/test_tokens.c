/* SPDX-License-Identifier: MIT */
#include "daemon/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/child.h"
#include "support/ledger.h"

#define A16 "aaaaaaaaaaaaaaaa"
#define B16 "bbbbbbbbbbbbbbbb"

static struct tokens *parse(const char *text)
{
    struct tokens *tokens = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(tokens_parse("test", text, strlen(text), &tokens, &err), &err);
    return tokens;
}

static const char *whose(const struct tokens *tokens, const char *token)
{
    static char principal[DIBS_PRINCIPAL_MAX + 1];
    uint32_t uid = 0;

    if (!tokens_find(tokens, token, strlen(token), &uid))
        return NULL;
    (void) snprintf(principal, sizeof principal, "uid:%u", uid);
    return principal;
}

static void a_token_is_its_principals(void **state)
{
    struct tokens *tokens = parse("# who may come in\n\nuid:0 " A16 "\n \tuid:1000\t" B16 "  \n"
                                  "   # more\nuid:4294967294 !~" A16);

    (void) state;
    assert_string_equal(whose(tokens, A16), "uid:0");
    assert_string_equal(whose(tokens, B16), "uid:1000");
    assert_string_equal(whose(tokens, "!~" A16), "uid:4294967294"); /* the last line needs no end */
    tokens_free(tokens);
}

static void nothing_but_the_whole_token_is_one(void **state)
{
    static const char *const wrong[] = {
        "",      "a", "aaaaaaaaaaaaaaa", A16 "a", "aaaaaaaaaaaaaaab", "baaaaaaaaaaaaaaa", "AAAAAAAAAAAAAAAA",
        A16 " ",
    };
    struct tokens *tokens = parse("uid:1 " A16 "\n");
    uint32_t uid = 77;
    char padded[TOKENS_TOKEN_MAX + 1] = A16;

    (void) state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_null(whose(tokens, wrong[i]));
    /* Longer than any, and as long as it is kept inside. */
    assert_false(tokens_find(tokens, padded, sizeof padded, &uid));
    assert_int_equal(uid, 77); /* untouched */
    tokens_free(tokens);
    tokens = parse("");
    assert_null(whose(tokens, A16));
    tokens_free(tokens);
    tokens_free(NULL);
}

static void tokens_of_the_shortest_and_of_the_longest_length_are_taken(void **state)
{
    char text[512] = "";
    char longest[TOKENS_TOKEN_MAX + 2] = "";

    (void) state;
    memset(longest, 'x', TOKENS_TOKEN_MAX);
    (void) snprintf(text, sizeof text, "uid:1 %s\nuid:2 " A16, longest);
    struct tokens *tokens = parse(text);
    assert_string_equal(whose(tokens, longest), "uid:1");
    assert_string_equal(whose(tokens, A16), "uid:2");
    longest[TOKENS_TOKEN_MAX - 1] = 'y';
    assert_null(whose(tokens, longest));
    tokens_free(tokens);
}

static void one_wrong_line_refuses_all_and_shows_no_token(void **state)
{
    static const struct {
        const char *line, *why;
    } rows[] = {
        { "uid:1", "a token of 16 to 256" },
        { "uid:1 short", "a token of 16 to 256" },
        { "uid:1 aaaaaaaaaaaaaaa", "a token of 16 to 256" },
        { "uid:1 " B16 "\r", "a token of 16 to 256" },
        { "uid:1 " B16 "\x7f", "a token of 16 to 256" },
        { "uid:1 " B16 "\xc3\xa9", "a token of 16 to 256" },
        { "uid:1 " B16 " more", "more on the line" },
        { "uid:1 " A16, "there already" },
        { "uid:7 " A16, "there already" },
        { B16, "expected 'uid:N TOKEN'" },
        { "uid: " B16, "expected 'uid:N TOKEN'" },
        { "uid:-1 " B16, "expected 'uid:N TOKEN'" },
        { "uid:+1 " B16, "expected 'uid:N TOKEN'" },
        { "uid:01 " B16, "expected 'uid:N TOKEN'" },
        { "uid:4294967295 " B16, "expected 'uid:N TOKEN'" },
        { "uid:99999999999 " B16, "expected 'uid:N TOKEN'" },
        { "uid:1@2 " B16, "expected 'uid:N TOKEN'" },
        { "UID:1 " B16, "expected 'uid:N TOKEN'" },
        { "ns:shop " B16, "expected 'uid:N TOKEN'" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokens *tokens = NULL;
        dibs_err err = { 0 };
        char text[256];

        (void) snprintf(text, sizeof text, "#\nuid:1 " A16 "\n%s\n", rows[i].line);
        assert_int_equal(tokens_parse("FILE", text, strlen(text), &tokens, &err), DIBS_INVALID);
        assert_null(tokens);
        if (!strstr(err.msg, rows[i].why) || !strstr(err.msg, "FILE:3: "))
            fail_msg("'%s': %s", rows[i].line, err.msg);
        assert_null(strstr(err.msg, "aaaa"));
        assert_null(strstr(err.msg, "bbbb"));
    }
}

static void there_are_no_more_tokens_than_can_be_compared(void **state)
{
    enum { LINE = 32 };
    char *text = calloc(TOKENS_MAX + 1, LINE);
    struct tokens *tokens = NULL;
    dibs_err err = { 0 };
    char token[LINE];
    size_t n = 0;

    (void) state;
    assert_non_null(text);
    for (int i = 0; i < TOKENS_MAX; i++)
        n += (size_t) snprintf(text + n, LINE, "uid:%d token-%010d\n", i, i);
    ASSERT_OK(tokens_parse("FILE", text, n, &tokens, &err), &err);
    for (int i = 0; i < TOKENS_MAX; i++) {
        char wanted[LINE];

        (void) snprintf(token, sizeof token, "token-%010d", i);
        (void) snprintf(wanted, sizeof wanted, "uid:%d", i);
        assert_string_equal(whose(tokens, token), wanted);
    }
    tokens_free(tokens);
    tokens = NULL;
    n += (size_t) snprintf(text + n, LINE, "uid:5 " A16 "\n");
    assert_int_equal(tokens_parse("FILE", text, n, &tokens, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "FILE:1025: too many tokens"));
    assert_null(tokens);
    free(text);
}

/* ---- files ---- */

struct place {
    char dir[256];
    char path[300];
};

static int make_place(void **state)
{
    struct place *at = calloc(1, sizeof *at);

    assert_non_null(at);
    t_make_directory(at->dir);
    (void) snprintf(at->path, sizeof at->path, "%s/tokens", at->dir);
    *state = at;
    return 0;
}

static int remove_place(void **state)
{
    struct place *at = *state;

    t_remove_directory(at->dir);
    free(at);
    return 0;
}

static void put(const struct place *at, const char *text, mode_t mode)
{
    (void) unlink(at->path); /* one that may not be written */
    FILE *file = fopen(at->path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(at->path, mode), 0);
}

static void load(const struct place *at, struct tokens **tokens)
{
    dibs_err err = { 0 };

    tokens_free(*tokens);
    ASSERT_OK(tokens_load(at->path, tokens, &err), &err);
}

static void a_file_is_loaded_as_a_whole_or_refused(void **state)
{
    const struct place *at = *state;
    struct tokens *tokens = NULL;
    struct tokens *refused = NULL;

    put(at, "uid:1 " A16 "\n", 0600);
    load(at, &tokens);
    assert_string_equal(whose(tokens, A16), "uid:1");
    put(at, "uid:2 " B16 "\nuid:3 short\n", 0600);
    assert_int_equal(tokens_load(at->path, &refused, NULL), DIBS_INVALID);
    assert_null(refused);
    put(at, "uid:2 " B16 "\n", 0400);
    load(at, &tokens);
    assert_null(whose(tokens, A16));
    assert_string_equal(whose(tokens, B16), "uid:2");
    put(at, "", 0640); /* no token is valid any more */
    load(at, &tokens);
    assert_null(whose(tokens, B16));
    tokens_free(tokens);
}

static void a_file_that_others_can_use_is_refused_with_what_to_do(void **state)
{
    static const mode_t modes[] = { 0604, 0602, 0601, 0620, 0644, 0666, 0777 };
    const struct place *at = *state;
    struct tokens *tokens = NULL;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        dibs_err err = { 0 };

        put(at, "uid:1 " A16 "\n", modes[i]);
        assert_int_equal(tokens_load(at->path, &tokens, &err), DIBS_DENIED);
        assert_non_null(strstr(err.msg, "chmod 600"));
        assert_null(tokens);
    }
}

static void a_strangers_file_is_refused(void **state)
{
    const struct place *at = *state;
    struct tokens *tokens = NULL;
    dibs_err err = { 0 };

    need_root();
    put(at, "uid:1 " A16 "\n", 0600);
    assert_int_equal(chown(at->path, CHILD_NOBODY, 0), 0);
    assert_int_equal(tokens_load(at->path, &tokens, &err), DIBS_DENIED);
    assert_non_null(strstr(err.msg, "belongs to user 65534"));
    assert_null(tokens);
}

static void a_malformed_tokens_file_is_refused_at_once(void **state)
{
    const struct place *at = *state;
    struct tokens *tokens = NULL;
    dibs_err err = { 0 };

    assert_int_equal(tokens_load(at->path, &tokens, &err), DIBS_INVALID); /* not there */
    assert_int_equal(tokens_load(at->dir, &tokens, &err), DIBS_INVALID);
    assert_int_equal(mkfifo(at->path, 0600), 0);
    assert_int_equal(tokens_load(at->path, &tokens, &err), DIBS_INVALID); /* and does not wait for a writer */
    assert_int_equal(unlink(at->path), 0);
    put(at, "#", 0600);
    assert_int_equal(truncate(at->path, 1 << 20), 0);
    assert_int_equal(tokens_load(at->path, &tokens, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "more than 524288 bytes"));
    assert_null(tokens);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_its_principals),
        cmocka_unit_test(nothing_but_the_whole_token_is_one),
        cmocka_unit_test(tokens_of_the_shortest_and_of_the_longest_length_are_taken),
        cmocka_unit_test(one_wrong_line_refuses_all_and_shows_no_token),
        cmocka_unit_test(there_are_no_more_tokens_than_can_be_compared),
        WITH_FILE(a_file_is_loaded_as_a_whole_or_refused),
        WITH_FILE(a_file_that_others_can_use_is_refused_with_what_to_do),
        WITH_FILE(a_strangers_file_is_refused),
        WITH_FILE(a_malformed_tokens_file_is_refused_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
