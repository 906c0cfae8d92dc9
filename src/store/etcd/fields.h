/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_FIELDS_H
#define DIBS_STORE_ETCD_FIELDS_H
/* The encoding of packed values: numbers of variable length, and texts with their length in front.
 *
 * One list of fields serves both directions. When writing, each function adds its value and returns it;
 * when reading, it returns the decoded value. After the first error all functions do nothing. */
#include "store/etcd/block.h"

struct fields {
    struct bytes *out; /* NULL: reading */
    const uint8_t *at, *end;
    bool is_bad;
};

struct fields fields_to(struct bytes *out);        /* writes the version */
struct fields fields_from(struct etcd_bytes from); /* reads after the version */
bool fields_are_done(const struct fields *f);      /* everything was read without an error */

uint64_t field_uint(struct fields *f, uint64_t number, uint64_t max);
/* Signed; numbers near 0 are short. */
int64_t field_int(struct fields *f, int64_t number);
/* Encode the difference to the number before, which is usually small; it may wrap around. */
uint64_t field_more(struct fields *f, uint64_t number, uint64_t before, uint64_t max);
void field_bytes(struct fields *f, void *bytes, size_t n);
/* `size` includes the NUL, which the function writes; a NUL inside the text is an error. */
void field_text(struct fields *f, char *text, size_t size);
/* A text; older versions wrote most of them as the 16 bytes of a UUID. */
void field_boot_id(struct fields *f, char *text, size_t size);
void field_address(struct fields *f, dibs_address *address);
#endif
