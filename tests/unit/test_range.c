/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "dibs/net.h"
#include "support/t.h"

/* `want` is the canonical text, or NULL when `why` must be the reason. Where the seeds
 * contradict each other (one port alone, port 0, blanks inside, empty text), the row shows
 * what dibs does and `seed` what they did. */
struct row {
    const char *text;
    const char *want;
    const char *why;
    const char *seed;
};

#define TOO_BIG "the port range cannot be greater than 65535"
#define BACKWARDS "end port cannot be less than start port"
#define ZERO "port 0 is not a port"
#define SIGN "a number has no sign"
#define MIXED "'+' and '-' cannot be mixed"
#define TWICE "more than one '-' or '+'"
#define MISSING "a number is missing"
#define DIGITS "a port is written in decimal digits only"
#define EMPTY "is empty, it names no port"
#define STRAY "numbers are separated by '-', '+' or ','"
#define CONTROL "control characters are not allowed"

static const struct row kubernetes[] = {
    /* "PortRange (19)" of seeds 3.9, in its order. */
    { "100-200", "100-200", NULL, "ok" },
    { " 100-200 ", "100-200", NULL, "ok" },
    { "0-0", NULL, ZERO, "ok: 0-0" },
    { "", NULL, EMPTY, "ok: empty" },
    { "100", "100-100", NULL, "ok" },
    { "100 - 200", "100-200", NULL, "Kubernetes refuses, DCP takes" },
    { "-100", NULL, SIGN, "refused" },
    { "100-", NULL, MISSING, "refused" },
    { "200-100", NULL, BACKWARDS, "refused" },
    { "60000-70000", NULL, TOO_BIG, "refused" },
    { "70000-80000", NULL, TOO_BIG, "refused" },
    { "70000+80000", NULL, TOO_BIG, "refused" },
    { "1+0", "1-1", NULL, "ok" },
    { "0+0", NULL, ZERO, "ok: 0-0" },
    { "1+-1", NULL, SIGN, "refused" },
    { "1-+1", NULL, SIGN, "refused" },
    { "100+200", "100-300", NULL, "ok" },
    { "1+65535", NULL, TOO_BIG, "refused" },
    { "0+65535", NULL, ZERO, "ok: 0-65535" },
    /* Seeds 3.1 and 3.2. */
    { "1+2-3", NULL, MIXED, "refused" },
    { "1-2+3", NULL, MIXED, "refused" },
    { "30000-32767", "30000-32767", NULL, "the default" },
    { "0-65535", NULL, ZERO, "size 65536" },
    { "20000-32767", "20000-32767", NULL, "ok" },
    { "32567-32767", "32567-32767", NULL, "ok" },
    { "30000-30015", "30000-30015", NULL, "ok" },
    { "30000-30016", "30000-30016", NULL, "ok" },
    { "30000-30128", "30000-30128", NULL, "ok" },
    { "30000-34095", "30000-34095", NULL, "ok" },
};

static const struct row dcp[] = {
    /* Seeds 1.3. */
    { "20000-32767", "20000-32767", NULL, "the default" },
    { "100", "100-100", NULL, "DCP refuses, Kubernetes takes" },
    { "1-2-3", NULL, TWICE, "refused" },
    { "0-10", NULL, ZERO, "refused" },
    { "10-5", NULL, BACKWARDS, "refused" },
    { "65535-65536", NULL, TOO_BIG, "refused" },
    { "-1-5", NULL, SIGN, "refused" },
    { "a-b", NULL, DIGITS, "refused" },
    { ",", NULL, EMPTY, "refused" },
    { "  100 - 200 , 300-400 ", "100-200,300-400", NULL, "ok" },
    { "100-200,,300-301", "100-200,300-301", NULL, "ok" },
    { "10-12,13-15,17-18", "10-15,17-18", NULL, "ok, 8 ports" },
    /* Seeds 1.10, cases 8 to 10. */
    { "26020-26022,26010-26015,26014-26018,26030-26030,26019-26025", "26010-26025,26030-26030", NULL,
      "case 8" },
    { "26010-26011,26020-26022", "26010-26011,26020-26022", NULL, "case 9" },
    { "26010-26015,26013-26017,26020-26021", "26010-26017,26020-26021", NULL, "case 10" },
};

