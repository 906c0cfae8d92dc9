/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "cli/claim_options.h"
#include "cli/file.h"
#include "cli/manifest.h"
#include "cli/target.h"
#include "workload/template.h"

#include "base/banned.h"

/* A name in the template, listed once. */
struct named {
    const char *typed; /* as in the template; "": another port of a block */
    char name[DIBS_NAME_MAX + 1];
    dibs_request request;
    size_t at; /* index of its claim; two spellings of one name share a claim */
};

/* A variable of a role in the template: "web/DATABASE_URL". */
struct role_variable {
    const char *typed;    /* as in the template */
    const char *variable; /* behind the last slash of `typed` */
    struct workload_pod pod;
    struct workload_needs needs;
    char *text; /* owned; NULL before the ports are known */
};

struct rendering {
    struct cli *cli;
    const char *source;
    struct template template;
    const struct workload_group *group; /* NULL: no manifest */
    struct named *names;
    size_t n, max;
    struct role_variable *variables;
    size_t n_variables, max_variables;
    dibs_claim *claims;
    size_t n_claims;
};

static void rendering_free(struct rendering *r)
{
    template_free(&r->template);
    for (size_t i = 0; i < r->n_variables; i++) {
        workload_needs_free(&r->variables[i].needs);
        free(r->variables[i].text);
    }
    free(r->variables);
    free(r->names);
    free(r->claims);
}

static bool is_name(const struct template_piece *piece)
{
    return piece->kind == TEMPLATE_PORT || piece->kind == TEMPLATE_ADDRESS;
}

static size_t find(const struct rendering *r, const char *typed)
{
    size_t i = 0;

    while (i < r->n && strcmp(r->names[i].typed, typed) != 0)
        i++;
    return i;
}

static dibs_status add(struct rendering *r, const struct named *named, dibs_err *err)
{
    size_t same = 0;

    if (!grow((void **) &r->names, r->n, &r->max, sizeof *r->names))
        return err_set(err, DIBS_FAILURE, "out of memory");
    while (same < r->n && strcmp(r->names[same].name, named->name) != 0)
        same++;
    r->names[r->n] = *named;
    r->names[r->n].at = same < r->n ? r->names[same].at : r->n_claims++;
    r->n++;
    return DIBS_OK;
}

/* Request a port of the manifest. All ports of a block are requested, so that they stay a block. */
static dibs_status want_need(struct rendering *r, const char *typed, struct workload_need need, dibs_err *err)
{
    uint32_t meant = need.number;
    uint32_t n = need.port->is_contiguous ? need.port->count : 1;
    dibs_status s = DIBS_OK;

    for (uint32_t i = 0; i < n && s == DIBS_OK; i++) {
        need.number = n > 1 ? i : meant;
        struct named named = { .typed = need.number == meant ? typed : "",
                               .request = workload_request(r->group, &need) };
        workload_claim_name(r->group, &need.pod, need.port, need.number, named.name);
        s = add(r, &named, err);
    }
    return s;
}

/* Request any other name, as `dibs get` does. */
static dibs_status want_name(struct rendering *r, const char *typed, dibs_err *err)
{
    struct named named = { .typed = typed, .request = { .keep = true, .is_lookup = true } };
    dibs_status s = cli_claim_name(r->cli, typed, named.name, &named.request.project, err);

    return s == DIBS_OK ? add(r, &named, err) : s;
}

static dibs_status want(struct rendering *r, const char *typed, dibs_err *err)
{
    struct workload_need need;
    bool is_found = false;
    dibs_status s = cli_manifest_need(r->cli, typed, &need, &is_found, err);

    if (s != DIBS_OK)
        return s;
    return is_found ? want_need(r, typed, need, err) : want_name(r, typed, err);
}

static struct role_variable *find_variable(const struct rendering *r, const char *typed)
{
    for (size_t i = 0; i < r->n_variables; i++)
        if (strcmp(r->variables[i].typed, typed) == 0)
            return &r->variables[i];
    return NULL;
}

/* Return the index of the variable among the pod's values; their number: it has none of that name. */
static size_t value_index(const struct workload_component *component, const char *variable)
{
    size_t i = 0;

    for (size_t k = 0; k < component->n_ports; k++, i++)
        if (strcmp(component->ports[k].env, variable) == 0)
            return i;
    for (size_t k = 0; k < component->n_references; k++, i++)
        if (strcmp(component->references[k].env, variable) == 0)
            return i;
    for (size_t k = 0; k < component->n_variables; k++, i++)
        if (strcmp(component->variables[k].env, variable) == 0)
            return i;
    return i;
}

