/* SPDX-License-Identifier: MIT */
/* Any bytes as an observed list: what is taken is in bounds, and writing it down reads back the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/observed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_down(const dibs_observed *list, size_t n, FILE *to)
{
    for (size_t i = 0; i < n; i++) {
        char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";

        if (list[i].port == 0 || list[i].binding.address.v6only)
            abort();
        if (list[i].name[0] && dibs_name_check(list[i].name, NULL) != DIBS_OK)
            abort();
        dibs_address_format(&list[i].binding.address, address);
        (void) fprintf(to, "%s %s %u %s%s\n", dibs_proto_text(list[i].binding.proto), address, list[i].port,
                       list[i].name[0] ? "/" : "", list[i].name);
    }
}

static void reads_back(const dibs_observed *list, size_t n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    dibs_observed *again = NULL;
    size_t n_again = 0;

    if (!to)
        return;
    write_down(list, n, to);
    if (fclose(to) == 0) {
        if (cli_observed_parse(text, len, &again, &n_again, NULL) != DIBS_OK || n_again != n)
            abort();
        for (size_t i = 0; i < n; i++)
            if (again[i].port != list[i].port || again[i].binding.proto != list[i].binding.proto ||
                !dibs_address_equal(&again[i].binding.address, &list[i].binding.address) ||
                strcmp(again[i].name, list[i].name) != 0)
                abort();
    }
    free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1); /* no NUL behind it: the length must be enough */
    dibs_observed *list = NULL;
    size_t n = 0;

    if (!text)
        return 0;
    memcpy(text, data, size);
    if (cli_observed_parse(text, size, &list, &n, NULL) == DIBS_OK)
        reads_back(list, n);
    free(list);
    free(text);
    return 0;
}
