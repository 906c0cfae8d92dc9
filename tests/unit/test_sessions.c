/* SPDX-License-Identifier: MIT */
#include "daemon/ui/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "support/t.h"

#define BOOT "0c8d2f4e-1111-2222-3333-444455556666"
#define NONCE "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

enum { NOW = 1000000 };

static struct sessions *new_sessions(void)
{
    struct sessions *sessions = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(sessions_new(&sessions, &err), &err);
    return sessions;
}

static dibs_status parse(struct sessions *sessions, const char *text, size_t n, int64_t now_ms,
                         uint16_t *port, dibs_err *err)
{
    struct bytes copy = { 0 };

    bytes_add(&copy, text, n);
    dibs_status s = sessions_parse(sessions, &copy, BOOT, now_ms, port, err);
    bytes_done(&copy);
    return s;
}

static void offer(struct sessions *sessions, uint32_t uid, int64_t now_ms, char out[SESSIONS_SECRET_TEXT + 1])
{
    dibs_err err = { 0 };

    ASSERT_OK(sessions_offer(sessions, uid, now_ms, out, &err), &err);
}

/* Begin a session of the user. */
static void begin(struct sessions *sessions, uint32_t uid, int64_t now_ms, char out[SESSIONS_SECRET_TEXT + 1])
{
    char token[SESSIONS_SECRET_TEXT + 1];
    dibs_err err = { 0 };

    offer(sessions, uid, now_ms, token);
    ASSERT_OK(sessions_begin(sessions, token, now_ms, out, &err), &err);
}

static bool is_open(const struct sessions *sessions, const char *session, int64_t now_ms, uint32_t wanted)
{
    uint32_t uid = 0;
    int64_t ends_ms = 0;

    return sessions_find(sessions, session, now_ms, &uid, &ends_ms) && uid == wanted && ends_ms > now_ms;
}

static void a_token_begins_one_session_of_its_user(void **state)
{
    struct sessions *sessions = new_sessions();
    char token[SESSIONS_SECRET_TEXT + 1];
    char first[SESSIONS_SECRET_TEXT + 1] = "";
    char second[SESSIONS_SECRET_TEXT + 1] = "untouched";
    uint32_t uid = 0;
    dibs_err err = { 0 };

    (void) state;
    offer(sessions, 1000, NOW, token);
    assert_int_equal(strlen(token), SESSIONS_SECRET_TEXT);
    assert_true(sessions_is_offered(sessions, token, NOW, &uid));
    assert_int_equal(uid, 1000);
    assert_false(is_open(sessions, token, NOW, 1000)); /* a token is no session */
    ASSERT_OK(sessions_begin(sessions, token, NOW, first, &err), &err);
    assert_true(is_open(sessions, first, NOW, 1000));
    assert_int_equal(sessions_begin(sessions, token, NOW, second, &err), DIBS_DENIED);
    assert_string_equal(second, "untouched");
    assert_int_equal(sessions_begin(sessions, first, NOW, second, &err), DIBS_DENIED); /* nor the other way */
    assert_int_equal(sessions_count(sessions, NOW), 1);
    assert_int_equal(sessions_offered(sessions, NOW), 0);
    sessions_free(sessions);
}

static void both_end_exactly_at_their_time(void **state)
{
    struct sessions *sessions = new_sessions();
    char token[SESSIONS_SECRET_TEXT + 1];
    char session[SESSIONS_SECRET_TEXT + 1];
    dibs_err err = { 0 };
    uint32_t uid = 0;

    (void) state;
    offer(sessions, 1000, NOW, token);
    assert_true(sessions_is_offered(sessions, token, NOW + SESSIONS_TOKEN_MS - 1, &uid));
    assert_false(sessions_is_offered(sessions, token, NOW + SESSIONS_TOKEN_MS, &uid));
    assert_int_equal(sessions_begin(sessions, token, NOW + SESSIONS_TOKEN_MS, session, &err), DIBS_DENIED);
    begin(sessions, 1000, NOW, session);
    assert_true(is_open(sessions, session, NOW + SESSIONS_LIFE_MS - 1, 1000));
    assert_int_equal(sessions_count(sessions, NOW + SESSIONS_LIFE_MS - 1), 1);
    assert_false(is_open(sessions, session, NOW + SESSIONS_LIFE_MS, 1000));
    assert_int_equal(sessions_count(sessions, NOW + SESSIONS_LIFE_MS), 0);
    sessions_free(sessions);
}

