/* SPDX-License-Identifier: MIT */
#include "store/store.h"
#include "support/t.h"

/* Every member of an interface is a pointer, so that a missing one is found by its place. */
static void assert_complete(const void *ops, size_t bytes, size_t optional)
{
    const void *const *member = ops;

    assert_int_equal(bytes % sizeof *member, 0);
    for (size_t i = 0; i < bytes / sizeof *member; i++)
        if (!member[i] && i != optional)
            fail_msg("member %zu of %zu is missing", i, bytes / sizeof *member);
}

static void every_store_has_all_operations(void **state)
{
    (void) state;
    for (size_t i = 0; store_backends[i]; i++) {
        const struct store_ops *ops = store_backends[i];

        print_message("%s\n", ops->scheme);
        assert_complete(ops, sizeof *ops, offsetof(struct store_ops, cluster) / sizeof(void *));
        if (ops->cluster)
            assert_complete(ops->cluster, sizeof *ops->cluster, SIZE_MAX);
    }
}

static void only_a_store_that_hosts_share_has_cluster_operations(void **state)
{
    (void) state;
    assert_null(store_sqlite_ops.cluster);
    assert_null(store_memory_ops.cluster);
    assert_non_null(store_etcd_ops.cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_store_has_all_operations),
        cmocka_unit_test(only_a_store_that_hosts_share_has_cluster_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
