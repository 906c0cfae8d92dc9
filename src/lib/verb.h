/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_VERB_H
#define DIBS_LIB_VERB_H
/* The common start of the public functions: check arguments, open the ledger, guard callbacks. */
#include "lib/connection.h"
#include "lib/remote.h"

/* The first arguments of a core_... function: the engine of a handle, and the current call. */
#define CORE(handle) (handle)->to->core, CALL(handle)
#define CALL(handle) ((struct call[1]){ handle_call(handle) })

/* Check pointers first, then values, then the ledger. */
#define NEED(handle, condition, check, err)                                \
    do {                                                                   \
        if (!(handle) || !(condition))                                     \
            return err_set((err), DIBS_INVALID, "an argument is missing"); \
        dibs_status need_ = (check);                                       \
        if (need_ == DIBS_OK)                                              \
            need_ = verb_need_ledger((handle), (err));                     \
        if (need_ != DIBS_OK)                                              \
            return need_;                                                  \
    } while (0)

/* Check that the ledger is open: every call except an unnamed random claim needs it. */
dibs_status verb_need_ledger(dibs *handle, dibs_err *err);

/* Mark the handle while callbacks of the user run: they must not use it. */
static inline struct connection *verb_calls_back(dibs *handle)
{
    handle->to->is_calling_back = true;
    return handle->to;
}
static inline void verb_called_back(struct connection **to)
{
    (*to)->is_calling_back = false;
}

/* ---- argument checks (args.c): OK or INVALID; pointers have been checked before ---- */
dibs_status args_settings(const dibs_settings *settings, dibs_err *err);
dibs_status args_batch(const dibs_batch *batch, dibs_err *err);
dibs_status args_bindings(const dibs_binding *bindings, size_t n, dibs_err *err);
/* 0 means any. */
dibs_status args_proto(dibs_proto proto, dibs_err *err);
dibs_status args_repair(const dibs_repair_plan *plan, dibs_err *err);
dibs_status args_snapshot(const dibs_snapshot *snapshot, dibs_err *err);
dibs_status args_hosts(const char *const *hosts, size_t n, dibs_err *err);
/* INVALID: `flags` has a bit that is not in `known`. */
dibs_status args_flags(unsigned flags, unsigned known, dibs_err *err);
#endif
