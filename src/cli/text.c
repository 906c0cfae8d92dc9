/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/cli.h"

#include "base/banned.h"

static void say(const char *before, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void say(const char *before, const char *fmt, va_list ap)
{
    char text[DIBS_ERR_MSG_MAX];
    char shown[DIBS_ERR_MSG_MAX];

    (void) vsnprintf(text, sizeof text, fmt, ap);
    (void) fprintf(stderr, "dibs: %s%s\n", before, cli_safe(text, shown, sizeof shown));
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    if (cli->quiet)
        return;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void cli_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

/* Bytes of the character at `p`, 0 when it is broken or has no business on a terminal: controls
 * (C0, DEL, C1) and the marks that turn the direction of writing. */
static size_t character(const unsigned char *p)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    uint32_t c = len == 1 ? p[0] : len == 2 ? p[0] & 0x1fu : len == 3 ? p[0] & 0xfu : p[0] & 7u;

    if (!len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) /* also at the end: NUL */
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
        return 0;
    return len;
}

const char *cli_safe(const char *text, char *out, size_t size)
{
    static const char dots[] = "...";
    size_t used = 0;
    size_t keep = 0; /* where "..." goes if the text turns out too long */

    if (!size)
        return out;
    const unsigned char *p = (const unsigned char *) text;
    while (*p) {
        size_t len = character(p);
        size_t wide = len ? len : 1;
        if (used + wide + 1 > size) {
            if (size >= sizeof dots)
                memcpy(out + keep, dots, sizeof dots - 1);
            used = size >= sizeof dots ? keep + sizeof dots - 1 : used;
            break;
        }
        if (len)
            memcpy(out + used, p, len);
        else
            out[used] = '?';
        used += wide;
        p += wide;
        if (used + sizeof dots <= size)
            keep = used;
    }
    out[used] = '\0';
    return out;
}

bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out)
{
    int64_t value = 0;

    if (!*text)
        return false;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || value > (INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (*c - '0');
    }
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* The two greatest units: "9m30s", "3d2h", "12s". */
static void rough_duration(int64_t ms, char *out, size_t size)
{
    static const struct {
        int64_t ms;
        char unit;
    } units[] = { { 86400000, 'd' }, { 3600000, 'h' }, { 60000, 'm' }, { 1000, 's' } };
    const size_t n = sizeof units / sizeof *units;
    size_t i = 0;

    while (i + 1 < n && ms < units[i].ms)
        i++;
    int64_t first = ms / units[i].ms;
    int64_t rest = ms % units[i].ms;
    int64_t second = i + 1 < n ? rest / units[i + 1].ms : 0;
    if (second)
        (void) snprintf(out, size, "%" PRId64 "%c%" PRId64 "%c", first, units[i].unit, second,
                        units[i + 1].unit);
    else
        (void) snprintf(out, size, "%" PRId64 "%c", first, units[i].unit);
}

void cli_holder(const dibs_claim *claim, int64_t boot_ms, char *out, size_t size)
{
    char command[DIBS_COMMAND_MAX + 1];
    char left[48];
    const char *on = claim->node[0] ? " on " : "";

    switch (claim->holder) {
    case DIBS_HELD_BY_PROCESS:
        (void) snprintf(out, size, "pid %d (%s)%s%s", claim->process.pid,
                        cli_safe(claim->command[0] ? claim->command : "?", command, sizeof command), on,
                        claim->node);
        return;
    case DIBS_HELD_BY_LEASE: {
        int64_t ms = claim->lease_until_ms - boot_ms;
        if (claim->node[0] && claim->life != DIBS_DEAD) { /* its end is told by the clock of that host */
            clock_duration_format(claim->lease_ttl_ms, left);
            (void) snprintf(out, size, "lease of %s%s%s", left, on, claim->node);
            return;
        }
        if (ms <= 0 || claim->life == DIBS_DEAD) { /* dead before its end: of another boot */
            (void) snprintf(out, size, "lease, ended");
            return;
        }
        rough_duration(ms, left, sizeof left);
        (void) snprintf(out, size, "lease, %s left", left);
        return;
    }
    case DIBS_HELD_BY_NOBODY: break;
    }
    (void) snprintf(out, size, "%s%s%s", claim->is_damaged ? "? (damaged record)" : "-", on, claim->node);
}

void cli_bindings(const dibs_claim *claim, char *out, size_t size)
{
    size_t used = 0;

    if (size)
        out[0] = '\0';
    for (size_t i = 0; i < claim->n_bindings && i < DIBS_BINDINGS_MAX; i++) {
        char address[DIBS_ADDRESS_TEXT_MAX + 1];
        dibs_address_format(&claim->bindings[i].address, address);
        bool is_v6 = strchr(address, ':') != NULL;
        int n = snprintf(out + used, size - used, "%s%s %s%s%s:%u", i ? " " : "",
                         dibs_proto_text(claim->bindings[i].proto), is_v6 ? "[" : "", address,
                         is_v6 ? "]" : "", claim->port);
        if (n < 0 || (size_t) n >= size - used)
            return;
        used += (size_t) n;
    }
}

int cli_exit_code(dibs_status status)
{
    switch (status) {
#define X(name, value, text) \
    case DIBS_##name: return value;
        DIBS_STATUS_MAP(X)
#undef X
    }
    return 1; /* not one of ours: memory was overwritten */
}

/* Of an earlier write that failed nothing is left but the fact. */
static bool is_reader_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

dibs_status cli_flush(struct cli *cli, dibs_err *err)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return DIBS_OK;
    int why = errno;
    cli->exit_code = why == EPIPE || is_reader_gone() ? CLI_EXIT_READER_GONE : CLI_EXIT_OUTPUT;
    if (why)
        return err_os(err, DIBS_FAILURE, why, "cannot write to standard output");
    return err_set(err, DIBS_FAILURE, "cannot write to standard output");
}
