/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_CLOCK_H
#define DIBS_BASE_CLOCK_H
/* Clocks and durations. Time is passed as an instant; only entry points and tests read a clock. */
#include <stdint.h>

struct instant {
    int64_t wall_ms; /* for people */
    int64_t boot_ms; /* CLOCK_BOOTTIME of the host: for leases, cooldowns and deadlines */
};

/* Read both clocks. `boot_offset_ns`, the offset of our time namespace, is subtracted. */
struct instant clock_now(int64_t boot_offset_ns);
/* Read CLOCK_MONOTONIC, for deadlines inside one process. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_us(void);
/* Return the time from now until `at_ms` of that clock, at least 0; for INT64_MAX -1, no limit. */
int64_t clock_until_ms(int64_t at_ms);

/* Parse "500ms", "10s", "5m", "2h", "7d": digits and a unit; -1 for anything else or over `max_ms`. */
int64_t clock_duration_parse(const char *text, int64_t max_ms);
/* Write the shortest exact form: "10m", "90s", "1500ms". */
void clock_duration_format(int64_t ms, char out[24]);
/* Parse "2026-01-31T12:00:00Z"; 0 for anything else. */
int64_t clock_wall_parse(const char *text);
/* Write "2026-01-31T12:00:00Z"; "-" for an unknown time (0 or less) or one beyond year 9999. */
void clock_wall_format(int64_t wall_ms, char out[32]);
#endif
