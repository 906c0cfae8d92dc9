/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/file.h"
#include "cli/manifest.h"
#include "workload/template.h"

#include "base/banned.h"

/* A name in the template, listed once. */
struct named {
    const char *typed; /* as it stands in the template */
    char name[DIBS_NAME_MAX + 1];
};

struct rendering {
    struct cli *cli;
    const char *source;
    struct template template;
    const struct workload_group *group; /* NULL: no manifest */
    dibs_project project;
    struct named *names;
    dibs_request *requests;
    dibs_claim *claims;
    size_t n, max;
};

static void rendering_free(struct rendering *r)
{
    template_free(&r->template);
    free(r->names);
    free(r->requests);
    free(r->claims);
}

/* ---- collecting the names ---- */

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

static dibs_status make_room(struct rendering *r, size_t n, dibs_err *err)
{
    if (r->n + n <= r->max)
        return DIBS_OK;
    size_t max = 2 * r->max + n;
    struct named *names = reallocarray(r->names, max, sizeof *names);
    if (names)
        r->names = names;
    dibs_request *requests = reallocarray(r->requests, max, sizeof *requests);
    if (requests)
        r->requests = requests;
    if (!names || !requests)
        return err_set(err, DIBS_FAILURE, "out of memory");
    r->max = max;
    return DIBS_OK;
}

/* Request a port of the manifest. All ports of a block are requested, so that they stay a block. */
static dibs_status want_need(struct rendering *r, const char *typed, struct workload_need need, dibs_err *err)
{
    uint32_t meant = need.number;
    uint32_t n = need.port->is_contiguous ? need.port->count : 1;
    dibs_status s = make_room(r, n, err);

    for (uint32_t i = 0; i < n && s == DIBS_OK; i++) {
        struct named *named = &r->names[r->n];

        need.number = n > 1 ? i : meant;
        workload_claim_name(r->group, &need.pod, need.port, need.number, named->name);
        named->typed = need.number == meant ? typed : "";
        r->requests[r->n] = workload_request(r->group, &need);
        r->n++;
    }
    return s;
}

/* Request any other name, as `dibs get` does. */
static dibs_status want_name(struct rendering *r, const char *typed, dibs_err *err)
{
    dibs_status s = make_room(r, 1, err);

    if (s != DIBS_OK)
        return s;
    r->names[r->n].typed = typed;
    r->requests[r->n] = (dibs_request){ .keep = true, .is_lookup = true };
    s = cli_claim_name(r->cli, typed, r->names[r->n].name, &r->project, &r->requests[r->n].project, err);
    r->n += s == DIBS_OK;
    return s;
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

/* Claim all names. Two spellings of one name are one request. */
static dibs_status claim(struct rendering *r, dibs_err *err)
{
    AUTO(free_auto) dibs_request *once = calloc(r->n + 1, sizeof *once);
    AUTO(free_auto) size_t *which = calloc(r->n + 1, sizeof *which);
    AUTO(free_auto) dibs_claim *claims = calloc(r->n + 1, sizeof *claims);
    size_t n = 0;

    r->claims = calloc(r->n + 1, sizeof *r->claims);
    if (!once || !which || !claims || !r->claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < r->n; i++) {
        size_t k = 0;

        while (k < i && strcmp(r->names[k].name, r->names[i].name) != 0)
            k++;
        which[i] = k < i ? which[k] : n;
        if (k == i) {
            once[n] = r->requests[i];
            once[n++].name = r->names[i].name;
        }
    }
    dibs_status s = dibs_claim_ports(r->cli->handle, &(dibs_batch){ .requests = once, .n = n }, claims, err);
    if (r->group)
        s = workload_advise(r->group, s, err);
    for (size_t i = 0; i < r->n && s == DIBS_OK; i++) {
        r->claims[i] = claims[which[i]];
        if (which[i] < i && strcmp(r->names[which[i]].name, r->names[i].name) == 0)
            r->claims[i].was_there = true; /* noted, and taken back, once */
    }
    return s;
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

/* ---- filling in ---- */

/* Write where a client finds it: the claim's address, or localhost when it is every address. A port mostly
 * follows, so IPv6 stands in brackets. */
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
        const dibs_claim *claim = is_name(piece) ? &r->claims[find(r, piece->text)] : NULL;

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
    cli_note_claims(cli, r.claims, r.n);
    s = write_out(&r, err);
    if (s != DIBS_OK)
        cli_take_back(cli, r.claims, r.n); /* the answer was not written */
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "output", .letter = 'o', .arg = "FILE", .help = "write to this file, whole or not at all" },
    { 0 },
};

const struct cli_cmd cmd_render = {
    .name = "render",
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
