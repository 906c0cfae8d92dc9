/* SPDX-License-Identifier: MIT */
/* A name asked for again (INV-7), with real processes that live, die and linger as zombies. */
#include "ledger/step.h"
#include "support/core.h"

static void D11_a_name_gets_one_claim_however_often_it_is_asked_for(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("shop/web", NULL);

    need_network();
    struct core *twin = e_twin(e);
    dibs_claim first = e_must(e, e->core, &r);
    assert_false(first.was_there);
    for (int i = 0; i < 5; i++) {
        dibs_claim again = e_must(e, i % 2 ? e->core : twin, &r);

        assert_true(again.was_there);
        assert_int_equal(again.id, first.id);
        assert_int_equal(again.generation, first.generation);
        assert_int_equal(again.port, first.port);
    }
    assert_int_equal(e_count(e, NULL), 1);
}

static void D11_P14_the_port_of_a_name_follows_from_the_name(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("shop/web", "localhost");

    need_network();
    /* Two users, the same name: each prefers the same port when it is free. */
    dibs_claim mine = e_must(e, e->core, &r);
    assert_int_equal(mine.n_bindings, 2); /* both loopbacks, not one at random */
    assert_int_equal(e_release(e, e->core, &mine), 1);
    e_pass(e, 6000);
    dibs_claim theirs = e_must(e, e_other(e), &r);
    assert_int_equal(theirs.port, mine.port);
    r.name = "shop/api";
    assert_int_not_equal(e_must(e, e->core, &r).port, mine.port);
}

static void a_kept_claim_without_holder_is_found_and_can_be_held(void **state)
{
    struct engine *e = *state;
    dibs_request kept = e_kept("web", "127.0.0.1");
    dibs_request held = e_held("web", "127.0.0.1", 0);

    dibs_claim first = e_must(e, e->core, &kept);
    dibs_claim now = e_must(e, e->core, &held);
    assert_int_equal(now.port, first.port);
    assert_int_equal(now.holder, DIBS_HELD_BY_PROCESS);
    assert_true(now.is_kept);
    assert_int_equal(now.process.pid, getpid());
    /* The holder asks again: that claim. */
    dibs_claim again = e_must(e, e->core, &held);
    assert_int_equal(again.generation, now.generation);
}

static void another_living_holder_keeps_the_name_and_is_named(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request theirs = e_held("web", "127.0.0.1", pid);
    dibs_request mine = e_held("web", "127.0.0.1", 0);
    dibs_claim out = { 0 };

    dibs_claim first = e_must(e, e->core, &theirs);
    assert_int_equal(e_try(e, e->core, &mine, &out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_SAME_NAME);
    assert_int_equal(e->err.blocker.pid, pid);
    assert_int_equal(e->err.blocker.port, first.port);
    child_end(pid);
}

static void a_dead_holders_name_gives_the_same_port_in_a_new_generation(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request theirs = e_held("web", "127.0.0.1", pid);
    dibs_request mine = e_held("web", "127.0.0.1", 0);
    dibs_claim out = { 0 };
    const dibs_claim first = e_must(e, e->core, &theirs);

    child_end(pid);
    out = e_must(e, e->core, &mine);
    assert_int_equal(out.port, first.port);
    assert_true(out.generation > first.generation);
    assert_int_equal(out.process.pid, getpid());
    /* The old token is worth nothing now (INV-3). */
    assert_int_equal(e_release(e, e->core, &first), 0);
    assert_int_equal(e_count(e, NULL), 1);
}

static void P8_a_zombie_is_dead(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request theirs = e_held(NULL, "127.0.0.1", pid);
    dibs_request mine = e_held(NULL, "127.0.0.1", 0);
    siginfo_t info = { 0 };

    need_network();
    theirs.mode = mine.mode = DIBS_REQUIRED;
    theirs.port = mine.port = 26001;
    (void) e_must(e, e->core, &theirs);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0); /* ended, not yet waited for */
    dibs_claim out = e_must(e, e->core, &mine);
    assert_int_equal(out.process.pid, getpid());
    (void) child_join(pid);
}

