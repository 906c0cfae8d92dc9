/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_INJECT_H
#define DIBS_KUBE_INJECT_INJECT_H
/* `dibs kube inject`: read Kubernetes objects and write the same text with ports. Everything that can be
 * refused is refused while the text is read, before anything is claimed. */
#include <stddef.h>

#include "base/auto.h"
#include "dibs/dibs.h"
#include "workload/workload.h"

typedef struct kube_injection kube_injection; /* opaque */
typedef void (*kube_note_fn)(void *ctx, const char *text);

/* Read a text, which must outlive *out; the caller frees *out with kube_injection_free(). `is_release`:
 * ignore requests, so that claiming ends the objects' claims. INVALID begins with "NAME:LINE:COLUMN: ". */
dibs_status kube_injection_read(const char *name, const char *text, size_t len, bool is_release,
                                kube_injection **out, dibs_err *err);
void kube_injection_free(kube_injection *injection); /* NULL is fine */
DEFINE_AUTO(kube_injection, kube_injection_free)

/* Return whether any object concerns claims. If not, no ledger is needed and the text stays as it is. */
bool kube_injection_is_needed(const kube_injection *injection);
/* Call `fn` with each note for the user. */
void kube_injection_notes(const kube_injection *injection, kube_note_fn note, void *ctx);

/* Make every object's claims match its requests in one batch, all or nothing. */
dibs_status kube_injection_claim(kube_injection *injection, dibs *handle, dibs_err *err);
/* Return how many claims changed in that way. */
size_t kube_injection_count(const kube_injection *injection, enum workload_change_kind kind);
/* Undo kube_injection_claim() after its text could not be delivered. On failure nothing changes: another
 * process may have got one of the ports meanwhile. */
dibs_status kube_injection_undo(kube_injection *injection, dibs *handle, dibs_err *err);
/* Write the text with the ports, before the claim with made-up ones. The caller frees *out. */
dibs_status kube_injection_text(const kube_injection *injection, char **out, size_t *len, dibs_err *err);
#endif
