/* SPDX-License-Identifier: MIT */
#include "lib/answer.h"

#include <strings.h>

#include "base/text.h"
#include "dibs/limits.h"

#include "base/banned.h"

enum { STATUS_LEAST = 200, STATUS_MOST = 599, NO_CONTENT = 204 };

/* Parse "HTTP/1.1 200 OK". */
static const char *take_status(struct answer *a)
{
    uint64_t status = 0;

    if (a->n_line < 12 || memcmp(a->line, "HTTP/1.", 7) != 0 || a->line[8] != ' ' ||
        (a->n_line > 12 && a->line[12] != ' ') || !text_number(a->line + 9, 3, STATUS_MOST, &status) ||
        status < STATUS_LEAST)
        return "its first line is not that of HTTP/1.1";
    a->status = (int) status;
    a->is_closing = a->line[7] == '0';
    a->state = ANSWER_HEADERS;
    return NULL;
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(text, word, n) == 0;
}

static const char *take_header(struct answer *a)
{
    const char *colon = memchr(a->line, ':', a->n_line);
    uint64_t number = 0;

    if (a->n_line == 0) { /* end of the headers */
        a->state = a->status != NO_CONTENT && a->left > 0 ? ANSWER_BODY : ANSWER_DONE;
        return a->status != NO_CONTENT && !a->has_length ? "it has no length" : NULL;
    }
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

    if (is_word(a->line, n_name, "Content-Length")) {
        if (!text_number(value, n, DIBS_INPUT_MAX_BYTES, &number) || (a->has_length && a->left != number))
            return "its length is no number, or too large";
        a->has_length = true;
        a->left = number;
    }
    if (is_word(a->line, n_name, "Transfer-Encoding"))
        return "its transfer encoding is not known";
    if (is_word(a->line, n_name, "Connection"))
        a->is_closing = a->is_closing || is_word(value, n, "close");
    if (is_word(a->line, n_name, "Retry-After") && text_number(value, n, INT32_MAX, &number))
        a->retry_after_s = (int64_t) number;
    return NULL;
}

/* Read a line, as far as it has arrived; *used counts the bytes. */
static const char *take_text(struct answer *a, const char *bytes, size_t n, size_t *used)
{
    const char *end = memchr(bytes, '\n', n);
    size_t take = end ? (size_t) (end - bytes) : n;

    *used = take + (end != NULL);
    a->n_head += *used;
    if (take > sizeof a->line - a->n_line || a->n_head > ANSWER_HEAD_MAX)
        return "its head is too long";
    memcpy(a->line + a->n_line, bytes, take);
    a->n_line += take;
    if (!end)
        return NULL;
    if (a->n_line > 0 && a->line[a->n_line - 1] == '\r')
        a->n_line--;
    const char *fault = a->state == ANSWER_STATUS ? take_status(a) : take_header(a);

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
        a->state = ANSWER_DONE;
    return NULL;
}

const char *answer_take(struct answer *a, const char *bytes, size_t n)
{
    const char *fault = NULL;

    while (n > 0 && !fault) {
        size_t used = 0;

        if (a->state == ANSWER_DONE)
            return "it goes on after its end";
        fault = a->state == ANSWER_BODY ? take_body(a, bytes, n, &used) : take_text(a, bytes, n, &used);
        bytes += used;
        n -= used;
    }
    return fault;
}

void answer_done(struct answer *a)
{
    bytes_done(&a->body);
}