static void a_different_request_is_refused_with_the_difference(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("web", "127.0.0.1");
    dibs_request udp = e_kept("web", NULL);
    dibs_request number = e_kept("web", "127.0.0.1");
    dibs_claim out = { 0 };
    char difference[160];

    dibs_claim first = e_must(e, e->core, &r);
    e_bind_to(&udp, DIBS_UDP, "127.0.0.1");
    assert_int_equal(e_try(e, e->core, &udp, &out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_SAME_NAME);
    assert_non_null(strstr(
        e->err.msg, "on tcp 127.0.0.1, which is not what is asked for now: any port on udp 127.0.0.1;"));
    number.mode = DIBS_REQUIRED;
    number.port = first.port == 26001 ? 26002 : 26001;
    assert_int_equal(e_try(e, e->core, &number, &out), DIBS_TAKEN);
    (void) snprintf(
        difference, sizeof difference,
        "has port %u on tcp 127.0.0.1, which is not what is asked for now: port %u on tcp 127.0.0.1;",
        first.port, number.port);
    assert_non_null(strstr(e->err.msg, difference));
    number.mode = DIBS_DECLARED;
    number.port = first.port;
    assert_int_equal(e_try(e, e->core, &number, &out), DIBS_TAKEN);
    assert_non_null(strstr(e->err.msg, "has exclusive port"));
    assert_non_null(strstr(e->err.msg, "asked for now: declared port"));
    number.mode = DIBS_REQUIRED;
    number.port = first.port;
    assert_int_equal(e_must(e, e->core, &number).id, first.id);
    number.mode = DIBS_PREFERRED; /* a preference is no condition */
    number.port = 26003;
    assert_int_equal(e_must(e, e->core, &number).id, first.id);
}

static void a_lookup_answers_as_it_is_and_never_becomes_holder(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request held = e_held("web", "127.0.0.1", pid);
    dibs_request get = e_kept("web", "127.0.0.1");

    get.is_lookup = true;
    dibs_claim first = e_must(e, e->core, &held);
    dibs_claim found = e_must(e, e->core, &get);
    child_end(pid);
    assert_int_equal(found.generation, first.generation);
    assert_int_equal(found.process.pid, pid);
}

static void a_released_name_gets_its_port_back_at_once_though_it_cools(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", NULL);

    need_network();
    for (int i = 0; i < 2; i++) { /* cold, and with the index loaded */
        dibs_claim first = e_must(e, e->core, &r);

        assert_int_equal(e_release(e, e->core, &first), 1);
        assert_int_equal(e_must(e, e->core, &r).port, first.port);
        ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, 0, NULL, &e->err),
                  &e->err);
        ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    }
}

/* A process that goes on for long knows of claims that another one, or a reaper, has ended meanwhile. */
static void INV_7_names_get_their_ports_back_however_their_claims_ended(void **state)
{
    struct engine *e = *state;
    dibs_request r[] = { e_kept("shop/web", NULL), e_kept("shop/api", NULL) };
    dibs_batch batch = { .requests = r, .n = 2 };
    dibs_claim first[2];
    dibs_claim again[2];

    need_network();
    struct core *twin = e_twin(e);
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, first, &e->err), &e->err);
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(e_release(e, twin, &first[i]), 1);
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, again, &e->err), &e->err);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(again[i].port, first[i].port);
}

static void INV_7_a_name_that_lost_its_port_to_a_stranger_gets_another(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", "127.0.0.1");

    need_network();
    dibs_claim first = e_must(e, e->core, &r);
    assert_int_equal(e_release(e, e->core, &first), 1);
    int fd = e_serve(DIBS_TCP, "127.0.0.1", first.port);
    dibs_claim second = e_must(e, e->core, &r);
    assert_int_not_equal(second.port, first.port);
    (void) close(fd);
}

static void two_directories_of_one_name_do_not_share_a_port(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("shop/web", NULL);

    need_network();
    r.project = "/home/me/a/shop";
    dibs_claim first = e_must(e, e->core, &r);
    r.project = "/home/me/b/shop";
    dibs_claim second = e_must(e, e->core, &r);
    assert_int_not_equal(first.port, second.port);
    assert_string_equal(first.name, "shop/web");
    assert_int_equal(strncmp(second.name, "shop~", 5), 0);
    assert_int_equal(e_must(e, e->core, &r).id, second.id);
    r.project = "/home/me/a/shop";
    assert_int_equal(e_must(e, e->core, &r).id, first.id);
    /* ... and stay apart when the first has gone. */
    assert_int_equal(e_release(e, e->core, &first), 1);
    r.project = "/home/me/b/shop";
    assert_int_equal(e_must(e, e->core, &r).id, second.id);
}

