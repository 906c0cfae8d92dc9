/* SPDX-License-Identifier: MIT */
#include "lib/answer.h"

#include <strings.h>

#include "dibs/limits.h"

#include "base/banned.h"

enum { STATUS_LEAST = 100, STATUS_MOST = 599, DIGITS_MAX = 12 };

/* Digits of a base up to 16, all of the text and at most DIGITS_MAX. */
static bool read_digits(const char *text, size_t n, unsigned base, uint64_t *out)
{
    uint64_t value = 0;

    if (n == 0 || n > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = (char) (text[i] | 0x20);
        unsigned digit = c >= '0' && c <= '9' && text[i] < 'A' ? (unsigned) (c - '0')
                         : c >= 'a' && c <= 'f'                ? (unsigned) (c - 'a' + 10)
                                                               : base;

        if (digit >= base)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return true;
}

/* "HTTP/1.1 200 OK" */
static const char *take_status(struct answer *a)
{
    uint64_t status = 0;

    if (a->n_line < 12 || memcmp(a->line, "HTTP/1.", 7) != 0 || a->line[8] != ' ' ||
        (a->n_line > 12 && a->line[12] != ' ') || !read_digits(a->line + 9, 3, 10, &status) ||
        status < STATUS_LEAST || status > STATUS_MOST)
        return "its first line is not that of HTTP/1.1";
    a->status = (int) status;
    a->is_closing = a->line[7] == '0';
    a->state = ANSWER_HEADERS;
    return NULL;
}

static const char *take_length(struct answer *a, const char *value, size_t n)
{
    uint64_t length = 0;

    if (!read_digits(value, n, 10, &length) || (a->has_length && a->left != length))
        return "its length is no number";
    a->has_length = true;
    a->left = length;
    return NULL;
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(text, word, n) == 0;
}

static const char *take_header(struct answer *a)
{
    const char *colon = memchr(a->line, ':', a->n_line);
    uint64_t seconds = 0;

    if (!colon || colon == a->line)
        return "a header line has no name";
    size_t n_name = (size_t) (colon - a->line);
    const char *value = colon + 1;
    const char *end = a->line + a->n_line;

    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t n = (size_t) (end - value);

    if (is_word(a->line, n_name, "Content-Length"))
        return take_length(a, value, n);
    if (is_word(a->line, n_name, "Transfer-Encoding")) {
        a->is_chunked = is_word(value, n, "chunked");
        return a->is_chunked ? NULL : "its transfer encoding is not known";
    }
    if (is_word(a->line, n_name, "Connection"))
        a->is_closing = a->is_closing || is_word(value, n, "close");
    if (is_word(a->line, n_name, "Retry-After") && read_digits(value, n, 10, &seconds)) {
        a->has_retry_after = true;
        a->retry_after_s = (int64_t) seconds;
    }
    return NULL;
}

/* The empty line behind the headers: what follows? */
static const char *end_head(struct answer *a)
{
    if (a->status < 200) { /* "100 Continue": the answer is still to come */
        a->state = ANSWER_STATUS;
        return NULL;
    }
    if (a->is_chunked && a->has_length)
        return "it has two lengths";
    if (a->status == 204 || a->status == 304) {
        a->state = ANSWER_DONE;
        return NULL;
    }
    if (!a->is_chunked && !a->has_length)
        return "it has no length";
    if (a->left > DIBS_INPUT_MAX_BYTES)
        return "it is too long";
    a->state = a->is_chunked ? ANSWER_CHUNK_SIZE : a->left > 0 ? ANSWER_BODY : ANSWER_DONE;
    return NULL;
}

/* "1f;extension" */
static const char *take_chunk_size(struct answer *a)
{
    const char *extension = memchr(a->line, ';', a->n_line);
    size_t n = extension ? (size_t) (extension - a->line) : a->n_line;

    if (!read_digits(a->line, n, 16, &a->left))
        return "a chunk has no size";
    if (a->left > DIBS_INPUT_MAX_BYTES - a->body.n)
        return "it is too long";
    a->state = a->left > 0 ? ANSWER_CHUNK : ANSWER_TRAILER;
    return NULL;
}

static const char *take_line(struct answer *a)
{
    switch (a->state) {
    case ANSWER_STATUS: return take_status(a);
    case ANSWER_HEADERS: return a->n_line > 0 ? take_header(a) : end_head(a);
    case ANSWER_CHUNK_SIZE: return take_chunk_size(a);
    case ANSWER_CHUNK_END:
        a->state = ANSWER_CHUNK_SIZE;
        return a->n_line > 0 ? "a chunk is longer than it says" : NULL;
    case ANSWER_TRAILER:
        if (a->n_line == 0)
            a->state = ANSWER_DONE;
        return NULL;
    case ANSWER_BODY:
    case ANSWER_CHUNK:
    case ANSWER_DONE: break;
    }
    return "it goes on after its end";
}

/* A line, as far as it is there. *used bytes were taken. */
static const char *take_text(struct answer *a, const char *bytes, size_t n, size_t *used)
{
    const char *end = memchr(bytes, '\n', n);
    size_t take = end ? (size_t) (end - bytes) : n;

    *used = take + (end != NULL);
    /* Sizes of chunks are a part of the body: they do not use up the bound of the head. */
    if (a->state != ANSWER_CHUNK_SIZE && a->state != ANSWER_CHUNK_END)
        a->n_head += *used;
    if (take > sizeof a->line - a->n_line || a->n_head > ANSWER_HEAD_MAX)
        return "its head is too long";
    memcpy(a->line + a->n_line, bytes, take);
    a->n_line += take;
    if (!end)
        return NULL;
    if (a->n_line > 0 && a->line[a->n_line - 1] == '\r')
        a->n_line--;
    const char *fault = take_line(a);

    a->n_line = 0;
    return fault;
}

static const char *take_body(struct answer *a, const char *bytes, size_t n, size_t *used)
{
    *used = a->left < n ? (size_t) a->left : n;
    bytes_add(&a->body, bytes, *used);
    if (a->body.is_lost)
        return "there is no memory for it";
    a->left -= *used;
    if (a->left == 0)
        a->state = a->state == ANSWER_BODY ? ANSWER_DONE : ANSWER_CHUNK_END;
    return NULL;
}

const char *answer_take(struct answer *a, const char *bytes, size_t n)
{
    const char *fault = NULL;

    while (n > 0 && !fault) {
        size_t used = 0;

        if (a->state == ANSWER_DONE)
            return "it goes on after its end";
        if (a->state == ANSWER_BODY || a->state == ANSWER_CHUNK)
            fault = take_body(a, bytes, n, &used);
        else
            fault = take_text(a, bytes, n, &used);
        bytes += used;
        n -= used;
    }
    return fault;
}

void answer_done(struct answer *a)
{
    bytes_done(&a->body);
}
