/* SPDX-License-Identifier: MIT */
/* A manifest's text, its file, and where it is looked for. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "support/t.h"
#include "workload/manifest.h"

static struct workload_group *read_text(const char *text)
{
    struct workload_group *group = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(workload_manifest_parse("dibs.yaml", text, strlen(text), &group, &err), &err);
    return group;
}

static void assert_refused(const char *text, const char *why)
{
    struct workload_group *group = NULL;
    dibs_err err = { 0 };

    if (workload_manifest_parse("dibs.yaml", text, strlen(text), &group, &err) != DIBS_INVALID)
        fail_msg("accepted: %s", text);
    assert_null(group);
    if (strcmp(err.msg, why) != 0)
        fail_msg("text:     %s\ngot:      %s\nexpected: %s", text, err.msg, why);
}

static void a_manifest_of_the_usual_kind_is_read(void **state)
{
    AUTO(workload_free_auto)
    struct workload_group *group =
        read_text("group: shop\n"
                  "roles:\n"
                  "  api: { ports: [ { name: http, env: PORT } ] }\n"
                  "  web:\n"
                  "    instances: 2\n"
                  "    ports:\n"
                  "      - { name: http,  env: PORT }\n"
                  "      - { name: gossip, env: GOSSIP_PORT, scope: RoleScoped, proto: udp }\n"
                  "      - { name: debug, env: DEBUG_PORT, prefer: 9229 }\n"
                  "      - admin\n"
                  "    references: [ { env: API_PORT, from: api.http } ]\n");
    const struct workload_role *web = workload_role(group, "web");
    const struct workload_component *pod = workload_component(web, NULL);

    (void) state;
    assert_string_equal(group->source, "dibs.yaml");
    assert_string_equal(group->name, "shop");
    assert_int_equal(group->n_roles, 2);
    assert_int_equal(group->roles[0].instances, 1);
    assert_null(group->roles[0].command);
    assert_int_equal(web->instances, 2);
    assert_int_equal(web->place.line, 4);
    assert_int_equal(pod->n_ports, 4);
    assert_int_equal(pod->ports[0].n_bindings, 0);
    assert_int_equal(pod->ports[0].count, 1);
    assert_int_equal(pod->ports[1].scope, WORKLOAD_ROLE_SCOPED);
    assert_int_equal(pod->ports[1].n_bindings, 1);
    assert_int_equal(pod->ports[1].bindings[0].proto, DIBS_UDP);
    assert_int_equal(pod->ports[2].mode, DIBS_PREFERRED);
    assert_int_equal(pod->ports[2].port, 9229);
    assert_int_equal(pod->ports[2].place.line, 9);
    assert_string_equal(pod->ports[3].name, "admin");
    assert_string_equal(pod->ports[3].env, "ADMIN_PORT");
    assert_int_equal(pod->n_references, 1);
    assert_string_equal(pod->references[0].env, "API_PORT");
    assert_string_equal(pod->references[0].role, "api");
    assert_int_equal(pod->references[0].place.column, 42);
}

static void components_and_targets_by_parts_are_read(void **state)
{
    AUTO(workload_free_auto)
    struct workload_group *group = read_text(
        "{\"roles\": {\"pre.fill\": {\"instances\": 0, \"components\": [\n"
        "  {\"name\": \"leader\", \"ports\": [{\"name\": \"nccl\", \"count\": 8, \"contiguous\": true,\n"
        "     \"annotation\": \"example.com/nccl\", \"proto\": \"tcp+udp\",\n"
        "     \"address\": [\"127.0.0.1\", \"::1\"]}]},\n"
        "  {\"name\": \"worker\", \"size\": 3, \"references\": [{\"env\": \"BASE\", \"from\":\n"
        "     {\"role\": \"pre.fill\", \"component\": \"leader\", \"port\": \"nccl\", \"pod\": 0}}]}]}}}");
    const struct workload_role *role = workload_role(group, "pre.fill");
    const struct workload_component *leader = workload_component(role, "leader");
    const struct workload_component *worker = workload_component(role, "worker");

    (void) state;
    assert_int_equal(role->instances, 0);
    assert_int_equal(leader->size, 1);
    assert_true(leader->ports[0].is_contiguous);
    assert_int_equal(leader->ports[0].count, 8);
    assert_int_equal(leader->ports[0].n_bindings, 4);
    assert_string_equal(leader->ports[0].annotation, "example.com/nccl");
    assert_int_equal(worker->size, 3);
    assert_string_equal(worker->references[0].component, "leader");
    assert_int_equal(worker->references[0].instance, -1);
    assert_int_equal(worker->references[0].pod, 0);
}

static void a_command_is_a_list_or_a_line_for_the_shell(void **state)
{
    AUTO(workload_free_auto)
    struct workload_group *group = read_text("roles:\n"
                                             "  a: { command: [sleep, 10, -1.5, \"\", true] }\n"
                                             "  b: { command: 'exec server --port $PORT' }\n");
    const char **a = group->roles[0].command;
    const char **b = group->roles[1].command;

    (void) state;
    assert_string_equal(a[0], "sleep");
    assert_string_equal(a[1], "10");
    assert_string_equal(a[2], "-1.5");
    assert_string_equal(a[3], "");
    assert_string_equal(a[4], "true");
    assert_null(a[5]);
    assert_string_equal(b[0], "/bin/sh");
    assert_string_equal(b[1], "-c");
    assert_string_equal(b[2], "exec server --port $PORT");
    assert_null(b[3]);
}

static void settings_that_a_project_may_give_are_kept_with_their_place(void **state)
{
    AUTO(workload_free_auto)
    struct workload_group *group =
        read_text("range: 20000-21000\nallow-ephemeral: true\ngroup: x\nband: 16\n");
    AUTO(workload_free_auto) struct workload_group *empty = read_text("# nothing yet\n");

    (void) state;
    assert_int_equal(group->n_settings, 3);
    assert_int_equal(group->settings[0].setting, DIBS_SET_RANGE);
    assert_string_equal(group->settings[0].value, "20000-21000");
    assert_int_equal(group->settings[1].setting, DIBS_SET_BAND);
    assert_string_equal(group->settings[1].value, "16");
    assert_string_equal(group->settings[1].where, "dibs.yaml:4:1");
    assert_int_equal(group->settings[2].setting, DIBS_SET_ALLOW_EPHEMERAL);
    assert_int_equal(empty->n_settings + empty->n_roles, 0);
    assert_null(empty->name);
}

static void a_project_may_not_choose_where_claims_live(void **state)
{
    static const char *const keys[] = { "ledger", "ledger-mode", "mru-file", "socket", "sync" };

    (void) state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[64];
        char why[256];

        (void) snprintf(text, sizeof text, "group: a\n%s: x\n", keys[i]);
        (void) snprintf(why, sizeof why,
                        "dibs.yaml:2:1: a project may not set '%s' for everyone who checks it out; "
                        "set it by flag, by environment or in your own settings",
                        keys[i]);
        assert_refused(text, why);
    }
}

static void an_error_is_reported_with_its_line(void **state)
{
    static const char *const cases[][2] = {
        { "[]", "dibs.yaml:1:1: a manifest must be a map, not a list" },
        { "a: 1\n---\nb: 2", "dibs.yaml:3:1: a manifest is one document, not several" },
        { "rols: {}", "dibs.yaml:1:1: a manifest has no key 'rols'; did you mean 'roles'?" },
        { "zzz: 1", "dibs.yaml:1:1: a manifest has no key 'zzz'; there are: group, roles, range, pool, band, "
                    "order, cooldown, ttl, timeout, allow-ephemeral, allow-blocked" },
        { "group: 5", "dibs.yaml:1:8: 'group' must be text (in quotes, here), not a number" },
        { "group: [a]", "dibs.yaml:1:8: 'group' must be text, not a list" },
        { "group: ''", "dibs.yaml:1:8: name of the group is empty" },
        { "range: [1]", "dibs.yaml:1:8: 'range' must be a single value, not a list" },
        { "range:", "dibs.yaml:1:1: 'range' must be a single value, not nothing" },
        { "roles: web", "dibs.yaml:1:8: 'roles' must be a map of roles by name, not text" },
        { "roles: { web: }", "dibs.yaml:1:10: a role must be a map, not nothing" },
        { "roles: { web: { prots: [] } }",
          "dibs.yaml:1:17: a role has no key 'prots'; did you mean 'ports'?" },
        { "roles: { web: { instances: two } }",
          "dibs.yaml:1:28: 'instances' must be a number from 0 to 4096" },
        { "roles: { web: { instances: -1 } }",
          "dibs.yaml:1:28: 'instances' must be a number from 0 to 4096" },
        { "roles: { web: { ports: http } }", "dibs.yaml:1:24: 'ports' must be a list, not text" },
        { "roles: { web: { ports: [5] } }", "dibs.yaml:1:25: a port must be a map, not a number" },
        { "roles: { web: { ports: [{env: A}] } }", "dibs.yaml:1:25: a port needs 'name'" },
        { "roles: { web: { ports: [{name: a, scope: podScoped}] } }",
          "dibs.yaml:1:42: 'scope' must be 'PodScoped' or 'RoleScoped', got 'podScoped'" },
        { "roles: { web: { ports: [{name: a, port: 0}] } }",
          "dibs.yaml:1:41: 'port' must be a number from 1 to 65535" },
        { "roles: { web: { ports: [{name: a, port: 65536}] } }",
          "dibs.yaml:1:41: 'port' must be a number from 1 to 65535" },
        { "roles: { web: { ports: [{name: a, port: 1, prefer: 2}] } }",
          "dibs.yaml:1:44: either 'port' or 'prefer', not both" },
        { "roles: { web: { ports: [{name: a, contiguous: yes}] } }",
          "dibs.yaml:1:47: 'contiguous' must be true or false, not text" },
        { "roles: { web: { ports: [{name: a, contiguous: true}] } }",
          "dibs.yaml:1:25: port 'a': 'contiguous' needs a 'count' of 2 or more" },
        { "roles: { web: { ports: [{name: a, proto: tpc}] } }",
          "dibs.yaml:1:42: protocol 'tpc' is not known: use tcp, udp or sctp" },
        { "roles: { web: { ports: [{name: a, address: [127.0.0.1, [x]]}] } }",
          "dibs.yaml:1:56: 'address' must be text or a list of texts, not a list" },
        { "roles: { web: { references: [{env: A}] } }", "dibs.yaml:1:30: a reference needs 'from'" },
        { "roles: { web: { references: [{env: A, from: x}] } }",
          "dibs.yaml:1:45: reference 'x': it has only one part; expected ROLE.PORT or ROLE.COMPONENT.PORT, "
          "with [INDEX] after role or component" },
        { "roles: { web: { references: [{env: A, from: [x]}] } }",
          "dibs.yaml:1:45: 'from' must be text such as 'role.port', or a map, not a list" },
        { "roles: { web: { references: [{env: A, from: {role: web}}] } }",
          "dibs.yaml:1:45: 'from' needs 'port'" },
        { "roles:\n  api: { ports: [http] }\n  web: { references: [{env: A, from: api.htp}] }",
          "dibs.yaml:3:38: no port 'htp' in role 'api'; did you mean 'http'?" },
        { "roles: { web: { components: [] } }",
          "dibs.yaml:1:29: 'components' must have 1 to 32 items, not 0" },
        { "roles: { web: { components: [{name: a}], references: [] } }",
          "dibs.yaml:1:42: a role with 'components' has no 'references' of its own" },
        { "roles: { web: { command: [] } }", "dibs.yaml:1:26: 'command' must have 1 to 1024 items, not 0" },
        { "roles: { web: { command: [''] } }", "dibs.yaml:1:27: 'command' names no program" },
        { "roles: { web: { command: '' } }", "dibs.yaml:1:26: 'command' is empty" },
        { "roles: { web: { command: [a, ~] } }",
          "dibs.yaml:1:30: 'command' must be a list of texts, not nothing" },
        { "roles: { web: {}, web: {} }", "dibs.yaml:1:19: key 'web' is there twice" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(cases[i][0], cases[i][1]);
}

static void aliases_cannot_make_a_short_text_endless(void **state)
{
    char text[4096] = "roles:\n  r0: &role { instances: 0, components: [{name: c0, ports: &p [";
    size_t used = strlen(text);
    struct workload_group *group = NULL;
    dibs_err err = { 0 };

    (void) state;
    for (int i = 0; i < 128; i++)
        used += (size_t) snprintf(text + used, sizeof text - used, "p%d,", i);
    used += (size_t) snprintf(text + used, sizeof text - used, "]}");
    for (int i = 1; i < 32; i++)
        used += (size_t) snprintf(text + used, sizeof text - used, ",{name: c%d, ports: *p}", i);
    used += (size_t) snprintf(text + used, sizeof text - used, "]}\n");
    for (int i = 1; i < 40; i++)
        used += (size_t) snprintf(text + used, sizeof text - used, "  r%d: *role\n", i);
    assert_in_range(used, 1, sizeof text - 1);
    assert_int_equal(workload_manifest_parse("file", text, used, &group, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "more than 65536 ports and references"));
}

static void a_file_named_json_must_be_json(void **state)
{
    static const char *const rows[][2] = {
        { "roles: {web: {ports: [http]}}\n", "line 1, column 5: " },
        { "{\"roles\":\n {\"web\": {\"ports\": [\"http\"],}}}", "line 2, column 29: " },
        { "{\"roles\": {}} # none", "line 1, column 15: " },
        { "{roles: {}}", "line 1, column 6: " },
        { "", "line 1, column 0: " },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct workload_group *group = NULL;
        dibs_err err = { 0 };

        assert_int_equal(workload_manifest_parse("a/dibs.json", rows[i][0], strlen(rows[i][0]), &group, &err),
                         DIBS_INVALID);
        if (strncmp(err.msg, "a/dibs.json: ", 13) != 0 || !strstr(err.msg, rows[i][1]))
            fail_msg("%s: %s", rows[i][0], err.msg);
    }
    static const char good[] = "{\n\t\"group\": \"sh\\u00f6p\",\r\n\t\"roles\": {\"web\": {\"ports\": "
                               "[\"a\\/b\"], \"instances\": 2}}\n}";
    AUTO(workload_free_auto) struct workload_group *group = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(workload_manifest_parse("dibs.json", good, strlen(good), &group, &err), &err);
    assert_string_equal(group->name, "sh\xc3\xb6p");
    assert_string_equal(group->roles[0].components[0].ports[0].name, "a/b");
}

/* ---- files ---- */

