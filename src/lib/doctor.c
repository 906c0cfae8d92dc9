/* SPDX-License-Identifier: MIT */
/* Checks settings, ledger, host and claims, and gives advice for every finding. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/pod_words.h"
#include "base/text.h"
#include "lib/doctor.h"
#include "lib/verb.h"

#include "base/banned.h"

/* A claim changes up to ten pages of 4 KiB, and the log's index grows by 32 KiB at a time. */
enum { LOW_SPACE_BYTES = 4 << 20, CLAIM_BYTES = 72 << 10, CLAIMS_SHOWN = 20 };

void doctor_say(struct doctor *d, dibs_severity severity, const char *topic, const char *advice,
                const char *fmt, ...)
{
    dibs_finding finding = { .severity = severity };
    va_list ap;

    (void) text_copy(finding.topic, sizeof finding.topic, topic);
    (void) text_copy(finding.advice, sizeof finding.advice, severity == DIBS_FINE ? "" : advice);
    va_start(ap, fmt);
    (void) vsnprintf(finding.text, sizeof finding.text, fmt, ap);
    va_end(ap);
    if (!d->is_stopped)
        d->is_stopped = !d->fn(d->ctx, &finding);
}

static void check_settings(struct doctor *d)
{
    char value[DIBS_SETTING_VALUE_MAX + 1];

    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        dibs_setting_format(d->settings, (dibs_setting) i, value);
        doctor_say(d, DIBS_FINE, "setting", "", "%s = %.600s (%s)", dibs_setting_name((dibs_setting) i),
                   value[0] ? value : "-", dibs_source_text(d->settings->source[i]));
    }
    if (d->settings->unread[0])
        doctor_say(d, DIBS_WARNING, "setting",
                   "let it be read, or set HOME or XDG_CONFIG_HOME to a folder of yours",
                   "%.600s may not be read: it is skipped", d->settings->unread);
}

/* ---- ledger ---- */

static void check_file(struct doctor *d, const char *path)
{
    struct stat st;
    struct statvfs fs;
    char dir[1024];
    char *slash = NULL;

    if (!path[0] || stat(path, &st) != 0)
        return;
    if (st.st_mode & 077)
        doctor_say(d, DIBS_WARNING, "ledger", "chmod 600 the file, unless other users are meant to share it",
                   "%s can be read or written by others (mode %03o)", path, st.st_mode & 0777);
    /* Compare uids as claims record them, also in a user namespace. */
    uint32_t owner = uid_map_above_seen(&d->core->view.users, st.st_uid);
    if (st.st_uid != geteuid() && owner == UID_MAP_UNKNOWN)
        doctor_say(d, DIBS_NOTE, "ledger", "nothing, if that is meant",
                   "%s belongs to a user outside of this user namespace, you are uid %u", path, d->call.uid);
    else if (st.st_uid != geteuid())
        doctor_say(d, DIBS_NOTE, "ledger", "nothing, if that is meant",
                   "%s belongs to uid %u, you are uid %u", path, owner, d->call.uid);
    (void) text_copy(dir, sizeof dir, path);
    slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    if (statvfs(slash ? dir : ".", &fs) != 0)
        return;
    uint64_t left = (uint64_t) fs.f_bavail * fs.f_frsize;
    if (left < LOW_SPACE_BYTES)
        doctor_say(d, left < CLAIM_BYTES ? DIBS_PROBLEM : DIBS_WARNING, "ledger",
                   "free some space: a full disk makes claims impossible",
                   "only %" PRIu64 " KiB are left for %s", left / 1024, path);
}

