/* SPDX-License-Identifier: MIT */
/* Pods that bring an assignment: signed by the webhook for their namespace it is used where it can be had,
 * and anything else is refused. */
#include "support/review.h"

#define BARE "\"name\":\"web\""

/* The pod as its client reads it and sends it again; each annotation NULL: without it. */
struct again {
    const char *metadata, *config, *id, *assigned, *signature;
};

static void add(char *out, size_t size, const char *key, const char *value)
{
    size_t n = strlen(out);

    if (value)
        (void) snprintf(out + n, size - n, "%s\"%s\":\"%s\"", n ? "," : "", key, value);
}

static struct asked *submit(dibs *handle, const char *operation, const struct again *pod)
{
    static char annotations[16384];
    static char text[32768];

    annotations[0] = '\0';
    add(annotations, sizeof annotations, "dibs.dev/ports", pod->config);
    add(annotations, sizeof annotations, "dibs.dev/claim", pod->id);
    add(annotations, sizeof annotations, "dibs.dev/assigned", pod->assigned);
    add(annotations, sizeof annotations, "dibs.dev/signature", pod->signature);
    (void) snprintf(text, sizeof text, "%s\"object\":{\"metadata\":{%s,\"annotations\":{%s}}," BODY "}",
                    strcmp(operation, "DRY") == 0 ? "\"dryRun\":true," : "", pod->metadata, annotations);
    return review(handle, "CREATE", text);
}

/* The texts are overwritten after some further pods. */
static const char *keep(const char *text)
{
    static char kept[16][8192];
    static size_t turn;

    char *to = kept[turn++ % 16];

    (void) snprintf(to, sizeof kept[0], "%s", text);
    return to;
}

static struct again as_made(const struct asked *made, const char *metadata)
{
    return (struct again){ metadata, HTTP, keep(claim_id(made)), keep(assigned(made)),
                           keep(signature(made)) };
}

/* As the controller ends the claims of a pod that is gone. */
static void end_all(struct engine *e, dibs *handle)
{
    ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
    ASSERT_OK(
        dibs_claim_release(handle, &(dibs_which){ .all_mine = true }, DIBS_RELEASE_FORCE, NULL, &e->err),
        &e->err);
    assert_int_equal(count_claims(e, handle), 0);
}

static void ports_without_dibs_signature_are_refused(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *made = create(handle, OWN(BARE, HTTP));
    const struct again good = as_made(made, BARE);
    const char *forged =
        "[{\\\"claim\\\":\\\"Pod.web/web/~0/-/http\\\",\\\"port\\\":20050,\\\"protocols\\\":["
        "\\\"TCP\\\"],\\\"kind\\\":\\\"Pod\\\"}]";
    const char *id = "0123456789abcdef0123456789abcdef";
    const struct again rows[] = {
        { BARE, HTTP, good.id, forged, good.signature }, /* another number */
        { BARE, HTTP, id, good.assigned, good.signature },
        { BARE, HTTP, good.id, good.assigned, "0" },
        { BARE, HTTP, good.id, good.assigned, NULL },
        { BARE, HTTP, NULL, good.assigned, good.signature },
        { BARE, HTTP, good.id, NULL, good.signature },
        { BARE, HTTP, good.id, NULL, NULL },
        { BARE, NULL, good.id, forged, good.signature }, /* also without a request */
        { BARE, NULL, id, forged, NULL },
        { BARE, NULL, NULL, "[]", NULL },
        { BARE, NULL, NULL, "nonsense", NULL },
    };

    ASSERT_ALLOWED(made);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked *asked = submit(handle, "CREATE", &rows[i]);

        ASSERT_REFUSED(asked, 422,
                       "dibs has not signed this for a pod of namespace 'shop'; remove the annotations");
        free(asked);
    }
    assert_int_equal(count_claims(e, handle), 1);
    free(made);
    dibs_close(handle);
}

static void a_signature_of_another_namespace_is_refused(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *made = create(handle, OWN(BARE, HTTP));
    static char text[8192];

    ASSERT_ALLOWED(made);
    (void) snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\","
        "\"kind\":{\"group\":\"\",\"kind\":\"Pod\"},\"namespace\":\"other\",\"operation\":\"CREATE\","
        "\"object\":{\"metadata\":{" BARE ",\"annotations\":{\"dibs.dev/ports\":\"" HTTP
        "\",\"dibs.dev/claim\":\"%s\",\"dibs.dev/assigned\":\"%s\",\"dibs.dev/signature\":\"%s\"}}," BODY
        "}}}",
        claim_id(made), assigned(made), signature(made));
    struct admission a = { 0 };
    ASSERT_OK(admission_begin(&options, text, strlen(text), &a, &e->err), &e->err);
    assert_false(a.verdict.is_allowed);
    assert_non_null(strstr(a.verdict.message, "namespace 'other'"));
    admission_done(&a);
    free(made);
    dibs_close(handle);
}

