/* SPDX-License-Identifier: MIT */
#include "cli/parse.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/suggest.h"

#include "base/banned.h"

struct parser {
    struct cli *cli;
    int argc;
    char **argv;
    int at;
    int n_args;
    bool is_over; /* only arguments follow */
};

const struct cli_cmd *cli_find_command(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!strcmp(cli_commands[i]->name, name))
            return cli_commands[i];
    }
    return NULL;
}

dibs_status cli_no_command(const char *name, dibs_err *err)
{
    struct suggest best = { .wanted = name };

    for (size_t i = 0; cli_commands[i]; i++) {
        if (!(cli_commands[i]->flags & CLI_HIDDEN))
            suggest_offer(&best, cli_commands[i]->name);
    }
    if (best.name)
        return err_set(err, DIBS_INVALID, "unknown command '%.64s'; did you mean '%s'?", name, best.name);
    return err_set(err, DIBS_INVALID, "unknown command '%.64s'; 'dibs --help' lists them", name);
}

static bool is_called(const char *option, const char *name, size_t len)
{
    return option && strlen(option) == len && !memcmp(option, name, len);
}

static const struct cli_opt *in_list(const struct cli_opt *opts, const char *name, size_t len)
{
    for (size_t i = 0; opts && opts[i].name; i++) {
        if (is_called(opts[i].name, name, len) || is_called(opts[i].alias, name, len))
            return &opts[i];
    }
    return NULL;
}

static const struct cli_opt *by_letter(const struct cli_opt *opts, char letter)
{
    for (size_t i = 0; opts && opts[i].name; i++) {
        if (opts[i].letter == letter)
            return &opts[i];
    }
    return NULL;
}

bool cli_hides(const struct cli_cmd *cmd, const struct cli_opt *global)
{
    return cmd && in_list(cmd->opts, global->name, strlen(global->name));
}

const struct cli_opt *cli_find_option(const struct cli_cmd *cmd, const char *name, size_t len)
{
    const struct cli_opt *opt = in_list(cmd ? cmd->opts : cli_top_opts, name, len);

    return opt ? opt : in_list(cli_global_opts, name, len);
}

const struct cli_opt *cli_find_letter(const struct cli_cmd *cmd, char letter)
{
    const struct cli_opt *opt = by_letter(cmd ? cmd->opts : cli_top_opts, letter);

    return opt ? opt : by_letter(cli_global_opts, letter);
}

static void offer_opts(struct suggest *best, const struct cli_opt *opts)
{
    for (size_t i = 0; opts && opts[i].name; i++)
        suggest_offer(best, opts[i].name);
}

static dibs_status unknown_option(const struct cli *cli, const char *arg, size_t len, dibs_err *err)
{
    char word[SUGGEST_MAX + 3] = "";
    struct suggest best = { .wanted = word + 2 };

    if (len <= SUGGEST_MAX + 2) { /* "--" and the name, without "=value" */
        memcpy(word, arg, len);
        if (!strncmp(word, "--", 2)) {
            offer_opts(&best, cli->cmd ? cli->cmd->opts : cli_top_opts);
            offer_opts(&best, cli_global_opts);
        }
        arg = word;
    }
    if (best.name)
        return err_set(err, DIBS_INVALID, "unknown option '%.64s'; did you mean '--%s'?", arg, best.name);
    return err_set(err, DIBS_INVALID, "unknown option '%.64s'; see 'dibs %s%s--help'", arg,
                   cli->cmd ? cli->cmd->name : "", cli->cmd ? " " : "");
}

static dibs_status give(struct cli *cli, const struct cli_opt *opt, const char *value, dibs_err *err)
{
    if (value && !*value)
        return err_set(err, DIBS_INVALID, "option '--%s' needs a value that is not empty", opt->name);
    for (size_t i = 0; !opt->is_repeatable && i < cli->n_given; i++) {
        if (cli->given[i].opt == opt)
            return err_set(err, DIBS_INVALID, "option '--%s' is given twice", opt->name);
    }
    if (cli->n_given == CLI_OPTIONS_MAX)
        return err_set(err, DIBS_INVALID, "more than %d options", CLI_OPTIONS_MAX);
    cli->given[cli->n_given++] = (struct cli_given){ .opt = opt, .value = value };
    return DIBS_OK;
}

