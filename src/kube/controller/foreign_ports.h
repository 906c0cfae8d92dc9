/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_FOREIGN_PORTS_H
#define DIBS_KUBE_CONTROLLER_FOREIGN_PORTS_H
/* Numbers that objects of a cluster use without having asked dibs: node ports of Services, host ports of
 * pods. Pure. */
#include <stdint.h>

#include "codec/json.h"
#include "dibs/net.h"

struct number {
    uint16_t port;
    uint8_t protos;   /* bit (1 << proto) for each */
    bool is_reported; /* an Event says that dibs gave it to a pod */
};
enum { NUMBERS_MAX = 1024 }; /* of one object; the API server allows far fewer by its size */
struct numbers {
    struct number *all; /* the caller frees them */
    size_t n, max;
};

/* Each number once, in the order of the object. Numbers beyond the bound are left out. False: out of memory.
 */
bool service_numbers(const jsonr_value *service, struct numbers *out);
bool pod_numbers(const jsonr_value *pod, struct numbers *out);
#endif