static const struct row ours[] = {
    { "1", "1-1", NULL, "" },
    { "65535", "65535-65535", NULL, "" },
    { "1-65535", "1-65535", NULL, "" },
    { "1+65534", "1-65535", NULL, "" },
    { "65535-65535", "65535-65535", NULL, "" },
    { "00080", "80-80", NULL, "" },
    { "\t5\t+\t3\t,\t9\t", "5-9", NULL, "" },
    { "3,2,1", "1-3", NULL, "" },
    { "1-10,5", "1-10", NULL, "" },
    { "65535,1", "1-1,65535-65535", NULL, "" },
    { ", ,7, ,", "7-7", NULL, "" },
    { " \t ", NULL, EMPTY, "" },
    { "0", NULL, ZERO, "" },
    { "00", NULL, ZERO, "" },
    { "5,0", NULL, ZERO, "" },
    { "65536", NULL, TOO_BIG, "" },
    { "4294967297", NULL, TOO_BIG, "" },
    { "18446744073709551617", NULL, TOO_BIG, "" },
    { "1-18446744073709551617", NULL, TOO_BIG, "" },
    { "1+4294967295", NULL, TOO_BIG, "" },
    { "65535+1", NULL, TOO_BIG, "" },
    { "5-0", NULL, BACKWARDS, "" },
    { "+5", NULL, SIGN, "" },
    { "1--2", NULL, SIGN, "" },
    { "1++2", NULL, SIGN, "" },
    { "- 5", NULL, SIGN, "" },
    { "5+", NULL, MISSING, "" },
    { "5- ,6", NULL, MISSING, "" },
    { "1+2+3", NULL, TWICE, "" },
    { "0x50", NULL, DIGITS, "" },
    { "1e3", NULL, DIGITS, "" },
    { "1.5", NULL, DIGITS, "" },
    { "80/tcp", NULL, DIGITS, "" },
    { "80x", NULL, DIGITS, "" },
    { "1-5;", NULL, DIGITS, "" },
    { "\xd9\xa1", NULL, DIGITS, "" }, /* an Arabic digit */
    { "1 2", NULL, STRAY, "" },
    { "1-2 3", NULL, STRAY, "" },
    { "80\n", NULL, CONTROL, "" },
    { "80 \n", NULL, CONTROL, "" },
    { "1-2 \r", NULL, CONTROL, "" },
    { "\x7f"
      "80",
      NULL, CONTROL, "" },
    { "80\v", NULL, CONTROL, "" },
};

static void check_row(const struct row *row)
{
    static const dibs_ranges before = { .item = { { 7, 9 } }, .n = 1 };
    dibs_ranges got = before;
    dibs_err err = { 0 };
    char text[DIBS_RANGES_TEXT_MAX + 1] = "";
    dibs_status status = dibs_ranges_parse(row->text, &got, &err);

    if (row->want) {
        if (status != DIBS_OK)
            fail_msg("'%s' was refused: %s", row->text, err.msg);
        dibs_ranges_format(&got, text);
        assert_string_equal(text, row->want);
        return;
    }
    if (status != DIBS_INVALID || err.code != DIBS_INVALID)
        fail_msg("'%s' gave %s", row->text, dibs_status_text(status));
    if (!strstr(err.msg, row->why))
        fail_msg("'%s': the reason is \"%s\", not \"%s\"", row->text, err.msg, row->why);
    assert_memory_equal(&got, &before, sizeof got); /* outputs are written only on success */
    assert_int_equal(dibs_ranges_parse(row->text, &got, NULL), DIBS_INVALID);
}

static void every_kubernetes_text_has_its_outcome(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof kubernetes / sizeof *kubernetes; i++)
        check_row(&kubernetes[i]);
}

static void every_dcp_text_has_its_outcome(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof dcp / sizeof *dcp; i++)
        check_row(&dcp[i]);
}

static void edges_and_wrong_texts_have_their_outcome(void **state)
{
    dibs_ranges got = { .n = 0 };

    (void) state;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        check_row(&ours[i]);
    assert_int_equal(dibs_ranges_parse(NULL, &got, NULL), DIBS_INVALID);
}

