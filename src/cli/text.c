/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pod_words.h"
#include "cli/cli.h"
#include "codec/wire.h"

#include "base/banned.h"

static void say(const char *before, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void say(const char *before, const char *fmt, va_list ap)
{
    char text[DIBS_ERR_MSG_MAX];
    char shown[DIBS_ERR_MSG_MAX];

    (void) vsnprintf(text, sizeof text, fmt, ap);
    (void) fprintf(stderr, "dibs: %s%s\n", before, text_safe(text, shown, sizeof shown));
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
        (void) snprintf(out, size, "pid %d (%s)%s%s", claim->process.pid,
                        claim->command[0] ? claim->command : "?", on, claim->node);
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