static void INV_7_two_clones_get_their_own_ports_back_in_either_order(void **state)
{
    struct engine *e = *state;
    static const char *const clones[] = { "/home/me/a/shop", "/home/me/b/shop" };
    dibs_request r = e_kept("shop/web", NULL);
    uint16_t port[2] = { 0 };

    need_network();
    for (int round = 0; round < 4; round++) {
        dibs_claim got[2] = { 0 };

        for (int i = 0; i < 2; i++) {
            int who = (i + round) % 2; /* the other one first each time */

            r.project = clones[who];
            got[who] = e_must(e, e->core, &r);
            if (i == 0 && round == 0) /* ... the second even when the first has gone meanwhile */
                assert_int_equal(e_release(e, e->core, &got[who]), 1);
            assert_true(port[who] == 0 || port[who] == got[who].port);
            port[who] = got[who].port;
        }
        assert_int_not_equal(got[0].port, got[1].port);
        for (int i = 0; i < 2; i++)
            (void) e_release(e, e->core, &got[i]);
    }
}

static void all_names_of_a_clone_are_of_one_group(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("shop/web", NULL);

    need_network();
    r.project = "/home/me/a/shop";
    (void) e_must(e, e->core, &r);
    r.project = "/home/me/b/shop";
    dibs_claim web = e_must(e, e->core, &r);
    r.name = "shop/api"; /* which the first clone does not have */
    dibs_claim api = e_must(e, e->core, &r);
    size_t group = strcspn(web.name, "/");
    assert_int_equal(strncmp(web.name, "shop~", 5), 0);
    assert_int_equal(strncmp(web.name, api.name, group + 1), 0);
}

static void a_directory_keeps_its_group_when_its_branch_changes(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("shop@main/web", NULL);
    dibs_which which = { .name = "shop@topic/web", .project = "/home/me/shop" };
    dibs_claim found = { 0 };

    need_network();
    r.project = "/home/me/shop";
    dibs_claim first = e_must(e, e->core, &r);
    assert_string_equal(first.name, "shop@main/web");
    r.name = "shop@topic/web";
    assert_int_equal(e_must(e, e->core, &r).id, first.id);
    r.name = "shop/api"; /* detached, in the middle of a rebase */
    assert_string_equal(e_must(e, e->core, &r).name, "shop@main/api");
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &which, &found, &e->err), &e->err);
    assert_int_equal(found.id, first.id);
    /* Another work tree on that very branch is another project. */
    r.name = "shop@main/web";
    r.project = "/home/me/trees/shop";
    dibs_claim other = e_must(e, e->core, &r);
    assert_int_not_equal(other.port, first.port);
    assert_int_equal(strncmp(other.name, "shop@main~", 10), 0);
    /* A group of another name is another group, in the same directory too. */
    r.name = "shopping/web";
    r.project = "/home/me/shop";
    assert_string_equal(e_must(e, e->core, &r).name, "shopping/web");
}

static void a_group_that_was_named_is_not_a_directorys(void **state)
{
    struct engine *e = *state;
    dibs_request named = e_kept("shop/web", NULL);
    dibs_request r = named;
    dibs_claim got[2] = { 0 };

    need_network();
    dibs_claim shared = e_must(e, e->core, &named); /* --group shop: no directory */
    for (int i = 0; i < 2; i++) {
        r.project = i ? "/home/me/b/shop" : "/home/me/a/shop";
        got[i] = e_must(e, e->core, &r);
        assert_int_not_equal(got[i].port, shared.port);
    }
    assert_int_not_equal(got[0].port, got[1].port);
    assert_int_equal(e_must(e, e->core, &named).id, shared.id);
    named.name = got[0].name; /* an exact name finds whatever has it */
    assert_int_equal(e_must(e, e->core, &named).id, got[0].id);
}

static void a_directory_too_long_to_be_recorded_is_refused(void **state)
{
    struct engine *e = *state;
    char path[DIBS_PROJECT_MAX + 2];
    dibs_request r = e_kept("shop/web", "127.0.0.1");
    dibs_claim out = { .port = 7 };

    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    r.project = path;
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    assert_int_equal(out.port, 7);
    path[sizeof path - 2] = '\0';
    assert_string_equal(e_must(e, e->core, &r).project, path);
}

static void each_user_has_own_names(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("web", "127.0.0.1");

    dibs_claim mine = e_must(e, e->core, &r);
    dibs_claim theirs = e_must(e, e_other(e), &r);
    assert_int_not_equal(mine.id, theirs.id);
    assert_int_not_equal(mine.port, theirs.port);
}