/* Request the ports that a variable of a role needs. */
static dibs_status want_variable(struct rendering *r, const char *typed, dibs_err *err)
{
    char pod[TEMPLATE_WORD_MAX + 1];
    dibs_status s = cli_need_manifest(r->cli, err);

    if (s == DIBS_OK &&
        !grow((void **) &r->variables, r->n_variables, &r->max_variables, sizeof *r->variables))
        s = err_set(err, DIBS_FAILURE, "out of memory");
    if (s != DIBS_OK)
        return s;
    struct role_variable *v = &r->variables[r->n_variables++];
    *v = (struct role_variable){ .typed = typed, .variable = strrchr(typed, '/') + 1 };
    (void) snprintf(pod, sizeof pod, "%.*s", (int) (v->variable - 1 - typed), typed);
    s = workload_pod_parse(r->group, pod, &v->pod, err);
    if (s == DIBS_OK && value_index(v->pod.component, v->variable) == workload_n_values(v->pod.component))
        s = err_set(err, DIBS_NOT_FOUND, "role '%.80s' has no variable '%.80s'", v->pod.role->name,
                    v->variable);
    if (s == DIBS_OK)
        s = workload_needs_of(r->group, &v->pod, &v->needs, err);
    for (size_t i = 0; i < v->needs.n && s == DIBS_OK; i++)
        if (v->needs.all[i].number == 0 || !v->needs.all[i].port->is_contiguous)
            s = want_need(r, "", v->needs.all[i], err);
    return s;
}

/* Write the texts of the roles' variables with the claimed ports. */
static dibs_status fill_variables(struct rendering *r, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < r->n_variables && s == DIBS_OK; i++) {
        struct role_variable *v = &r->variables[i];
        AUTO(free_auto) uint16_t *ports = calloc(v->needs.n + 1, sizeof *ports);
        AUTO(free_auto) struct workload_value *values = NULL;

        if (!ports)
            return err_set(err, DIBS_FAILURE, "out of memory");
        for (size_t k = 0; k < v->needs.n; k++)
            for (size_t n = 0; n < r->n; n++)
                if (strcmp(r->names[n].name, v->needs.all[k].name) == 0)
                    ports[k] = r->claims[r->names[n].at].port;
        s = workload_values(r->group, &v->pod, &v->needs, ports, &values, err);
        if (s == DIBS_OK)
            v->text = strdup(values[value_index(v->pod.component, v->variable)].text);
        if (s == DIBS_OK && !v->text)
            s = err_set(err, DIBS_FAILURE, "out of memory");
    }
    return s;
}

static dibs_status claim(struct rendering *r, dibs_err *err)
{
    AUTO(free_auto) dibs_request *requests = calloc(r->n_claims + 1, sizeof *requests);
    const dibs_batch batch = { .requests = requests, .n = r->n_claims };

    r->claims = calloc(r->n_claims + 1, sizeof *r->claims);
    if (!requests || !r->claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = r->n; i-- > 0;) { /* the first spelling wins */
        struct named *named = &r->names[i];

        requests[named->at] = named->request;
        requests[named->at].name = named->name;
    }
    dibs_status s = dibs_claim_ports(r->cli->handle, &batch, r->claims, err);
    return r->group ? workload_advise(r->group, s, err) : s;
}

static dibs_status collect(struct rendering *r, dibs_err *err)
{
    for (size_t i = 0; i < r->template.n; i++) {
        const struct template_piece *piece = &r->template.pieces[i];
        dibs_status s = DIBS_OK;

        bool is_env = piece->kind == TEMPLATE_ENV;

        if (is_env && strchr(piece->text, '/')) /* no shell could set such a variable */
            s = find_variable(r, piece->text) ? DIBS_OK : want_variable(r, piece->text, err);
        else if (is_env && !getenv(piece->text))
            s = err_set(err, DIBS_INVALID, "environment variable '%.200s' is not set", piece->text);
        if (is_name(piece) && find(r, piece->text) == r->n)
            s = want(r, piece->text, err);
        if (s != DIBS_OK)
            return err_wrap(err, s, "%.200s:%u:%u", r->source, piece->line, piece->column);
    }
    return DIBS_OK;
}

