/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_ENVIRONMENT_H
#define DIBS_CLI_ENVIRONMENT_H
/* Variables of the manifest, as other programs read them. */
#include "cli/cli.h"

struct bytes;

/* Add a word for a POSIX shell, in quotes where it needs them. */
void environment_add_word(struct bytes *to, const char *word);

/* Print variables in a format of `dibs env`; NULL: there is none of that name. */
struct environment_format;
const struct environment_format *environment_format(const char *name);
void environment_begin(struct cli *cli, const struct environment_format *format);
/* Returns false without memory. */
bool environment_print(struct cli *cli, const struct environment_format *format, const char *name,
                       const char *text);
/* Print DIBS_OUTSIDE_PORT_3000 for each port that has the number 3000 inside: its claimed number. */
struct workload_needs;
bool environment_print_outside(struct cli *cli, const struct environment_format *format,
                               const struct workload_needs *needs, const uint16_t *ports);
void environment_end(struct cli *cli, const struct environment_format *format);

/* Print the variables of all pods, each once; `pid` as for workload_obtain(). A name that means different
 * things in different pods is left out, and noted: ports then have a name made of role, instance and port. */
dibs_status environment_print_group(struct cli *cli, const struct environment_format *format, int32_t pid,
                                    dibs_err *err);
#endif