/* While one process asks for a name again and again, holders of it die. */
static int hold_and_die(void *arg)
{
    struct engine *e = arg;
    struct core *core = e_twin(e);
    dibs_request r = e_held("web", "127.0.0.1", 0);
    const dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim out = { 0 };

    return core_claim(core, E_CALL(e, core), &batch, &out, &e->err) == DIBS_OK ? 0 : 1;
}

static void D26_a_chain_of_dying_holders_keeps_one_port_and_one_claim(void **state)
{
    struct engine *e = *state;
    dibs_request get = e_kept("web", "127.0.0.1");
    uint16_t port = 0;

    for (int i = 0; i < 5; i++) {
        assert_int_equal(child_run(hold_and_die, e), 0);
        struct e_list *list = calloc(1, sizeof *list);
        assert_non_null(list);
        ASSERT_OK(
            core_list(e->core, E_CALL(e, e->core), &(dibs_filter){ .judge = true }, e_note, list, &e->err),
            &e->err);
        assert_int_equal(list->n, 1);
        assert_int_equal(list->claims[0].life, DIBS_DEAD);
        assert_int_equal(port == 0 || list->claims[0].port == port, 1);
        port = list->claims[0].port;
        free(list);
    }
    assert_int_equal(e_must(e, e->core, &get).port, port);
}

static void a_name_that_was_left_is_found_and_ended_but_not_asked_for_and_left_no_further(void **state)
{
    struct engine *e = *state;
    dibs_request held = e_held("shop/web/0/-/http", "127.0.0.1", 0);
    dibs_request kept = e_kept("shop/web/0/-/http", "127.0.0.1");
    dibs_request left = e_kept(NULL, "127.0.0.1");
    dibs_claim out = { 0 };
    dibs_drop drop = { .frees_name = true };
    dibs_batch batch = { .requests = &kept, .n = 1, .drops = &drop, .n_drops = 1 };
    char name[DIBS_NAME_MAX + 1];
    size_t n = 0;

    need_network();
    dibs_claim first = e_must(e, e->core, &held);
    drop.claim = &first;
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, &out, &e->err), &e->err);
    assert_int_not_equal(out.id, first.id);
    (void) snprintf(name, sizeof name, "shop/web/0/-/http/%u", first.port);
    const dibs_which which = { .name = name };
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &which, &first, &e->err), &e->err);
    left.name = name;
    assert_int_equal(e_try(e, e->core, &left, &out), DIBS_INVALID);
    assert_non_null(strstr(e->err.msg, "six parts"));
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, &out, &e->err),
              &e->err); /* of a name that nobody can have */
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &which, &out, &e->err), &e->err);
    assert_int_equal(out.id, first.id);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &which, 0, &n, &e->err), &e->err);
    assert_int_equal(n, 1);
    assert_int_equal(e_count(e, NULL), 1);
}

static void INV_7_a_name_gets_its_port_back_that_was_busy_for_another_a_moment_ago(void **state)
{
    enum { OTHERS = 3 };
    struct engine *e = *state;
    dibs_request named = e_request("web", "127.0.0.1");
    dibs_request other = e_request(NULL, "127.0.0.1");
    dibs_ranges four = e_ranges("30000-30003");
    dibs_claim claims[OTHERS];

    need_network();
    named.ranges = other.ranges = &four;
    dibs_claim web = e_must(e, e->core, &named);
    for (size_t i = 0; i < OTHERS; i++)
        claims[i] = e_must(e, e->core, &other);
    assert_int_equal(e_release(e, e->core, &web), 1);
    for (size_t i = 0; i < OTHERS; i++) {
        e_pass(e, 10);
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
    }
    /* Its server takes a moment longer to end: who asks meanwhile finds its port, the oldest, busy. */
    int fd = e_serve(DIBS_TCP, "127.0.0.1", web.port);
    assert_int_equal(e_must(e, e->core, &other).port, claims[0].port);
    assert_true(portbits_has(&e->core->foreign.ports, web.port));
    (void) close(fd);
    assert_int_equal(e_must(e, e->core, &named).port, web.port);
}

/* ---- two first names at once ---- */

static struct {
    const struct store_ops *ops; /* the store's own */
    struct engine *e;
    struct core *twin;
    const char *project; /* the one whose first name comes late */
    int n_missed;
} late;

/* The last of the lookups that find no name of the project; its name comes right after it. */
enum { LAST_MISS = 5 };

