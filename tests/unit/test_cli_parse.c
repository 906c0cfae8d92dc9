/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "cli/parse.h"
#include "support/t.h"

/* One command line, parsed as main() does it. argv is compacted in place, so it is a copy. */
#define ARGS_MAX 300
struct line {
    struct cli cli;
    char *argv[ARGS_MAX + 1];
    char *owned[ARGS_MAX + 1];
    dibs_err err;
};

static dibs_status parse(struct line *line, const char *const *words)
{
    int argc = 0;

    memset(line, 0, sizeof *line);
    while (words[argc]) {
        assert_true(argc < ARGS_MAX);
        line->owned[argc] = strdup(words[argc]);
        assert_non_null(line->owned[argc]);
        line->argv[argc] = line->owned[argc];
        argc++;
    }
    line->cli.exit_code = -1;
    return cli_parse(&line->cli, argc, line->argv, &line->err);
}
#define PARSE(line, ...) parse((line), (const char *const[]){ "dibs", __VA_ARGS__, NULL })

static void done(struct line *line)
{
    for (size_t i = 0; line->owned[i]; i++)
        free(line->owned[i]);
}

/* The line is refused with a message of one line that says `why`. */
static void refused(struct line *line, dibs_status s, const char *why)
{
    if (s != DIBS_INVALID)
        fail_msg("expected a refusal (%s), got %s", why, dibs_status_text(s));
    if (!strstr(line->err.msg, why))
        fail_msg("'%s' does not say '%s'", line->err.msg, why);
    assert_null(strchr(line->err.msg, '\n'));
    done(line);
}
#define REFUSED(why, ...)                         \
    do {                                          \
        struct line l_;                           \
        dibs_status s_ = PARSE(&l_, __VA_ARGS__); \
        refused(&l_, s_, (why));                  \
    } while (0)

static void arguments_and_options_may_be_mixed(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "--json", "claim", "web", "--proto", "udp", "api", "--keep"), &line.err);
    assert_ptr_equal(line.cli.cmd, &cmd_claim);
    assert_int_equal(line.cli.argc, 2);
    assert_string_equal(line.cli.argv[0], "web");
    assert_string_equal(line.cli.argv[1], "api");
    assert_null(line.cli.argv[2]);
    assert_string_equal(cli_value(&line.cli, "proto"), "udp");
    assert_true(cli_has(&line.cli, "keep"));
    assert_false(cli_has(&line.cli, "ttl"));
    assert_true(line.cli.json);
    assert_false(line.cli.quiet);
    done(&line);
}

static void a_value_comes_after_a_blank_an_equals_sign_or_at_once(void **state)
{
    static const char *const ways[][4] = {
        { "--count", "3" }, { "--count=3" }, { "-n", "3" }, { "-n3" }, { "-qn3" }, { "-qn", "3" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct line line;
        const char *words[] = { "dibs", "claim", ways[i][0], ways[i][1], NULL };
        ASSERT_OK(parse(&line, words), &line.err);
        assert_string_equal(cli_value(&line.cli, "count"), "3");
        assert_int_equal(line.cli.quiet, ways[i][0][1] == 'q');
        assert_int_equal(line.cli.argc, 0);
        done(&line);
    }
}

static void an_equals_sign_in_a_value_belongs_to_the_value(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "run", "--port=web=8080", "true"), &line.err);
    assert_string_equal(cli_value(&line.cli, "port"), "web=8080");
    done(&line);
}

static void a_value_may_look_like_an_option(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "claim", "--range", "--json"), &line.err);
    assert_string_equal(cli_value(&line.cli, "range"), "--json");
    assert_false(line.cli.json);
    done(&line);
}

static void two_dashes_end_the_options(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "claim", "--", "--json", "-q"), &line.err);
    assert_int_equal(line.cli.argc, 2);
    assert_string_equal(line.cli.argv[0], "--json");
    assert_false(line.cli.json);
    assert_false(line.cli.quiet);
    done(&line);
}

static void one_dash_is_an_argument(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "claim", "-"), &line.err);
    assert_int_equal(line.cli.argc, 1);
    done(&line);
}

static void options_of_run_end_at_its_command(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "run", "-p", "web", "-q", "server", "--json", "-p", "x", "--", ""), &line.err);
    assert_int_equal(line.cli.argc, 6);
    assert_string_equal(line.cli.argv[0], "server");
    assert_string_equal(line.cli.argv[1], "--json");
    assert_string_equal(line.cli.argv[4], "--");
    assert_string_equal(line.cli.argv[5], ""); /* an empty argument is the command's business */
    assert_false(line.cli.json);
    assert_true(line.cli.quiet);
    assert_null(cli_value_at(&line.cli, "port", 1));
    done(&line);
}

static void repeatable_options_keep_their_order(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "run", "-pa", "--port", "b", "-p", "c", "true"), &line.err);
    assert_string_equal(cli_value_at(&line.cli, "port", 0), "a");
    assert_string_equal(cli_value_at(&line.cli, "port", 1), "b");
    assert_string_equal(cli_value_at(&line.cli, "port", 2), "c");
    assert_null(cli_value_at(&line.cli, "port", 3));
    done(&line);
}

