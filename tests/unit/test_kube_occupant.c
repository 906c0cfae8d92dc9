/* SPDX-License-Identifier: MIT */
/* Numbers that pods ask for, and who has them. */
#include "support/review.h"

#define ASKS(mode, number)                                                                                   \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\",\\\"" mode "\\\":" number "}" \
    "]"                                                                                                      \
    "}"

#define LWS                                                     \
    "\"labels\":{\"leaderworkerset.sigs.k8s.io/name\":\"llm\"," \
    "\"leaderworkerset.sigs.k8s.io/group-index\":\"1\"}"

static void a_number_that_is_used_without_a_claim_is_refused_and_avoided(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *before = create(handle, OWN(SET(0), ASKS("port", "20007")));

    ASSERT_ALLOWED(before);
    observe(e, handle, 20005, DIBS_TCP);
    observe(e, handle, 20006, DIBS_UDP);
    observe(e, handle, 20007, DIBS_TCP);
    struct asked *required = create(handle, OWN("\"name\":\"a\"", ASKS("port", "20005")));
    struct asked *preferred = create(handle, OWN("\"name\":\"b\"", ASKS("prefer", "20005")));
    struct asked *udp = create(handle, OWN("\"name\":\"c\"", ASKS("port", "20006")));
    struct asked *again = create(handle, OWN(SET(0), ASKS("port", "20007")));

    ASSERT_REFUSED(required, 409,
                   "allocations 'http': port 20005 is used by Service/front without a claim; choose another");
    ASSERT_ALLOWED(preferred);
    assert_string_not_equal(variable(preferred, "PORT"), "20005");
    assert_string_equal(preferred->warning, "dibs: allocations 'http': port 20005 is used by Service/front "
                                            "without a claim; the pod gets another one");
    ASSERT_ALLOWED(udp);
    assert_string_equal(udp->warning, "");
    ASSERT_ALLOWED(again); /* the Service came later */
    assert_string_equal(variable(again, "PORT"), "20007");
    assert_non_null(strstr(again->warning, "port 20007 is used by Service/front"));
    free(before);
    free(required);
    free(preferred);
    free(udp);
    free(again);
    dibs_close(handle);
}

static void a_taken_number_names_the_pod_that_has_it(void **state)
{
    struct engine *e = *state;
    static const struct {
        const char *pod, *number, *who;
    } holders[] = {
        { OWN(SET(0), ASKS("port", "20010")), "20010",
          "it is port 'http' of pod 'web-0' in namespace 'shop'" },
        { OWN("\"name\":\"lone\"", ASKS("port", "20011")), "20011", "it is port 'http' of pod 'lone' in" },
        { OWN("\"generateName\":\"web-7d-\",\"labels\":{\"pod-template-hash\":\"7d\"}," OWNER("ReplicaSet",
                                                                                              "web-7d"),
              ASKS("port", "20012")),
          "20012", "it is port 'http' of a pod of role 'web' in" },
        { OWN("\"name\":\"llm-1-3\"," OWNER("StatefulSet", "llm-1") "," LWS, ASKS("port", "20013")), "20013",
          "it is port 'http' of the pod 1/worker.2 of LeaderWorkerSet/llm in" },
        { OWN(SET(5), ASKS("scope\\\":\\\"RoleScoped\\\",\\\"port", "20014")), "20014",
          "it is port 'http' of all pods of role 'web' in" },
    };
    dibs *handle = open_pool(e, "20000-20099");

    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
        struct asked *holder = create(handle, holders[i].pod);
        char pod[2048];

        ASSERT_ALLOWED(holder);
        (void) snprintf(pod, sizeof pod, OWN("\"name\":\"late\"", ASKS("port", "%s")), holders[i].number);
        struct asked *late = create(handle, pod);
        ASSERT_REFUSED(late, 409, holders[i].who);
        assert_null(strstr(late->message, "your own"));
        free(holder);
        free(late);
    }
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_number_that_is_used_without_a_claim_is_refused_and_avoided),
        E_TEST(a_taken_number_names_the_pod_that_has_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