static void nothing_but_the_whole_secret_is_one(void **state)
{
    struct sessions *sessions = new_sessions();
    char session[SESSIONS_SECRET_TEXT + 1];
    char wrong[SESSIONS_SECRET_TEXT + 2];

    (void) state;
    assert_false(is_open(sessions, "", NOW, 0));
    begin(sessions, 0, NOW, session);
    (void) snprintf(wrong, sizeof wrong, "%s0", session);
    assert_false(is_open(sessions, wrong, NOW, 0));
    wrong[SESSIONS_SECRET_TEXT - 1] = '\0';
    assert_false(is_open(sessions, wrong, NOW, 0));
    for (size_t i = 0; i < SESSIONS_SECRET_TEXT; i++) {
        memcpy(wrong, session, sizeof session);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_false(is_open(sessions, wrong, NOW, 0));
    }
    assert_true(is_open(sessions, session, NOW, 0));
    sessions_free(sessions);
}

static void a_users_oldest_one_gives_way_and_no_other_users(void **state)
{
    struct sessions *sessions = new_sessions();
    char others[SESSIONS_SECRET_TEXT + 1];
    char first[SESSIONS_SECRET_TEXT + 1];
    char second[SESSIONS_SECRET_TEXT + 1];
    char last[SESSIONS_SECRET_TEXT + 1];
    char token[SESSIONS_SECRET_TEXT + 1];
    uint32_t uid = 0;

    (void) state;
    begin(sessions, 7, NOW, others);
    begin(sessions, 8, NOW, first);
    begin(sessions, 8, NOW, second);
    for (int i = 2; i <= SESSIONS_PER_USER; i++)
        begin(sessions, 8, NOW, last);
    assert_false(is_open(sessions, first, NOW, 8));
    assert_true(is_open(sessions, second, NOW, 8));
    assert_true(is_open(sessions, last, NOW, 8));
    assert_true(is_open(sessions, others, NOW, 7));
    offer(sessions, 8, NOW, token);
    for (int i = 0; i < SESSIONS_TOKENS_PER_USER; i++)
        offer(sessions, 8, NOW, last);
    assert_false(sessions_is_offered(sessions, token, NOW, &uid));
    assert_int_equal(sessions_offered(sessions, NOW), SESSIONS_TOKENS_PER_USER);
    sessions_free(sessions);
}

static void too_many_users_are_refused_until_the_tokens_expire(void **state)
{
    struct sessions *sessions = new_sessions();
    char token[SESSIONS_SECRET_TEXT + 1] = "untouched";
    char any[SESSIONS_SECRET_TEXT + 1];
    dibs_err err = { 0 };
    uint32_t uid = 0;

    (void) state;
    for (; uid < SESSIONS_TOKENS_MAX; uid++)
        offer(sessions, uid, NOW, any);
    assert_int_equal(sessions_offer(sessions, uid, NOW, token, &err), DIBS_UNAVAILABLE);
    assert_string_equal(token, "untouched");
    offer(sessions, uid, NOW + SESSIONS_TOKEN_MS, token);
    for (uid = 0; uid < SESSIONS_MAX; uid++)
        begin(sessions, uid, NOW + SESSIONS_TOKEN_MS, any);
    assert_int_equal(sessions_count(sessions, NOW + SESSIONS_TOKEN_MS), SESSIONS_MAX);
    offer(sessions, uid, NOW + SESSIONS_TOKEN_MS, token);
    assert_int_equal(sessions_begin(sessions, token, NOW + SESSIONS_TOKEN_MS, any, &err), DIBS_UNAVAILABLE);
    sessions_free(sessions);
}

static void an_ended_session_is_unknown_and_others_stay(void **state)
{
    struct sessions *sessions = new_sessions();
    char one[SESSIONS_SECRET_TEXT + 1];
    char two[SESSIONS_SECRET_TEXT + 1];

    (void) state;
    begin(sessions, 1000, NOW, one);
    begin(sessions, 1000, NOW, two);
    sessions_end(sessions, "no such session");
    sessions_end(sessions, one);
    assert_false(is_open(sessions, one, NOW, 1000));
    assert_true(is_open(sessions, two, NOW, 1000));
    sessions_clear(sessions);
    assert_false(is_open(sessions, two, NOW, 1000));
    sessions_free(sessions);
}