static void a_commands_own_option_hides_the_setting_of_that_name(void **state)
{
    struct line line;
    dibs_flag flags[DIBS_SETTING_COUNT];

    (void) state;
    ASSERT_OK(PARSE(&line, "--ttl", "1h", "claim", "--ttl", "5m", "--timeout=3s"), &line.err);
    assert_string_equal(cli_value(&line.cli, "ttl"), "5m");
    assert_int_equal(cli_flags(&line.cli, flags), 2);
    assert_int_equal(flags[0].setting, DIBS_SET_TTL);
    assert_string_equal(flags[0].value, "1h");
    assert_int_equal(flags[1].setting, DIBS_SET_TIMEOUT);
    assert_string_equal(flags[1].value, "3s");
    done(&line);

    ASSERT_OK(PARSE(&line, "--ttl", "1h", "claim"), &line.err);
    assert_null(cli_value(&line.cli, "ttl")); /* the setting is not the request's */
    done(&line);
}

static void every_setting_is_an_option_of_every_command(void **state)
{
    (void) state;
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        static const char *const names[] = {
#define X(id, name, summary) "--" name,
            DIBS_SETTING_MAP(X)
#undef X
        };
        struct line line;
        dibs_flag flags[DIBS_SETTING_COUNT];
        bool is_switch = i == DIBS_SET_ALLOW_EPHEMERAL || i == DIBS_SET_ALLOW_BLOCKED;
        const char *words[] = { "dibs", names[i], is_switch ? "version" : "value",
                                is_switch ? NULL : "version", NULL };
        ASSERT_OK(parse(&line, words), &line.err);
        assert_ptr_equal(line.cli.cmd, &cmd_version);
        assert_int_equal(cli_flags(&line.cli, flags), 1);
        assert_int_equal(flags[0].setting, i);
        assert_string_equal(flags[0].value, is_switch ? "true" : "value");
        done(&line);
    }
}

static void help_needs_no_arguments(void **state)
{
    struct line line;

    (void) state;
    ASSERT_OK(PARSE(&line, "get", "-qh"), &line.err);
    assert_true(cli_has(&line.cli, "help"));
    done(&line);
    ASSERT_OK(PARSE(&line, "--help"), &line.err);
    assert_null(line.cli.cmd);
    done(&line);
}

static void no_words_at_all_are_no_command(void **state)
{
    struct line line;
    const char *nothing[] = { NULL };

    (void) state;
    ASSERT_OK(parse(&line, nothing), &line.err);
    assert_null(line.cli.cmd);
    assert_int_equal(line.cli.argc, 0);
    done(&line);
}

static void the_nearest_name_is_suggested(void **state)
{
    (void) state;
    REFUSED("claim: unknown option '--prot'; did you mean '--proto'?", "claim", "--prot", "tcp");
    REFUSED("did you mean '--json'?", "claim", "--jsno");
    REFUSED("did you mean '--version'?", "--verison");
    REFUSED("did you mean '--count'?", "claim", "--cuont=3");
    REFUSED("unknown command 'clam'; did you mean 'claim'?", "clam");
    REFUSED("unknown command 'zz'; 'dibs --help' lists them", "zz"); /* two wrong letters of two */
    REFUSED("unknown option '--wibble'; see 'dibs claim --help'", "claim", "--wibble");
    REFUSED("unknown option '--'", "claim", "--=x");
}

static void unknown_options_are_refused(void **state)
{
    (void) state;
    REFUSED("unknown option '-x'", "claim", "-x");
    REFUSED("unknown option '-x'", "claim", "-qx");
    REFUSED("unknown option '-1'", "release", "-1");
    REFUSED("unknown option '--count'", "get", "--count", "3");
    REFUSED("unknown option '--version'", "claim", "--version"); /* stands in front of commands only */
}

static void wrong_values_are_refused(void **state)
{
    (void) state;
    REFUSED("claim: option '--proto' needs a value: PROTO", "claim", "--proto");
    REFUSED("claim: option '--count' needs a value: N", "claim", "-qn");
    REFUSED("option '--ledger' needs a value", "--ledger");
    REFUSED("claim: option '--keep' takes no value", "claim", "--keep=yes");
    REFUSED("option '--json' takes no value", "claim", "--json=");
    REFUSED("needs a value that is not empty", "claim", "--proto=");
    REFUSED("needs a value that is not empty", "claim", "--range", "");
    REFUSED("claim: option '--proto' is given twice", "claim", "--proto", "tcp", "--proto=tcp");
    REFUSED("option '--quiet' is given twice", "claim", "-qq");
    REFUSED("option '--quiet' is given twice", "-q", "claim", "-q");
}

static void wrong_arguments_are_refused(void **state)
{
    (void) state;
    REFUSED("claim: an argument is empty", "claim", "");
    REFUSED("explain: too few arguments; usage: dibs explain PORT|NAME", "explain");
    REFUSED("get: unexpected argument 'b'", "get", "a", "b");
    REFUSED("unknown command ''", "");
}

