/* SPDX-License-Identifier: MIT */
/* Settings: one row and one parser each, for every source. */
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/name_part.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/wire.h"
#include "codec/yaml.h"
#include "core/order.h"
#include "ledger/ledger.h"
#include "lib/settings.h"

#include "base/banned.h"

static const struct {
    const char *name, *summary;
} rows[DIBS_SETTING_COUNT] = {
#define X(id, name, summary) [DIBS_SET_##id] = { name, summary },
    DIBS_SETTING_MAP(X)
#undef X
};

/* Check a value that may be outside the enum, whose signedness the compiler chooses. */
static bool is_setting(dibs_setting setting)
{
    return (unsigned) setting < DIBS_SETTING_COUNT;
}

const char *dibs_setting_name(dibs_setting setting)
{
    return is_setting(setting) ? rows[setting].name : NULL;
}

const char *dibs_setting_summary(dibs_setting setting)
{
    return is_setting(setting) ? rows[setting].summary : NULL;
}

void dibs_setting_env(dibs_setting setting, char out[48])
{
    if (!out)
        return;
    (void) snprintf(out, 48, "%s%s", is_setting(setting) ? "DIBS_" : "",
                    is_setting(setting) ? rows[setting].name : "");
    for (char *p = out; *p; p++) {
        if (*p == '-')
            *p = '_';
        else
            *p = (char) toupper((unsigned char) *p);
    }
}

const char *dibs_source_text(dibs_source source)
{
    switch (source) {
    case DIBS_FROM_DEFAULT: return "default";
    case DIBS_FROM_SYSTEM: return "/etc/dibs/dibs.yaml";
    case DIBS_FROM_USER: return "user file";
    case DIBS_FROM_PROJECT: return "manifest";
    case DIBS_FROM_ENVIRONMENT: return "environment";
    case DIBS_FROM_FLAG: return "flag";
    }
    return "unknown";
}

dibs_status dibs_duration_parse(const char *text, int64_t *ms, dibs_err *err)
{
    char shown[64];
    int64_t value = clock_duration_parse(text, DIBS_TTL_MAX_MS);

    if (value < 0 || !ms)
        return err_set(
            err, DIBS_INVALID,
            "duration '%s': expected a number with a unit, such as 500ms, 10s, 5m, 2h or 7d, of at "
            "most %lldd",
            text_safe(text ? text : "", shown, sizeof shown), (long long) DIBS_TTL_MAX_MS / 86400000);
    *ms = value;
    return DIBS_OK;
}

/* ---- one parser for each setting ---- */

static dibs_status bad(const char *value, const char *expected, dibs_err *err)
{
    char shown[80];

    return err_set(err, DIBS_INVALID, "'%s' is not %s", text_safe(value, shown, sizeof shown), expected);
}

static dibs_status put_text(char *out, size_t size, const char *value, dibs_err *err)
{
    if (!value[0])
        return err_set(err, DIBS_INVALID, "the value is empty");
    if (!text_copy(out, size, value))
        return err_set(err, DIBS_INVALID, "the value has more than %zu bytes", size - 1);
    return DIBS_OK;
}

static const char *const modes[] = { "fallback", "strict", "mru" };
enum { MODES = sizeof modes / sizeof modes[0] };

static dibs_status put_mode(const char *value, dibs_ledger_mode *out, dibs_err *err)
{
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(value, modes[i]) == 0) {
            *out = (dibs_ledger_mode) i;
            return DIBS_OK;
        }
    return bad(value, "fallback, strict or mru", err);
}

static dibs_status put_bool(const char *value, bool *out, dibs_err *err)
{
    static const char *const yes[] = { "true", "yes", "on", "1" };
    static const char *const no[] = { "false", "no", "off", "0" };

    for (size_t i = 0; i < 4; i++)
        if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
            *out = strcasecmp(value, yes[i]) == 0;
            return DIBS_OK;
        }
    return bad(value, "true or false", err);
}

static dibs_status put_band(const char *value, int32_t *out, dibs_err *err)
{
    if (!wire_band_read(strcmp(value, "0") == 0 ? "off" : value, out))
        return bad(value, "auto, off or a number of ports", err);
    return DIBS_OK;
}