static void check_ledger(struct doctor *d, struct ledger *ledger)
{
    struct ledger_health health;
    dibs_err err = { 0 };

    if (ledger_health(ledger, &health, &err) != DIBS_OK) {
        doctor_say(d, DIBS_PROBLEM, "ledger", "see the message: nothing can be claimed or released meanwhile",
                   "%s", err.msg);
        return;
    }
    doctor_say(d, health.is_sound ? DIBS_FINE : DIBS_PROBLEM, "ledger", "run 'dibs doctor --fix'",
               "%s, version %d.%d, %s: %" PRIu64 " claim%s, %" PRIu64 " event%s, %" PRIu64 " name%s, %" PRIu64
               " KiB + %" PRIu64 " KiB log",
               health.path[0] ? health.path : d->settings->ledger, health.major, health.minor,
               health.is_sound ? "sound" : health.detail, health.n_claims, TEXT_S(health.n_claims),
               health.n_events, TEXT_S(health.n_events), health.n_names, TEXT_S(health.n_names),
               health.bytes / 1024, health.wal_bytes / 1024);
    if (health.path[0])
        doctor_say(
            d, DIBS_FINE, "ledger", "",
            "checked: the order and form of all rows by SQLite; claims, ports and names against each other. "
            "No check sees a commit that was lost as a whole, or a value that became another valid one");
    if (health.is_read_only)
        doctor_say(d, DIBS_PROBLEM, "ledger",
                   "make it writable for you, or name another place with DIBS_LEDGER",
                   "%s can only be read: nothing can be claimed or released in it", health.path);
    check_file(d, health.path);
}

static void report_losses(struct doctor *d, const struct ledger_salvaged *salvaged)
{
    const char *least = salvaged->may_lack_claims ? "at least " : "";
    char pages[96] = "";

    if (salvaged->n_lost > 0 || (salvaged->n_saved > 0 && salvaged->may_lack_claims))
        doctor_say(
            d, DIBS_PROBLEM, "ledger",
            "look for 'damaged record' in 'dibs ls --all', and release those that nobody uses",
            "%s%zu claim%s expected: %zu read, %zu lost or damaged, whose ports are kept; names that were "
            "left have theirs again",
            least, salvaged->n_saved + salvaged->n_lost, TEXT_S(salvaged->n_saved + salvaged->n_lost),
            salvaged->n_saved, salvaged->n_lost);
    if (salvaged->n_pages_left < salvaged->n_pages)
        (void) snprintf(pages, sizeof pages, "; the file has %" PRId64 " of its %" PRId64 " pages",
                        salvaged->n_pages_left, salvaged->n_pages);
    if (salvaged->may_lack_claims)
        doctor_say(
            d, DIBS_PROBLEM, "ledger",
            "compare 'dibs ls --all' with the programs that run, and claim the ports of those that it lacks",
            "the file was not read to the end: %s%s; an unknown number of claims is missing, and ports of "
            "living holders may be free now",
            salvaged->unread, pages);
    else if (salvaged->unread[0])
        doctor_say(d, DIBS_PROBLEM, "ledger", "nothing: every claim is accounted for",
                   "not read to the end: %s%s", salvaged->unread, pages);
}

static bool salvage(struct doctor *d)
{
    struct ledger_salvaged salvaged = { 0 };
    dibs_err err = { 0 };

    if (ledger_salvage(d->settings->ledger, &d->call, &salvaged, &err) != DIBS_OK) {
        doctor_say(d, DIBS_PROBLEM, "ledger", "move the file away by hand, then run 'dibs doctor' again",
                   "it could not be salvaged: %s", err.msg);
        return false;
    }
    doctor_say(d, DIBS_NOTE, "ledger", "look at it, then remove it",
               "rebuilt with %zu claim%s; the damaged file is now %s", salvaged.n_saved,
               TEXT_S(salvaged.n_saved), salvaged.aside);
    report_losses(d, &salvaged);
    return true;
}

static bool note_mendable(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    bool *is_flawed = ctx;

    (void) claim;
    (void) other;
    *is_flawed = flaw_is_mendable(flaw);
    return !*is_flawed;
}

/* Return whether a ledger that could be opened is damaged. Only a ledger in a file can be salvaged. */
static bool needs_salvage(const struct doctor *d, struct ledger *ledger)
{
    struct ledger_health health;
    bool is_flawed = false;

    if (ledger_health(ledger, &health, NULL) != DIBS_OK || !health.path[0])
        return false;
    return !health.is_sound || ledger_flaws(ledger, &d->call, note_mendable, &is_flawed, NULL) != DIBS_OK ||
           is_flawed;
}

