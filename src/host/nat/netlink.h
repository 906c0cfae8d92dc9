/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_NETLINK_H
#define DIBS_HOST_NAT_NETLINK_H
/* Netlink to nf_tables: requests, dumps, and attributes of foreign bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A view of attributes, one after the other. */
struct nat_attrs {
    const uint8_t *at;
    size_t left;
};
struct nat_attr {
    unsigned type;
    const uint8_t *bytes;
    size_t len;
};
/* Take the next attribute; false: the end, or damaged. */
bool nat_attrs_next(struct nat_attrs *attrs, struct nat_attr *out);
/* Find the first attribute of a type; false and an empty one: there is none. */
bool nat_attrs_find(struct nat_attrs attrs, unsigned type, struct nat_attr *out);
/* Return the attributes inside of one. */
struct nat_attrs nat_attrs_of(struct nat_attr attr);
/* Return the attribute as a text with its NUL, or NULL. */
const char *nat_attrs_text(struct nat_attrs attrs, unsigned type);
/* Return a number in network order of 1, 2, 4 or 8 bytes; `other` if there is none. */
uint64_t nat_attrs_number(struct nat_attrs attrs, unsigned type, uint64_t other);

/* One object of an answer: `type` is NFT_MSG_NEWCHAIN and so on. */
struct nat_object {
    unsigned type;
    uint8_t family;
    struct nat_attrs attrs;
};
typedef void (*nat_object_fn)(void *ctx, const struct nat_object *object);

struct nat_netlink {
    int fd; /* -1: closed */
    uint32_t seq;
};
/* 0, or an errno. */
int nat_netlink_open(struct nat_netlink *nl);
void nat_netlink_close(struct nat_netlink *nl);
/* Get the number of the ruleset, which every change increases. EPERM: we may not read it. */
int nat_netlink_generation(struct nat_netlink *nl, uint32_t *out);

/* What to list: `type` is NFT_MSG_GETCHAIN and so on. Names may be NULL. */
struct nat_query {
    unsigned type;
    uint8_t family;
    unsigned table_attr, set_attr; /* numbers of the attributes with the names */
    const char *table, *set;
};
/* Call fn for each object. EAGAIN: the rules changed meanwhile; EPERM: we may not. */
int nat_netlink_list(struct nat_netlink *nl, const struct nat_query *query, nat_object_fn fn, void *ctx);

/* What the answers to one request have said so far. */
struct nat_answer {
    uint32_t seq; /* of the request; 0: any */
    nat_object_fn fn;
    void *ctx;
    bool is_done;
    int error; /* an errno */
};
/* Read the bytes of one answer; public for fuzzing. */
void nat_netlink_take(struct nat_answer *answer, const uint8_t *bytes, size_t n);
#endif
