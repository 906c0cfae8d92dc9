/* SPDX-License-Identifier: MIT */
#include "ledger/etcd_numbers.h"

#include "base/banned.h"

enum {
    NUMBER_BYTES_MAX = 10,
    UUID_BYTES = 16,
    UUID_CHARS = 36,
    UUID_MARK = 127, /* where a text would have its length, which is less */
};
_Static_assert(DIBS_BOOT_ID_MAX < UUID_MARK, "the mark is no length");

void pack_put(struct bytes *out, uint64_t number)
{
    char text[NUMBER_BYTES_MAX];
    size_t n = 0;

    for (; number > 127; number >>= 7)
        text[n++] = (char) (number | 128);
    text[n++] = (char) number;
    bytes_add(out, text, n);
}

void pack_put_signed(struct bytes *out, int64_t number)
{
    pack_put(out, (uint64_t) number << 1 ^ (number < 0 ? UINT64_MAX : 0));
}

void pack_put_more(struct bytes *out, uint64_t number, uint64_t before)
{
    pack_put_signed(out, (int64_t) (number - before));
}

void pack_put_text(struct bytes *out, const char *text)
{
    size_t n = strlen(text);

    pack_put(out, n);
    bytes_add(out, text, n);
}

static bool is_any(const dibs_address *address)
{
    static const uint8_t zero[sizeof address->bytes];

    return memcmp(address->bytes, zero, address->len) == 0;
}

void pack_put_address(struct bytes *out, const dibs_address *address)
{
    bool has_bytes = !is_any(address); /* most have none */

    pack_put(out, (uint64_t) address->len << 2 | (uint64_t) has_bytes << 1 | address->v6only);
    bytes_add(out, (const char *) address->bytes, has_bytes ? address->len : 0);
}

/* As the kernel writes it: five groups of hexadecimal digits. */
static bool uuid_read(const char *text, uint8_t out[UUID_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;

    for (size_t i = 0; i < UUID_CHARS; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

        if (is_dash ? text[i] != '-' : !digit)
            return false;
        if (is_dash)
            continue;
        uint8_t half = (uint8_t) (digit - digits);
        out[n / 2] = (uint8_t) (n % 2 ? out[n / 2] | half : half << 4);
        n++;
    }
    return !text[UUID_CHARS];
}

static void uuid_write(const uint8_t bytes[UUID_BYTES], char out[UUID_CHARS + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

void pack_put_uuid(struct bytes *out, const char *text)
{
    uint8_t bytes[UUID_BYTES];

    if (!uuid_read(text, bytes)) {
        pack_put_text(out, text);
        return;
    }
    pack_put(out, UUID_MARK);
    bytes_add(out, (const char *) bytes, sizeof bytes);
}

void pack_get_uuid(struct reader *r, char *out, size_t size)
{
    uint8_t bytes[UUID_BYTES] = { 0 };

    if (r->is_bad || r->at == r->end || *r->at != UUID_MARK) {
        pack_get_text(r, out, size);
        return;
    }
    r->at++;
    pack_get_bytes(r, bytes, sizeof bytes);
    r->is_bad = r->is_bad || size <= UUID_CHARS;
    if (!r->is_bad)
        uuid_write(bytes, out);
}

struct reader pack_reader(struct packed from)
{
    struct reader r = { from.at, from.at + from.n, false };

    r.is_bad = from.n == 0 || *r.at++ != PACK_VERSION;
    return r;
}

bool pack_is_done(const struct reader *r)
{
    return !r->is_bad && r->at == r->end;
}

uint64_t pack_get(struct reader *r, uint64_t max)
{
    uint64_t number = 0;

    for (unsigned shift = 0; !r->is_bad; shift += 7) {
        if (r->at == r->end || shift > 63 || (shift == 63 && *r->at > 1)) {
            r->is_bad = true;
            break;
        }
        uint8_t byte = *r->at++;

        number |= (uint64_t) (byte & 127) << shift;
        if (byte < 128)
            break;
    }
    r->is_bad = r->is_bad || number > max;
    return r->is_bad ? 0 : number;
}

int64_t pack_get_signed(struct reader *r)
{
    uint64_t number = pack_get(r, UINT64_MAX);

    return (int64_t) (number >> 1 ^ (~(number & 1) + 1));
}

uint64_t pack_get_more(struct reader *r, uint64_t before, uint64_t max)
{
    uint64_t number = before + (uint64_t) pack_get_signed(r);

    r->is_bad = r->is_bad || number > max;
    return r->is_bad ? 0 : number;
}

void pack_get_bytes(struct reader *r, void *out, size_t n)
{
    if (r->is_bad || (size_t) (r->end - r->at) < n) {
        r->is_bad = true;
        return;
    }
    memcpy(out, r->at, n);
    r->at += n;
}

void pack_get_text(struct reader *r, char *out, size_t size)
{
    size_t n = pack_get(r, size - 1);

    pack_get_bytes(r, out, n);
    r->is_bad = r->is_bad || memchr(out, '\0', n);
    out[r->is_bad ? 0 : n] = '\0';
}

void pack_get_address(struct reader *r, dibs_address *out)
{
    uint64_t head = pack_get(r, 16 << 2 | 3);

    *out = (dibs_address){ .len = (uint8_t) (head >> 2), .v6only = head & 1 };
    r->is_bad = r->is_bad || (out->len != 4 && out->len != 16);
    pack_get_bytes(r, out->bytes, r->is_bad || !(head & 2) ? 0 : out->len);
}