static void say_unusable(struct doctor *d, const dibs_err *err)
{
    doctor_say(d, DIBS_PROBLEM, "ledger",
               err->trouble == DIBS_TROUBLE_DAMAGED
                   ? "run 'dibs doctor --fix', if the message says no other way"
                   : "see the message",
               "%s", err->msg);
}

/* Open the ledger, and salvage it with --fix when it is damaged. NULL: it cannot be opened. */
static struct ledger *open_ledger(struct doctor *d, bool *is_salvaged)
{
    struct ledger_options how = { .is_sync_full = d->settings->is_sync_full,
                                  .timeout_ms = d->settings->timeout_ms,
                                  .node = d->settings->node[0] ? d->settings->node : NULL };
    struct ledger *ledger = NULL;
    dibs_err err = { 0 };

    if (ledger_is_cluster(d->settings->ledger)) {
        doctor_say(d, DIBS_WARNING, "ledger", "start 'dibs serve' with that ledger, and name its socket",
                   "a ledger in etcd is used through the daemon of this host, and none is named");
        return NULL;
    }
    dibs_status s = ledger_open(d->settings->ledger, &how, &ledger, &err);
    bool is_damaged = s == DIBS_OK ? d->fix && needs_salvage(d, ledger) : err.trouble == DIBS_TROUBLE_DAMAGED;

    if (is_damaged && d->fix) {
        ledger_close(ledger);
        ledger = NULL;
        *is_salvaged = salvage(d);
        s = *is_salvaged ? ledger_open(d->settings->ledger, &how, &ledger, &err) : DIBS_UNAVAILABLE;
    }
    if (s != DIBS_OK && !(is_damaged && d->fix))
        say_unusable(d, &err);
    return s == DIBS_OK ? ledger : NULL;
}

/* ---- claims ---- */

static bool report_flaw(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    static const char fix[] = "run 'dibs doctor --fix': a kept claim blocks the port until it is released";
    struct doctor *d = ctx;
    char port[32] = "port not known";

    if (d->n_flawed++ >= CLAIMS_SHOWN)
        return true;
    if (claim->port)
        (void) snprintf(port, sizeof port, "port %u", claim->port);
    switch (flaw) {
    case LEDGER_DAMAGED:
        doctor_say(d, DIBS_WARNING, "claim", fix, "%s: the record of claim %" PRIu64 " is damaged", port,
                   claim->id);
        break;
    case LEDGER_LOST:
        doctor_say(d, DIBS_WARNING, "claim", fix,
                   "%s: it is blocked by claim %" PRIu64 ", whose record is lost", port, claim->id);
        break;
    case LEDGER_UNGUARDED:
        doctor_say(d, DIBS_PROBLEM, "claim", "run 'dibs doctor --fix'",
                   "%s: claim %" PRIu64 " has it, but nothing keeps it from being given to others", port,
                   claim->id);
        break;
    case LEDGER_MISNAMED:
        doctor_say(d, DIBS_PROBLEM, "claim", "run 'dibs doctor --fix'",
                   "%s: claim %" PRIu64 " is called '%s', but that name leads elsewhere", port, claim->id,
                   claim->name);
        break;
    case LEDGER_NAMESAKE:
        doctor_say(d, DIBS_PROBLEM, "claim", "release one of them by its port",
                   "%s: claim %" PRIu64 " has the same name as claim %" PRIu64 ", '%s'", port, claim->id,
                   other, claim->name);
        break;
    case LEDGER_CONFLICT:
        doctor_say(d, DIBS_PROBLEM, "claim",
                   "'dibs who' shows them; end the one that is not right, then release it",
                   "%s: claim %" PRIu64 " conflicts with claim %" PRIu64, port, claim->id, other);
        break;
    }
    return !d->is_stopped;
}