static void text_of_the_user_is_cut_and_made_safe(void **state)
{
    enum { HUGE = 1 << 20 };
    char *huge = malloc(HUGE + 1);
    struct line line;

    (void) state;
    assert_non_null(huge);
    memset(huge, 'a', HUGE);
    huge[HUGE] = '\0';
    assert_int_equal(PARSE(&line, "get", "web", huge), DIBS_INVALID);
    assert_true(strlen(line.err.msg) < 200);
    done(&line);
    memcpy(huge, "--", 2);
    assert_int_equal(PARSE(&line, "get", huge), DIBS_INVALID);
    assert_true(strlen(line.err.msg) < 200);
    done(&line);
    free(huge);
    REFUSED("unknown command 'a?[31m?b'", "a\033[31m\nb");
    REFUSED("unknown option '--?'", "claim", "--\xff");
}

static void options_beyond_the_limit_are_refused(void **state)
{
    const char *words[ARGS_MAX] = { "dibs", "run" };
    struct line line;

    (void) state;
    for (int i = 0; i < CLI_OPTIONS_MAX + 1; i++)
        words[2 + i] = "-pweb";
    refused(&line, parse(&line, words), "more than 256 options");
}

static void safe_text_never_writes_beyond_its_buffer(void **state)
{
    static const struct {
        const char *in;
        size_t size;
        const char *out;
    } cases[] = {
        { "web", 4, "web" },
        { "webs", 4, "..." },
        { "abcdefgh", 8, "abcd..." },
        { "abcdefg", 8, "abcdefg" },
        { "ab", 2, "a" },
        { "", 1, "" },
        { "a\tb", 8, "a?b" },
        { "\xc3\xa9", 8, "\xc3\xa9" },
        { "\xc3", 8, "?" },
        { "\xc0\xaf", 8, "??" },
        { "\xc2\x9b", 8, "?" },
        { "\xe2\x80\xae", 8, "?" },
        { "\xed\xa0\x80", 8, "???" },
        { "\x7f", 8, "?" },
        { "a\xf0\x9f\x90\xb3z", 16, "a\xf0\x9f\x90\xb3z" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[32];
        memset(out, '#', sizeof out);
        assert_string_equal(text_safe(cases[i].in, out, cases[i].size), cases[i].out);
        assert_int_equal(out[cases[i].size], '#');
    }
}

static dibs_status number(const char *text, int64_t *out)
{
    struct line line;

    ASSERT_OK(PARSE(&line, "claim", "-n", text), &line.err);
    dibs_status s = cli_number_from(&line.cli, "count", 1, 10, out, &line.err);
    done(&line);
    return s;
}

static void numbers_are_digits_within_bounds(void **state)
{
    static const char *const bad[] = { "0",  "11",  "-1",
                                       "+1", "1e0", " 1",
                                       "1 ", "0x1", "99999999999999999999999" };
    int64_t out = 77;

    (void) state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(number(bad[i], &out), DIBS_INVALID);
        assert_int_equal(out, 77);
    }
    assert_int_equal(number("1", &out), DIBS_OK);
    assert_int_equal(out, 1);
    assert_int_equal(number("010", &out), DIBS_OK);
    assert_int_equal(out, 10);
}

/* The table is what help, man page and completions are made of. */
static void every_row_of_the_table_is_complete(void **state)
{
    (void) state;
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_cmd *cmd = cli_commands[i];
        assert_int_equal((cmd->run != NULL) + (cmd->program != NULL) + (cmd->verbs != NULL), 1);
        assert_true(cmd->summary[strlen(cmd->summary) - 1] != '.');
        assert_non_null(cmd->args);
        assert_ptr_equal(cli_find_command(cmd->name), cmd);
        for (size_t k = 0; cmd->opts && cmd->opts[k].name; k++) {
            const struct cli_opt *opt = &cmd->opts[k];
            assert_non_null(opt->help);
            for (size_t m = 0; m < k; m++) {
                assert_string_not_equal(cmd->opts[m].name, opt->name);
                assert_true(!opt->letter || cmd->opts[m].letter != opt->letter);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_and_options_may_be_mixed),
        cmocka_unit_test(a_value_comes_after_a_blank_an_equals_sign_or_at_once),
        cmocka_unit_test(an_equals_sign_in_a_value_belongs_to_the_value),
        cmocka_unit_test(a_value_may_look_like_an_option),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(one_dash_is_an_argument),
        cmocka_unit_test(options_of_run_end_at_its_command),
        cmocka_unit_test(repeatable_options_keep_their_order),
        cmocka_unit_test(a_commands_own_option_hides_the_setting_of_that_name),
        cmocka_unit_test(every_setting_is_an_option_of_every_command),
        cmocka_unit_test(help_needs_no_arguments),
        cmocka_unit_test(no_words_at_all_are_no_command),
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(unknown_options_are_refused),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(text_of_the_user_is_cut_and_made_safe),
        cmocka_unit_test(options_beyond_the_limit_are_refused),
        cmocka_unit_test(safe_text_never_writes_beyond_its_buffer),
        cmocka_unit_test(numbers_are_digits_within_bounds),
        cmocka_unit_test(every_row_of_the_table_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