struct folder {
    char path[128];
};

static void put_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    char path[256];

    (void) snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void under(const struct folder *f, const char *name, char out[256])
{
    (void) snprintf(out, 256, "%s/%s", f->path, name);
}

/* Inside the one that the runner makes and removes. */
static int make_folder(void **state)
{
    static struct folder f;
    const char *tmp = getenv("TMPDIR");

    (void) snprintf(f.path, sizeof f.path, "%s/manifest-XXXXXX", tmp ? tmp : "/tmp");
    *state = &f;
    return mkdtemp(f.path) ? 0 : -1;
}

static dibs_status read_file(const struct folder *f, const char *name, dibs_err *err)
{
    AUTO(workload_free_auto) struct workload_group *group = NULL;
    char path[256];

    under(f, name, path);
    return workload_manifest_read(path, &group, err);
}

static void a_file_is_read_when_it_can_be_trusted(void **state)
{
    const struct folder *f = *state;
    dibs_err err = { 0 };
    char path[256];

    put_file(f->path, "good.yaml", "group: a\n", 0664);
    ASSERT_OK(read_file(f, "good.yaml", &err), &err);
    put_file(f->path, "wide.yaml", "group: a\n", 0666);
    assert_int_equal(read_file(f, "wide.yaml", &err), DIBS_DENIED);
    assert_non_null(strstr(err.msg, "can be written by every user"));
    assert_int_equal(read_file(f, "missing.yaml", &err), DIBS_NOT_FOUND);
    assert_int_equal(read_file(f, "good.yaml/below", &err), DIBS_NOT_FOUND);
    assert_int_equal(read_file(f, "", &err), DIBS_INVALID); /* the folder */
    under(f, "dangling", path);
    assert_int_equal(symlink("missing.yaml", path), 0);
    assert_int_equal(read_file(f, "dangling", &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "dangling is a symbolic link to nothing"));
    under(f, "pipe", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_file(f, "pipe", &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "not a regular file"));
}

