/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KERNEL_AHEAD_H
#define DIBS_KERNEL_AHEAD_H
/* Probes made ahead: a group of claims tells which ports it will come to, and another thread tries them while
 * the group is busy with those before.
 *
 *     ahead_begin()
 *     ahead_ask(), ahead_is_free(), ...     as often as the group likes
 *     ahead_end()                           no probe is under way any more: the ports can be told
 *
 * One thread calls it. NULL is fine everywhere: then nothing is ever known. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ahead;

/* `is_free` tries a port, from either thread, and from both at once. NULL when memory is short. */
struct ahead *ahead_open(bool (*is_free)(uint16_t port));
void ahead_close(struct ahead *ahead);

/* What was found out for an earlier group counts no more. */
void ahead_begin(struct ahead *ahead);
/* These will be wanted, in this order. Few are not worth a thread, and nothing is done. */
void ahead_ask(struct ahead *ahead, const uint16_t *ports, size_t n);
/* It was tried for this group, and was free. False: it was not, or nothing is known: try it yourself. */
bool ahead_is_free(struct ahead *ahead, uint16_t port);
void ahead_end(struct ahead *ahead);
#endif