static dibs_status give_next(struct parser *p, const struct cli_opt *opt, dibs_err *err)
{
    if (p->at + 1 >= p->argc)
        return err_set(err, DIBS_INVALID, "option '--%s' needs a value: %s", opt->name, opt->arg);
    p->at++;
    return give(p->cli, opt, p->argv[p->at], err);
}

static dibs_status take_long(struct parser *p, const char *arg, dibs_err *err)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals ? (size_t) (equals - name) : strlen(name);
    const struct cli_opt *opt = cli_find_option(p->cli->cmd, name, len);

    if (!opt)
        return unknown_option(p->cli, arg, len + 2, err);
    if (!opt->arg && equals && strcmp(equals, "=true") == 0) /* as Go's programs write a switch */
        equals = NULL;
    if (!opt->arg && equals)
        return err_set(err, DIBS_INVALID, "option '--%s' takes no value", opt->name);
    if (opt->arg && !equals)
        return give_next(p, opt, err);
    return give(p->cli, opt, equals ? equals + 1 : NULL, err);
}

/* Parse "-q", "-qh", "-n 3", "-n3", "-qn3". */
static dibs_status take_short(struct parser *p, const char *arg, dibs_err *err)
{
    for (const char *c = arg + 1; *c; c++) {
        const struct cli_opt *opt = cli_find_letter(p->cli->cmd, *c);
        char one[] = { '-', *c, '\0' };

        if (!opt)
            return unknown_option(p->cli, one, 2, err);
        if (opt->arg)
            return c[1] ? give(p->cli, opt, c + 1, err) : give_next(p, opt, err);
        dibs_status s = give(p->cli, opt, NULL, err);
        if (s)
            return s;
    }
    return DIBS_OK;
}

static dibs_status take_argument(struct parser *p, char *arg, dibs_err *err)
{
    struct cli *cli = p->cli;

    if (!cli->cmd) {
        cli->cmd = cli_find_command(arg);
        return cli->cmd ? DIBS_OK : cli_no_command(arg, err);
    }
    if (cli->cmd->flags & CLI_STOP)
        p->is_over = true; /* the words that follow belong to another program */
    else if (!*arg)
        return err_set(err, DIBS_INVALID, "an argument is empty");
    cli->argv[p->n_args++] = arg;
    return DIBS_OK;
}

static dibs_status take(struct parser *p, dibs_err *err)
{
    char *arg = p->argv[p->at];

    if (p->is_over || arg[0] != '-' || !arg[1])
        return take_argument(p, arg, err);
    if (!strcmp(arg, "--")) {
        p->is_over = true;
        p->cli->is_dashed = true;
        return DIBS_OK;
    }
    return arg[1] == '-' ? take_long(p, arg, err) : take_short(p, arg, err);
}

static dibs_status check_count(const struct cli *cli, dibs_err *err)
{
    const struct cli_cmd *cmd = cli->cmd;

    if (cli->argc < cmd->min_args)
        return err_set(err, DIBS_INVALID, "too few arguments; usage: dibs %s %s", cmd->name, cmd->args);
    if (cmd->max_args >= 0 && cli->argc > cmd->max_args)
        return err_set(err, DIBS_INVALID, "unexpected argument '%.64s'", cli->argv[cmd->max_args]);
    return DIBS_OK;
}

static dibs_status parse(struct cli *cli, int argc, char **argv, dibs_err *err)
{
    struct parser p = { .cli = cli, .argc = argc, .argv = argv, .at = 1 };

    cli->argv = argv; /* arguments move forward over words that were read already */
    for (; p.at < argc; p.at++) {
        dibs_status s = take(&p, err);
        if (s)
            return s;
    }
    cli->argc = p.n_args;
    cli->argv[p.n_args] = NULL;
    cli->json = cli_has(cli, "json");
    cli->quiet = cli_has(cli, "quiet");
    return cli->cmd && !cli_has(cli, "help") ? check_count(cli, err) : DIBS_OK;
}

dibs_status cli_parse(struct cli *cli, int argc, char **argv, dibs_err *err)
{
    if (argc < 1) /* a caller may execute dibs without any argument */
        return DIBS_OK;
    dibs_status s = parse(cli, argc, argv, err);

    return s && cli->cmd ? err_wrap(err, s, "%s", cli->cmd->name) : s;
}