/* The id, and the proof for the nonce, of the session 00112233445566778899aabbccddeeff, from another program:
 * python3 -c 'import hashlib as h, hmac, base64 as b; k =
 * h.sha256(b"00112233445566778899aabbccddeeff").digest(); print(h.sha256(k).hexdigest()[:16],
 * b.urlsafe_b64encode(hmac.digest(k, b"A" * 43, "sha256")))' */
#define KNOWN_ID "a212111d59e836db"
#define KNOWN_PROOF "0z2AqXemGa2433hBhD_X8c9ukscc8TDZ-gpmHVHEW_U"
#define KNOWN_DIGEST "5947d7c33d783f94b3b4c1a96ebc8991ed28f1b069b71e03376cba8caa98a720"

static void a_page_gets_the_proof_that_it_computes_itself(void **state)
{
    static const char file[] = "dibs-sessions 1 " BOOT " 20000\n1000 1000001 " KNOWN_DIGEST "\n";
    struct sessions *sessions = new_sessions();
    char id[SESSIONS_ID_TEXT + 1];
    char proof[SESSIONS_PROOF_TEXT + 1];
    uint32_t uid = 0;
    uint16_t port = 0;
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(parse(sessions, file, strlen(file), NOW, &port, &err), &err);
    sessions_id("00112233445566778899aabbccddeeff", id);
    assert_string_equal(id, KNOWN_ID);
    assert_true(sessions_prove(sessions, id, NONCE, NOW, &uid, proof));
    assert_int_equal(uid, 1000);
    assert_string_equal(proof, KNOWN_PROOF);
    assert_false(sessions_prove(sessions, id, NONCE, NOW + 1, &uid, proof)); /* it has ended */
    assert_false(sessions_prove(sessions, "0123456789abcdef", NONCE, NOW, &uid, proof));
    assert_false(sessions_prove(sessions, "", NONCE, NOW, &uid, proof));
    sessions_free(sessions);
}

static void the_file_has_no_secret_and_gives_the_sessions_back(void **state)
{
    struct sessions *before = new_sessions();
    struct sessions *after = new_sessions();
    struct bytes file = { 0 };
    char one[SESSIONS_SECRET_TEXT + 1];
    char two[SESSIONS_SECRET_TEXT + 1];
    char token[SESSIONS_SECRET_TEXT + 1];
    uint16_t port = 0;
    dibs_err err = { 0 };

    (void) state;
    begin(before, 1000, NOW, one);
    begin(before, 0, NOW + 5, two);
    offer(before, 1000, NOW, token);
    sessions_format(before, BOOT, 20001, &file);
    bytes_add(&file, "", 1);
    assert_null(strstr(file.at, one));
    assert_null(strstr(file.at, two));
    assert_null(strstr(file.at, token));
    assert_true(file.n <= SESSIONS_TEXT_MAX);
    ASSERT_OK(parse(after, file.at, file.n - 1, NOW + 10, &port, &err), &err);
    assert_int_equal(port, 20001);
    assert_true(is_open(after, one, NOW + 10, 1000));
    assert_true(is_open(after, two, NOW + 10, 0));
    /* The first has ended; then both. */
    ASSERT_OK(parse(after, file.at, file.n - 1, NOW + SESSIONS_LIFE_MS, &port, &err), &err);
    assert_int_equal(sessions_count(after, NOW), 1);
    ASSERT_OK(parse(after, file.at, file.n - 1, NOW + 5 + SESSIONS_LIFE_MS, &port, &err), &err);
    assert_int_equal(port, 0);
    assert_int_equal(sessions_count(after, NOW), 0);
    bytes_done(&file);
    sessions_free(before);
    sessions_free(after);
}