static dibs_status put_duration(const char *value, int64_t low, int64_t high, int64_t *out, dibs_err *err)
{
    int64_t ms = 0;
    dibs_status s = dibs_duration_parse(value, &ms, err);

    if (s != DIBS_OK)
        return s;
    if (ms < low || ms > high)
        return err_set(err, DIBS_INVALID, "'%s' is out of range", value);
    *out = ms;
    return DIBS_OK;
}

/* Store a path. A relative one is refused in a file, and resolved from the working directory in a call. */
static dibs_status put_place(const char *scheme, const char *path, dibs_source source, char *out, size_t size,
                             dibs_err *err)
{
    char whole[DIBS_SETTING_VALUE_MAX + 1];
    AUTO(free_auto) char *here = NULL;
    bool is_whole = path[0] == '/';

    if (!is_whole && (source == DIBS_FROM_SYSTEM || source == DIBS_FROM_USER))
        return bad(path, "the same place from every directory: write its whole path", err);
    if (!is_whole)
        here = getcwd(NULL, 0);
    if (!is_whole && (!here || here[0] != '/'))
        return err_os(err, DIBS_INVALID, here ? ENOENT : errno,
                      "the working directory, which that path begins in");
    int n =
        snprintf(whole, sizeof whole, "%s%s%s%s", scheme, is_whole ? "" : here, is_whole ? "" : "/", path);
    return n > 0 && (size_t) n < sizeof whole
               ? put_text(out, size, whole, err)
               : err_set(err, DIBS_INVALID, "the value has more than %zu bytes", size - 1);
}

static dibs_status put_ledger(const char *value, dibs_source source, char *out, size_t size, dibs_err *err)
{
    if (strcmp(value, "memory:") == 0)
        return put_text(out, size, value, err);
    if (strncmp(value, "etcd://", 7) == 0) {
        dibs_status s = ledger_check(value, err);

        return s == DIBS_OK ? put_text(out, size, value, err) : s;
    }
    if (strncmp(value, "sqlite:", 7) != 0)
        return bad(value, "sqlite:PATH, etcd://HOST:PORT/PREFIX or memory:", err);
    if (value[7] == '\0')
        return err_set(err, DIBS_INVALID, "'sqlite:' needs a path");
    return put_place("sqlite:", value + 7, source, out, size, err);
}

static dibs_status put_socket(const char *value, dibs_source source, char *out, size_t size, dibs_err *err)
{
    if (!value[0] || strcmp(value, "auto") == 0 || strcmp(value, "none") == 0)
        return put_text(out, size, value, err);
    return put_place("", value, source, out, size, err);
}

static dibs_status put_group(const char *value, char *out, size_t size, dibs_err *err)
{
    char probe[DIBS_NAME_PART_MAX + 4];

    if (strchr(value, '/') || strnlen(value, size) >= size)
        return bad(value, "one part of a name (at most 63 bytes, no '/')", err);
    (void) snprintf(probe, sizeof probe, "%s/x", value);
    dibs_status s = dibs_name_check(probe, err);
    return s == DIBS_OK ? put_text(out, size, value, err) : s;
}

enum { MACHINE_MAX = 253 }; /* a Kubernetes node name is a domain name */

/* Store a host name; one that is too long ends in a hash of the whole. */
static dibs_status put_node(const char *value, char *out, size_t size, dibs_err *err)
{
    char shorter[DIBS_NAME_PART_MAX + 1] = "";

    if (strlen(value) > DIBS_NODE_MAX && strlen(value) <= MACHINE_MAX && !strpbrk(value, " /@%~")) {
        name_part_encode(value, "", DIBS_NODE_MAX, shorter);
        value = shorter;
    }
    dibs_status s = ledger_check_node(value, err);

    return s == DIBS_OK ? put_text(out, size, value, err) : s;
}

static dibs_status put_order(const char *value, char *out, size_t size, dibs_err *err)
{
    if (!order_find(value))
        return bad(value, "a known order (stride, dcp-stride, random, lowest)", err);
    return put_text(out, size, value, err);
}