static dibs_status first_name_with_a_late_one(struct store *rows, const struct ledger_names *among,
                                              char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    dibs_status s = late.ops->name_first(rows, among, out, err);
    dibs_request r = e_request("shop/api", NULL);

    r.project = late.project;
    if (s == DIBS_NOT_FOUND && among->project && ++late.n_missed == LAST_MISS)
        (void) e_must(late.e, late.twin, &r);
    return s;
}

static void name_while_another_comes(struct engine *e, const char *project, char out[DIBS_NAME_MAX + 1])
{
    struct store *rows = e->core->ledger->store;
    struct store_ops ops = *rows->ops;

    late.ops = rows->ops;
    late.e = e;
    late.twin = e_twin(e);
    late.project = project;
    late.n_missed = 0;
    ops.name_first = first_name_with_a_late_one;
    rows->ops = &ops;
    dibs_status s = core_name(&(struct core_names){ .core = e->core, .call = E_CALL(e, e->core) }, "shop/web",
                              "/srv/shop", out, &e->err);
    rows->ops = late.ops;
    ASSERT_OK(s, &e->err);
    assert_in_range(late.n_missed, LAST_MISS, 2 * LAST_MISS + 1);
}

static void INV_7_two_first_names_of_a_directory_at_once_get_one_group(void **state)
{
    char name[DIBS_NAME_MAX + 1] = "";

    need_network();
    name_while_another_comes(*state, "/srv/shop", name);
    assert_string_equal(name, "shop/web");
}

static void two_directories_of_one_name_at_once_get_a_group_each(void **state)
{
    char name[DIBS_NAME_MAX + 1] = "";

    need_network();
    name_while_another_comes(*state, "/home/shop", name);
    assert_int_equal(strncmp(name, "shop~", 5), 0);
}

static void each_name_of_a_batch_is_in_the_group_of_its_own_words_and_directory(void **state)
{
    struct engine *e = *state;
    dibs_request r[] = { e_kept("shop/web", NULL), e_kept("shop/api", NULL), e_kept("depot/web", NULL) };
    const dibs_batch batch = { .requests = r, .n = 3 };
    dibs_request first = e_kept("shop/db", NULL);
    dibs_claim out[3];

    need_network();
    first.project = r[1].project = r[2].project = "/srv/shop";
    r[0].project = "/home/shop";
    (void) e_must(e, e->core, &first);
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, out, &e->err), &e->err);
    assert_int_equal(strncmp(out[0].name, "shop~", 5), 0);
    assert_string_equal(out[1].name, "shop/api");
    assert_string_equal(out[2].name, "depot/web");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(D11_a_name_gets_one_claim_however_often_it_is_asked_for),
        E_TEST(INV_7_two_first_names_of_a_directory_at_once_get_one_group),
        E_TEST(two_directories_of_one_name_at_once_get_a_group_each),
        E_TEST(D11_P14_the_port_of_a_name_follows_from_the_name),
        E_TEST(a_kept_claim_without_holder_is_found_and_can_be_held),
        E_TEST(another_living_holder_keeps_the_name_and_is_named),
        E_TEST(a_dead_holders_name_gives_the_same_port_in_a_new_generation),
        E_TEST(P8_a_zombie_is_dead),
        E_TEST(a_different_request_is_refused_with_the_difference),
        E_TEST(a_lookup_answers_as_it_is_and_never_becomes_holder),
        E_TEST(a_released_name_gets_its_port_back_at_once_though_it_cools),
        E_TEST(INV_7_names_get_their_ports_back_however_their_claims_ended),
        E_TEST(INV_7_a_name_that_lost_its_port_to_a_stranger_gets_another),
        E_TEST(two_directories_of_one_name_do_not_share_a_port),
        E_TEST(INV_7_two_clones_get_their_own_ports_back_in_either_order),
        E_TEST(all_names_of_a_clone_are_of_one_group),
        E_TEST(each_name_of_a_batch_is_in_the_group_of_its_own_words_and_directory),
        E_TEST(a_directory_keeps_its_group_when_its_branch_changes),
        E_TEST(a_group_that_was_named_is_not_a_directorys),
        E_TEST(a_directory_too_long_to_be_recorded_is_refused),
        E_TEST(each_user_has_own_names),
        E_TEST(D26_a_chain_of_dying_holders_keeps_one_port_and_one_claim),
        E_TEST(a_name_that_was_left_is_found_and_ended_but_not_asked_for_and_left_no_further),
        E_TEST(INV_7_a_name_gets_its_port_back_that_was_busy_for_another_a_moment_ago),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
