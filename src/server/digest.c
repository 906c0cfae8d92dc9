/* SPDX-License-Identifier: MIT */
#include "server/digest.h"

#include <gnutls/crypto.h>

#include "base/banned.h"

bool digest_sha256(const void *bytes, size_t n, uint8_t out[DIGEST_BYTES])
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, n, out) == 0;
}

bool digest_hmac(const uint8_t key[DIGEST_BYTES], const void *bytes, size_t n, uint8_t out[DIGEST_BYTES])
{
    return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, DIGEST_BYTES, bytes, n, out) == 0;
}
