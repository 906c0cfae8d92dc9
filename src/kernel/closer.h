/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KERNEL_CLOSER_H
#define DIBS_KERNEL_CLOSER_H
/* Sockets of probes, closed later. To close one takes as long as all the rest of a probe, and who has probed
 * for a group of claims waits for a disk or a server right after that: another thread closes them meanwhile.
 *
 *     probe, probe, ...   each leaves its socket
 *     closer_begin()      ... write what was found out, wait until it is durable ...
 *     closer_end()        all are closed: the ports can be told
 *
 * Until then a server that asks for no reuse cannot have such a port, as during any probe. One thread calls
 * it. */
#include <stddef.h>

struct closer;

/* NULL when memory is short; probes close their sockets themselves then. */
struct closer *closer_open(void);
void closer_close(struct closer *closer); /* NULL is fine */
/* It is closed at closer_end() at the latest. */
void closer_add(struct closer *closer, int fd);
size_t closer_count(const struct closer *closer);
void closer_begin(struct closer *closer); /* NULL is fine */
void closer_end(struct closer *closer);   /* NULL is fine */
#endif
