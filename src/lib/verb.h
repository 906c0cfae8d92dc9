/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_VERB_H
#define DIBS_LIB_VERB_H
/* The common beginning of the public functions: arguments, the ledger, callbacks. */
#include "lib/connection.h"
#include "lib/remote.h"

/* The first arguments of a core_... function: the engine of a handle, and the call that is made. */
#define CORE(handle) (handle)->to->core, CALL(handle)
#define CALL(handle) ((struct call[1]){ handle_call(handle) })

/* Pointers first, then values, then the ledger. */
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

/* Check that the ledger is open: every call but an unnamed random claim needs it. */
dibs_status verb_need_ledger(dibs *handle, dibs_err *err);

/* Mark the handle while callbacks of the user may run, which must not use it. */
static inline struct connection *verb_calls_back(dibs *handle)
{
    handle->to->is_calling_back = true;
    return handle->to;
}
static inline void verb_called_back(struct connection **to)
{
    (*to)->is_calling_back = false;
}

/* ---- arguments of callers (args.c): OK or INVALID; pointers have been checked before ---- */
dibs_status args_settings(const dibs_settings *settings, dibs_err *err);
dibs_status args_batch(const dibs_batch *batch, dibs_err *err);
dibs_status args_bindings(const dibs_binding *bindings, size_t n, dibs_err *err);
/* 0: any. */
dibs_status args_proto(dibs_proto proto, dibs_err *err);
dibs_status args_repair(const dibs_repair_plan *plan, dibs_err *err);
dibs_status args_snapshot(const dibs_snapshot *snapshot, dibs_err *err);
dibs_status args_hosts(const char *const *hosts, size_t n, dibs_err *err);
/* `flags` must have no bit beside those of `known`. */
dibs_status args_flags(unsigned flags, unsigned known, dibs_err *err);
#endif
