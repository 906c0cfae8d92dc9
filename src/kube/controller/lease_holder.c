/* SPDX-License-Identifier: MIT */
#include "kube/controller/lease_holder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/jitter.h"
#include "base/text.h"

#include "base/banned.h"

enum { HOST_MAX = 63, FIELDS = 4 };

static void host_name(char out[HOST_MAX + 1])
{
    out[0] = '\0';
    (void) gethostname(out, HOST_MAX);
    out[HOST_MAX] = '\0';
}

void lease_holder_name(const struct process_view *view, char out[LEASE_HOLDER_NAME_MAX + 1])
{
    struct process_facts self = { 0 };
    char host[HOST_MAX + 1];

    host_name(host);
    if (process_identify(view, getpid(), &self, NULL) !=
        DIBS_OK) { /* then only the expiry of the Lease shows its death */
        (void) snprintf(out, LEASE_HOLDER_NAME_MAX + 1, "%s_%d_%08x", host, (int) getpid(), jitter_random());
        return;
    }
    (void) snprintf(out, LEASE_HOLDER_NAME_MAX + 1, "%s_%d_%llu_%llu_%s", host, self.process.pid,
                    (unsigned long long) self.process.start_ticks, (unsigned long long) self.process.pidns,
                    self.process.boot_id);
}

/* Parse from the end: a host name may contain underscores. */
static bool parse(const char *name, char host[LEASE_HOLDER_NAME_MAX + 1], dibs_process *out)
{
    char text[LEASE_HOLDER_NAME_MAX + 1];
    char *field[FIELDS];
    uint64_t number[FIELDS - 1];

    if (!text_copy(text, sizeof text, name))
        return false;
    for (size_t i = FIELDS; i-- > 0;) {
        field[i] = strrchr(text, '_');
        if (!field[i])
            return false;
        *field[i]++ = '\0';
    }
    for (size_t i = 0; i < FIELDS - 1; i++)
        if (!text_number(field[i], strlen(field[i]), i == 0 ? INT32_MAX : UINT64_MAX, &number[i]))
            return false;
    *out = (dibs_process){ .pid = (int32_t) number[0], .start_ticks = number[1], .pidns = number[2] };
    (void) text_copy(host, LEASE_HOLDER_NAME_MAX + 1, text);
    return out->pid > 0 && text_copy(out->boot_id, sizeof out->boot_id, field[FIELDS - 1]);
}

bool lease_holder_is_dead(const struct process_view *view, const char *name)
{
    char own[HOST_MAX + 1];
    char host[LEASE_HOLDER_NAME_MAX + 1] = "";
    dibs_process process = { 0 };

    host_name(own);
    /* After another boot it may be another machine, where the process is alive. */
    return parse(name, host, &process) && strcmp(host, own) == 0 &&
           strcmp(process.boot_id, view->boot_id) == 0 && process_judge(view, &process, NULL) == DIBS_DEAD;
}
