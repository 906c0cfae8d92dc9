/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "support/t.h"

static void an_allocation_is_aligned_and_exclusive(void **state)
{
    enum { PIECES = 2000 };
    static struct {
        unsigned char *at;
        size_t n;
    } pieces[PIECES];
    struct arena *blocks = NULL;

    (void) state;
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i].n = i % 97 + (i % 500 == 0 ? 70000 : 0); /* some larger than any block before */
        pieces[i].at = arena_take(&blocks, pieces[i].n);
        assert_non_null(pieces[i].at);
        assert_int_equal((uintptr_t) pieces[i].at % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < pieces[i].n; k++)
            assert_int_equal(pieces[i].at[k], 0);
        memset(pieces[i].at, (int) (i % 251), pieces[i].n);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < pieces[i].n; k++)
            assert_int_equal(pieces[i].at[k], i % 251);
    arena_free(blocks);
    arena_free(NULL);
}

static void more_than_there_is_changes_nothing(void **state)
{
    struct arena *blocks = NULL;

    (void) state;
    assert_null(arena_take(&blocks, SIZE_MAX));
    assert_null(blocks);
    assert_non_null(arena_take(&blocks, 1));
    struct arena *before = blocks;
    assert_null(arena_take(&blocks, SIZE_MAX - _Alignof(max_align_t)));
    assert_ptr_equal(blocks, before);
    arena_free(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_is_aligned_and_exclusive),
        cmocka_unit_test(more_than_there_is_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