static bool check_claim(void *ctx, const dibs_claim *claim)
{
    struct doctor *d = ctx;
    dibs_claim judged = *claim;
    char who[512];
    const char *why = "";
    dibs_life life = core_judge(d->core, &d->call, NULL, &judged, &why);

    d->n_claims++;
    d->n_dead += life == DIBS_DEAD;
    d->n_orphan += judged.is_orphan;
    d->n_pods += pod_words_owner(&judged, who, sizeof who);
    d->n_pending += pod_words_is_pending(&judged);
    if (pod_words_is_pending(&judged)) /* the controller decides about it */
        return !d->is_stopped;
    if (life != DIBS_UNKNOWN || d->n_unknown++ >= CLAIMS_SHOWN)
        return !d->is_stopped;
    core_describe(&judged, who, sizeof who);
    doctor_say(d, DIBS_WARNING, "claim",
               "if you know that nobody uses it: 'dibs release --force' its name or port",
               "port %u: it is not known whether its holder is alive (%s): %s", claim->port, why, who);
    return !d->is_stopped;
}

static void check_claims(struct doctor *d)
{
    struct ledger_filter everything = { 0 };
    dibs_err err = { 0 };
    dibs_status s = ledger_flaws(d->core->ledger, &d->call, report_flaw, d, &err);

    if (s == DIBS_OK)
        s = ledger_list(d->core->ledger, &d->call, &everything, check_claim, d, &err);
    if (s != DIBS_OK) {
        doctor_say(d, DIBS_PROBLEM, "claim", "run 'dibs doctor --fix'", "%s", err.msg);
        return;
    }
    doctor_say(d, DIBS_FINE, "claim", "",
               "%zu claim%s: %zu of unknown state, %zu of dead holders, %zu orphan%s, %zu in disorder",
               d->n_claims, TEXT_S(d->n_claims), d->n_unknown, d->n_dead, d->n_orphan, TEXT_S(d->n_orphan),
               d->n_flawed);
    if (d->n_pods > 0)
        doctor_say(d, d->n_pending > 0 ? DIBS_NOTE : DIBS_FINE, "claim",
                   "nothing: 'dibs kube controller' confirms or ends them",
                   d->n_pods == 1 ? "%zu claim is of a pod or Service of Kubernetes, %zu of them pending"
                                  : "%zu claims are of pods and Services of Kubernetes, %zu of them pending",
                   d->n_pods, d->n_pending);
    if (d->n_dead > 0)
        doctor_say(d, DIBS_NOTE, "claim", "run 'dibs reap', or wait: they give way when their port is needed",
                   d->n_dead == 1 ? "%zu claim has a dead holder" : "%zu claims have a dead holder",
                   d->n_dead);
}

static void examine(struct doctor *d, bool is_salvaged)
{
    if (is_salvaged)
        doctor_claim_sockets(d);
    check_ledger(d, d->core->ledger);
    doctor_check_host(d);
    doctor_check_pools(d);
    check_claims(d);
}

/* ---- the daemon's own report ---- */

static bool pass_on(void *ctx, const dibs_finding *finding)
{
    struct doctor *d = ctx;

    /* Report the daemon's settings only where they are wrong; ours are reported already. */
    if (finding->severity == DIBS_FINE && strcmp(finding->topic, "setting") == 0)
        return true;
    d->is_stopped = !d->fn(d->ctx, finding);
    return !d->is_stopped;
}

EXCHANGE_READ(finding)

static dibs_status ask_findings(struct doctor *d, struct remote *remote, dibs_err *err)
{
    static const struct exchange_type findings = { read_finding, sizeof(dibs_finding), "findings" };
    AUTO(exchange_done)
    struct exchange ask =
        exchange_begin(remote, d->fix ? "POST" : "GET", d->fix ? EXCHANGE_ONCE : EXCHANGE_TWICE);

    exchange_be_patient(&ask);
    bytes_add_text(&ask.target, "/v1/doctor");
    return EXCHANGE_ASK_EACH(&ask, &findings, dibs_finding, pass_on, d, err);
}

