/* SPDX-License-Identifier: MIT */
/* Ports and port ranges: one parser for every front end.
 *
 * The systems whose texts we read contradict each other. dibs does this:
 * - a single port, "100", is a range (Kubernetes yes, DCP no);
 * - port 0 is always refused (Kubernetes accepts it, DCP does not);
 * - blanks inside, "100 - 200", are accepted (DCP yes, Kubernetes no);
 * - a text without a port, "" or ",", is refused (Kubernetes accepts ""). */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "dibs/net.h"
#include "net/portbits.h"
#include "net/ranges.h"

#include "base/banned.h"

_Static_assert(DIBS_RANGES_TEXT_MAX >= DIBS_RANGES_MAX * (sizeof "65535-65535," - 1),
               "the longest list fits its text");
_Static_assert(DIBS_RANGES_MAX == 64, "a message quotes it");

static const char control_text[] = "control characters are not allowed";

/* The unread rest of one list item. */
struct item {
    const char *at;
    const char *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_control(char c)
{
    return (unsigned char) c < 0x20 || c == 0x7f;
}

/* Return why `c` cannot follow a number. */
static const char *stray(char c)
{
    return is_control(c) ? control_text : "numbers are separated by '-', '+' or ','";
}

static void skip_blanks(struct item *item)
{
    while (item->at < item->end && is_blank(*item->at))
        item->at++;
}

/* Read digits; the number stops growing above DIBS_PORT_MAX. Return the fault, or NULL. */
static const char *digits(const char *at, const char *end, uint32_t *value)
{
    uint32_t sum = 0;

    for (; at < end; at++) {
        if (is_control(*at))
            return control_text;
        if (*at < '0' || *at > '9')
            return "a port is written in decimal digits only";
        if (sum <= DIBS_PORT_MAX)
            sum = 10 * sum + (uint32_t) (*at - '0');
    }
    *value = sum;
    return NULL;
}

/* Read one number with the blanks around it. Return the fault, or NULL. */
static const char *number(struct item *item, uint32_t *value)
{
    skip_blanks(item);
    const char *start = item->at;

    while (item->at < item->end && !is_blank(*item->at) && *item->at != '-' && *item->at != '+')
        item->at++;
    if (item->at == start)
        return item->at == item->end ? "a number is missing" : "a number has no sign";
    const char *why = digits(start, item->at, value);
    skip_blanks(item);
    return why;
}

/* Read "N", "A-B" or "A+N". Return the fault, or NULL. */
static const char *one_range(struct item item, dibs_range *out)
{
    uint32_t first = 0;
    uint32_t second = 0;
    char sign = '-';

    const char *why = number(&item, &first);
    if (why)
        return why;
    if (item.at == item.end) {
        second = first;
    } else {
        sign = *item.at++;
        if (sign != '-' && sign != '+')
            return stray(sign);
        why = number(&item, &second);
        if (why)
            return why;
    }
    if (item.at < item.end && (*item.at == '-' || *item.at == '+'))
        return *item.at == sign ? "more than one '-' or '+'" : "'+' and '-' cannot be mixed";
    if (item.at < item.end)
        return stray(*item.at);

    /* Both are below 2^20, because digits() stops there. */
    uint32_t last = sign == '+' ? first + second : second;
    if (first > DIBS_PORT_MAX || last > DIBS_PORT_MAX)
        return "the port range cannot be greater than 65535";
    if (first == 0)
        return "port 0 is not a port";
    if (last < first)
        return "end port cannot be less than start port";
    *out = (dibs_range){ .first = (uint16_t) first, .last = (uint16_t) last };
    return NULL;
}

static dibs_status refuse(dibs_err *err, struct item item, const char *why)
{
    char text[64];
    char shown[52];

    while (item.end > item.at && is_blank(item.end[-1]))
        item.end--;
    (void) snprintf(text, sizeof text, "%.*s", (int) (item.end - item.at), item.at);
    return err_set(err, DIBS_INVALID, "port range '%s': %s", text_safe(text, shown, sizeof shown), why);
}

dibs_status dibs_ranges_parse(const char *text, dibs_ranges *out, dibs_err *err)
{
    struct portbits bits = { 0 };
    dibs_ranges found = { .n = 0 };

    if (!out)
        return err_set(err, DIBS_INVALID, "the output for the port ranges is missing");
    text = text ? text : "";
    for (const char *at = text; *at;) {
        struct item item = { .at = at, .end = strchrnul(at, ',') };
        dibs_range range = { 0 };

        at = *item.end ? item.end + 1 : item.end;
        skip_blanks(&item);
        if (item.at == item.end)
            continue;
        const char *why = one_range(item, &range);
        if (why)
            return refuse(err, item, why);
        portbits_add_range(&bits, range);
    }
    const struct item all = { text, strchr(text, '\0') };
    if (!portbits_ranges(&bits, &found))
        return refuse(err, all, "more than 64 separate pieces");
    if (found.n == 0)
        return refuse(err, all, "is empty, it names no port");
    *out = found;
    return DIBS_OK;
}

dibs_status dibs_port_parse(const char *text, uint16_t *out, dibs_err *err)
{
    char shown[52];
    uint32_t value = 0;
    const char *why = "is empty";

    if (!out)
        return err_set(err, DIBS_INVALID, "the output for the port is missing");
    if (text && *text)
        why = digits(text, text + strlen(text), &value);
    if (!why && (value == 0 || value > DIBS_PORT_MAX))
        why = "a port is 1 to 65535";
    if (why)
        return err_set(err, DIBS_INVALID, "port '%s': %s", text_safe(text ? text : "", shown, sizeof shown),
                       why);
    *out = (uint16_t) value;
    return DIBS_OK;
}

bool ranges_are_valid(const dibs_ranges *ranges)
{
    uint32_t free_from = 1;

    if (ranges->n == 0 || ranges->n > DIBS_RANGES_MAX)
        return false;
    for (size_t i = 0; i < ranges->n; i++) {
        if (ranges->item[i].first < free_from || ranges->item[i].last < ranges->item[i].first)
            return false;
        free_from = ranges->item[i].last + 1u;
    }
    return true;
}

/* Return the number of ranges; 0 for an invalid list. */
static size_t n_of(const dibs_ranges *ranges)
{
    return ranges && ranges->n <= DIBS_RANGES_MAX ? ranges->n : 0;
}

void dibs_ranges_format(const dibs_ranges *ranges, char out[DIBS_RANGES_TEXT_MAX + 1])
{
    size_t used = 0;

    if (!out)
        return;
    out[0] = '\0';
    for (size_t i = 0; i < n_of(ranges); i++) {
        int n = snprintf(out + used, DIBS_RANGES_TEXT_MAX + 1 - used, "%s%u-%u", i ? "," : "",
                         (unsigned) ranges->item[i].first, (unsigned) ranges->item[i].last);
        used += (size_t) n;
    }
}

static uint32_t size_of(dibs_range range)
{
    return range.last < range.first ? 0 : (uint32_t) range.last - range.first + 1;
}

uint32_t dibs_ranges_count(const dibs_ranges *ranges)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n_of(ranges); i++)
        count += size_of(ranges->item[i]);
    return count;
}

