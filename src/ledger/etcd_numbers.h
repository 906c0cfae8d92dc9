/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_NUMBERS_H
#define DIBS_LEDGER_ETCD_NUMBERS_H
/* What packed values are made of: numbers of variable length, and texts with their length in front. */
#include "ledger/etcd_pack.h"

enum { PACK_VERSION = 1 };

void pack_put(struct bytes *out, uint64_t number);
/* Small numbers of either sign stay short. */
void pack_put_signed(struct bytes *out, int64_t number);
/* By how much it is more than another one that is near, as a rule; or wraps around. */
void pack_put_more(struct bytes *out, uint64_t number, uint64_t before);
void pack_put_text(struct bytes *out, const char *text);
/* A text that most often is a UUID. */
void pack_put_uuid(struct bytes *out, const char *text);
void pack_put_address(struct bytes *out, const dibs_address *address);

/* The first mistake spoils all that follows. */
struct reader {
    const uint8_t *at, *end;
    bool is_bad;
};

struct reader pack_reader(struct packed from); /* behind the version */
bool pack_is_done(const struct reader *r);     /* all of it was read, and right */
uint64_t pack_get(struct reader *r, uint64_t max);
int64_t pack_get_signed(struct reader *r);
uint64_t pack_get_more(struct reader *r, uint64_t before, uint64_t max);
void pack_get_bytes(struct reader *r, void *out, size_t n);
/* `size` with the NUL, which is written; one inside of the text is a mistake. */
void pack_get_text(struct reader *r, char *out, size_t size);
void pack_get_uuid(struct reader *r, char *out, size_t size);
void pack_get_address(struct reader *r, dibs_address *out);
#endif