static void sessions_of_another_boot_or_a_later_time_are_not_taken(void **state)
{
    struct sessions *sessions = new_sessions();
    struct bytes file = { 0 };
    char one[SESSIONS_SECRET_TEXT + 1];
    uint16_t port = 7;
    dibs_err err = { 0 };

    (void) state;
    begin(sessions, 1000, NOW, one);
    sessions_format(sessions, BOOT, 20001, &file);
    ASSERT_OK(sessions_parse(sessions, &file, "another-boot", NOW, &port, &err), &err);
    assert_int_equal(port, 0);
    assert_int_equal(sessions_count(sessions, NOW), 0);
    /* No session lives longer than ours do. */
    ASSERT_OK(sessions_parse(sessions, &file, BOOT, NOW - 1, &port, &err), &err);
    assert_int_equal(sessions_count(sessions, NOW), 0);
    ASSERT_OK(sessions_parse(sessions, &file, BOOT, NOW, &port, &err), &err);
    assert_int_equal(sessions_count(sessions, NOW), 1);
    bytes_done(&file);
    sessions_free(sessions);
}

static void a_damaged_file_changes_nothing(void **state)
{
#define LINE "1000 1000001 " KNOWN_DIGEST "\n"
    static const char *const damaged[] = {
        "",
        "dibs-sessions 1 ",
        "dibs-sessions 1 " BOOT,
        "dibs-sessions 1 " BOOT " 0\n",
        "dibs-sessions 1 " BOOT " 65536\n",
        "dibs-sessions 1 " BOOT " +1\n",
        "dibs-sessions 2 " BOOT " 20000\n",
        "dibs-sessions 1 " BOOT " 20000\n" LINE "x",
        "dibs-sessions 1 " BOOT " 20000\n1000 1000001\n",
        "dibs-sessions 1 " BOOT " 20000\n1000 1000001 00\n",
        "dibs-sessions 1 " BOOT " 20000\n1000 -1 " KNOWN_DIGEST "\n",
        "dibs-sessions 1 " BOOT " 20000\n4294967295 1000001 " KNOWN_DIGEST "\n",
        "dibs-sessions 1 " BOOT " 20000\n1000 1000001 " KNOWN_DIGEST,
        "dibs-sessions 1 " BOOT " 20000\n1000 1000001 " KNOWN_DIGEST "0\n",
        "dibs-sessions 1 " BOOT " 20000\n\n",
    };
    struct sessions *sessions = new_sessions();
    struct bytes many = { 0 };
    char one[SESSIONS_SECRET_TEXT + 1];
    uint16_t port = 7;
    dibs_err err = { 0 };

    (void) state;
    begin(sessions, 1000, NOW, one);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_int_equal(parse(sessions, damaged[i], strlen(damaged[i]), NOW, &port, &err), DIBS_INVALID);
    bytes_add_text(&many, "dibs-sessions 1 " BOOT " 20000\n");
    for (int i = 0; i < SESSIONS_MAX; i++)
        bytes_add_text(&many, LINE);
    assert_true(many.n <= SESSIONS_TEXT_MAX);
    bytes_add_text(&many, LINE);
    assert_int_equal(sessions_parse(sessions, &many, BOOT, NOW, &port, &err), DIBS_INVALID);
    assert_true(is_open(sessions, one, NOW, 1000));
    assert_int_equal(port, 7);
    many.n -= strlen(LINE);
    ASSERT_OK(sessions_parse(sessions, &many, BOOT, NOW, &port, &err), &err);
    assert_int_equal(sessions_count(sessions, NOW), SESSIONS_MAX);
    bytes_done(&many);
    sessions_free(sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_begins_one_session_of_its_user),
        cmocka_unit_test(both_end_exactly_at_their_time),
        cmocka_unit_test(nothing_but_the_whole_secret_is_one),
        cmocka_unit_test(a_users_oldest_one_gives_way_and_no_other_users),
        cmocka_unit_test(too_many_users_are_refused_until_the_tokens_expire),
        cmocka_unit_test(an_ended_session_is_unknown_and_others_stay),
        cmocka_unit_test(a_page_gets_the_proof_that_it_computes_itself),
        cmocka_unit_test(the_file_has_no_secret_and_gives_the_sessions_back),
        cmocka_unit_test(sessions_of_another_boot_or_a_later_time_are_not_taken),
        cmocka_unit_test(a_damaged_file_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
