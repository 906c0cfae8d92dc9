/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_PACKED_H
#define DIBS_STORE_ETCD_PACKED_H
/* The encoding of packed values: numbers of variable length, and texts with their length in front.
 *
 * One list of fields serves both directions. When writing, each function adds its value and returns it;
 * when reading, it returns the decoded value. After the first error all functions do nothing. */
#include "store/etcd/block.h"

struct packed {
    struct bytes *out; /* NULL: reading */
    const uint8_t *at, *end;
    bool is_bad;
};

struct packed packed_to(struct bytes *out);        /* writes the version */
struct packed packed_from(struct etcd_bytes from); /* reads after the version */
bool packed_is_done(const struct packed *f);       /* everything was read without an error */

uint64_t packed_uint(struct packed *f, uint64_t number, uint64_t max);
/* Signed; numbers near 0 are short. */
int64_t packed_int(struct packed *f, int64_t number);
/* Encode the difference to the number before, which is usually small; it may wrap around. */
uint64_t packed_more(struct packed *f, uint64_t number, uint64_t before, uint64_t max);
void packed_bytes(struct packed *f, void *bytes, size_t n);
/* `size` includes the NUL, which the function writes; a NUL inside the text is an error. */
void packed_text(struct packed *f, char *text, size_t size);
/* A text; older versions wrote most of them as the 16 bytes of a UUID. */
void packed_boot_id(struct packed *f, char *text, size_t size);
void packed_address(struct packed *f, dibs_address *address);
#endif