bool dibs_ranges_contain(const dibs_ranges *ranges, uint16_t port)
{
    for (size_t i = 0; i < n_of(ranges); i++) {
        if (port >= ranges->item[i].first && port <= ranges->item[i].last)
            return true;
    }
    return false;
}

uint16_t dibs_ranges_at(const dibs_ranges *ranges, uint32_t i)
{
    for (size_t r = 0; r < n_of(ranges); r++) {
        uint32_t size = size_of(ranges->item[r]);

        if (i < size)
            return (uint16_t) (ranges->item[r].first + i);
        i -= size;
    }
    return 0;
}

dibs_status dibs_ranges_subtract(const dibs_ranges *ranges, dibs_range without, dibs_ranges *out,
                                 dibs_err *err)
{
    struct portbits bits = { 0 };
    dibs_ranges left = { .n = 0 };

    if (!out || !ranges || (ranges->n > 0 && !ranges_are_valid(ranges)))
        return err_set(err, DIBS_INVALID, "port ranges: an argument is missing or invalid");
    portbits_add_ranges(&bits, ranges);
    portbits_remove_range(&bits, without);
    if (!portbits_ranges(&bits, &left))
        return err_set(err, DIBS_INVALID, "port ranges without %u-%u: more than %d separate pieces",
                       (unsigned) without.first, (unsigned) without.last, DIBS_RANGES_MAX);
    *out = left;
    return DIBS_OK;
}

/* ---- bands ---- */

/* Kubernetes' numbers (KEP-3668), for the inclusive size: a small pool has no band. */
#define BAND_MIN 16
#define BAND_MAX 128
#define BAND_SHARE 32

uint32_t dibs_band_size(uint32_t size)
{
    uint32_t band = size / BAND_SHARE;

    if (size <= BAND_MIN)
        return 0;
    if (band < BAND_MIN)
        return BAND_MIN;
    return band > BAND_MAX ? BAND_MAX : band;
}
