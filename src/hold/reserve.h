/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_RESERVE_H
#define DIBS_HOLD_RESERVE_H
/* Claimed ports in ip_local_reserved_ports of our network namespace: the kernel chooses none of them for an
 * outgoing connection or a bind(0), and every program may still bind them by number.
 *
 * The list belongs to the whole host. A file says which entries are ours, written before the list gets them:
 * a daemon that starts after a SIGKILL removes what its claims do not need any more. Entries of others stay.
 */
#include "dibs/settings.h"
#include "net/portbits.h"

struct reserve;

/* Take over the entries that `path` names: of this boot and this network namespace. TAKEN: another process
 * has the file; DENIED: we may not write the list; UNAVAILABLE. */
dibs_status reserve_open(const char *path, const char *boot_id, struct reserve **out, dibs_err *err);
/* Make these the ports that are reserved for our claims. Ports in the list of somebody else are left to him.
 */
dibs_status reserve_set(struct reserve *reserve, const struct portbits *wanted, dibs_err *err);
/* Remove the entries that `path` names, and the file, for a daemon that reserves nothing. Nothing happens
 * without the file, while another process has it, if it is of another boot or network namespace, and if we
 * may not write the list. */
void reserve_remove(const char *path, const char *boot_id);
/* Remove our entries and the file. NULL is fine. */
void reserve_close(struct reserve *reserve);
#endif
