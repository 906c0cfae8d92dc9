/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#include "base/banned.h"

#define NS_PER_MS 1000000
#define MS_PER_S 1000
#define US_PER_S 1000000
#define NS_PER_US 1000

static const struct {
    const char *name;
    int64_t ms;
} units[] = { /* largest first: the formatter uses the first that divides */
              { "d", 86400000 },
              { "h", 3600000 },
              { "m", 60000 },
              { "s", MS_PER_S },
              { "ms", 1 }
};
#define N_UNITS (sizeof units / sizeof units[0])

static struct timespec read_clock(clockid_t id)
{
    struct timespec ts = { 0 };

    /* Cannot fail: these clocks are older than any kernel that we support. */
    (void) clock_gettime(id, &ts);
    return ts;
}

static int64_t to_ms(struct timespec ts)
{
    return (int64_t) ts.tv_sec * MS_PER_S + ts.tv_nsec / NS_PER_MS;
}

struct instant clock_now(int64_t boot_offset_ns)
{
    struct timespec boot = read_clock(CLOCK_BOOTTIME);
    int64_t host_ns = (int64_t) boot.tv_sec * MS_PER_S * NS_PER_MS + boot.tv_nsec - boot_offset_ns;

    return (struct instant){ .wall_ms = to_ms(read_clock(CLOCK_REALTIME)), .boot_ms = host_ns / NS_PER_MS };
}

int64_t clock_monotonic_ms(void)
{
    return to_ms(read_clock(CLOCK_MONOTONIC));
}

int64_t clock_monotonic_us(void)
{
    struct timespec now = read_clock(CLOCK_MONOTONIC);

    return (int64_t) now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US;
}

int64_t clock_until_ms(int64_t at_ms)
{
    int64_t now_ms = clock_monotonic_ms();

    return at_ms == INT64_MAX ? -1 : at_ms > now_ms ? at_ms - now_ms : 0;
}

int64_t clock_duration_parse(const char *text, int64_t max_ms)
{
    size_t n = text ? strspn(text, "0123456789") : 0;
    uint64_t value = 0;

    if (n == 0 || !text_number(text, n, (uint64_t) max_ms, &value))
        return -1;
    for (size_t i = 0; i < N_UNITS; i++)
        if (strcmp(text + n, units[i].name) == 0)
            return (int64_t) value > max_ms / units[i].ms ? -1 : (int64_t) value * units[i].ms;
    return -1;
}

void clock_duration_format(int64_t ms, char out[24])
{
    size_t i = 0;

    /* Every unit divides zero; people write "0s". */
    if (ms == 0) {
        (void) snprintf(out, 24, "0s");
        return;
    }
    while (i < N_UNITS - 1 && ms % units[i].ms != 0)
        i++;
    (void) snprintf(out, 24, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

int64_t clock_wall_parse(const char *text)
{
    struct tm tm = { 0 };
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);

    return end && !*end ? (int64_t) timegm(&tm) * 1000 : 0;
}

void clock_wall_format(int64_t wall_ms, char out[32])
{
    time_t seconds = (time_t) (wall_ms / MS_PER_S);
    struct tm tm = { 0 };

    if (wall_ms <= 0 || !gmtime_r(&seconds, &tm) || tm.tm_year > 9999 - 1900) {
        memcpy(out, "-", 2);
        return;
    }
    (void) strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
