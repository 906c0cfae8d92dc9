/* SPDX-License-Identifier: MIT */
/* Checks of a whole group, from whichever reader. */
#include <string.h>

#include "support/t.h"
#include "workload/workload.h"

/* A group in which role `web` refers to role `api`; a test bends one thing. */
struct model {
    struct workload_port http[2], page[2];
    struct workload_reference references[2];
    struct workload_component api_pod[2], web_pod[1];
    struct workload_role roles[2];
    struct workload_group group;
};

static struct model *sound(void)
{
    static struct model m;

    m = (struct model){
        .http = { { .name = "http", .env = "HTTP_PORT", .count = 1, .place = { 2, 1 } },
                  { .name = "admin", .env = "ADMIN_PORT", .count = 1, .place = { 3, 1 } } },
        .page = { { .name = "page", .env = "PORT", .count = 1, .place = { 4, 1 } } },
        .references = { { .env = "API_PORT",
                          .role = "api",
                          .port = "http",
                          .instance = -1,
                          .pod = -1,
                          .place = { 5, 7 } } },
        .api_pod = { { .size = 1, .ports = m.http, .n_ports = 2 } },
        .web_pod = { { .size = 1,
                       .ports = m.page,
                       .n_ports = 1,
                       .references = m.references,
                       .n_references = 1 } },
        .roles = { { .name = "api", .instances = 1, .components = m.api_pod, .n_components = 1 },
                   { .name = "web", .instances = 1, .components = m.web_pod, .n_components = 1 } },
        .group = { .source = "file", .name = "shop", .roles = m.roles, .n_roles = 2 },
    };
    return &m;
}

static void assert_sound(const struct model *m)
{
    dibs_err err = { 0 };

    ASSERT_OK(workload_check(&m->group, &err), &err);
}

static void assert_refused(const struct model *m, const char *why)
{
    dibs_err err = { 0 };

    if (workload_check(&m->group, &err) != DIBS_INVALID)
        fail_msg("accepted, expected: %s", why);
    if (strcmp(err.msg, why) != 0)
        fail_msg("got:      %s\nexpected: %s", err.msg, why);
}

static void a_sound_group_passes(void **state)
{
    struct model *m = sound();

    (void) state;
    assert_sound(m);
    m->group.n_roles = 0;
    assert_sound(m);
}

static void a_missing_target_is_named_with_the_nearest(void **state)
{
    struct model *m = sound();

    (void) state;
    m->references[0].port = "htp";
    assert_refused(m, "file:5:7: no port 'htp' in role 'api'; did you mean 'http'?");
    m->references[0].port = "completely-else";
    assert_refused(m, "file:5:7: no port 'completely-else' in role 'api'; there are: http, admin");
    m->references[0].role = "apo";
    assert_refused(m, "file:5:7: no role 'apo'; did you mean 'api'?");
    m->references[0].role = "api";
    m->references[0].component = "leader";
    assert_refused(m, "file:5:7: no component 'leader' in role 'api'");
    m->api_pod[0].name = "leaders";
    assert_refused(m, "file:5:7: no component 'leader' in role 'api'; did you mean 'leaders'?");
    m->references[0].component = NULL;
    assert_refused(m, "file:5:7: role 'api' has components: say whose port 'completely-else' is meant");
}

static void a_variable_that_other_programs_read_is_refused(void **state)
{
    static const char *const rows[][2] = { { "PATH", "every shell" },
                                           { "IFS", "every shell" },
                                           { "BASH_ENV", "bash" },
                                           { "LD_PRELOAD", "the dynamic linker" },
                                           { "DIBS_LEDGER", "dibs itself" } };
    struct model *m = sound();
    char why[128];

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void) snprintf(why, sizeof why,
                        "file:4:1: env '%s' cannot be a port: %s reads that variable; choose another name",
                        rows[i][0], rows[i][1]);
        m->page[0].env = rows[i][0];
        assert_refused(m, why);
    }
    m = sound();
    m->references[0].env = "BASH_ENV";
    assert_refused(
        m, "file:5:7: env 'BASH_ENV' cannot be a port: bash reads that variable; choose another name");
    m->references[0].env = "PATH_PORT";
    assert_sound(m);
}

