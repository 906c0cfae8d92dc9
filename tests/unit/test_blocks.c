/* SPDX-License-Identifier: MIT */
#include "base/blocks.h"

#include <stdint.h>
#include <string.h>

#include "support/t.h"

static void what_is_taken_is_aligned_and_nobody_elses(void **state)
{
    enum { PIECES = 2000 };
    static struct {
        unsigned char *at;
        size_t n;
    } pieces[PIECES];
    struct block *blocks = NULL;

    (void) state;
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i].n = i % 97 + (i % 500 == 0 ? 70000 : 0); /* some larger than any block before */
        pieces[i].at = blocks_take(&blocks, pieces[i].n);
        assert_non_null(pieces[i].at);
        assert_int_equal((uintptr_t) pieces[i].at % _Alignof(max_align_t), 0);
        memset(pieces[i].at, (int) (i % 251), pieces[i].n);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < pieces[i].n; k++)
            assert_int_equal(pieces[i].at[k], i % 251);
    blocks_free(blocks);
}

static void a_block_that_was_freed_serves_the_next(void **state)
{
    struct block *blocks = NULL;

    (void) state;
    const void *first = blocks_take(&blocks, 100);
    blocks_free(blocks);
    blocks = NULL;
    assert_ptr_equal(blocks_take(&blocks, 7), first);
    blocks_free(blocks);
    blocks_free(NULL);
}

static void more_than_there_is_changes_nothing(void **state)
{
    struct block *blocks = NULL;

    (void) state;
    assert_null(blocks_take(&blocks, SIZE_MAX));
    assert_null(blocks);
    assert_non_null(blocks_take(&blocks, 1));
    struct block *before = blocks;
    assert_null(blocks_take(&blocks, SIZE_MAX - _Alignof(max_align_t)));
    assert_ptr_equal(blocks, before);
    blocks_free(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_aligned_and_nobody_elses),
        cmocka_unit_test(a_block_that_was_freed_serves_the_next),
        cmocka_unit_test(more_than_there_is_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
