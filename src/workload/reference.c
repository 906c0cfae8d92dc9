/* SPDX-License-Identifier: MIT */
/* Parse references, and check and derive names of variables. */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "workload/workload.h"

#include "base/banned.h"

#define FORM "ROLE.PORT or ROLE.COMPONENT.PORT, with [INDEX] after role or component"

enum { PARTS_MAX = 3, TEXT_MAX = PARTS_MAX * (WORKLOAD_NAME_MAX + 8) };

/* "name" or "name[12]" */
struct part {
    char *name;
    int32_t index; /* -1: none */
};

/* Parse and remove the index. Return the fault, or NULL. */
static const char *take_part(char *text, struct part *out)
{
    char *bracket = strpbrk(text, "[]");
    uint64_t index = 0;

    *out = (struct part){ .name = text, .index = -1 };
    if (bracket == text || !*text)
        return "a part is empty";
    if (!bracket)
        return NULL;
    if (*bracket == ']')
        return "']' has no '['";
    size_t digits = strspn(bracket + 1, "0123456789");
    if (bracket[digits + 1] != ']')
        return "an index is a number in brackets";
    if (bracket[digits + 2])
        return "something stands behind an index";
    if (digits == 0 || (digits > 1 && bracket[1] == '0'))
        return "an index is a number without leading zeros";
    if (!text_number(bracket + 1, digits, WORKLOAD_INSTANCES_MAX - 1, &index))
        return "an index is too large";
    *bracket = '\0';
    out->index = (int32_t) index;
    return NULL;
}

static const char *take_parts(char *text, struct part parts[PARTS_MAX], size_t *n)
{
    for (*n = 0; text;) {
        if (*n == PARTS_MAX)
            return "it has more than three parts";
        const char *fault = take_part(strsep(&text, "."), &parts[(*n)++]);
        if (fault)
            return fault;
    }
    if (*n < 2)
        return "it has only one part";
    return parts[*n - 1].index >= 0 ? "a port has no index" : NULL;
}

const char *workload_reference_cut(char *text, struct workload_reference *out)
{
    struct part parts[PARTS_MAX] = { 0 };
    size_t n = 0;
    const char *fault = *text ? take_parts(text, parts, &n) : "it is empty";

    if (fault)
        return fault;
    out->role = parts[0].name;
    out->instance = parts[0].index;
    out->component = n == PARTS_MAX ? parts[1].name : NULL;
    out->pod = n == PARTS_MAX ? parts[1].index : -1;
    out->port = parts[n - 1].name;
    return NULL;
}

dibs_status workload_reference_parse(struct workload_group *group, const char *text,
                                     struct workload_reference *out, dibs_err *err)
{
    bool is_short = strnlen(text, TEXT_MAX + 1) <= TEXT_MAX;
    char *copy = is_short ? workload_text(group, text) : NULL;

    if (is_short && !copy)
        return err_set(err, DIBS_FAILURE, "out of memory");
    const char *fault = is_short ? workload_reference_cut(copy, out) : "it is too long";
    if (fault)
        return err_set(err, DIBS_INVALID, "reference '%.80s': %s; expected " FORM, text, fault);
    return DIBS_OK;
}

bool workload_is_env_name(const char *env)
{
    const char *c = env;

    while (*c == '_' || isalpha((unsigned char) *c) || (c > env && isdigit((unsigned char) *c)))
        c++;
    return c > env && !*c;
}

const char *workload_env_danger(const char *env)
{
    static const struct {
        const char *reader;
        const char *names; /* "LD_*": all names with that prefix */
    } rows[] = {
        { "dibs itself", "DIBS_*" },
        { "the dynamic linker", "LD_*" },
        { "libc", "GLIBC_TUNABLES GCONV_PATH LOCPATH" },
        { "almost every program", "HOME SHELL TMPDIR USER LOGNAME TERM TZ LANG LC_* POSIXLY_CORRECT" },
        { "every shell", "PATH IFS ENV CDPATH PS4 PWD OLDPWD OPTIND PPID SHLVL" },
        { "bash", "BASH_* SHELLOPTS BASHOPTS PROMPT_COMMAND TMOUT UID EUID" },
        { "zsh", "GID EGID USERNAME FPATH ZDOTDIR argv path cdpath fpath status history pipestatus" },
        { "fish", "FISH_VERSION fish_* version hostname umask" },
        { "Node", "NODE_OPTIONS NODE_PATH" },
        { "Python", "PYTHONPATH PYTHONHOME PYTHONSTARTUP" },
        { "Perl", "PERL5LIB PERL5OPT" },
        { "Ruby", "RUBYLIB RUBYOPT" },
        { "Java", "JAVA_TOOL_OPTIONS CLASSPATH" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *name = rows[i].names; *name; name += strspn(name, " ")) {
            size_t len = strcspn(name, " ");
            bool is_prefix = name[len - 1] == '*';

            if (strncmp(env, name, len - is_prefix) == 0 && (is_prefix || env[len] == '\0'))
                return rows[i].reader;
            name += len;
        }
    return NULL;
}

void workload_port_env(const char *name, char *out, size_t size)
{
    size_t space = size - sizeof "_PORT";
    size_t used = 0;

    if (isdigit((unsigned char) *name) && space > 0)
        out[used++] = '_';
    for (const char *c = name; *c && used < space; c++)
        out[used++] = (char) (isalnum((unsigned char) *c) ? toupper((unsigned char) *c) : '_');
    memcpy(out + used, "_PORT", sizeof "_PORT");
}
