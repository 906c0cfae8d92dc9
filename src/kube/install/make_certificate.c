/* SPDX-License-Identifier: MIT */
/* Make a certificate for one server and an authority that signs it. The authority's key is erased after
 * signing, so it can sign nothing else; a new certificate needs a new authority. */
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>

#include "base/err.h"
#include "kube/install/install.h"

#include "base/banned.h"

enum {
    SERIAL_BYTES = 16, /* random: unique per issuer */
    KEY_ID_BYTES = 20, /* a SHA-1 of the key, as RFC 5280 proposes */
    EARLIER_S = 3600,  /* backdated because clocks in a cluster differ */
    DAY_S = 86400,
    YEARS = 10, /* an expired certificate would block all admissions of the cluster */
};

/* A key and its certificate while they are made. */
struct half {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
};

static void half_done(struct half *half)
{
    if (half->cert)
        gnutls_x509_crt_deinit(half->cert);
    if (half->key)
        gnutls_x509_privkey_deinit(half->key);
}

/* Skip the call after a failure; keep the first failure. */
#define STEP(result, call) ((result) = (result) < 0 ? (result) : (call))

/* Set the common parts of both certificates: key, serial number, name and validity. */
static int half_begin(struct half *h, const char *subject, int64_t wall_ms)
{
    time_t now = (time_t) (wall_ms / 1000);
    unsigned char serial[SERIAL_BYTES];
    int r = gnutls_x509_privkey_init(&h->key);

    STEP(r, gnutls_x509_privkey_generate(h->key, GNUTLS_PK_ECDSA,
                                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    STEP(r, gnutls_rnd(GNUTLS_RND_RANDOM, serial, sizeof serial));
    STEP(r, gnutls_x509_crt_init(&h->cert));
    STEP(r, gnutls_x509_crt_set_version(h->cert, 3));
    if (r < 0)
        return r;
    serial[0] = (serial[0] & 0x3f) | 0x40; /* positive, of constant length */
    STEP(r, gnutls_x509_crt_set_serial(h->cert, serial, sizeof serial));
    STEP(r, gnutls_x509_crt_set_dn(h->cert, subject, NULL));
    STEP(r, gnutls_x509_crt_set_activation_time(h->cert, now - EARLIER_S));
    STEP(r, gnutls_x509_crt_set_expiration_time(h->cert, now + (time_t) YEARS * 365 * DAY_S));
    STEP(r, gnutls_x509_crt_set_key(h->cert, h->key));
    return r;
}

static int key_id(const struct half *h, unsigned char out[KEY_ID_BYTES], size_t *n)
{
    *n = KEY_ID_BYTES;
    return gnutls_x509_crt_get_key_id(h->cert, GNUTLS_KEYID_USE_SHA1, out, n);
}

/* Sign the certificate of a server with this name; NULL: of the authority, self-signed. */
static int sign(struct half *h, const struct half *authority, const char *name)
{
    unsigned char id[KEY_ID_BYTES];
    size_t n = 0;
    int r = key_id(h, id, &n);

    STEP(r, gnutls_x509_crt_set_subject_key_id(h->cert, id, n));
    STEP(r, gnutls_x509_crt_set_basic_constraints(h->cert, name == NULL, name ? -1 : 0));
    STEP(r, gnutls_x509_crt_set_key_usage(h->cert,
                                          name ? GNUTLS_KEY_DIGITAL_SIGNATURE : GNUTLS_KEY_KEY_CERT_SIGN));
    if (name) {
        STEP(r, key_id(authority, id, &n));
        STEP(r, gnutls_x509_crt_set_authority_key_id(h->cert, id, n));
        STEP(r, gnutls_x509_crt_set_key_purpose_oid(h->cert, GNUTLS_KP_TLS_WWW_SERVER, 0));
        STEP(r, gnutls_x509_crt_set_subject_alt_name(h->cert, GNUTLS_SAN_DNSNAME, name,
                                                     (unsigned) strlen(name), GNUTLS_FSAN_SET));
    }
    STEP(r, gnutls_x509_crt_sign2(h->cert, authority->cert, authority->key, GNUTLS_DIG_SHA256, 0));
    return r;
}

static int take_text(gnutls_datum_t *from, char **out)
{
    *out = strndup((const char *) from->data, from->size);
    explicit_bzero(from->data, from->size);
    gnutls_free(from->data);
    return *out ? 0 : GNUTLS_E_MEMORY_ERROR;
}

static int write_texts(const struct half *authority, const struct half *server, struct install_secrets *out)
{
    gnutls_datum_t text = { 0 };
    int r = gnutls_x509_crt_export2(authority->cert, GNUTLS_X509_FMT_PEM, &text);

    STEP(r, take_text(&text, &out->authority));
    STEP(r, gnutls_x509_crt_export2(server->cert, GNUTLS_X509_FMT_PEM, &text));
    STEP(r, take_text(&text, &out->server));
    STEP(r,
         gnutls_x509_privkey_export2_pkcs8(server->key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &text));
    STEP(r, take_text(&text, &out->key));
    return r;
}

dibs_status install_tls_make(const char *name, int64_t wall_ms, struct install_secrets *out, dibs_err *err)
{
    struct install_secrets made = { 0 };
    struct half authority = { 0 };
    struct half server = { 0 };
    int r = half_begin(&authority, "CN=dibs authority", wall_ms);
    STEP(r, half_begin(&server, "CN=dibs webhook", wall_ms)); /* the DNS name may be too long for a CN */
    STEP(r, sign(&authority, &authority, NULL));
    STEP(r, sign(&server, &authority, name));
    STEP(r, write_texts(&authority, &server, &made));
    half_done(&server);
    half_done(&authority);
    if (r >= 0) {
        *out = made;
        return DIBS_OK;
    }
    install_secrets_done(&made);
    return err_set(err, DIBS_FAILURE, "making a certificate: %s", gnutls_strerror(r));
}