static dibs_status put(dibs_settings *s, dibs_setting which, const char *value, dibs_source source,
                       dibs_err *err)
{
    switch (which) {
    case DIBS_SET_LEDGER: return put_ledger(value, source, s->ledger, sizeof s->ledger, err);
    case DIBS_SET_LEDGER_MODE: return put_mode(value, &s->ledger_mode, err);
    case DIBS_SET_MRU_FILE: return put_text(s->mru_file, sizeof s->mru_file, value, err);
    case DIBS_SET_SOCKET: return put_socket(value, source, s->socket, sizeof s->socket, err);
    case DIBS_SET_SYNC:
        s->is_sync_full = strcmp(value, "full") == 0;
        return s->is_sync_full || strcmp(value, "normal") == 0 ? DIBS_OK : bad(value, "normal or full", err);
    case DIBS_SET_RANGE: return dibs_ranges_parse(value, &s->range, err);
    case DIBS_SET_POOL: return put_text(s->pool, sizeof s->pool, value, err);
    case DIBS_SET_BAND: return put_band(value, &s->band, err);
    case DIBS_SET_ORDER: return put_order(value, s->order, sizeof s->order, err);
    case DIBS_SET_COOLDOWN: return put_duration(value, 0, DIBS_COOLDOWN_MAX_MS, &s->cooldown_ms, err);
    case DIBS_SET_TTL: return put_duration(value, 1, DIBS_TTL_MAX_MS, &s->ttl_ms, err);
    case DIBS_SET_TIMEOUT: return put_duration(value, 1, DIBS_TIMEOUT_MAX_MS, &s->timeout_ms, err);
    case DIBS_SET_ALLOW_EPHEMERAL: return put_bool(value, &s->allow_ephemeral, err);
    case DIBS_SET_ALLOW_BLOCKED: return put_bool(value, &s->allow_blocked, err);
    case DIBS_SET_GROUP: return put_group(value, s->group, sizeof s->group, err);
    case DIBS_SET_NODE: return put_node(value, s->node, sizeof s->node, err);
    case DIBS_SETTING_COUNT: break;
    }
    return err_set(err, DIBS_INVALID, "unknown setting");
}

dibs_status settings_set(dibs_settings *s, dibs_setting which, const char *value, dibs_source source,
                         dibs_err *err)
{
    dibs_status status = put(s, which, value, source, err);

    if (status != DIBS_OK)
        return err_wrap(err, status, "setting %s (%s)", rows[which].name, dibs_source_text(source));
    s->source[which] = source;
    return DIBS_OK;
}

/* ---- sources ---- */

/* Return $XDG_... or a folder below $HOME or, without it, below the home in the user database. */
static bool user_path(const char *variable, const char *below_home, const char *file, char *out, size_t size)
{
    const char *base = getenv(variable);
    const char *home = getenv("HOME");
    bool has_base = base && base[0] == '/';
    struct passwd entry = { 0 };
    struct passwd *found = NULL;
    char text[4096];

    if (!has_base && (!home || !home[0]) && getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 &&
        found)
        home = found->pw_dir;
    if (!has_base && (!home || home[0] != '/'))
        return false;
    int n = has_base ? snprintf(out, size, "%s/dibs/%s", base, file)
                     : snprintf(out, size, "%s/%s/dibs/%s", home, below_home, file);
    return n > 0 && (size_t) n < size;
}

static void set_defaults(dibs_settings *s)
{
    uid_t uid = geteuid();
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char path[DIBS_SETTING_VALUE_MAX - 16];
    /* 20000-32767: registered ports below every common ephemeral range (D21). */
    static const dibs_range range = { 20000, 32767 };

    memset(s, 0, sizeof *s);
    s->range = (dibs_ranges){ .item = { range }, .n = 1 };
    s->band = DIBS_BAND_AUTO;
    s->cooldown_ms = DIBS_COOLDOWN_DEFAULT_MS;
    s->ttl_ms = DIBS_TTL_DEFAULT_MS;
    s->timeout_ms = DIBS_TIMEOUT_DEFAULT_MS;
    (void) text_copy(s->socket, sizeof s->socket, "auto"); /* the one that exists, see remote_find() */
    (void) text_copy(s->pool, sizeof s->pool, "default");
    (void) text_copy(s->order, sizeof s->order, "stride");
    if (uid == 0)
        (void) text_copy(s->ledger, sizeof s->ledger, "sqlite:/var/lib/dibs/ledger.db");
    else if (user_path("XDG_STATE_HOME", ".local/state", "ledger.db", path, sizeof path))
        (void) snprintf(s->ledger, sizeof s->ledger, "sqlite:%s", path);
    if (uid == 0)
        (void) text_copy(s->mru_file, sizeof s->mru_file, "/run/dibs/mru");
    else if (runtime && runtime[0] == '/')
        (void) snprintf(s->mru_file, sizeof s->mru_file, "%.3000s/dibs/mru", runtime);
    else
        (void) snprintf(s->mru_file, sizeof s->mru_file, "/tmp/dibs-%u/mru", (unsigned) uid);
}