static void both_ends_belong_to_a_range(void **state)
{
    dibs_ranges got = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(dibs_ranges_parse("100-200", &got, &err), &err);
    assert_true(dibs_ranges_contain(&got, 100) && dibs_ranges_contain(&got, 200));
    assert_false(dibs_ranges_contain(&got, 99) || dibs_ranges_contain(&got, 201));
    assert_false(dibs_ranges_contain(&got, 0));
    ASSERT_OK(dibs_ranges_parse("100+200", &got, &err), &err);
    assert_true(dibs_ranges_contain(&got, 300));
    assert_false(dibs_ranges_contain(&got, 301));
    ASSERT_OK(dibs_ranges_parse("1-65535", &got, &err), &err);
    assert_int_equal(dibs_ranges_count(&got), 65535);
    assert_true(dibs_ranges_contain(&got, 65535));
    assert_false(dibs_ranges_contain(&got, 0));
}

static void dcp_case_8_positions_count_over_merged_ranges(void **state)
{
    dibs_ranges got = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(dibs_ranges_parse("26020-26022,26010-26015,26014-26018,26030-26030,26019-26025", &got, &err),
              &err);
    assert_int_equal(dibs_ranges_count(&got), 17);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(dibs_ranges_at(&got, i), 26010 + i);
    assert_int_equal(dibs_ranges_at(&got, 16), 26030);
    assert_int_equal(dibs_ranges_at(&got, 17), 0);
    assert_int_equal(dibs_ranges_at(&got, UINT32_MAX), 0); /* DCP's index -1 */
}

/* Odd ports 1, 3, 5 … as a list with `n` pieces. */
static void odd_ports(char *out, size_t size, unsigned n, const char *tail)
{
    size_t used = 0;

    for (unsigned i = 0; i < n; i++)
        used += (size_t) snprintf(out + used, size - used, "%u,", 2 * i + 1);
    (void) snprintf(out + used, size - used, "%s", tail);
}

static void only_the_pieces_after_merging_are_limited(void **state)
{
    char text[4096] = "";
    dibs_ranges got = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    odd_ports(text, sizeof text, DIBS_RANGES_MAX, "");
    ASSERT_OK(dibs_ranges_parse(text, &got, &err), &err);
    assert_int_equal(got.n, DIBS_RANGES_MAX);
    odd_ports(text, sizeof text, DIBS_RANGES_MAX + 1, "");
    assert_int_equal(dibs_ranges_parse(text, &got, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "more than 64 separate pieces"));
    /* 501 items on the way, one piece at the end: the order of a list does not matter. */
    odd_ports(text, sizeof text, 500, "1-1000");
    ASSERT_OK(dibs_ranges_parse(text, &got, &err), &err);
    assert_int_equal(got.n, 1);
    assert_int_equal(dibs_ranges_count(&got), 1000);
}

static void the_longest_list_fits_its_text_and_reads_back(void **state)
{
    char text[DIBS_RANGES_TEXT_MAX + 1] = "";
    dibs_ranges wide = { .n = 0 };
    dibs_ranges back = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    for (unsigned i = 0; i < DIBS_RANGES_MAX; i++)
        wide.item[wide.n++] =
            (dibs_range){ .first = (uint16_t) (10000 + 100 * i), .last = (uint16_t) (10050 + 100 * i) };
    dibs_ranges_format(&wide, text);
    assert_int_equal(strlen(text), DIBS_RANGES_MAX * strlen("10000-10050,") - 1);
    ASSERT_OK(dibs_ranges_parse(text, &back, &err), &err);
    assert_memory_equal(&back, &wide, sizeof wide);
}

static void a_refusal_quotes_the_item_and_never_a_control_character(void **state)
{
    char longer[400] = "";
    dibs_ranges got = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    assert_int_equal(dibs_ranges_parse("10-20, 9-5 ,30", &got, &err), DIBS_INVALID);
    assert_string_equal(err.msg, "port range '9-5': " BACKWARDS);
    assert_int_equal(dibs_ranges_parse("8\x1b[31m0", &got, &err), DIBS_INVALID);
    assert_string_equal(err.msg, "port range '8?[31m0': " CONTROL);
    memset(longer, 'x', sizeof longer - 1);
    assert_int_equal(dibs_ranges_parse(longer, &got, &err), DIBS_INVALID);
    longer[48] = '\0';
    assert_non_null(strstr(err.msg, longer));
    assert_non_null(strstr(err.msg, "x...': " DIGITS));
}