static void a_reference_reaches_only_pods_that_are_there(void **state)
{
    struct model *m = sound();
    struct workload_reference *r = &m->references[0];

    (void) state;
    m->roles[0].instances = 2;
    r->instance = 1;
    assert_sound(m);
    r->instance = 2;
    assert_refused(m, "file:5:7: role 'api' has 2 instances, counted from 0: none is 2");
    r->instance = -1;
    r->pod = 1;
    assert_refused(m, "file:5:7: an instance of role 'api' has 1 such pod, counted from 0: none is 1");
    m->api_pod[0].size = 2;
    assert_sound(m);
    r->pod = -1;
    m->roles[0].instances = 1;
    r->instance = 1;
    assert_refused(m, "file:5:7: role 'api' has 1 instance, counted from 0: none is 1");
    r->instance = -1;
    m->roles[0].instances = 0;
    assert_refused(m, "file:5:7: role 'api' has 0 instances, counted from 0: none is 0");
    m->http[0].scope = WORKLOAD_ROLE_SCOPED; /* belongs to no pod */
    assert_sound(m);
    m->http[0].scope = WORKLOAD_POD_SCOPED;
    m->roles[1].instances = 0; /* no instance gets it */
    assert_sound(m);
}

static void an_own_port_is_referred_to_in_the_own_instance(void **state)
{
    struct model *m = sound();

    (void) state;
    m->references[0].role = "web";
    m->references[0].port = "page";
    m->roles[1].instances = 3;
    assert_sound(m);
}

static void duplicates_are_refused(void **state)
{
    struct model *m = sound();

    (void) state;
    m->http[1].name = "http";
    assert_refused(m, "file:3:1: port 'http' is there twice in one pod");
    m = sound();
    m->http[1].env = "HTTP_PORT";
    assert_refused(m, "file:3:1: env 'HTTP_PORT' is there twice in one pod");
    m = sound();
    m->http[0].annotation = m->http[1].annotation = "example.com/port";
    assert_refused(m, "file:3:1: annotation 'example.com/port' is there twice in one pod");
    m = sound();
    m->references[0].env = "PORT";
    assert_refused(m, "file:5:7: env 'PORT' is there twice in one pod");
    m = sound();
    m->references[1] = m->references[0];
    m->web_pod[0].n_references = 2;
    assert_refused(m, "file:5:7: env 'API_PORT' is there twice in one pod");
    m = sound();
    m->roles[1].name = "api";
    assert_refused(m, "file: role 'api' is there twice");
    m = sound();
    m->api_pod[0].name = "leader";
    m->api_pod[1] = m->api_pod[0];
    m->roles[0].n_components = 2;
    assert_refused(m, "file: component 'leader' is there twice");
    m = sound();
    m->page[0].env = "HTTP_PORT"; /* another pod may say the same */
    m->page[0].name = "http";
    assert_sound(m);
}

static void a_name_that_one_of_several_has_is_refused(void **state)
{
    static const char *const others[] = {
        "http.0", "http.2", "http.01", "http.", "http.x", "http1", "htt.1"
    };
    struct model *m = sound();

    (void) state;
    m->http[0].count = 2;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        m->http[1].name = others[i];
        assert_sound(m);
    }
    m->http[1].name = "http.1";
    assert_refused(m, "file:3:1: port 'http.1' is also what one of the 2 of 'http' is called");
    m->http[0].count = 1;
    assert_sound(m);
    m = sound();
    m->http[0].name = "admin.3"; /* whichever comes first */
    m->http[1].count = 4;
    m->references[0].port = "admin";
    assert_refused(m, "file:3:1: port 'admin.3' is also what one of the 4 of 'admin' is called");
    m = sound();
    m->api_pod[0].name = "w";
    m->api_pod[0].size = 3;
    m->api_pod[1] = m->api_pod[0];
    m->api_pod[1].name = "w.2";
    m->roles[0].n_components = 2;
    assert_refused(m, "file: component 'w.2' is also what one of the 3 of 'w' is called");
}

static void names_are_bounded_and_printable(void **state)
{
    struct model *m = sound();
    char name[WORKLOAD_NAME_MAX + 2] = "";

    (void) state;
    memset(name, 'n', WORKLOAD_NAME_MAX);
    m->page[0].name = m->roles[1].name = m->group.name = name;
    assert_sound(m);
    m->group.name = "";
    assert_refused(m, "file: name of the group is empty");
    m = sound();
    m->page[0].name = "a\nb";
    assert_refused(m, "file:4:1: name of a port 'a?b' has a control character or is not UTF-8");
    m->page[0].name = "a\xff";
    assert_refused(m, "file:4:1: name of a port 'a?' has a control character or is not UTF-8");
    m->page[0].name = "b\xc2\x85";
    assert_refused(m, "file:4:1: name of a port 'b?' has a control character or is not UTF-8");
    m = sound();
    m->page[0].env = "A-B";
    assert_refused(m,
                   "file:4:1: env 'A-B' is no name of a variable: letters, digits and '_', no digit first");
    m = sound();
    m->references[0].env = "";
    assert_refused(m, "file:5:7: env is empty");
    name[WORKLOAD_NAME_MAX] = 'n';
    m = sound();
    m->roles[1].name = name;
    dibs_err err = { 0 };
    assert_int_equal(workload_check(&m->group, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "has more than 253 bytes"));
}