static dibs_status take_pair(dibs_settings *s, dibs_source source, const char *key, const char *value,
                             dibs_err *err)
{
    char shown[80];

    for (int i = 0; i < DIBS_SETTING_COUNT; i++)
        if (strcmp(key, rows[i].name) == 0)
            return settings_set(s, (dibs_setting) i, value, source, err);
    return err_set(err, DIBS_INVALID, "there is no setting '%s'; 'dibs --help' lists them",
                   text_safe(key, shown, sizeof shown));
}

dibs_status settings_read_text(dibs_settings *s, dibs_source source, const char *name, const char *text,
                               size_t len, dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    char shown[80];
    dibs_status status = yaml_parse(name, text, len, &yaml, err);

    if (status != DIBS_OK)
        return status;
    const yaml_node *root = yaml_root(yaml, 0);
    if (!root) /* an empty file, or only comments */
        return DIBS_OK;
    if (root->kind != YAML_MAP || yaml_count(yaml) > 1)
        return yaml_error(yaml, NULL, err, "expected lines of the form 'setting: value'");
    for (const yaml_node *key = root->first; key; key = key->next) {
        const yaml_node *value = key->value;

        if (value->kind != YAML_SCALAR || value->is_alias || value->n > DIBS_SETTING_VALUE_MAX)
            return yaml_error(yaml, key, err, "the value of '%s' is not plain text",
                              text_safe(key->text, shown, sizeof shown));
        status = take_pair(s, source, key->text, value->text, err);
        if (status != DIBS_OK)
            return err_wrap(err, status, "%s:%u:%u", yaml_name(yaml), key->line, key->column);
    }
    return DIBS_OK;
}

/* Read a settings file. HOME may be another user's (sudo, a service): skip a file that is not readable. */
static dibs_status read_file(dibs_settings *s, dibs_source source, const char *path, dibs_err *err)
{
    enum { FILE_MAX = 65536 }; /* a page of text is typical */
    AUTO(free_auto) char *text = NULL;
    dibs_err why = { 0 };
    dibs_status status = file_read_text("settings file", path, FILE_MAX, &text, &why);

    if (status == DIBS_OK)
        return settings_read_text(s, source, path, text, strlen(text), err);
    if (why.os_errno == EACCES)
        (void) text_copy(s->unread, sizeof s->unread, path);
    if (why.os_errno == ENOENT || why.os_errno == ENOTDIR || why.os_errno == EACCES)
        return DIBS_OK;
    if (err)
        *err = why;
    return status;
}

static dibs_status read_environment(dibs_settings *s, dibs_err *err)
{
    dibs_status status = DIBS_OK;

    for (int i = 0; i < DIBS_SETTING_COUNT && status == DIBS_OK; i++) {
        char variable[48];

        dibs_setting_env((dibs_setting) i, variable);
        const char *value = getenv(variable);
        if (value && value[0]) /* an empty variable counts as unset */
            status = settings_set(s, (dibs_setting) i, value, DIBS_FROM_ENVIRONMENT, err);
    }
    return status;
}

static dibs_status read_project(dibs_settings *s, const dibs_project_file *project, dibs_err *err)
{
    dibs_status status = DIBS_OK;

    if (!project)
        return DIBS_OK;
    if (!project->dir || project->dir[0] != '/' || (project->n > 0 && !project->settings))
        return err_set(err, DIBS_INVALID, "settings: the manifest's directory or settings are missing");
    if (!text_copy(s->project_dir, sizeof s->project_dir, project->dir) ||
        !text_copy(s->project_group, sizeof s->project_group, project->group ? project->group : ""))
        return err_set(err, DIBS_INVALID, "the manifest's path or group has more than %d bytes",
                       DIBS_PROJECT_MAX);
    for (size_t i = 0; i < project->n && status == DIBS_OK; i++) {
        const dibs_project_setting *p = &project->settings[i];

        if (!p->value || !dibs_setting_is_for_projects(p->setting))
            return err_set(err, DIBS_INVALID,
                           "settings: setting %zu of the manifest is not allowed in a project", i);
        status = settings_set(s, p->setting, p->value, DIBS_FROM_PROJECT, err);
        if (status != DIBS_OK && p->where)
            return err_wrap(err, status, "%s", p->where);
    }
    return status;
}