struct cut {
    const char *text;
    dibs_range without;
    const char *want;
};

static void subtracting_leaves_exactly_the_rest(void **state)
{
    static const struct cut cuts[] = {
        /* Seeds 1.3: without the ephemeral range. */
        { "32767-32769", { 32768, 60999 }, "32767-32767" },
        { "30000-65535", { 32768, 60999 }, "30000-32767,61000-65535" },
        { "40000-41000", { 32768, 60999 }, "" },
        { "10-20", { 12, 13 }, "10-11,14-20" },
        { "10-20", { 20, 65535 }, "10-19" },
        { "10-20", { 21, 30 }, "10-20" },
        { "1-5,10-20,30", { 5, 10 }, "1-4,11-20,30-30" },
        { "1-65535", { 1, 65535 }, "" },
        { "10-20", { 15, 14 }, "10-20" },
    };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char text[DIBS_RANGES_TEXT_MAX + 1] = "";
        dibs_ranges ranges = { .n = 0 };

        ASSERT_OK(dibs_ranges_parse(cuts[i].text, &ranges, &err), &err);
        ASSERT_OK(dibs_ranges_subtract(&ranges, cuts[i].without, &ranges, &err), &err);
        dibs_ranges_format(&ranges, text);
        assert_string_equal(text, cuts[i].want);
    }
}

static void subtracting_into_too_many_pieces_is_refused(void **state)
{
    char text[4096] = "";
    dibs_ranges full = { .n = 0 };
    dibs_ranges out = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    odd_ports(text, sizeof text, DIBS_RANGES_MAX - 1, "500-600");
    ASSERT_OK(dibs_ranges_parse(text, &full, &err), &err);
    assert_int_equal(dibs_ranges_subtract(&full, (dibs_range){ 550, 550 }, &out, &err), DIBS_INVALID);
    assert_int_equal(out.n, 0);
    ASSERT_OK(dibs_ranges_subtract(&full, (dibs_range){ 590, 600 }, &out, &err), &err);
    assert_int_equal(dibs_ranges_count(&out), dibs_ranges_count(&full) - 11);
}

static void a_port_is_1_to_65535_in_digits_alone(void **state)
{
    static const char *const wrong[] = { "",   "0",   "65536", "-1",  "+1", " 1",
                                         "1 ", "0x1", "1e3",   "1\n", "a",  "99999999999999999999" };
    dibs_err err = { 0 };
    uint16_t port = 77;

    (void) state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (dibs_port_parse(wrong[i], &port, &err) != DIBS_INVALID)
            fail_msg("'%s' was taken for port %u", wrong[i], (unsigned) port);
        assert_int_equal(port, 77);
    }
    assert_int_equal(dibs_port_parse(NULL, &port, &err), DIBS_INVALID);
    assert_int_equal(dibs_port_parse("0", &port, &err), DIBS_INVALID);
    assert_string_equal(err.msg, "port '0': a port is 1 to 65535");
    ASSERT_OK(dibs_port_parse("1", &port, &err), &err);
    assert_int_equal(port, 1);
    ASSERT_OK(dibs_port_parse("65535", &port, &err), &err);
    assert_int_equal(port, 65535);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kubernetes_text_has_its_outcome),
        cmocka_unit_test(every_dcp_text_has_its_outcome),
        cmocka_unit_test(edges_and_wrong_texts_have_their_outcome),
        cmocka_unit_test(both_ends_belong_to_a_range),
        cmocka_unit_test(dcp_case_8_positions_count_over_merged_ranges),
        cmocka_unit_test(only_the_pieces_after_merging_are_limited),
        cmocka_unit_test(the_longest_list_fits_its_text_and_reads_back),
        cmocka_unit_test(a_refusal_quotes_the_item_and_never_a_control_character),
        cmocka_unit_test(subtracting_leaves_exactly_the_rest),
        cmocka_unit_test(subtracting_into_too_many_pieces_is_refused),
        cmocka_unit_test(a_port_is_1_to_65535_in_digits_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