static void ask_daemon(struct doctor *d, const char *path)
{
    struct wire_daemon daemon = { 0 };
    dibs *handle = NULL;
    dibs_pool chosen;
    dibs_err err = { 0 };
    dibs_status s = dibs_open(d->settings, &handle, &err);

    if (s == DIBS_OK)
        s = remote_daemon(handle->to->remote, &daemon, &err);
    if (s == DIBS_OK)
        doctor_say(d, DIBS_FINE, "daemon", "", "%.300s answers, version %s, pid %d: you are %s%s", path,
                   daemon.version, daemon.pid, daemon.principal, daemon.is_admin ? ", an administrator" : "");
    if (s == DIBS_OK && strcmp(daemon.version, DIBS_VERSION) != 0)
        doctor_say(d, DIBS_NOTE, "daemon", "restart it, if it was updated",
                   "it is of version %s, and this is %s", daemon.version, DIBS_VERSION);
    if (s == DIBS_OK && d->settings->source[DIBS_SET_POOL] != DIBS_FROM_DEFAULT)
        doctor_tell_choice(d, dibs_pool_get(handle, d->settings->pool, &chosen, &err), &err);
    if (s == DIBS_OK)
        s = ask_findings(d, handle->to->remote, &err);
    if (s != DIBS_OK)
        doctor_say(d, DIBS_PROBLEM, "daemon",
                   s == DIBS_DENIED ? "run 'dibs doctor' without --fix to see the findings"
                                    : "see the message: nothing can be claimed or released meanwhile",
                   "%s", err.msg);
    if (s != DIBS_OK)
        doctor_check_cluster(d); /* an etcd problem may be why the daemon does not answer */
    dibs_close(handle);
}

dibs_status handle_doctor(dibs *handle, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err)
{
    struct doctor d = {
        .settings = &handle->to->settings,
        .fix = fix,
        .fn = fn,
        .ctx = ctx,
        .core = handle->to->core,
        .call = handle_call(handle),
    };
    dibs_err lost = { 0 };
    uint64_t seq = 0;
    uint64_t cursor = 0;

    d.call.deadline_ms = 0; /* no common deadline: each transaction has its own timeout */
    if (ledger_is_shared(handle_ledger(handle))) {
        check_settings(&d);
        doctor_check_cluster(&d);
        examine(&d, false);
        return DIBS_OK;
    }
    /* Do not open a ledger whose file or log was removed: that would make new ones, which the daemon would
     * use. */
    dibs_status s = ledger_tail(handle_ledger(handle), &d.call, &seq, &cursor, &lost);
    bool is_removed =
        s == DIBS_OK
            ? ledger_writable(handle_ledger(handle), &lost) != DIBS_OK && lost.trouble == DIBS_TROUBLE_DAMAGED
            : access(strchr(d.settings->ledger, ':') + 1, F_OK) != 0 && errno == ENOENT;
    if (is_removed || (s != DIBS_OK && !fix)) {
        check_settings(&d);
        say_unusable(&d, &lost);
        doctor_check_host(&d);
        return DIBS_OK;
    }
    return dibs_doctor(d.settings, fix, fn, ctx, err); /* it checks a file with that handle */
}

dibs_status dibs_doctor(const dibs_settings *settings, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err)
{
    struct doctor d = { .settings = settings, .fix = fix, .fn = fn, .ctx = ctx };
    char path[DIBS_SETTING_VALUE_MAX + 1];
    dibs *handle = NULL;
    bool is_named = false;
    bool is_salvaged = false;

    if (!settings || !fn)
        return err_set(err, DIBS_INVALID, "an argument is missing");
    dibs_status s = args_settings(settings, err);
    if (s == DIBS_OK && remote_find(settings, path, &is_named)) {
        check_settings(&d);
        ask_daemon(&d, path);
        return DIBS_OK;
    }
    if (s == DIBS_OK)
        s = handle_open(settings, DIBS_LEDGER_MRU, false, &handle, err);
    if (s != DIBS_OK)
        return s;
    d.core = handle->to->core;
    d.call = handle_call(handle);
    d.call.deadline_ms = 0;
    check_settings(&d);
    d.core->ledger = open_ledger(&d, &is_salvaged);
    d.call.now = core_now(d.core);
    doctor_check_cluster(&d);
    if (d.core->ledger)
        examine(&d, is_salvaged);
    else
        doctor_check_host(&d);
    dibs_close(handle);
    return DIBS_OK;
}
