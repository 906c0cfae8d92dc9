/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KERNEL_CLOSER_H
#define DIBS_KERNEL_CLOSER_H
/* Sockets of probes, closed and opened by another thread: both take longer than all the rest of a probe. It
 * closes what the probes of a group leave, while the group goes on or while it waits until it is durable, and
 * opens as many for the next ones.
 *
 *     probe, probe, ...   each takes a socket, if there is one, and leaves it
 *     closer_begin()      ... write what was found out, wait until it is durable ...
 *     closer_end()        all are closed: the ports can be told
 *
 * Until then a server that asks for no reuse cannot have such a port, as during any probe. One thread calls
 * it. */
#include <stdbool.h>

struct closer;

/* `make` opens one, or returns -1; from another thread. Without it nothing is opened, and nothing is closed
 * before closer_begin(): the other cores have better things to do. NULL when memory is short; probes do it
 * all themselves then. */
struct closer *closer_open(int (*make)(void));
void closer_close(struct closer *closer); /* NULL is fine */
int closer_take(struct closer *closer);   /* one that was opened, the caller's; -1: there is none */
/* It is closed at closer_end() at the latest. */
void closer_add(struct closer *closer, int fd);
/* Closes what it has, of both kinds. False: there was nothing. NULL is fine. */
bool closer_drop(struct closer *closer);
void closer_begin(struct closer *closer); /* NULL is fine */
void closer_end(struct closer *closer);   /* NULL is fine */
#endif
