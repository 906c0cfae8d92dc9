/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_ROUTER_H
#define DIBS_SERVER_ROUTER_H
/* Finds the row of a table for a request: 404 for an unknown path, 405 with Allow for another method, 415 for
 * a body that is not JSON, 400 for an unknown query parameter. Refusals are RFC 9457 problem documents. */
#include "http/server.h"

enum { ROUTE_PARTS_MAX = 2, ROUTE_PART_BYTES = 128 };

/* The first member of a row; the other members are the table's own. */
struct route {
    const char *method;
    const char *path;   /* "{name}" stands for one part of it */
    const char *params; /* known query parameters, separated by blanks; NULL: others are ignored */
    unsigned flags;     /* ROUTE_..., and the table's own */
};
/* A GET that changes something, as gRPC's port server has it: not for HEAD. */
#define ROUTE_CHANGES (1u << 31)

struct router {
    const void *rows;
    size_t n, row_bytes;
};
#define ROUTER_OF(table)                                          \
    {                                                             \
        (table), sizeof(table) / sizeof *(table), sizeof *(table) \
    }

struct route_match { /* zero before the first search */
    const struct route *route;
    char part[ROUTE_PARTS_MAX][ROUTE_PART_BYTES]; /* the values of its "{name}" parts, decoded */
    char allow[ROUTE_PART_BYTES];                 /* the methods of rows with this path; "": there are none */
};

/* Find the row of a request. False: the methods of this path are added to match->allow. */
bool router_find(const struct router *router, const struct http_request *r, struct route_match *match);
/* The status of a request that has no row, 404 or 405; `err` says why, and `hint` where to look. */
int router_explain(const struct http_request *r, const struct route_match *match, const char *hint,
                   dibs_err *err);
/* Check the type of the body and the names of the parameters. 0, or the status of the refusal. */
int router_check(const struct http_request *r, const struct route *route, dibs_err *err);
/* Does the request name this host by an address or as localhost, or not at all? A web page that got another
 * name resolved to a loopback address (DNS rebinding) names that. */
bool router_host_is_local(const struct http_request *r);
/* Answer with a problem document. `allow` may be NULL. */
void router_refuse(struct http_request *r, int status, const dibs_err *err, const char *allow);
#endif
