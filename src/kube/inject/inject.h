/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_INJECT_H
#define DIBS_KUBE_INJECT_INJECT_H
/* `dibs kube inject`: Kubernetes objects in, the same text with ports out.
 *
 * Everything that can be refused is refused while the text is read, before anything is claimed. */
#include <stddef.h>

#include "base/auto.h"
#include "dibs/dibs.h"
#include "workload/workload.h"

typedef struct kube_injection kube_injection; /* opaque */
typedef void (*kube_note_fn)(void *ctx, const char *text);

/* `name` stands for the file in messages. The text must outlive *out, which kube_injection_free() ends.
 * `is_release`: the objects by name and without requests; claiming that ends what they have. INVALID with
 * "NAME:LINE:COLUMN: ". */
dibs_status kube_injection_read(const char *name, const char *text, size_t len, bool is_release,
                                kube_injection **out, dibs_err *err);
void kube_injection_free(kube_injection *injection); /* NULL is fine */
DEFINE_AUTO(kube_injection, kube_injection_free)

/* Is there any object that claims are about? If not, no ledger is needed and the text stays as it is. */
bool kube_injection_is_needed(const kube_injection *injection);
/* Notes for the user, line by line. */
void kube_injection_notes(const kube_injection *injection, kube_note_fn note, void *ctx);

/* Make every object's claims what it asks for, in one step: all or nothing. */
dibs_status kube_injection_claim(kube_injection *injection, dibs *handle, dibs_err *err);
/* So many claims were changed that way. */
size_t kube_injection_count(const kube_injection *injection, enum workload_change_kind kind);
/* Put back what the call above changed, because its text could not be delivered. On failure nothing is put
 * back: somebody else may have got a port meanwhile. */
dibs_status kube_injection_undo(kube_injection *injection, dibs *handle, dibs_err *err);
/* The text with the ports; without claims, with made-up ones. The caller frees *out. */
dibs_status kube_injection_text(const kube_injection *injection, char **out, size_t *len, dibs_err *err);
#endif
