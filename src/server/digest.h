/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_DIGEST_H
#define DIBS_SERVER_DIGEST_H
/* SHA-256 and its HMAC, by GnuTLS. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 32 };
/* False: GnuTLS refuses, as when its self-test has failed. */
bool digest_sha256(const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]);
bool digest_hmac(const uint8_t key[DIGEST_BYTES], const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]);
#endif