static const struct cli_opt *named(const struct cli *cli, const char *name)
{
    size_t len = strlen(name);
    const struct cli_opt *opt = cli_find_option(cli->cmd, name, len);

    return opt ? opt : in_list(cli_top_opts, name, len);
}

/* Return the i-th occurrence of an option, or NULL. */
static const struct cli_given *find_given(const struct cli *cli, const char *name, size_t i)
{
    const struct cli_opt *opt = named(cli, name);

    for (size_t k = 0; opt && k < cli->n_given; k++) {
        if (cli->given[k].opt == opt && i-- == 0)
            return &cli->given[k];
    }
    return NULL;
}

const char *cli_value_at(const struct cli *cli, const char *name, size_t i)
{
    const struct cli_given *given = find_given(cli, name, i);

    return given ? given->value : NULL;
}

const char *cli_value(const struct cli *cli, const char *name)
{
    return cli_value_at(cli, name, 0);
}

bool cli_has(const struct cli *cli, const char *name)
{
    return find_given(cli, name, 0) != NULL;
}

dibs_status cli_number_from(const struct cli *cli, const char *name, int64_t least, int64_t most,
                            int64_t *out, dibs_err *err)
{
    const char *text = cli_value(cli, name);
    uint64_t value = 0;

    if (!text)
        return DIBS_OK;
    if (!text_number(text, strlen(text), (uint64_t) most, &value) || value < (uint64_t) least)
        return err_set(err, DIBS_INVALID, "--%s: '%.64s' is not a whole number from %" PRId64 " to %" PRId64,
                       name, text, least, most);
    *out = (int64_t) value;
    return DIBS_OK;
}

size_t cli_flags(const struct cli *cli, dibs_flag out[DIBS_SETTING_COUNT])
{
    size_t n = 0;

    for (size_t k = 0; k < cli->n_given; k++) {
        dibs_setting setting = cli_setting_of(cli->given[k].opt);

        if (setting < DIBS_SETTING_COUNT && n < DIBS_SETTING_COUNT)
            out[n++] = (dibs_flag){ setting, cli->given[k].value ? cli->given[k].value : "true" };
    }
    return n;
}

/* ---- verbs ---- */

static bool has_option(const struct cli_verb *verb, const char *name)
{
    for (const char *const *its = verb->options; its && *its; its++)
        if (strcmp(*its, name) == 0)
            return true;
    return false;
}

/* Refuse an option of another verb, which would be ignored silently. */
static dibs_status check_verb(const struct cli *cli, const struct cli_verb *verbs,
                              const struct cli_verb *verb, dibs_err *err)
{
    int n_args = cli->argc ? cli->argc - 1 : 0;

    for (const struct cli_opt *opt = cli->cmd->opts; opt->name; opt++) {
        const struct cli_verb *owner = verbs;

        if (!cli_has(cli, opt->name) || has_option(verb, opt->name))
            continue;
        while (owner[1].name && !has_option(owner, opt->name)) /* each option belongs to some verb */
            owner++;
        return err_set(err, DIBS_INVALID, "`dibs %s %s` has no option --%s; `dibs %s %s` has it",
                       cli->cmd->name, verb->name, opt->name, cli->cmd->name, owner->name);
    }
    if (n_args == 0 && verb->arg && verb->arg[0] != '[')
        return err_set(err, DIBS_INVALID, "`dibs %s %s` needs %s", cli->cmd->name, verb->name, verb->arg);
    if (n_args > 0 && !verb->arg)
        return err_set(err, DIBS_INVALID, "`dibs %s %s` takes no argument", cli->cmd->name, verb->name);
    return DIBS_OK;
}

dibs_status cli_run_verb(struct cli *cli, const struct cli_verb *verbs, dibs_err *err)
{
    const char *word = cli->argc ? cli->argv[0] : verbs[0].name;

    for (const struct cli_verb *verb = verbs; verb->name; verb++)
        if (strcmp(verb->name, word) == 0) {
            dibs_status s = check_verb(cli, verbs, verb, err);

            return s ? s : verb->run(cli, err);
        }
    return err_set(err, DIBS_INVALID, "'%.64s' is none of: %s", word, cli->cmd->args_words);
}
