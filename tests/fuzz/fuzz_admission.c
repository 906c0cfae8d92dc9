/* SPDX-License-Identifier: MIT */
/* Any bytes as an AdmissionReview, decided on a ledger in memory: the answer can be read and is about the
 * same review; a patch is a list of operations; a refusal has a reason that is safe to print, and has claimed
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "kube/webhook/admission.h"
#include "support/check.h"
#include "support/speak.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct admission_template templates[] = { { "RoleInstance", "spec.components[].template" },
                                                       { "Deployment", "spec.template" } };
static const struct installation installation = { .id = "test",
                                                  .keys = { "0123456789abcdef0123456789abcdef" },
                                                  .n_keys = 1 };
static const struct admission_options options = { .installation = &installation,
                                                  .pool = "kube",
                                                  .pending_ms = 300000,
                                                  .templates = templates,
                                                  .n_templates = 2 };

static dibs *open_handle(void)
{
    static dibs_settings settings = { .ledger = "memory:",
                                      .ledger_mode = DIBS_LEDGER_STRICT,
                                      .socket = "none",
                                      .range = { .item = { { 20000, 32767 } }, .n = 1 },
                                      .pool = "default",
                                      .band = DIBS_BAND_AUTO,
                                      .order = "stride",
                                      .ttl_ms = 600000,
                                      .timeout_ms = 5000 };
    dibs_pool pool = { .name = "kube",
                       .ranges = { .item = { { 20000, 20999 } }, .n = 1 },
                       .order = "stride" };
    dibs *handle = NULL;
    dibs_err err = { 0 };

    CHECK(dibs_open(&settings, &handle, &err) == DIBS_OK);
    CHECK(speak_for(handle, "ns:any", &err) == DIBS_OK);
    CHECK(dibs_pool_put(handle, &pool, &err) == DIBS_OK);
    return handle;
}

static bool count(void *ctx, const dibs_claim *claim)
{
    CHECK(strncmp(claim->principal, "ns:", 3) == 0);
    ++*(size_t *) ctx;
    return true;
}

static size_t count_claims(dibs *handle)
{
    size_t n = 0;

    CHECK(dibs_claim_list(handle, &(dibs_filter){ 0 }, count, &n, NULL) == DIBS_OK);
    return n;
}

static bool note_principal(void *ctx, const dibs_claim *claim)
{
    memcpy(ctx, claim->principal, sizeof claim->principal);
    return false;
}

/* All claims are of the namespace of one review. */
static void release_all(dibs *handle)
{
    char principal[DIBS_PRINCIPAL_MAX + 1] = "ns:none";
    dibs theirs = { 0 };

    CHECK(dibs_claim_list(handle, &(dibs_filter){ 0 }, note_principal, principal, NULL) == DIBS_OK);
    CHECK(handle_for(handle, principal, &theirs, NULL) == DIBS_OK);
    CHECK(dibs_claim_release(&theirs, &(dibs_which){ .all_mine = true }, DIBS_RELEASE_FORCE, NULL, NULL) ==
          DIBS_OK);
}

static void check_answer(const struct admission *a)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    AUTO(jsonr_free_auto) jsonr_doc *patch = NULL;
    struct bytes out = { 0 };
    const char *uid = NULL;
    bool is_allowed = false;

    review_write(a->review.uid, &a->verdict, &out);
    CHECK(!out.is_lost && jsonr_parse(out.at, out.n, &doc, NULL) == DIBS_OK);
    const jsonr_value *response = jsonr_get(jsonr_root(doc), "response");
    CHECK(jsonr_get_string(response, "uid", &uid) && jsonr_get_bool(response, "allowed", &is_allowed));
    CHECK(strcmp(uid, a->review.uid) == 0 && is_allowed == a->verdict.is_allowed);
    CHECK(is_allowed || (a->verdict.code >= 400 && a->verdict.message[0]));
    for (const char *at = a->verdict.message; *at; at++)
        CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
    if (a->verdict.patch.n > 0) {
        CHECK(is_allowed && jsonr_parse(a->verdict.patch.at, a->verdict.patch.n, &patch, NULL) == DIBS_OK);
        CHECK(jsonr_array_size(jsonr_root(patch)) > 0);
    }
    bytes_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dibs *handle;
    struct admission a = { 0 };
    dibs_err err = { 0 };

    if (!handle)
        handle = open_handle();
    if (admission_begin(&options, (const char *) data, size, &a, &err) != DIBS_OK) {
        CHECK(err.code == DIBS_INVALID && err.msg[0]);
        return 0;
    }
    if (a.needs_ledger)
        admission_work(&a, &options, handle);
    CHECK(a.status != DIBS_UNAVAILABLE && a.status != DIBS_FAILURE);
    check_answer(&a);
    if (!a.verdict.is_allowed || a.review.is_dry_run || !a.needs_ledger)
        CHECK(count_claims(handle) == 0);
    release_all(handle);
    CHECK(count_claims(handle) == 0);
    admission_done(&a);
    return 0;
}
