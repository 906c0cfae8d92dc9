/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_COMPLAINTS_H
#define DIBS_OPERATOR_COMPLAINTS_H
/* What is wrong with objects, told as Events beside them: few at a time, and each not again for an hour. */
#include <stdbool.h>
#include <stdint.h>

#include "kubeapi/kubeapi.h"

enum {
    COMPLAINTS_WAITING_MAX = 64, /* more are only counted */
    COMPLAINTS_EVERY_MS = 500,   /* one Event, after a first handful */
    COMPLAINTS_AT_ONCE = 10,
    COMPLAINTS_REMEMBERED = 4096, /* by a hash each; when it is full all are forgotten */
    COMPLAINTS_AGAIN_MS = 3600000,
};

struct complaint {
    char kind[16], ns[64], name[254], uid[64];
    char reason[32];
    char message[256];
};

struct complaints;
struct complaints *complaints_new(void);      /* NULL: out of memory */
void complaints_free(struct complaints *all); /* NULL is fine */
/* `number` and the reason make it another one of the same object. */
void complaints_add(struct complaints *all, const struct complaint *one, unsigned number, int64_t now_ms);
/* Sends what is due. */
void complaints_turn(struct complaints *all, struct kubeapi *api, int64_t now_ms);
/* When to be called again; below 0: not by itself. */
int64_t complaints_next_ms(const struct complaints *all, int64_t now_ms);
#endif