static void a_strangers_file_is_refused_and_says_whose_it_is(void **state)
{
    const struct folder *f = *state;
    dibs_err err = { 0 };
    char path[256];

    if (geteuid() != 0)
        SKIP_BECAUSE("needs root: gives a file away");
    put_file(f->path, "theirs.yaml", "group: a\n", 0644);
    under(f, "theirs.yaml", path);
    assert_int_equal(chown(path, 4711, 4711), 0);
    assert_int_equal(read_file(f, "theirs.yaml", &err), DIBS_DENIED);
    assert_non_null(strstr(err.msg, "belongs to uid 4711, neither to you (uid 0) nor to root"));
    under(f, "link.yaml", path);
    assert_int_equal(symlink("theirs.yaml", path), 0);
    assert_int_equal(read_file(f, "link.yaml", &err), DIBS_DENIED);
    under(f, "nowhere.yaml", path);
    assert_int_equal(symlink("missing.yaml", path), 0);
    assert_int_equal(lchown(path, 4711, 4711), 0);
    assert_int_equal(read_file(f, "nowhere.yaml", &err), DIBS_DENIED);
}

static void a_file_that_is_too_large_is_refused(void **state)
{
    const struct folder *f = *state;
    dibs_err err = { 0 };
    char path[256];

    put_file(f->path, "large.yaml", "#", 0600);
    under(f, "large.yaml", path);
    assert_int_equal(truncate(path, MANIFEST_BYTES_MAX + 1), 0);
    assert_int_equal(read_file(f, "large.yaml", &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "larger than 4194304 bytes"));
}

