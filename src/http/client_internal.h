/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_CLIENT_INTERNAL_H
#define DIBS_HTTP_CLIENT_INTERNAL_H
/* A client from inside. */
#include <curl/curl.h>
#include <sys/queue.h>

#include "http/client.h"

enum { WEB_CA, WEB_CERT, WEB_KEY, WEB_TEXTS };

struct web {
    CURLM *multi;
    int epoll; /* libcurl's sockets and the timer */
    int timer;
    int64_t set_ms;   /* when that rings, at the latest; below 0: never */
    int64_t due_ms;   /* when libcurl wants to be called; below 0: not */
    int64_t alarm_ms; /* when its owner wants to be called; 0: not */
    LIST_HEAD(, web_call) calls;
    CURL *spare; /* of a call that has ended: to make a new one is a third of the cost of a short call */
    char *file[WEB_TEXTS], *pem[WEB_TEXTS];
};

struct web_call {
    struct web *web;
    LIST_ENTRY(web_call) link;
    struct web_request request;
    CURL *easy;
    CURLcode set_code; /* of the first option that could not be set */
    struct curl_slist *headers;
    int64_t begun_ms;
    int64_t silent_ms;     /* a stream: since when; 0: it has not begun */
    size_t n_header_bytes; /* of the answer */
    bool is_issued;        /* once: a second time would be a request sent twice */
    bool is_too_large, is_refused;
    struct web_answer answer;
    char origin[128]; /* "https://host:port", for messages */
    char detail[CURL_ERROR_SIZE];
};

/* A handle of libcurl that no call needs any more, nor a multi handle knows. */
void call_put_back(struct web *web, CURL *easy);
/* Every option of libcurl that a call has. */
dibs_status call_prepare(struct web_call *call, dibs_err *err);
/* Write the outcome into call->answer. */
void call_conclude(struct web_call *call, CURLcode code);
#endif
