/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_FOREIGN_PORTS_H
#define DIBS_KUBE_CONTROLLER_FOREIGN_PORTS_H
/* Foreign ports of a cluster: node ports of Services and host ports of pods without a claim. Pure. */
#include <stdint.h>

#include "codec/json.h"
#include "dibs/net.h"

struct number {
    uint16_t port;
    uint8_t protos;   /* bit (1 << proto) for each */
    bool is_reported; /* an Event has reported that dibs gave this number to a pod */
};
enum { NUMBERS_MAX = 1024 }; /* of one object; its size limit in the API server allows far fewer */
struct numbers {
    struct number *all; /* the caller frees it */
    size_t n, max;
};

/* Collect each number once, in the object's order, at most NUMBERS_MAX. False: out of memory. */
bool service_numbers(const jsonr_value *service, struct numbers *out);
bool pod_numbers(const jsonr_value *pod, struct numbers *out);
#endif
