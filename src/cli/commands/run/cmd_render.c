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

struct rendering {
    struct cli *cli;
    const char *source;
    struct template template;
    const struct workload_group *group; /* NULL: no manifest */
    struct named *names;
    size_t n, max;
    dibs_claim *claims;
    size_t n_claims;
};

static void rendering_free(struct rendering *r)
{
    template_free(&r->template);
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

        if (piece->kind == TEMPLATE_ENV && !getenv(piece->text))
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

static dibs_status fill(const struct rendering *r, char **out, size_t *len, dibs_err *err)
{
    FILE *to = open_memstream(out, len);

    if (!to)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < r->template.n; i++) {
        const struct template_piece *piece = &r->template.pieces[i];
        const dibs_claim *claim = is_name(piece) ? &r->claims[r->names[find(r, piece->text)].at] : NULL;

        switch (piece->kind) {
        case TEMPLATE_TEXT: (void) fwrite(piece->text, 1, piece->n, to); break;
        case TEMPLATE_PORT: (void) fprintf(to, "%u", claim->port); break;
        case TEMPLATE_ADDRESS: put_address(claim, to); break;
        case TEMPLATE_ENV: (void) fputs(getenv(piece->text), to); break;
        }
    }
    return fclose(to) == 0 ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

static dibs_status write_out(struct rendering *r, dibs_err *err)
{
    const char *path = cli_value(r->cli, "output");
    AUTO(free_auto) char *text = NULL;
    size_t len = 0;
    dibs_status s = fill(r, &text, &len, err);

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