static void one_number_is_not_several_claims(void **state)
{
    struct model *m = sound();
    struct workload_port *port = &m->page[0];

    (void) state;
    port->mode = DIBS_REQUIRED;
    port->port = 8080;
    assert_sound(m);
    port->count = 2;
    assert_refused(m,
                   "file:4:1: port 'page': the number 8080 cannot be 2 ports; use 'prefer', or no 'count'");
    port->count = 1;
    m->roles[1].instances = 2;
    assert_refused(m, "file:4:1: port 'page': the number 8080 cannot be each of 2 pods' own; use 'prefer', "
                      "or the scope RoleScoped");
    m->roles[1].instances = 1;
    m->web_pod[0].size = 3;
    assert_refused(m, "file:4:1: port 'page': the number 8080 cannot be each of 3 pods' own; use 'prefer', "
                      "or the scope RoleScoped");
    port->scope = WORKLOAD_ROLE_SCOPED;
    assert_sound(m);
    port->scope = WORKLOAD_POD_SCOPED;
    port->mode = DIBS_PREFERRED;
    assert_sound(m);
    port->port = 0;
    assert_refused(m, "file:4:1: port 'page': its number must be 1 to 65535");
}

static void a_block_has_a_count_and_no_number(void **state)
{
    struct model *m = sound();
    struct workload_port *port = &m->page[0];

    (void) state;
    port->is_contiguous = true;
    assert_refused(m, "file:4:1: port 'page': 'contiguous' needs a 'count' of 2 or more");
    port->count = 64;
    assert_sound(m);
    port->mode = DIBS_PREFERRED;
    port->port = 9000;
    assert_refused(m, "file:4:1: port 'page': a contiguous block is placed by dibs, it cannot name a number");
    port->mode = DIBS_RANDOM;
    assert_sound(m);
    port->count = 65;
    assert_refused(m, "file:4:1: port 'page': 'count' must be 1 to 64");
    port->count = 0;
    assert_refused(m, "file:4:1: port 'page': 'count' must be 1 to 64");
}

static void a_group_fits_one_batch(void **state)
{
    struct model *m = sound();

    (void) state;
    m->roles[1].instances = 4094; /* and the two ports of api */
    assert_sound(m);
    m->roles[1].instances = 4095;
    assert_refused(m, "file:4:1: 4097 claims of the group, counted up to here, are too many: at most 4096");
    m->page[0].scope = WORKLOAD_ROLE_SCOPED;
    assert_sound(m);
    m->roles[1].instances = 4097;
    assert_refused(m, "file: 4097 instances are too many: at most 4096");
}

static void one_number_is_refused_for_two_ports_that_conflict(void **state)
{
    struct model *m = sound();

    (void) state;
    m->http[0].mode = m->http[1].mode = m->page[0].mode = DIBS_REQUIRED;
    m->http[0].port = m->http[1].port = 8080;
    m->page[0].port = 8081;
    assert_refused(
        m, "file:3:1: port 'admin': the number 8080 is that of port 'http' of role 'api' already, at 2:1");
    m->http[1].n_bindings = 1;
    m->http[1].bindings[0] = (dibs_binding){ DIBS_UDP, { .len = 16 } };
    assert_sound(m);
    m->page[0].port = 8080;
    m->page[0].n_bindings = 1;
    m->page[0].bindings[0] = (dibs_binding){ DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 1 } } };
    assert_refused(
        m, "file:4:1: port 'page': the number 8080 is that of port 'http' of role 'api' already, at 2:1");
    m->roles[1].instances = 0; /* nobody needs it */
    assert_sound(m);
    m->page[0].scope = WORKLOAD_ROLE_SCOPED; /* the role still does */
    assert_refused(
        m, "file:4:1: port 'page': the number 8080 is that of port 'http' of role 'api' already, at 2:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_group_passes),
        cmocka_unit_test(a_missing_target_is_named_with_the_nearest),
        cmocka_unit_test(a_variable_that_other_programs_read_is_refused),
        cmocka_unit_test(a_reference_reaches_only_pods_that_are_there),
        cmocka_unit_test(an_own_port_is_referred_to_in_the_own_instance),
        cmocka_unit_test(duplicates_are_refused),
        cmocka_unit_test(a_name_that_one_of_several_has_is_refused),
        cmocka_unit_test(names_are_bounded_and_printable),
        cmocka_unit_test(one_number_is_not_several_claims),
        cmocka_unit_test(a_block_has_a_count_and_no_number),
        cmocka_unit_test(a_group_fits_one_batch),
        cmocka_unit_test(one_number_is_refused_for_two_ports_that_conflict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
