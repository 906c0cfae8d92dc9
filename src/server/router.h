/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_ROUTER_H
#define DIBS_SERVER_ROUTER_H
/* Find the row of a table for a request: 404 for an unknown path, 405 with Allow for another method, 415 for
 * a body that is not JSON, 400 for an unknown query parameter. Refusals are RFC 9457 problem documents. */
#include "http/server.h"

enum { ROUTE_PARTS_MAX = 2, ROUTE_PART_BYTES = 128 };

/* The first member of a row; the table defines the others. */
struct route {
    const char *method;
    const char *path; /* "{name}" stands for one part */
    /* Known query parameters, separated by blanks; "name*" may be given several times. NULL: unknown ones are
     * ignored. */
    const char *params;
    unsigned flags; /* ROUTE_..., and the table's own flags */
};
/* A GET that changes state, as in gRPC's port server: HEAD is not allowed. */
#define ROUTE_CHANGES (1u << 31)

struct router {
    const void *rows;
    size_t n, row_bytes;
};
#define ROUTER_OF(table)                                          \
    {                                                             \
        (table), sizeof(table) / sizeof *(table), sizeof *(table) \
    }

struct route_match { /* all zero before the first search */
    const struct route *route;
    char part[ROUTE_PARTS_MAX][ROUTE_PART_BYTES]; /* values of the "{name}" parts, decoded */
    char allow[ROUTE_PART_BYTES];                 /* methods of the rows with this path; "": none */
};

/* Find the row of a request. Return false after adding the path's methods to match->allow. */
bool router_find(const struct router *router, const struct http_request *r, struct route_match *match);
/* Return the status of a request without a row, 404 or 405; `err` says why and gives the hint. */
int router_explain(const struct http_request *r, const struct route_match *match, const char *hint,
                   dibs_err *err);
/* Check the type of the body and the names of the parameters. Return 0 or the status of the refusal. */
int router_check(const struct http_request *r, const struct route *route, dibs_err *err);
/* Does the Host field name an address or localhost, or is it missing? DNS rebinding shows another name. */
bool router_host_is_local(const struct http_request *r);
/* Answer with a problem document. `allow` may be NULL. */
void router_refuse(struct http_request *r, int status, const dibs_err *err, const char *allow);
#endif
