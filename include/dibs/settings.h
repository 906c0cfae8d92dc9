/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SETTINGS_H
#define DIBS_SETTINGS_H
/* Settings: flags > environment > project's manifest > user file > /etc/dibs/dibs.yaml > defaults, parsed and
 * checked once into one value, which then never changes (D16). */
#include "dibs/claim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The behaviour when the ledger is missing, unwritable or full. A locked, damaged or newer ledger is an error
 * in every mode but MRU, which never opens it. */
typedef enum dibs_ledger_mode {
    DIBS_LEDGER_FALLBACK = 0, /* unnamed random ports from a small separate file, marked degraded */
    DIBS_LEDGER_STRICT,       /* an error */
    DIBS_LEDGER_MRU           /* as FALLBACK, always */
} dibs_ledger_mode;

/* One row for each setting: identifier, name (flag and file key), meaning. Its environment variable is DIBS_
 * and the name in capitals, with '_' for '-'. */
#define DIBS_SETTING_MAP(X)                                                                   \
    X(LEDGER, "ledger", "where claims live: sqlite:PATH, etcd://HOST:PORT or memory:")        \
    X(LEDGER_MODE, "ledger-mode", "without a ledger: fallback, strict or mru")                \
    X(MRU_FILE, "mru-file", "file of the fallback allocator")                                 \
    X(SOCKET, "socket", "daemon to ask: its path, auto or none")                              \
    X(SYNC, "sync", "normal, or full to make every claim survive power loss")                 \
    X(RANGE, "range", "ports of the default pool")                                            \
    X(POOL, "pool", "pool used when none is named")                                           \
    X(BAND, "band", "ports kept for static use: auto, off or a number; overrides the pool's") \
    X(ORDER, "order", "order of candidates; overrides the pool's")                            \
    X(COOLDOWN, "cooldown", "rest of a released port; overrides the pool's")                  \
    X(TTL, "ttl", "lease of a claim without a holder")                                        \
    X(TIMEOUT, "timeout", "the longest that one call may take")                               \
    X(ALLOW_EPHEMERAL, "allow-ephemeral", "true: dynamic choice may use the ephemeral range") \
    X(ALLOW_BLOCKED, "allow-blocked", "true: choose also ports that browsers refuse")         \
    X(GROUP, "group", "group that relative names belong to")                                  \
    X(NODE, "node", "what this host is called in a cluster")

typedef enum dibs_setting {
#define X(id, name, summary) DIBS_SET_##id,
    DIBS_SETTING_MAP(X)
#undef X
        DIBS_SETTING_COUNT
} dibs_setting;

typedef enum dibs_source {
    DIBS_FROM_DEFAULT = 0,
    DIBS_FROM_SYSTEM,  /* /etc/dibs/dibs.yaml */
    DIBS_FROM_USER,    /* $XDG_CONFIG_HOME/dibs/dibs.yaml */
    DIBS_FROM_PROJECT, /* the project's manifest */
    DIBS_FROM_ENVIRONMENT,
    DIBS_FROM_FLAG,
} dibs_source;

#define DIBS_SETTING_VALUE_MAX 4095

typedef struct dibs_settings {
    char ledger[DIBS_SETTING_VALUE_MAX + 1];
    char mru_file[DIBS_SETTING_VALUE_MAX + 1];
    char socket[DIBS_SETTING_VALUE_MAX + 1];
    dibs_ledger_mode ledger_mode;
    bool is_sync_full;
    dibs_ranges range;
    char pool[DIBS_POOL_NAME_MAX + 1];
    int32_t band; /* used when source[DIBS_SET_BAND] is not the default */
    char order[32];
    int64_t cooldown_ms;
    int64_t ttl_ms;
    int64_t timeout_ms;
    bool allow_ephemeral;
    bool allow_blocked;
    char group[DIBS_NAME_PART_MAX + 1];       /* empty: by project directory */
    char node[DIBS_NODE_MAX + 1];             /* empty: the kernel's host name */
    char project_dir[DIBS_PROJECT_MAX + 1];   /* directory of the manifest; empty: none */
    char project_group[DIBS_PROJECT_MAX + 1]; /* its name for the project; empty: its directory's */
    char unread[DIBS_SETTING_VALUE_MAX + 1];  /* a settings file that the user may not read; empty: none */
    dibs_source source[DIBS_SETTING_COUNT];
} dibs_settings;