dibs_status dibs_settings_load(const dibs_flag *flags, size_t n, dibs_settings *out, dibs_err *err)
{
    return dibs_settings_load_project(NULL, flags, n, out, err);
}

dibs_status dibs_settings_load_project(const dibs_project_file *project, const dibs_flag *flags, size_t n,
                                       dibs_settings *out, dibs_err *err)
{
    char path[DIBS_SETTING_VALUE_MAX];
    dibs_settings s;

    if (!out || (n > 0 && !flags))
        return err_set(err, DIBS_INVALID, "settings: an argument is missing");
    for (size_t i = 0; i < n; i++)
        if (!flags[i].value || !is_setting(flags[i].setting))
            return err_set(err, DIBS_INVALID, "settings: flag %zu is no setting, or has no value", i);
    set_defaults(&s);
    dibs_status status = read_file(&s, DIBS_FROM_SYSTEM, "/etc/dibs/dibs.yaml", err);
    if (status == DIBS_OK && user_path("XDG_CONFIG_HOME", ".config", "dibs.yaml", path, sizeof path))
        status = read_file(&s, DIBS_FROM_USER, path, err);
    if (status == DIBS_OK)
        status = read_project(&s, project, err);
    if (status == DIBS_OK)
        status = read_environment(&s, err);
    for (size_t i = 0; i < n && status == DIBS_OK; i++)
        status = settings_set(&s, flags[i].setting, flags[i].value, DIBS_FROM_FLAG, err);
    if (status == DIBS_OK && !s.ledger[0])
        status = err_set(err, DIBS_INVALID,
                         "there is no place for a ledger: set HOME, XDG_STATE_HOME or DIBS_LEDGER");
    if (status == DIBS_OK)
        *out = s;
    return status;
}

void dibs_setting_format(const dibs_settings *s, dibs_setting setting, char out[DIBS_SETTING_VALUE_MAX + 1])
{
    char ranges[DIBS_RANGES_TEXT_MAX + 1];
    char duration[24];
    const char *text = "";

    if (!out)
        return;
    switch (s ? setting : DIBS_SETTING_COUNT) {
    case DIBS_SET_LEDGER: text = s->ledger; break;
    case DIBS_SET_LEDGER_MODE: text = (unsigned) s->ledger_mode < MODES ? modes[s->ledger_mode] : ""; break;
    case DIBS_SET_MRU_FILE: text = s->mru_file; break;
    case DIBS_SET_SOCKET: text = s->socket; break;
    case DIBS_SET_SYNC: text = s->is_sync_full ? "full" : "normal"; break;
    case DIBS_SET_RANGE:
        dibs_ranges_format(&s->range, ranges);
        text = ranges;
        break;
    case DIBS_SET_POOL: text = s->pool; break;
    case DIBS_SET_BAND:
        wire_band_text(s->band, duration);
        text = duration;
        break;
    case DIBS_SET_ORDER: text = s->order; break;
    case DIBS_SET_COOLDOWN:
    case DIBS_SET_TTL:
    case DIBS_SET_TIMEOUT:
        clock_duration_format(setting == DIBS_SET_COOLDOWN ? s->cooldown_ms
                              : setting == DIBS_SET_TTL    ? s->ttl_ms
                                                           : s->timeout_ms,
                              duration);
        text = duration;
        break;
    case DIBS_SET_ALLOW_EPHEMERAL: text = s->allow_ephemeral ? "true" : "false"; break;
    case DIBS_SET_ALLOW_BLOCKED: text = s->allow_blocked ? "true" : "false"; break;
    case DIBS_SET_GROUP: text = s->group; break;
    case DIBS_SET_NODE: text = s->node; break;
    case DIBS_SETTING_COUNT: break;
    }
    (void) text_copy(out, DIBS_SETTING_VALUE_MAX + 1, text);
}
