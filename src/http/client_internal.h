/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_CLIENT_INTERNAL_H
#define DIBS_HTTP_CLIENT_INTERNAL_H
/* Declarations shared by the files of the HTTP client. */
#include <curl/curl.h>
#include <sys/queue.h>

#include "http/client.h"

enum { WEB_CA, WEB_CERT, WEB_KEY, WEB_TEXTS };

struct web {
    CURLM *multi;
    int epoll; /* descriptor for libcurl's sockets and the timer */
    int timer;
    int64_t set_ms;   /* when the timer expires at the latest; below 0: never */
    int64_t due_ms;   /* when libcurl wants to be called; below 0: never */
    int64_t alarm_ms; /* when the owner wants to be called; 0: never */
    LIST_HEAD(web_call_list, web_call) calls;
    CURL *spare; /* handle of an ended call: a new one is a third of the cost of a short call */
    char *file[WEB_TEXTS], *pem[WEB_TEXTS];
};

struct web_call {
    struct web *web;
    LIST_ENTRY(web_call) link;
    struct web_request request;
    CURL *easy;
    CURLcode set_code; /* first error of setting an option */
    struct curl_slist *headers;
    int64_t begun_ms;
    int64_t silent_ms;     /* start of a stream's silence; 0: the stream has not started */
    size_t n_header_bytes; /* of the answer */
    bool is_issued;        /* it was sent: a second sending is refused */
    bool is_too_large, is_refused;
    struct web_answer answer;
    char origin[128]; /* "https://host:port", for messages */
    char detail[CURL_ERROR_SIZE];
};

/* Keep a handle that no call and no multi handle uses for reuse. */
void call_put_back(struct web *web, CURL *easy);
/* Set every libcurl option of a call. */
dibs_status call_prepare(struct web_call *call, dibs_err *err);
/* Write the outcome into call->answer. */
void call_conclude(struct web_call *call, CURLcode code);
#endif
