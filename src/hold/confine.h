/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_CONFINE_H
#define DIBS_HOLD_CONFINE_H
/* Landlock: a process and its children bind only their own TCP ports. UDP is not covered. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Has this kernel Landlock with rules for ports (Linux 6.7), and is it turned on? */
bool confine_is_possible(void);
/* Restrict this process from now on: bind() of another TCP port fails with EACCES; bind(0) is allowed.
 * Without CAP_SYS_ADMIN this also sets no_new_privs, so that setuid programs get no rights. Return 0 or
 * errno. */
int confine_enter(const uint16_t *ports, size_t n);
#endif
