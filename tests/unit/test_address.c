/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "dibs/net.h"
#include "support/t.h"

struct row {
    const char *text;
    const char *want; /* canonical */
    uint8_t len;
};

static void literals_become_their_canonical_form(void **state)
{
    static const struct row rows[] = {
        { "127.0.0.1", "127.0.0.1", 4 },
        { "0.0.0.0", "0.0.0.0", 4 },
        { "10.1.2.3", "10.1.2.3", 4 },
        { "223.255.255.255", "223.255.255.255", 4 },
        { "240.0.0.1", "240.0.0.1", 4 },
        { "::1", "::1", 16 },
        { "[::1]", "::1", 16 },
        { "[0:0:0:0:0:0:0:1]", "::1", 16 },
        { "*", "*", 16 },
        { "::", "*", 16 },
        { "[::]", "*", 16 },
        { "0:0:0:0:0:0:0:0", "*", 16 },
        { "2001:DB8::A", "2001:db8::a", 16 },
        { "fe80::1", "fe80::1", 16 },
        { "::1.2.3.4", "::1.2.3.4", 16 }, /* v4-compatible is not v4-mapped */
        { "::ffff:1.2.3.4", "1.2.3.4", 4 },
        { "[::ffff:127.0.0.1]", "127.0.0.1", 4 },
        { "::FFFF:7f00:1", "127.0.0.1", 4 },
        { "::ffff:0.0.0.0", "0.0.0.0", 4 },
        { "0000:0000:0000:0000:0000:ffff:192.168.100.200", "192.168.100.200", 4 }, /* the longest */
        { "[0000:0000:0000:0000:0000:ffff:192.168.100.200]", "192.168.100.200", 4 },
    };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";
        dibs_address got[2] = { 0 };
        dibs_address back[2] = { 0 };
        size_t n = 0;

        ASSERT_OK(dibs_address_parse(rows[i].text, got, &n, &err), &err);
        assert_int_equal(n, 1);
        assert_int_equal(got[0].len, rows[i].len);
        assert_false(got[0].v6only);
        dibs_address_format(&got[0], text);
        assert_string_equal(text, rows[i].want);
        ASSERT_OK(dibs_address_parse(text, back, &n, &err), &err);
        assert_true(dibs_address_equal(&got[0], &back[0]));
    }
}

static void localhost_in_any_letter_case_is_both_loopbacks(void **state)
{
    static const char *const texts[] = { "localhost", "LOCALHOST", "LocalHost" };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < 3; i++) {
        char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";
        dibs_address got[2] = { 0 };
        size_t n = 0;

        ASSERT_OK(dibs_address_parse(texts[i], got, &n, &err), &err);
        assert_int_equal(n, 2);
        dibs_address_format(&got[0], text);
        assert_string_equal(text, "127.0.0.1");
        dibs_address_format(&got[1], text);
        assert_string_equal(text, "::1");
    }
}

static void everything_else_is_refused_with_its_reason(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        { "", "is empty" },
        { "example.com", "host names are not looked up" },
        { "app.localhost", "host names are not looked up" },
        { "localhost.", "host names are not looked up" },
        { "fe80::1%eth0", "zone ids are not supported" },
        { "[fe80::1%2]", "zone ids are not supported" },
        { "224.0.0.1", "multicast" },
        { "239.255.255.255", "multicast" },
        { "ff02::1", "multicast" },
        { "::ffff:224.0.0.1", "multicast" },
        { "255.255.255.255", "broadcast" },
        { "::ffff:255.255.255.255", "broadcast" },
        { "[127.0.0.1]", "is not an IPv4 or IPv6 address" },
        { "[::1", "is not an IPv4 or IPv6 address" },
        { "::1]", "is not an IPv4 or IPv6 address" },
        { "[]", "is not an IPv4 or IPv6 address" },
        { "[", "is not an IPv4 or IPv6 address" },
        { "[[::1]]", "is not an IPv4 or IPv6 address" },
        { "[*]", "is not an IPv4 or IPv6 address" },
        { "[localhost]", "is not an IPv4 or IPv6 address" },
        { " 127.0.0.1", "is not an IPv4 or IPv6 address" },
        { "127.0.0.1\n", "'127.0.0.1?'" },
        { "127.0.0.1:80", "is not an IPv4 or IPv6 address" },
        { "127.1", "is not an IPv4 or IPv6 address" },
        { "127.0.0.01", "is not an IPv4 or IPv6 address" },
        { "2130706433", "is not an IPv4 or IPv6 address" },
        { "0x7f.0.0.1", "is not an IPv4 or IPv6 address" },
        { "1.2.3.256", "is not an IPv4 or IPv6 address" },
        { "1:2:3:4:5:6:7:8:9", "is not an IPv4 or IPv6 address" },
        { "0000:0000:0000:0000:0000:ffff:192.168.100.2000000000000000000", ":ffff:192.168.100.200000..." },
        { "**", "is not an IPv4 or IPv6 address" },
    };
    static const dibs_address before[2] = { { .len = 9 }, { .len = 8 } };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dibs_address got[2] = { before[0], before[1] };
        dibs_err err = { 0 };
        size_t n = 5;

        if (dibs_address_parse(rows[i].text, got, &n, &err) != DIBS_INVALID)
            fail_msg("'%s' was not refused", rows[i].text);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("'%s': the reason is \"%s\", not \"%s\"", rows[i].text, err.msg, rows[i].why);
        assert_int_equal(n, 5);
        assert_memory_equal(got, before, sizeof got);
        assert_int_equal(dibs_address_parse(rows[i].text, got, &n, NULL), DIBS_INVALID);
    }
}

