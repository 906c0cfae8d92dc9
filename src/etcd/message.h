/* SPDX-License-Identifier: MIT */
#ifndef DIBS_ETCD_MESSAGE_H
#define DIBS_ETCD_MESSAGE_H
/* The messages of a watch: a stream of JSON objects, a line each. */
#include "etcd/inside.h"
#include "etcd/watch.h"

struct message {
    int64_t revision; /* of the store */
    bool is_created, is_cancelled;
    bool is_others;            /* about another watch than ours */
    bool is_part;              /* more of the same revisions follows */
    int64_t compact_revision;  /* 0: not for that reason */
    struct etcd_event *events; /* in their order */
    size_t n_events;
    struct refusal refusal; /* when the stream has failed */
    bool is_refused;
    struct block *memory;
};

/* NULL, or what is wrong with it; then nothing is to be freed. */
const char *message_read(const char *line, size_t n, struct message *out);
/* Are all events of it of known revisions? A glance, much cheaper than to read it; when in doubt no. */
bool message_is_known(const char *line, size_t n, const int64_t *known, size_t n_known, int64_t *last);
void message_done(struct message *message);
#endif
