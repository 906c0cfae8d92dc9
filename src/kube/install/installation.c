/* SPDX-License-Identifier: MIT */
#include "kube/install/installation.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"

#include "base/banned.h"

enum { FILE_MAX_BYTES = 4096, ID_BYTES = 16, KEY_BYTES = 32, DIGEST_BYTES = 32 };

/* Each part is followed by a NUL byte, so different statements are different texts. */
#define PURPOSE "dibs.dev/assigned 1"

static void write_hex(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        (void) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Take the rest of a line behind its word, up to `max` printable characters. */
static bool take(const char *line, const char *word, size_t min, size_t max, char *out)
{
    size_t n_word = strlen(word);
    const char *value = line + n_word + 1;

    if (strncmp(line, word, n_word) != 0 || line[n_word] != ' ')
        return false;
    size_t n = strcspn(value, "\r\n");
    if (n < min || n > max)
        return false;
    for (size_t i = 0; i < n; i++)
        if (value[i] <= ' ' || value[i] > '~')
            return false;
    memcpy(out, value, n);
    out[n] = '\0';
    return true;
}

dibs_status installation_parse(const char *name, const char *text, struct installation *out, dibs_err *err)
{
    AUTO(installation_done) struct installation found = { 0 };
    unsigned number = 1;
    bool is_right = true;

    for (const char *line = text; *line && is_right; line += *line == '\n', number += is_right) {
        if (*line != '\n' && *line != '\r')
            is_right =
                (!found.id[0] && take(line, "id", 1, INSTALLATION_ID_MAX, found.id)) ||
                (found.n_keys < INSTALLATION_KEYS_MAX &&
                 take(line, "key", INSTALLATION_KEY_MIN, INSTALLATION_KEY_MAX, found.keys[found.n_keys]) &&
                 ++found.n_keys > 0);
        line += strcspn(line, "\n");
    }
    if (!is_right)
        return err_set(err, DIBS_INVALID,
                       "%s:%u: expected one line 'id ID' and up to %d lines 'key KEY' of %d to %d characters",
                       name, number, INSTALLATION_KEYS_MAX, INSTALLATION_KEY_MIN, INSTALLATION_KEY_MAX);
    if (!found.id[0] || found.n_keys == 0)
        return err_set(err, DIBS_INVALID, "%s: there is no line '%s ...' in it", name,
                       found.id[0] ? "key" : "id");
    *out = found;
    return DIBS_OK;
}

dibs_status installation_read(const char *path, struct installation *out, dibs_err *err)
{
    AUTO(secret_done) struct bytes text = { 0 };

    if (!path)
        return err_set(err, DIBS_INVALID,
                       "--installation FILE is needed: the id of this installation and the keys that sign "
                       "assignments, as `dibs kube install --print` makes them (Secret dibs-installation)");
    dibs_status s = secret_read("installation", path, FILE_MAX_BYTES, &text, err);

    return s == DIBS_OK ? installation_parse(path, text.at, out, err) : s;
}

void installation_done(struct installation *installation)
{
    explicit_bzero(installation, sizeof *installation);
}

static dibs_status failed(int result, dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "signing assignments: %s", gnutls_strerror(result));
}

dibs_status installation_make(char out[INSTALLATION_TEXT_MAX], dibs_err *err)
{
    unsigned char bytes[ID_BYTES + KEY_BYTES];
    char id[2 * ID_BYTES + 1];
    char key[2 * KEY_BYTES + 1];
    int r = gnutls_rnd(GNUTLS_RND_KEY, bytes, sizeof bytes);

    if (r < 0)
        return failed(r, err);
    write_hex(bytes, ID_BYTES, id);
    write_hex(bytes + ID_BYTES, KEY_BYTES, key);
    (void) snprintf(out, INSTALLATION_TEXT_MAX, "id %s\nkey %s\n", id, key);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(key, sizeof key);
    return DIBS_OK;
}

static int digest(const struct installation *installation, const struct installation_statement *statement,
                  const char *key, unsigned char out[DIGEST_BYTES])
{
    const char *const parts[] = { PURPOSE, installation->id, statement->principal, statement->id,
                                  statement->assigned };
    gnutls_hmac_hd_t hmac = NULL;
    int r = gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, key, strlen(key));

    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && r >= 0; i++)
        r = gnutls_hmac(hmac, parts[i], strlen(parts[i]) + 1);
    gnutls_hmac_deinit(hmac, out);
    return r;
}

dibs_status installation_sign(const struct installation *installation,
                              const struct installation_statement *statement,
                              char out[INSTALLATION_SIGNATURE_MAX + 1], dibs_err *err)
{
    unsigned char bytes[DIGEST_BYTES];
    int r = digest(installation, statement, installation->keys[0], bytes);

    if (r < 0)
        return failed(r, err);
    write_hex(bytes, sizeof bytes, out);
    return DIBS_OK;
}

bool installation_has_signed(const struct installation *installation,
                             const struct installation_statement *statement, const char *signature)
{
    if (!signature || strlen(signature) != INSTALLATION_SIGNATURE_MAX)
        return false;
    for (size_t i = 0; i < installation->n_keys; i++) {
        unsigned char bytes[DIGEST_BYTES];
        char expected[INSTALLATION_SIGNATURE_MAX + 1];

        if (digest(installation, statement, installation->keys[i], bytes) < 0)
            return false;
        write_hex(bytes, sizeof bytes, expected);
        if (gnutls_memcmp(expected, signature, INSTALLATION_SIGNATURE_MAX) == 0)
            return true;
    }
    return false;
}
