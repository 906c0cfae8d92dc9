/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_SERVICE_H
#define DIBS_OPERATOR_SERVICE_H
/* Numbers that objects of a cluster use without having asked dibs: node ports of Services, host ports of
 * pods. Pure. */
#include <stdint.h>

#include "dibs/net.h"
#include "json/json.h"

struct number {
    uint16_t port;
    uint8_t protos;  /* bit (1 << proto) for each */
    bool is_doubled; /* named twice for one protocol */
};
enum { NUMBERS_MAX = 1024 }; /* of one object; the API server allows far fewer by its size */

/* Each number once, in the order of the object. What is beyond `max` is left out. */
size_t service_numbers(const json_value *service, struct number *out, size_t max);
size_t pod_numbers(const json_value *pod, struct number *out, size_t max);
#endif
