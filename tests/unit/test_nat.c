/* SPDX-License-Identifier: MIT */
/* NAT rules without a kernel: what a match leaves of the packets, the list, and services of IPVS. Rules of
 * the kernel are in e2e/nat.bats. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/nat/ipvs.h"
#include "support/t.h"

static const struct nat_place here = { "table ip nat", "dnat to 10.0.0.1:80" };

static void packets_without_ports_publish_nothing(void **state)
{
    struct nat_list list = { 0 };
    struct nat_packets packets = nat_packets_of(AF_INET);

    (void) state;
    nat_list_add(&list, &packets, &here);
    assert_true(nat_packets_ports(&packets, 0, 65535, "all")); /* every port is no match */
    nat_list_add(&list, &packets, &here);
    assert_int_equal(list.n, 0);
    nat_list_done(&list);
}

static struct nat_packets *copy_of(const struct nat_packets *packets)
{
    static struct nat_packets copy;

    copy = *packets;
    return &copy;
}

static void matches_narrow_the_packets(void **state)
{
    static const uint8_t one[4] = { 10, 0, 0, 1 };
    static const uint8_t two[4] = { 10, 0, 0, 2 };
    struct nat_list list = { 0 };
    struct nat_packets packets = nat_packets_of(0);

    (void) state;
    assert_true(nat_packets_proto(&packets, IPPROTO_TCP));
    assert_true(nat_packets_ports(&packets, 8000, 8100, "outer"));
    assert_true(nat_packets_ports(&packets, 8050, 9000, "inner"));
    assert_true(nat_packets_address(&packets, one, 4));
    assert_false(nat_packets_address(copy_of(&packets), two, 4));
    assert_false(nat_packets_proto(copy_of(&packets), IPPROTO_UDP));
    assert_false(nat_packets_family(copy_of(&packets), AF_INET6));
    assert_false(nat_packets_ports(copy_of(&packets), 1, 8049, ""));
    assert_false(nat_packets_ports(copy_of(&packets), 8101, 65535, ""));
    nat_list_add(&list, &packets, &here);
    nat_list_add(&list, &packets, &here); /* a second rule for the same packets */
    assert_int_equal(list.n, 1);
    assert_int_equal(list.rules[0].proto, DIBS_TCP);
    assert_int_equal(list.rules[0].ports.first, 8050);
    assert_int_equal(list.rules[0].ports.last, 8100);
    assert_memory_equal(list.rules[0].address.bytes, one, 4);
    assert_string_equal(list.rules[0].text, "table ip nat, chain inner: dnat to 10.0.0.1:80");
    nat_list_done(&list);
}

static void more_rules_than_fit_still_block_their_ports(void **state)
{
    struct nat_list list = { 0 };

    (void) state;
    for (unsigned port = 1; port <= NAT_RULES_MAX + 1; port++) {
        struct nat_packets packets = nat_packets_of(AF_INET);

        assert_true(nat_packets_proto(&packets, IPPROTO_UDP));
        assert_true(nat_packets_ports(&packets, (uint16_t) port, (uint16_t) port, "many"));
        nat_list_add(&list, &packets, &here);
    }
    assert_int_equal(list.n, NAT_RULES_MAX);
    assert_true(list.is_cut);
    assert_true(portbits_has(&list.ports[DIBS_UDP], NAT_RULES_MAX + 1));
    nat_list_clear(&list);
    assert_false(portbits_has(&list.ports[DIBS_UDP], 1));
    nat_list_done(&list);
}

static void an_action_says_where_packets_go(void **state)
{
    static const uint8_t v6[16] = { 0xfd, [15] = 1 };
    char text[NAT_ACTION_MAX + 1];

    (void) state;
    nat_action("dnat", v6, 16, 80, text);
    assert_string_equal(text, "dnat to [fd00::1]:80");
    nat_action("dnat", v6, 16, 0, text);
    assert_string_equal(text, "dnat to fd00::1");
    nat_action("redirect", NULL, 0, 99, text);
    assert_string_equal(text, "redirect to :99");
    nat_action("dnat", NULL, 4, 0, text);
    assert_string_equal(text, "dnat");
}

static void services_of_ipvs_are_read(void **state)
{
    char text[] = "IP Virtual Server version 1.2.1 (size=4096)\n"
                  "Prot LocalAddress:Port Scheduler Flags\n"
                  "  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n"
                  "TCP  0A600001:01BB rr \n"
                  "  -> C0A80002:192B      Masq    1      0          0\n"
                  "UDP  [fd00:0000:0000:0000:0000:0000:0000:0001]:0035 rr persistent 10800\n"
                  "FWM  00000001 rr\n";
    static const uint8_t address[4] = { 10, 96, 0, 1 };
    struct nat_list list = { 0 };

    (void) state;
    assert_true(ipvs_publish(text, &list));
    assert_int_equal(list.n, 2);
    assert_int_equal(list.rules[0].ports.first, 443);
    assert_memory_equal(list.rules[0].address.bytes, address, 4);
    assert_int_equal(list.rules[1].proto, DIBS_UDP);
    assert_int_equal(list.rules[1].ports.last, 53);
    assert_int_equal(list.rules[1].address.len, 16);
    nat_list_done(&list);
}

static void a_damaged_service_of_ipvs_is_noticed(void **state)
{
    static const char *const lines[] = { "TCP  0A60:01BB rr", "TCP  0A600001", "UDP  [fd00::1 rr",
                                         "UDP  [fd00::1]0035 rr", "SCTP 0A600001:01B" };

    (void) state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct nat_list list = { 0 };
        char text[64];

        (void) snprintf(text, sizeof text, "%s", lines[i]);
        assert_false(ipvs_publish(text, &list));
        assert_int_equal(list.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_without_ports_publish_nothing),
        cmocka_unit_test(matches_narrow_the_packets),
        cmocka_unit_test(more_rules_than_fit_still_block_their_ports),
        cmocka_unit_test(an_action_says_where_packets_go),
        cmocka_unit_test(services_of_ipvs_are_read),
        cmocka_unit_test(a_damaged_service_of_ipvs_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
