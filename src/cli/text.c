/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pod_words.h"
#include "cli/cli.h"
#include "codec/wire.h"

#include "base/banned.h"

static void say(const struct cli *cli, const char *before, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
static void say(const struct cli *cli, const char *before, const char *fmt, va_list ap)
{
    char text[DIBS_ERR_MSG_MAX];
    char people[DIBS_ERR_MSG_MAX];
    char shown[DIBS_ERR_MSG_MAX];

    (void) vsnprintf(text, sizeof text, fmt, ap);
    (void) cli_for_people(cli, text, people, sizeof people);
    (void) fprintf(stderr, "dibs: %s%s\n", before, text_safe(people, shown, sizeof shown));
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    if (cli->quiet)
        return;
    va_start(ap, fmt);
    say(cli, "", fmt, ap);
    va_end(ap);
}

void cli_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(NULL, "warning: ", fmt, ap);
    va_end(ap);
}

void cli_begin_list(struct cli *cli)
{
    if (cli->json)
        jsonw_array(&cli->w);
}

void cli_end_list(struct cli *cli)
{
    if (cli->json)
        jsonw_end_array(&cli->w);
}

void cli_print_count(const struct cli *cli, const char *key, size_t n)
{
    if (cli->json)
        (void) printf("{\"%s\":%zu}\n", key, n);
}

void cli_age(int64_t ms, char *out, size_t size)
{
    static const struct {
        int64_t ms;
        char unit;
    } units[] = { { 86400000, 'd' }, { 3600000, 'h' }, { 60000, 'm' }, { 1000, 's' } };
    const size_t last = sizeof units / sizeof *units - 1;
    size_t i = 0;

    while (i < last && ms < units[i].ms)
        i++;
    int64_t rest = i < last ? ms % units[i].ms / units[i + 1].ms : 0;
    int n = snprintf(out, size, "%" PRId64 "%c", ms / units[i].ms, units[i].unit);
    if (rest && n > 0)
        (void) snprintf(out + n, size - (size_t) n, "%" PRId64 "%c", rest, units[i + 1].unit);
}

void cli_holder(const dibs_claim *claim, int64_t boot_ms, char *out, size_t size)
{
    char left[48];
    const char *on = claim->node[0] ? " on " : "";
    int64_t ms = claim->lease_until_ms - boot_ms;
    bool is_dead = claim->life == DIBS_DEAD; /* also a lease of another boot before its end */

    if (pod_words_owner(claim, out, size))
        return;
    if (claim->holder == DIBS_HELD_BY_PROCESS) {
        (void) snprintf(out, size, claim->command[0] ? "pid %d (%s)%s%s" : "pid %d%s%s%s", claim->process.pid,
                        claim->command, on, claim->node);
    } else if (claim->holder == DIBS_HELD_BY_NOBODY) {
        (void) snprintf(out, size, "%s%s%s", claim->is_damaged ? "? (damaged record)" : "-", on, claim->node);
    } else if (claim->node[0] && !is_dead) { /* its end is in the time of that host's clock */
        clock_duration_format(claim->lease_ttl_ms, left);
        (void) snprintf(out, size, "lease of %s%s%s", left, on, claim->node);
    } else if (ms <= 0 || is_dead) {
        (void) snprintf(out, size, "lease, ended");
    } else {
        cli_age(ms, left, sizeof left);
        (void) snprintf(out, size, "lease, %s left", left);
    }
}

const char *cli_user(uint32_t uid, char out[CLI_USER_BYTES])
{
    char text[4096];
    struct passwd entry;
    struct passwd *found = NULL;

    if (getpwuid_r(uid, &entry, text, sizeof text, &found) == 0 && found)
        (void) snprintf(out, CLI_USER_BYTES, "%.64s (uid %u)", found->pw_name, uid);
    else
        (void) snprintf(out, CLI_USER_BYTES, "uid %u", uid);
    return out;
}

void cli_time(const struct cli *cli, int64_t wall_ms, char out[32])
{
    time_t seconds = (time_t) (wall_ms / 1000);
    struct tm tm = { 0 };

    clock_wall_format(wall_ms, out);
    if (!(cli && cli_has(cli, "utc")) && out[0] != '-' && localtime_r(&seconds, &tm))
        (void) strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm);
}