/* Write the address for a client: localhost for the wildcard, IPv6 in brackets because a port follows. */
static void put_address(const dibs_claim *claim, FILE *to)
{
    char text[CLI_ADDRESS_BYTES] = "localhost";

    if (claim->n_bindings == 1 && !dibs_address_is_wildcard(&claim->bindings[0].address))
        cli_address(&claim->bindings[0].address, text);
    (void) fputs(text, to);
}

static void put_variable(const struct rendering *r, const char *name, FILE *to)
{
    const struct role_variable *v = find_variable(r, name);

    (void) fputs(v ? v->text : getenv(name), to);
}

static const dibs_claim *claim_of(const struct rendering *r, const struct template_piece *piece)
{
    return &r->claims[r->names[find(r, piece->text)].at];
}

static dibs_status fill(const struct rendering *r, char **out, size_t *len, dibs_err *err)
{
    FILE *to = open_memstream(out, len);

    if (!to)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < r->template.n; i++) {
        const struct template_piece *piece = &r->template.pieces[i];

        switch (piece->kind) {
        case TEMPLATE_TEXT: (void) fwrite(piece->text, 1, piece->n, to); break;
        case TEMPLATE_PORT: (void) fprintf(to, "%u", claim_of(r, piece)->port); break;
        case TEMPLATE_ADDRESS: put_address(claim_of(r, piece), to); break;
        case TEMPLATE_ENV: put_variable(r, piece->text, to); break;
        }
    }
    return fclose(to) == 0 ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

static dibs_status write_out(struct rendering *r, dibs_err *err)
{
    const char *path = cli_value(r->cli, "output");
    AUTO(free_auto) char *text = NULL;
    size_t len = 0;
    dibs_status s = fill_variables(r, err);

    if (s == DIBS_OK)
        s = fill(r, &text, &len, err);
    if (s != DIBS_OK)
        return s;
    if (path)
        return cli_output_save(path, text, len, false, err);
    (void) fwrite(text, 1, len, stdout);
    return cli_flush(r->cli, err);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    size_t len = 0;
    AUTO(rendering_free)
    struct rendering r = { .cli = cli, .group = cli->manifest, .source = cli_input_name(cli->argv[0]) };
    dibs_status s = cli_input_read(cli->argv[0], &text, &len, err);

    if (s == DIBS_OK)
        s = template_parse(r.source, text, len, &r.template, err);
    if (s == DIBS_OK)
        s = collect(&r, err);
    if (s == DIBS_OK && r.n > 0)
        s = cli_open(cli, err);
    if (s == DIBS_OK && r.n > 0)
        s = claim(&r, err);
    if (s != DIBS_OK)
        return s;
    cli_note_claims(cli, r.claims, r.n_claims);
    s = write_out(&r, err);
    if (s != DIBS_OK)
        cli_take_back(cli, r.claims, r.n_claims); /* the answer was not written */
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "output", .letter = 'o', .arg = "FILE", .help = "write to this file, whole or not at all" },
    { 0 },
};

const struct cli_cmd cmd_render = {
    .name = "render",
    .group = CLI_RUN,
    .args = "FILE|-",
    .summary = "Fill the ports into a template",
    .details = "Replaces, in FILE or standard input:\n"
               "  {{ port \"web/0/http\" }}     the port of that name\n"
               "  {{ address \"web/0/http\" }}  its address, IPv6 in brackets as a URL has it;\n"
               "                              localhost if it is every address\n"
               "  {{ env \"HOME\" }}            an environment variable, which must be set\n"
               "  {{ env \"web/API_PORT\" }}    a variable of a role, as 'dibs env web' has it\n"
               "  {{ \"{{\" }}                  the text in quotes itself\n"
               "Names are the manifest's, or any of this project's. Those that are not\n"
               "claimed yet are claimed and kept, all of them or, on any error, none.",
    .examples = "echo 'listen {{ port \"web\" }};' | dibs render -\n",
    .opts = opts,
    .min_args = 1,
    .max_args = 1,
    .args_words = ":files",
    .flags = CLI_NO_JSON | CLI_CLAIMS,
    .run = run,
};
