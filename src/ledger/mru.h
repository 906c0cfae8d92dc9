/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_MRU_H
#define DIBS_LEDGER_MRU_H
/* The fallback when there is no ledger: recently used ports in a small file of its own (DCP's idea,
 * seeds 1.1-1.2, with M1-M7 repaired). It serves unnamed random requests only; a record ages out, nothing is
 * released. */
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "dibs/claim.h"
#include "ledger/ledger.h"
#include "net/portbits.h"

struct mru_record {
    dibs_binding binding;
    uint16_t port;
    int64_t used_ms; /* CLOCK_BOOTTIME: a jump of the wall clock neither expires nor prolongs */
    char boot_id[DIBS_BOOT_ID_MAX + 1];
    char instance[32]; /* who took it, for people */
};

/* One line of the file without its newline: "v1 PROTO ADDRESS PORT USED_MS BOOT_ID INSTANCE". */
bool mru_record_parse(const char *line, size_t len, struct mru_record *out);
void mru_record_format(const struct mru_record *record, char out[192]); /* with newline */

struct mru_want {
    const dibs_claim *claim;          /* its bindings */
    const struct portbits *choosable; /* never the ephemeral range unless asked for */
    size_t n;
    int64_t lifetime_ms;
    int64_t timeout_ms; /* of the whole call, waiting for the file's lock included */
    struct instant now;
    const char *boot_id;
    const char *instance;
    uint64_t entropy; /* where the search starts */
    enum ledger_probe (*probe)(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err);
    void *probe_ctx;
};

/* n distinct ports that nobody recorded within the lifetime and that the probe finds free, recorded before
 * they are answered; all or nothing. The file is rewritten through a temporary file and rename under an flock
 * of `path`.lock, so that a crash leaves the old or the new one. A line that cannot be parsed is passed over
 * and kept out of the next rewrite; it never harms the others. EXHAUSTED, UNAVAILABLE. */
dibs_status mru_claim(const char *path, const struct mru_want *want, uint16_t *out, dibs_err *err);
#endif
