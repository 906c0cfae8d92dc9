/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_REVIEW_H
#define DIBS_TESTS_REVIEW_H
/* Admission reviews on a real ledger: pods that ask, and what they are answered. */
#include "kube/webhook/admission.h"
#include "lib/handle.h"
#include "support/core.h"
#include "support/speak.h"

#define OWNER(kind, name) \
    "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":true}]"
#define HTTP "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}"
#define BODY "\"spec\":{\"containers\":[{\"name\":\"main\"}]}"

extern struct admission_options options; /* pool "kube", five minutes pending, no quotas */

struct asked {
    bool is_allowed;
    int code;
    char message[DIBS_ERR_MSG_MAX];
    char warning[REVIEW_WARNINGS_MAX * REVIEW_WARNING_MAX]; /* all, one per line */
    char patch[16384];
};

dibs *open_pool(struct engine *e, const char *ranges);

/* `more`: further members of the request. */
struct asked *review(dibs *handle, const char *operation, const char *more);
/* Of an object of another kind, {"group","kind"}. */
struct asked *review_of(dibs *handle, const char *kind, const char *operation, const char *more);
struct asked *create(dibs *handle, const char *pod);

/* The value that follows `before` in the patch, up to the next quote that is not escaped; "" when it is not
 * there. */
const char *behind(const struct asked *asked, const char *before);
const char *variable(const struct asked *asked, const char *name);

#define ANNOTATED "\"path\":\"/metadata/annotations/"
const char *claim_id(const struct asked *asked);
const char *assigned(const struct asked *asked);
const char *signature(const struct asked *asked);

#define ASSERT_ALLOWED(asked)                                    \
    do {                                                         \
        if (!(asked)->is_allowed)                                \
            fail_msg("%d: %s", (asked)->code, (asked)->message); \
    } while (0)
#define ASSERT_REFUSED(asked, with, text)                                                        \
    do {                                                                                         \
        if ((asked)->is_allowed || (asked)->code != (with) || !strstr((asked)->message, (text))) \
            fail_msg("%d: %s", (asked)->code, (asked)->message);                                 \
        assert_string_equal((asked)->patch, "");                                                 \
    } while (0)

/* A pod with the annotation of either key. */
#define POD(metadata, key, config) \
    "{\"metadata\":{" metadata ",\"annotations\":{\"" key "\":\"" config "\"}}," BODY "}"
#define OWN(metadata, config) POD(metadata, "dibs.dev/ports", config)
#define SET(n) "\"name\":\"web-" #n "\"," OWNER("StatefulSet", "web")

bool count(void *ctx, const dibs_claim *claim);
size_t count_claims(struct engine *e, dibs *handle);
/* Set the quota of the namespace of these pods, as the controller does. */
void set_quota(struct engine *e, dibs *handle, uint32_t quota);
/* Declare the number as the controller does it when a Service has it. */
void observe(struct engine *e, dibs *handle, uint16_t port, dibs_proto proto);
#endif
