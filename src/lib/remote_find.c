/* SPDX-License-Identifier: MIT */
/* Which daemon is meant, when nobody named one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "lib/remote.h"

#include "base/banned.h"

#define ADMIN_SOCKET "/run/dibs/admin.sock"
#define PUBLIC_SOCKET "/run/dibs/dibs.sock"

/* The user's own. That of somebody else's folder (su, sudo) is not. */
static bool find_own(char *out, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat st = { 0 };

    if (!runtime || runtime[0] != '/')
        return false;
    int n = snprintf(out, size, "%s/dibs/dibs.sock", runtime);
    return n > 0 && (size_t) n < size && stat(out, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
}

/* Who says in his call which ledger, and not which daemon, means that ledger and no other; and so does the
 * environment, where no daemon is named at all. A file says it to the daemon, too. */
static bool is_ledger_meant(const dibs_settings *settings)
{
    dibs_source ledger = settings->source[DIBS_SET_LEDGER];
    dibs_source socket = settings->source[DIBS_SET_SOCKET];

    return (ledger == DIBS_FROM_FLAG && socket != DIBS_FROM_FLAG) ||
           (ledger == DIBS_FROM_ENVIRONMENT && socket == DIBS_FROM_DEFAULT);
}

bool remote_find(const dibs_settings *settings, char out[DIBS_SETTING_VALUE_MAX + 1], bool *is_named)
{
    *is_named = strcmp(settings->socket, "auto") != 0;
    if (is_ledger_meant(settings))
        return false;
    if (*is_named)
        return text_copy(out, DIBS_SETTING_VALUE_MAX + 1, settings->socket) && strcmp(out, "none") != 0;
    /* Root of a user namespace may see the first, but not use it. */
    if (geteuid() == 0 && faccessat(AT_FDCWD, ADMIN_SOCKET, W_OK, AT_EACCESS) == 0)
        return text_copy(out, DIBS_SETTING_VALUE_MAX + 1, ADMIN_SOCKET);
    if (access(PUBLIC_SOCKET, F_OK) == 0)
        return text_copy(out, DIBS_SETTING_VALUE_MAX + 1, PUBLIC_SOCKET);
    return find_own(out, DIBS_SETTING_VALUE_MAX + 1);
}