/* Read "2026-01-31T12:00:00Z" at the start of a text; 0: it is something else. */
static int64_t time_at(const char *text)
{
    enum { BYTES = sizeof "2026-01-31T12:00:00Z" - 1 };
    char copy[BYTES + 1] = "";

    if (strnlen(text, BYTES) < BYTES || text[4] != '-' || text[BYTES - 1] != 'Z')
        return 0;
    memcpy(copy, text, BYTES);
    return clock_wall_parse(copy);
}

/* Read "uid 1000" or "uid:1000" at the start of a text; return its length, 0: it is something else. */
static size_t uid_at(const char *text, uint32_t *uid)
{
    size_t digits = strspn(text + strnlen(text, 4), "0123456789");
    uint64_t value = 0;

    if (strncmp(text, "uid", 3) != 0 || (text[3] != ' ' && text[3] != ':') || digits == 0 ||
        !text_number(text + 4, digits, UINT32_MAX, &value) ||
        (text[4 + digits] && !strchr(" ,;.:)'", text[4 + digits])))
        return 0;
    *uid = (uint32_t) value;
    return 4 + digits;
}

const char *cli_for_people(const struct cli *cli, const char *text, char *out, size_t size)
{
    size_t used = 0;

    for (const char *p = text; *p && used + 1 < size;) {
        bool is_word = p == text || p[-1] == ' '; /* "(uid 1000)" has its user before it */
        char user[CLI_USER_BYTES] = "";
        char when[32] = "";
        uint32_t uid = 0;
        int64_t ms = is_word ? time_at(p) : 0;
        size_t n = is_word ? uid_at(p, &uid) : 0;

        if (ms > 0) {
            cli_time(cli, ms, when);
            n = sizeof "2026-01-31T12:00:00Z" - 1;
        }
        if (n > 0) {
            (void) snprintf(out + used, size - used, "%s", ms > 0 ? when : cli_user(uid, user));
            used += strlen(out + used);
            p += n;
        } else {
            out[used++] = *p++;
        }
    }
    out[used < size ? used : size - 1] = '\0';
    return out;
}

const char *cli_state(const dibs_claim *claim)
{
    if (claim->is_orphan)
        return "orphan";
    if (pod_words_is_pending(claim))
        return "pending";
    return claim->holder == DIBS_HELD_BY_NOBODY ? "kept" : words_at(&words_life, claim->life);
}

void cli_address(const dibs_address *address, char out[CLI_ADDRESS_BYTES])
{
    char text[DIBS_ADDRESS_TEXT_MAX + 1];

    dibs_address_format(address, text);
    (void) snprintf(out, CLI_ADDRESS_BYTES, strchr(text, ':') ? "[%s]" : "%s", text);
}

void cli_bindings(const dibs_claim *claim, char *out, size_t size)
{
    size_t used = 0;

    if (size)
        out[0] = '\0';
    for (size_t i = 0; i < claim->n_bindings && i < DIBS_BINDINGS_MAX; i++) {
        char address[CLI_ADDRESS_BYTES];

        cli_address(&claim->bindings[i].address, address);
        int n = snprintf(out + used, size - used, "%s%s %s:%u", i ? " " : "",
                         dibs_proto_text(claim->bindings[i].proto), address, claim->port);
        if (n < 0 || (size_t) n >= size - used)
            return;
        used += (size_t) n;
    }
}

/* Was standard output a pipe whose reader is gone? An earlier failed write leaves no errno. */
static bool is_reader_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

void cli_end_json(struct cli *cli)
{
    if (cli->w.depth == 0 && cli->w.needs_comma)
        jsonw_finish(&cli->w);
    cli->w.needs_comma = false;
}

dibs_status cli_flush(struct cli *cli, dibs_err *err)
{
    cli_end_json(cli);
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return DIBS_OK;
    int why = errno;
    cli->exit_code = why == EPIPE || is_reader_gone() ? CLI_EXIT_READER_GONE : CLI_EXIT_OUTPUT;
    if (why)
        return err_os(err, DIBS_FAILURE, why, "cannot write to standard output");
    return err_set(err, DIBS_FAILURE, "cannot write to standard output");
}
