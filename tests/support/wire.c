/* SPDX-License-Identifier: MIT */
#include "support/wire.h"

#include <stdlib.h>
#include <string.h>

#include "codec/wire.h"

void same_address(const dibs_address *a, const dibs_address *b)
{
    SAME(len);
    SAME(v6only);
    assert_memory_equal(a->bytes, b->bytes, sizeof a->bytes);
}

void same_bindings(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b)
{
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++) {
        assert_int_equal(a[i].proto, b[i].proto);
        same_address(&a[i].address, &b[i].address);
    }
}

void same_claim(const dibs_claim *a, const dibs_claim *b, bool with_token)
{
    SAME(id), SAME(generation), SAME(port), SAME(kind), SAME(is_exclusive), SAME(is_kept), SAME(holder);
    SAME(process.pid), SAME(process.pidns), SAME(process.start_ticks), SAME_TEXT(process.boot_id);
    SAME(lease_ttl_ms), SAME(lease_until_ms), SAME(uid), SAME(netns), SAME(created_ms), SAME(changed_ms);
    same_bindings(a->bindings, a->n_bindings, b->bindings, b->n_bindings);
    SAME_TEXT(principal), SAME_TEXT(name), SAME_TEXT(pool), SAME_TEXT(command), SAME_TEXT(project);
    SAME_TEXT(env);
    SAME(was_there), SAME(was_kept), SAME(is_degraded), SAME(is_narrowed), SAME(is_damaged), SAME(is_orphan);
    SAME(life);
    assert_string_equal(with_token ? a->token : "", b->token);
}

void fill_text(char *out, size_t n, char c)
{
    memset(out, c, n);
    out[n] = '\0';
}

dibs_claim full_claim(void)
{
    dibs_claim c = { .id = INT64_MAX,
                     .generation = INT64_MAX,
                     .port = 65535,
                     .kind = DIBS_STATIC,
                     .is_exclusive = true,
                     .is_kept = true,
                     .holder = DIBS_HELD_BY_PROCESS,
                     .process = { .pidns = INT64_MAX, .start_ticks = INT64_MAX, .pid = INT32_MAX },
                     .lease_ttl_ms = DIBS_TTL_MAX_MS, /* a lease beneath the process */
                     .lease_until_ms = 2 * DIBS_TTL_MAX_MS,
                     .uid = UINT32_MAX,
                     .netns = INT64_MAX,
                     .created_ms = INT64_MAX,
                     .changed_ms = INT64_MAX,
                     .n_bindings = DIBS_BINDINGS_MAX,
                     .was_there = true,
                     .was_kept = true,
                     .is_degraded = true,
                     .is_narrowed = true,
                     .is_damaged = true,
                     .is_orphan = true,
                     .life = DIBS_UNKNOWN };

    for (size_t i = 0; i < DIBS_BINDINGS_MAX; i++) {
        c.bindings[i].proto = (dibs_proto) (DIBS_TCP + i % 3);
        c.bindings[i].address = (dibs_address){ .len = i % 2 ? 4 : 16, .bytes = { 127, 0, 0, (uint8_t) i } };
    }
    c.bindings[7].address = (dibs_address){ .len = 16 }; /* "*" */
    fill_text(c.process.boot_id, DIBS_BOOT_ID_MAX, 'b');
    fill_text(c.principal, DIBS_PRINCIPAL_MAX, 'p');
    fill_text(c.name, DIBS_NAME_MAX, 'n');
    for (size_t i = DIBS_NAME_PART_MAX; i < DIBS_NAME_MAX; i += DIBS_NAME_PART_MAX + 1)
        c.name[i] = '/';
    /* A sixth part is a number. */
    memset(c.name + DIBS_NAME_MAX - DIBS_NAME_PART_MAX, '1', DIBS_NAME_PART_MAX);
    memcpy(c.name, "\xf0\x9f\x98\x80\xe2\x80\xae\xc3\xa9", 9); /* odd, but UTF-8 */
    fill_text(c.pool, DIBS_POOL_NAME_MAX, 'o');
    fill_text(c.command, DIBS_COMMAND_MAX, '\xff'); /* no UTF-8 at all */
    fill_text(c.project, DIBS_PROJECT_MAX, '\n');
    memcpy(c.project, "/\"\\\x01\xed\xa0\x80", 7); /* a surrogate: no UTF-8 either */
    fill_text(c.env, DIBS_ENV_MAX, 'e');
    fill_text(c.token, DIBS_TOKEN_MAX, 't');
    return c;
}

struct jsonw *written_begin(struct written *t)
{
    *t = (struct written){ 0 };
    jsonw_begin_bytes(&t->w, &t->bytes);
    return &t->w;
}

const jsonr_value *written_root(struct written *t)
{
    dibs_err err = { 0 };

    assert_false(t->bytes.is_lost);
    jsonr_free(t->doc);
    t->doc = NULL;
    ASSERT_OK(jsonr_parse(t->bytes.at, t->bytes.n, &t->doc, &err), &err);
    return jsonr_root(t->doc);
}

void written_done(struct written *t)
{
    jsonr_free(t->doc);
    bytes_done(&t->bytes);
}
