/* SPDX-License-Identifier: MIT */
/* Several hosts at once: a handle for each, and one commit for all. */
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"

#include "base/banned.h"

dibs_status ledger_beside(struct ledger *ledger, const char *node, struct ledger **out, dibs_err *err)
{
    const struct rows_ops *ops = ledger->rows->ops;

    if (!ops->beside)
        return err_set(err, DIBS_INVALID,
                       "other hosts can be spoken of only in a ledger that they share (etcd://...)");
    AUTO(free_auto) struct ledger *self = calloc(1, sizeof *self);
    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->options = ledger->options;
    self->options.node = NULL; /* borrowed, and looked at only when a ledger is opened */
    dibs_status s = ops->beside(ledger->rows, node, &self->rows, err);
    if (s == DIBS_OK)
        *out = TAKE(self);
    return s;
}

bool ledger_is_of_this_host(const struct ledger *ledger, const struct ledger *beside)
{
    const struct rows *rows = ledger->rows;

    return rows->ops->is_own_host && rows->ops->is_own_host(rows, beside->rows);
}

void ledger_group_abandon(struct ledger *ledger)
{
    if (ledger->group.is_open)
        ledger->rows->ops->rollback(ledger->rows);
    ledger->group = (struct ledger_group){ 0 };
}

dibs_status ledger_groups_commit(struct ledger *const *ledgers, size_t n, dibs_err *err)
{
    AUTO(free_auto) struct rows **rows = calloc(n, sizeof(struct rows *));
    dibs_status s = rows ? DIBS_OK : err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    size_t n_open = 0;

    for (size_t i = 0; i < n && rows; i++) {
        if (ledgers[i]->group.is_spoilt)
            s = err_trouble(err, DIBS_TROUBLE_NONE, "one of several hosts' claims could not be decided");
        if (ledgers[i]->group.is_open)
            rows[n_open++] = ledgers[i]->rows;
        ledgers[i]->group = (struct ledger_group){ 0 };
    }
    if (s == DIBS_OK && n_open > 0)
        s = rows[0]->ops->commit_all(rows, n_open, err);
    for (size_t i = 0; i < n_open && s != DIBS_OK; i++)
        rows[i]->ops->rollback(rows[i]);
    return s;
}