static void no_text_at_all_is_refused(void **state)
{
    dibs_address got[2] = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    (void) state;
    assert_int_equal(dibs_address_parse(NULL, got, &n, &err), DIBS_INVALID);
}

static void a_host_name_is_refused_with_what_is_accepted(void **state)
{
    dibs_address got[2] = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    (void) state;
    assert_int_equal(dibs_address_parse("db.example", got, &n, &err), DIBS_INVALID);
    assert_string_equal(err.msg, "address 'db.example': is not an IPv4 or IPv6 address, 'localhost' or '*'; "
                                 "host names are not looked up");
}

static void only_the_zero_addresses_are_wildcards(void **state)
{
    static const dibs_address any4 = { .len = 4, .bytes = { [4] = 1 } }; /* byte 4 is no part of it */
    static const dibs_address any6 = { .len = 16 };
    static const dibs_address one4 = { .len = 4, .bytes = { [3] = 1 } };
    static const dibs_address one6 = { .len = 16, .bytes = { [15] = 1 } };
    static const dibs_address none = { .len = 0 };

    (void) state;
    assert_true(dibs_address_is_wildcard(&any4));
    assert_true(dibs_address_is_wildcard(&any6));
    assert_false(dibs_address_is_wildcard(&one4));
    assert_false(dibs_address_is_wildcard(&one6));
    assert_false(dibs_address_is_wildcard(&none));
}

static void v6only_distinguishes_wildcards_and_nothing_else(void **state)
{
    static const dibs_address dual = { .len = 16 };
    static const dibs_address only = { .len = 16, .v6only = true };
    static const dibs_address one = { .len = 16, .bytes = { [15] = 1 } };
    static const dibs_address one_only = { .len = 16, .v6only = true, .bytes = { [15] = 1 } };
    static const dibs_address any4 = { .len = 4 };
    char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";

    (void) state;
    assert_false(dibs_address_equal(&dual, &only));
    assert_true(dibs_address_equal(&only, &only));
    assert_true(dibs_address_equal(&one, &one_only));
    assert_false(dibs_address_equal(&dual, &any4));
    dibs_address_format(&only, text);
    assert_string_equal(text, "::");
    dibs_address_format(&one_only, text);
    assert_string_equal(text, "::1");
}

static void a_damaged_address_formats_without_harm(void **state)
{
    static const dibs_address damaged = { .len = 255 };
    char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";

    (void) state;
    dibs_address_format(&damaged, text);
    assert_string_equal(text, "invalid");
    assert_false(dibs_address_equal(&damaged, &damaged));
}

static void protocols_are_read_in_any_letter_case(void **state)
{
    static const char *const wrong[] = { "", "tcp ", "tcp6", "icmp", "t", "tcpudp" };
    dibs_proto proto = DIBS_SCTP;
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(dibs_proto_parse("TCP", &proto, &err), &err);
    assert_string_equal(dibs_proto_text(proto), "tcp");
    ASSERT_OK(dibs_proto_parse("udp", &proto, &err), &err);
    assert_string_equal(dibs_proto_text(proto), "udp");
    ASSERT_OK(dibs_proto_parse("Sctp", &proto, &err), &err);
    assert_string_equal(dibs_proto_text(proto), "sctp");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(dibs_proto_parse(wrong[i], &proto, &err), DIBS_INVALID);
    assert_int_equal(dibs_proto_parse(NULL, &proto, &err), DIBS_INVALID);
    assert_int_equal(proto, DIBS_SCTP);
    assert_string_equal(dibs_proto_text((dibs_proto) 0), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_become_their_canonical_form),
        cmocka_unit_test(localhost_in_any_letter_case_is_both_loopbacks),
        cmocka_unit_test(everything_else_is_refused_with_its_reason),
        cmocka_unit_test(no_text_at_all_is_refused),
        cmocka_unit_test(a_host_name_is_refused_with_what_is_accepted),
        cmocka_unit_test(only_the_zero_addresses_are_wildcards),
        cmocka_unit_test(v6only_distinguishes_wildcards_and_nothing_else),
        cmocka_unit_test(a_damaged_address_formats_without_harm),
        cmocka_unit_test(protocols_are_read_in_any_letter_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
