/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_PACK_H
#define DIBS_LEDGER_ETCD_PACK_H
/* The values of a ledger in etcd: a format of our own, in which what is not said costs one byte. Numbers are
 * of variable length, texts have theirs in front. Every value begins with its version, and is refused as a
 * whole when a byte of it is not as it must be (INV-6). */
#include "base/bytes.h"
#include "ledger/memory_records.h"
#include "net/portbits.h"

struct packed {
    const uint8_t *at;
    size_t n;
};

/* A block: 64 ports of one space, their claims and what is left of those that have ended. */
enum { BLOCK_PORTS = 64, BLOCKS = (DIBS_PORT_MAX + 1) / BLOCK_PORTS };

struct block_reader {
    void *ctx;
    bool (*claim)(void *ctx, struct row_claim *row); /* false: no more */
    bool (*damaged)(void *ctx, uint16_t port); /* a claim of which no more is known; port 0: not even that */
    bool (*cooling)(void *ctx, const struct ledger_slot *slot);
};
struct block_writer {
    struct bytes *out;
    const struct row_claim
        *like; /* borrowed: what others have in common with it stands once; NULL: nothing does */
    struct ledger_slot before; /* the port that cools, before the next one */
};
/* Adds the head, one claim, one port that cools: in this order. */
struct block_writer pack_block(struct bytes *out, uint32_t n_claims, uint32_t n_cooling,
                               const struct row_claim *like);
void pack_claim(struct block_writer *w, const struct row_claim *row);
void pack_cooling(struct block_writer *w, const struct ledger_slot *slot);
bool unpack_block(struct packed from, const struct block_reader *reader);

/* How far the node's history has come. */
struct node_tail {
    uint64_t seq, cursor;
    uint64_t gone;  /* events up to this one are forgotten, even where their record is still there */
    uint64_t nonce; /* of the commit that wrote it: whether a lost answer was a success */
};
void pack_tail(struct bytes *out, const struct node_tail *tail);
bool unpack_tail(struct packed from, struct node_tail *out);

/* The events of one commit. */
void pack_events(struct bytes *out, const struct event_record *const *events, size_t n);
bool unpack_events(struct packed from, bool (*fn)(void *ctx, const struct event_record *event), void *ctx);

void pack_name(struct bytes *out, const struct name_record *name);
bool unpack_name(struct packed from, struct name_record *out);
void pack_pool(struct bytes *out, const dibs_pool *pool);
bool unpack_pool(struct packed from, dibs_pool *out);
/* Any set of ports; unpacking adds to what is there. */
void pack_ports(struct bytes *out, const struct portbits *ports);
bool unpack_ports(struct packed from, struct portbits *out);
void pack_answer(struct bytes *out, const struct row_answer *answer);
bool unpack_answer(struct packed from, struct row_answer *out);
void pack_sighting(struct bytes *out, const struct sighting_record *sighting);
bool unpack_sighting(struct packed from, struct sighting_record *out);

/* Of the ledger as a whole. */
struct ledger_mark {
    uint32_t major;
    uint64_t salt;
};
void pack_mark(struct bytes *out, const struct ledger_mark *mark);
bool unpack_mark(struct packed from, struct ledger_mark *out);
/* What a host's lease says of it. */
void pack_text(struct bytes *out, const char *text);
bool unpack_text(struct packed from, char *out, size_t size);
void pack_number(struct bytes *out, uint64_t number);
bool unpack_number(struct packed from, uint64_t *out);
#endif