static void a_pod_that_comes_back_gets_its_numbers_back(void **state)
{
#define MORE                                                                                        \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"},{\\\"name\\\":"     \
    "\\\"two\\\",\\\"env\\\":\\\"TWO\\\",\\\"count\\\":2},{\\\"name\\\":\\\"ranks\\\",\\\"env\\\":" \
    "\\\"RANKS\\\",\\\"count\\\":4,\\\"contiguous\\\":true}]}"
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20999");
    struct asked *made = create(handle, OWN(BARE, MORE));
    struct again pod = as_made(made, BARE);

    ASSERT_ALLOWED(made);
    pod.config = MORE;
    /* The pod lives: new numbers. */
    struct asked *copy = submit(
        handle, "CREATE", &(struct again){ "\"name\":\"copy\"", MORE, pod.id, pod.assigned, pod.signature });
    ASSERT_ALLOWED(copy);
    assert_string_not_equal(variable(copy, "PORT"), variable(made, "PORT"));
    assert_string_not_equal(variable(copy, "RANKS"), variable(made, "RANKS"));
    free(copy);
    /* It is gone. */
    end_all(e, handle);
    struct asked *back = submit(handle, "CREATE", &pod);
    ASSERT_ALLOWED(back);
    assert_string_equal(variable(back, "PORT"), variable(made, "PORT"));
    assert_string_equal(variable(back, "TWO"), variable(made, "TWO"));
    assert_string_equal(variable(back, "RANKS"), variable(made, "RANKS"));
    assert_string_not_equal(claim_id(back), claim_id(made));
    /* The request is repeated: nothing changes. */
    pod = as_made(back, BARE);
    pod.config = MORE;
    struct asked *again = submit(handle, "CREATE", &pod);
    ASSERT_ALLOWED(again);
    assert_string_equal(claim_id(again), "");
    free(again);
    free(back);
    free(made);
    dibs_close(handle);
}

static void without_a_request_it_keeps_exactly_what_it_brings(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *made = create(handle, OWN(BARE, HTTP));
    struct again pod = as_made(made, BARE);

    ASSERT_ALLOWED(made);
    pod.config = NULL;
    end_all(e, handle);
    struct asked *dry = submit(handle, "DRY", &pod);
    ASSERT_ALLOWED(dry);
    assert_int_equal(count_claims(e, handle), 0);
    struct asked *back = submit(handle, "CREATE", &pod);
    ASSERT_ALLOWED(back);
    assert_string_equal(back->patch, "");
    assert_int_equal(count_claims(e, handle), 1);
    struct asked *again = submit(handle, "CREATE", &pod);
    ASSERT_ALLOWED(again);
    assert_int_equal(count_claims(e, handle), 1);
    /* confirmed: the pod lives */
    char name[DIBS_NAME_MAX + 1];
    (void) snprintf(name, sizeof name, "Pod.web/web/~%s/-/http", pod.id);
    ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
    ASSERT_OK(dibs_claim_release(handle, &(dibs_which){ .name = name }, DIBS_RELEASE_UNHOLD, NULL, &e->err),
              &e->err);
    struct asked *lives = submit(handle, "CREATE", &pod);
    ASSERT_REFUSED(lives, 409, "may still exist");
    pod.metadata = "\"name\":\"other\"";
    struct asked *other = submit(handle, "CREATE", &pod);
    ASSERT_REFUSED(other, 409, "assigned to another pod");
    free(other);
    free(lives);
    free(again);
    free(back);
    free(dry);
    free(made);
    dibs_close(handle);
}

static void without_a_request_a_number_in_use_is_refused_with_its_holder(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20003");
    struct asked *made = create(handle, OWN(BARE, HTTP));
    struct again pod = as_made(made, BARE);
    const char *number = variable(made, "PORT");
    char message[128];
    char other[512];

    ASSERT_ALLOWED(made);
    pod.config = NULL;
    end_all(e, handle);
    (void) snprintf(other, sizeof other, OWN("\"name\":\"other\"", "%s"),
                    "{\\\"allocations\\\":[{\\\"name\\\":\\\"x\\\",\\\"env\\\":\\\"X\\\",\\\"count\\\":4}]}");
    free(create(handle, other));
    struct asked *held = submit(handle, "CREATE", &pod);
    (void) snprintf(message, sizeof message,
                    "port %s, which was assigned to this pod, is claimed: it is port 'x", number);
    ASSERT_REFUSED(held, 409, message);
    assert_non_null(strstr(held->message, "of pod 'other' in namespace 'shop'; remove the annotations"));
    end_all(e, handle);
    observe(e, handle, (uint16_t) strtoul(number, NULL, 10), DIBS_TCP);
    struct asked *foreign = submit(handle, "CREATE", &pod);
    (void) snprintf(
        message, sizeof message,
        "port %s, which was assigned to this pod, is used by Service/front without a claim; remove", number);
    ASSERT_REFUSED(foreign, 409, message);
    assert_int_equal(count_claims(e, handle), 1);
    free(foreign);
    free(held);
    free(made);
    dibs_close(handle);
}

static void without_a_request_the_quota_counts_too(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20003");
    struct asked *made = create(handle, OWN(BARE, HTTP));
    struct again pod = as_made(made, BARE);

    ASSERT_ALLOWED(made);
    pod.config = NULL;
    end_all(e, handle);
    set_quota(e, handle, 0);
    options.has_quota = true;
    struct asked *refused = submit(handle, "CREATE", &pod);
    options.has_quota = false;
    ASSERT_REFUSED(refused, 403, "the quota of namespace 'shop' is 0 ports: it has 0");
    free(refused);
    free(made);
    dibs_close(handle);
}

static void the_signature_cannot_be_changed(void **state)
{
    struct asked *asked =
        review(NULL, "UPDATE",
               "\"oldObject\":{\"metadata\":{\"annotations\":{\"dibs.dev/signature\":\"a\"}}},\"object\":{"
               "\"metadata\":{\"annotations\":{\"dibs.dev/signature\":\"b\"}}}");

    (void) state;
    ASSERT_REFUSED(asked, 422, "annotations[dibs.dev/signature]");
    free(asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(ports_without_dibs_signature_are_refused),
        E_TEST(a_signature_of_another_namespace_is_refused),
        E_TEST(a_pod_that_comes_back_gets_its_numbers_back),
        E_TEST(without_a_request_it_keeps_exactly_what_it_brings),
        E_TEST(without_a_request_a_number_in_use_is_refused_with_its_holder),
        E_TEST(without_a_request_the_quota_counts_too),
        cmocka_unit_test(the_signature_cannot_be_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
