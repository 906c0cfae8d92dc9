/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_BLOCK_H
#define DIBS_STORE_ETCD_BLOCK_H
/* The values of a ledger in etcd. Each begins with its version; an undecodable one is refused (INV-6). */
#include "base/bytes.h"
#include "net/portbits.h"
#include "store/etcd/client/etcd.h"
#include "store/memory/table.h"

/* A block: 64 ports of one space, their claims and the cooling slots of ended ones. */
enum { BLOCK_PORTS = 64, BLOCKS = (DIBS_PORT_MAX + 1) / BLOCK_PORTS };

/* `damaged` and `cooling` may be NULL: the reader skips such entries. */
struct block_reader {
    void *ctx;
    bool (*claim)(void *ctx, struct claim_record *row); /* false: stop reading */
    bool (*damaged)(void *ctx, uint16_t port); /* an undecodable claim; port 0: its port is unknown */
    bool (*cooling)(void *ctx, const struct ledger_slot *slot);
};
struct block_writer {
    struct bytes *out;
    /* Most claims of a block have the first one's principal, pool, bindings ...: it alone has them. */
    size_t n_claims, shared_at, n_shared;
    dibs_claim first;
    struct ledger_slot before; /* the cooling port written last */
};
/* Write the head, then each claim, then each cooling port. */
struct block_writer pack_block(struct bytes *out, uint32_t n_claims, uint32_t n_cooling);
void pack_claim(struct block_writer *w, struct claim_record *row); /* *row is not changed */
void pack_cooling(struct block_writer *w, const struct ledger_slot *slot);
bool unpack_block(struct etcd_bytes from, const struct block_reader *reader);

/* The newest event of a node. */
struct node_tail {
    uint64_t seq, cursor;
    uint64_t gone;  /* events up to this one were trimmed, even if their record still exists */
    uint64_t nonce; /* of the commit that wrote it: shows the result of one whose answer was lost */
};
void pack_tail(struct bytes *out, const struct node_tail *record);
bool unpack_tail(struct etcd_bytes from, struct node_tail *out);

/* The events of one commit. */
void pack_events(struct bytes *out, const struct event_record *const *events, size_t n);
bool unpack_events(struct etcd_bytes from, bool (*fn)(void *ctx, const struct event_record *event),
                   void *ctx);

void pack_name(struct bytes *out, const struct name_record *record);
bool unpack_name(struct etcd_bytes from, struct name_record *out);
void pack_pool(struct bytes *out, const dibs_pool *record);
bool unpack_pool(struct etcd_bytes from, dibs_pool *out);
/* A set of ports; unpacking adds to *out. */
void pack_ports(struct bytes *out, const struct portbits *ports);
bool unpack_ports(struct etcd_bytes from, struct portbits *out);
void pack_answer(struct bytes *out, const struct answer_record *record);
bool unpack_answer(struct etcd_bytes from, struct answer_record *out);
void pack_sighting(struct bytes *out, const struct sighting_record *record);
bool unpack_sighting(struct etcd_bytes from, struct sighting_record *out);
/* The subject of a fact is in its key. */
void pack_fact(struct bytes *out, const struct fact_record *record);
bool unpack_fact(struct etcd_bytes from, struct fact_record *out);

/* The ledger's format and salt. */
struct ledger_header {
    uint32_t major;
    uint64_t salt;
};
void pack_header(struct bytes *out, const struct ledger_header *record);
bool unpack_header(struct etcd_bytes from, struct ledger_header *out);
/* The value of a node's lease key: the boot of the host that created it. */
struct node_boot {
    char id[DIBS_BOOT_ID_MAX + 1];
};
void pack_boot(struct bytes *out, const struct node_boot *record);
bool unpack_boot(struct etcd_bytes from, struct node_boot *out);
/* The number of a node. */
void pack_number(struct bytes *out, const uint64_t *record);
bool unpack_number(struct etcd_bytes from, uint64_t *out);
#endif
