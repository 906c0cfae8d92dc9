/* SPDX-License-Identifier: MIT */
/* Any text as Kubernetes objects, with made-up ports: what comes out can be read, has everything that was
 * there before in its order, and has nothing new but variables, ports and annotations. Injected again it
 * stays as it is.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/yaml.h"
#include "kube/inject/inject.h"
#include "support/check.h"

enum { COMPARED_MAX = 20000 }; /* aliases make an endless tree of a short text */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Texts that may be new inside of a value, by the key of the value. */
enum context { NOTHING, VARIABLES, PORTS, PAIRS, VARIABLE };

static bool is_one_of(const char *key, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(key, *list) == 0)
            return true;
    return false;
}

static bool may_be_new(const char *key)
{
    static const char *const keys[] = { "env", "ports", "metadata", "annotations", NULL };

    return is_one_of(key, keys);
}

static enum context context_of(const char *key)
{
    if (strcmp(key, "env") == 0)
        return VARIABLES;
    if (strcmp(key, "ports") == 0)
        return PORTS;
    return strcmp(key, "annotations") == 0 ? PAIRS : NOTHING;
}

static void compare(const yaml_node *b, const yaml_node *a, enum context context, size_t *left);

/* A port of ours. */
static bool is_made(const yaml_node *item)
{
    return item->kind == YAML_MAP && item->n == 3 && yaml_get(item, "containerPort") &&
           yaml_get(item, "hostPort") && yaml_get(item, "protocol");
}

/* Items stay in their order; a variable may have been replaced by one of its name. */
static void compare_lists(const yaml_node *b, const yaml_node *a, enum context context, size_t *left)
{
    size_t n_new = a->n - b->n;
    const yaml_node *y = a->first;
    const yaml_node *last = a->first;

    CHECK(a->n >= b->n && (n_new == 0 || context == VARIABLES || context == PORTS));
    while (last && last->next)
        last = last->next;
    /* New ports go behind the others, or in front when the text does not allow that. */
    bool is_front = n_new > 0 && (context == VARIABLES || !is_made(yaml_follow(last)));
    for (size_t i = 0; is_front && i < n_new; i++)
        y = y->next;
    for (const yaml_node *x = b->first; x; x = x->next, y = y->next) {
        bool is_variable = context == VARIABLES && yaml_string(yaml_get(x, "name"));

        CHECK(y);
        compare(x, y, is_variable ? VARIABLE : NOTHING, left);
    }
}

static void compare_maps(const yaml_node *b, const yaml_node *a, enum context context, size_t *left)
{
    const yaml_node *y = a->first;

    if (context == VARIABLE) {
        CHECK(strcmp(yaml_string(yaml_get(b, "name")), yaml_string(yaml_get(a, "name"))) == 0 ||
              yaml_key(b, "<<"));
        return;
    }
    for (const yaml_node *x = b->first; x; x = x->next, y = y->next) {
        for (; y && strcmp(x->text, y->text) != 0; y = y->next)
            CHECK(context == PAIRS || may_be_new(y->text));
        CHECK(y);
        bool was_null = yaml_is_null(x->value) && may_be_new(x->text);
        bool is_annotation = context == PAIRS && y->value->kind == YAML_SCALAR;
        if (!was_null && !is_annotation)
            compare(x->value, y->value, context_of(x->text), left);
    }
    for (; y; y = y->next)
        CHECK(context == PAIRS || may_be_new(y->text));
}

static void compare(const yaml_node *b, const yaml_node *a, enum context context, size_t *left)
{
    b = yaml_follow(b);
    a = yaml_follow(a);
    if (*left == 0)
        return;
    --*left;
    if (context == VARIABLE && a->kind == YAML_MAP && b->kind != YAML_MAP)
        return;
    CHECK(b->kind == a->kind);
    if (b->kind == YAML_SCALAR)
        CHECK(strcmp(b->text, a->text) == 0);
    else if (b->kind == YAML_LIST)
        compare_lists(b, a, context, left);
    else
        compare_maps(b, a, context, left);
}

static void check_result(const char *before, size_t n_before, const char *after, size_t n_after)
{
    AUTO(yaml_free_auto) yaml_text *b = NULL;
    AUTO(yaml_free_auto) yaml_text *a = NULL;
    AUTO(kube_injection_free_auto) kube_injection *again = NULL;
    AUTO(free_auto) char *same = NULL;
    size_t n_same = 0;
    size_t left = COMPARED_MAX;

    CHECK(yaml_parse("before", before, n_before, &b, NULL) == DIBS_OK);
    CHECK(yaml_parse("after", after, n_after, &a, NULL) == DIBS_OK);
    CHECK(yaml_count(a) == yaml_count(b));
    for (size_t i = 0; i < yaml_count(a); i++) {
        CHECK(!yaml_root(a, i) == !yaml_root(b, i));
        if (yaml_root(a, i))
            compare(yaml_root(b, i), yaml_root(a, i), NOTHING, &left);
    }
    CHECK(kube_injection_read("again", after, n_after, false, &again, NULL) == DIBS_OK);
    CHECK(kube_injection_text(again, &same, &n_same, NULL) == DIBS_OK);
    CHECK(n_same == n_after && memcmp(same, after, n_after) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(kube_injection_free_auto) kube_injection *injection = NULL;
    AUTO(free_auto) char *text = malloc(size + 1);
    AUTO(free_auto) char *after = NULL;
    size_t len = 0;
    dibs_err err = { .code = DIBS_OK };

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (kube_injection_read("file", text, size, false, &injection, &err) != DIBS_OK) {
        CHECK(err.code == DIBS_INVALID && err.msg[0] != '\0');
        for (const char *at = err.msg; *at; at++)
            CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
        return 0;
    }
    CHECK(kube_injection_text(injection, &after, &len, &err) == DIBS_OK);
    if (kube_injection_is_needed(injection))
        check_result(text, size, after, len);
    else
        CHECK(len == size && (size == 0 || memcmp(after, text, size) == 0));
    return 0;
}
