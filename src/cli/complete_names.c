/* SPDX-License-Identifier: MIT */
/* Candidates for completions that come from the ledger and the manifest. */
#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/manifest.h"
#include "cli/target.h"

#include "base/banned.h"

enum { NAMES_MAX = 2000, TIMEOUT_MS = 1000 }; /* a person waits */

struct names {
    struct cli *cli;
    FILE *to;
    const char *word; /* what is typed so far */
    size_t n;
};

static bool load(struct cli *cli)
{
    static const dibs_flag none[1];

    if (cli->settings.timeout_ms == 0 && cli_settings_load(cli, none, 0, NULL) != DIBS_OK)
        return false;
    if (cli->settings.timeout_ms > TIMEOUT_MS)
        cli->settings.timeout_ms = TIMEOUT_MS;
    return cli_project(cli, NULL) == DIBS_OK;
}

/* A name that would need quotes is not offered: a shell would read another one. */
static bool is_plain(const char *name)
{
    for (; *name; name++)
        if ((unsigned char) *name <= ' ' || *name == 0x7f || strchr("\"'\\$`&|;<>()*?!#{}[]", *name))
            return false;
    return true;
}

static void offer(struct names *all, const char *before, const char *name, uint16_t port)
{
    if (!is_plain(name) || all->n++ >= NAMES_MAX)
        return;
    if (port)
        (void) fprintf(all->to, "%s%s\tport %u\n", before, name, port);
    else
        (void) fprintf(all->to, "%s%s\n", before, name);
}

/* Offer a claim by its name in the project, or by its full name when that is what is being typed. */
static bool offer_claim(void *ctx, const dibs_claim *claim)
{
    struct names *all = ctx;
    size_t typed = strlen(all->word);
    char name[DIBS_NAME_MAX + 1];
    struct workload_need need;

    if (!claim->name[0])
        return true;
    if (all->word[0] == '/') {
        offer(all, "/", claim->name, claim->port);
        return all->n < NAMES_MAX;
    }
    (void) cli_short_name(claim->name, name, sizeof name);
    bool is_manifests =
        all->cli->manifest && workload_need_parse(all->cli->manifest, name, &need, NULL, NULL) == DIBS_OK;
    if (!is_manifests)
        offer(all, "", name, claim->port);
    if (typed > 0 && strncmp(claim->name, all->word, typed) == 0 && strncmp(name, all->word, typed) != 0)
        offer(all, "", claim->name, claim->port);
    return all->n < NAMES_MAX;
}

void complete_names(struct cli *cli, FILE *to, const char *word)
{
    struct names all = { .cli = cli, .to = to, .word = word };
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    char name[DIBS_NAME_MAX + 1];

    if (!load(cli))
        return;
    if (cli->manifest && word[0] != '/' && workload_needs_all(cli->manifest, &needs, NULL) == DIBS_OK)
        for (size_t i = 0; i < needs.n; i++)
            if (needs.all[i].number == 0)
                offer(&all, "", cli_short_name(needs.all[i].name, name, sizeof name), 0);
    if (cli_open(cli, NULL) != DIBS_OK)
        return;
    dibs_filter filter = { .principal = dibs_principal_of(cli->handle) };
    if (word[0] != '/' && cli->project.dir[0])
        filter.project = cli->project.dir;
    else if (word[0] != '/')
        filter.name_prefix = cli->project.group;
    (void) !dibs_claim_list(cli->handle, &filter, offer_claim, &all, NULL);
}

bool complete_is_role(struct cli *cli, const char *word)
{
    struct workload_pod pod;

    return load(cli) && cli->manifest && workload_pod_parse(cli->manifest, word, &pod, NULL) == DIBS_OK;
}

void complete_roles(struct cli *cli, FILE *to)
{
    struct names all = { .cli = cli, .to = to };
    char name[DIBS_NAME_MAX + 1];

    if (!load(cli) || !cli->manifest)
        return;
    for (size_t r = 0; r < cli->manifest->n_roles; r++) {
        const struct workload_role *role = &cli->manifest->roles[r];

        offer(&all, "", role->name, 0);
        for (uint32_t i = 0; role->instances > 1 && i < role->instances && all.n < NAMES_MAX; i++) {
            (void) snprintf(name, sizeof name, "%s/%u", role->name, i);
            offer(&all, "", name, 0);
        }
    }
}