typedef struct dibs_flag {
    dibs_setting setting;
    const char *value;
} dibs_flag;

/* Functions without a status accept NULL and invalid values: they return NULL, "unknown" or "". */

/* Load the settings; `flags` override every other source. A file that the user may not read is skipped, and
 * named in `unread`. INVALID names the setting, its source and the value. */
DIBS_API DIBS_MUST_USE dibs_status dibs_settings_load(const dibs_flag *flags, size_t n, dibs_settings *out,
                                                      dibs_err *err);
/* Settings of a project's manifest. */
typedef struct dibs_project_setting {
    dibs_setting setting; /* not LEDGER, LEDGER_MODE, MRU_FILE, SOCKET, SYNC, GROUP or NODE: INVALID
                           */
    const char *value;
    const char *where; /* "dibs.yaml:3:1", for messages */
} dibs_project_setting;
typedef struct dibs_project_file {
    const char *dir;   /* its directory, as an absolute path */
    const char *group; /* its name for the project; NULL: the directory's */
    const dibs_project_setting *settings;
    size_t n;
} dibs_project_file;

/* The same with a manifest (NULL: none): below environment and flags, above the user's own file. */
DIBS_API DIBS_MUST_USE dibs_status dibs_settings_load_project(const dibs_project_file *project,
                                                              const dibs_flag *flags, size_t n,
                                                              dibs_settings *out, dibs_err *err);
/* Return whether a project's manifest may contain this setting. */
DIBS_API bool dibs_setting_is_for_projects(dibs_setting setting);
DIBS_API const char *dibs_setting_name(dibs_setting setting);
DIBS_API const char *dibs_setting_summary(dibs_setting setting);
/* Write "DIBS_LEDGER_MODE". */
DIBS_API void dibs_setting_env(dibs_setting setting, char out[48]);
DIBS_API const char *dibs_source_text(dibs_source source);
/* Write the value as it would be in a file. */
DIBS_API void dibs_setting_format(const dibs_settings *settings, dibs_setting setting,
                                  char out[DIBS_SETTING_VALUE_MAX + 1]);

/* Parse "500ms", "10s", "5m", "2h", "7d". INVALID: a number without a unit. */
DIBS_API DIBS_MUST_USE dibs_status dibs_duration_parse(const char *text, int64_t *ms, dibs_err *err);

/* Check an absolute name: 1 to 5 parts with '/' between them, or a sixth that is a number (see dibs_drop).
 * INVALID: empty parts, "." and "..", control characters, blanks, broken UTF-8, only a number. */
DIBS_API DIBS_MUST_USE dibs_status dibs_name_check(const char *name, dibs_err *err);

/* The project of a directory: that of its manifest (settings->project_dir), else the nearest directory upward
 * that holds `.git`, else the directory itself. The group is its name, with "@branch" when a branch is
 * checked out. A directory with names in the ledger keeps their group (dibs_name_locate). */
typedef struct dibs_project {
    char dir[DIBS_PROJECT_MAX + 1];
    char group[DIBS_NAME_PART_MAX + 1];
    bool is_marked; /* a manifest, `.git` or a named group makes it one; false: it is any directory */
} dibs_project;
/* Find the project of `dir` (NULL: the working directory). `settings->group` (settings may be NULL) overrides
 * it, and has no directory. INVALID: no such directory, or its path is longer than DIBS_PROJECT_MAX. */
DIBS_API DIBS_MUST_USE dibs_status dibs_project_find(const dibs_settings *settings, const char *dir,
                                                     dibs_project *out, dibs_err *err);
/* Write and check the absolute name: "web" in group "shop@main" is "shop@main/web"; "/web" is "web". */
DIBS_API DIBS_MUST_USE dibs_status dibs_name_resolve(const dibs_project *project, const char *text,
                                                     char out[DIBS_NAME_MAX + 1], dibs_err *err);

#ifdef __cplusplus
}
#endif
#endif
