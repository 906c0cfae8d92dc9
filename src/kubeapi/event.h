/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBEAPI_EVENT_H
#define DIBS_KUBEAPI_EVENT_H
/* An Event beside an object, for who asks `kubectl describe`. */
#include "kubeapi/kubeapi.h"

struct kubeapi_event {
    const char *api_version, *kind, *ns, *name, *uid; /* of the object */
    const char *reason;                               /* "PortAlreadyAllocated" */
    const char *message;
    const char *component; /* who says so */
    int64_t wall_ms;
};

/* Sent and forgotten: an event that is lost is nobody's harm. False: it could not even be sent. */
bool kubeapi_event_send(struct kubeapi *api, const struct kubeapi_event *event);
#endif