static void the_nearest_manifest_above_is_found(void **state)
{
    const struct folder *f = *state;
    dibs_err err = { 0 };
    char a[256];
    char b[256];
    char path[PATH_MAX] = "untouched";
    char want[256];

    under(f, "a", a);
    under(f, "a/b", b);
    assert_int_equal(mkdir(a, 0700), 0);
    assert_int_equal(mkdir(b, 0700), 0);
    assert_int_equal(workload_manifest_find(b, path, sizeof path, &err), DIBS_NOT_FOUND);
    assert_string_equal(path, "untouched");
    assert_non_null(strstr(err.msg, "no dibs.yaml or dibs.json in"));
    put_file(f->path, "dibs.json", "{}", 0600);
    ASSERT_OK(workload_manifest_find(b, path, sizeof path, &err), &err);
    under(f, "dibs.json", want);
    assert_string_equal(path, want);
    put_file(a, "dibs.yaml", "", 0600);
    ASSERT_OK(workload_manifest_find(b, path, sizeof path, &err), &err);
    under(f, "a/dibs.yaml", want);
    assert_string_equal(path, want);
    under(f, "a/b/dibs.yaml", want); /* whatever it is, nothing further up is meant */
    assert_int_equal(mkdir(want, 0700), 0);
    ASSERT_OK(workload_manifest_find(b, path, sizeof path, &err), &err);
    assert_string_equal(path, want);
    assert_int_equal(rmdir(want), 0);
    assert_int_equal(symlink("nothing", want), 0);
    ASSERT_OK(workload_manifest_find(b, path, sizeof path, &err), &err);
    assert_string_equal(path, want);
    assert_int_equal(unlink(want), 0);
    put_file(a, "dibs.json", "{}", 0600);
    assert_int_equal(workload_manifest_find(b, path, sizeof path, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "has both dibs.yaml and dibs.json"));
    assert_int_equal(workload_manifest_find(a, path, 8, &err), DIBS_INVALID);
    under(f, "nowhere", want);
    assert_int_equal(workload_manifest_find(want, path, sizeof path, &err), DIBS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_of_the_usual_kind_is_read),
        cmocka_unit_test(components_and_targets_by_parts_are_read),
        cmocka_unit_test(a_command_is_a_list_or_a_line_for_the_shell),
        cmocka_unit_test(settings_that_a_project_may_give_are_kept_with_their_place),
        cmocka_unit_test(a_project_may_not_choose_where_claims_live),
        cmocka_unit_test(an_error_is_reported_with_its_line),
        cmocka_unit_test(aliases_cannot_make_a_short_text_endless),
        cmocka_unit_test(a_file_named_json_must_be_json),
        cmocka_unit_test_setup(a_file_is_read_when_it_can_be_trusted, make_folder),
        cmocka_unit_test_setup(a_strangers_file_is_refused_and_says_whose_it_is, make_folder),
        cmocka_unit_test_setup(a_file_that_is_too_large_is_refused, make_folder),
        cmocka_unit_test_setup(the_nearest_manifest_above_is_found, make_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
