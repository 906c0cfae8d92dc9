/* SPDX-License-Identifier: MIT */
#include "operator/unchanged.h"

#include <string.h>

#include "base/err.h"
#include "operator/asking.h"

#include "base/banned.h"

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *label(const json_value *pod, const char *key)
{
    const char *text = NULL;

    (void) json_get_string(json_get(json_get(pod, "metadata"), "labels"), key, &text);
    return text;
}

static dibs_status refuse(const char *what, const char *key, dibs_err *err)
{
    return err_set(err, DIBS_INVALID,
                   "metadata.%s[%s] cannot be changed: the ports of a pod are those it was created with",
                   what, key);
}

/* The annotations that were written with the ports. */
static dibs_status check_values(const json_value *old, const json_value *object, dibs_err *err)
{
    struct asking asking = { 0 };
    dibs_status s = DIBS_OK;

    if (asking_read(old, "", &asking, NULL) != DIBS_OK)
        return DIBS_OK; /* it was never given any */
    for (size_t i = 0; asking.config && i < asking.config->n_ports && s == DIBS_OK; i++) {
        const char *key = asking.config->ports[i].annotation;

        if (key && !is_same(asking_annotation(old, key), asking_annotation(object, key)))
            s = refuse("annotations", key, err);
    }
    asking_done(&asking);
    return s;
}

dibs_status unchanged_check(const json_value *old, const json_value *object, dibs_err *err)
{
    static const char *const annotations[] = { WORKLOAD_KEY_RBG, WORKLOAD_KEY_OWN, IDENTITY_KEY_CLAIM,
                                               IDENTITY_KEY_ASSIGNED };
    static const char *const labels[] = { IDENTITY_LABEL_GROUP, IDENTITY_LABEL_ROLE };
    bool has_ports = asking_annotation(old, IDENTITY_KEY_CLAIM) != NULL;

    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++)
        if (!is_same(asking_annotation(old, annotations[i]), asking_annotation(object, annotations[i])))
            return refuse("annotations", annotations[i], err);
    for (size_t i = 0; has_ports && i < sizeof labels / sizeof *labels; i++)
        if (!is_same(label(old, labels[i]), label(object, labels[i])))
            return refuse("labels", labels[i], err);
    return has_ports ? check_values(old, object, err) : DIBS_OK;
}
