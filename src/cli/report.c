/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "wire/wire.h"

#include "base/banned.h"

void report_error(const struct cli *cli, int exit_code, const dibs_err *err)
{
    char shown[DIBS_ERR_MSG_MAX];
    char one_line[DIBS_ERR_MSG_MAX];
    struct json_writer w;

    if (!cli->json) {
        /* The message may be a list; people still get one line. */
        (void) snprintf(one_line, sizeof one_line, "%s", err->msg);
        for (char *c = one_line; *c; c++) {
            if (*c == '\n')
                *c = ' ';
        }
        (void) fprintf(stderr, "dibs: %s\n",
                       cli_safe(one_line[0] ? one_line : dibs_status_text(err->code), shown, sizeof shown));
        return;
    }
    json_begin(&w, stderr);
    json_object(&w);
    json_key(&w, "error");
    json_object(&w);
    json_key_string(&w, "code", exit_code == CLI_EXIT_OUTPUT ? "output" : wire_code_text(err->code));
    json_key_int(&w, "exit", exit_code);
    json_key_string(&w, "message", err->msg);
    if (err->blocker.relation != DIBS_REL_NONE)
        wire_blocker(&w, &err->blocker);
    json_end_object(&w);
    json_end_object(&w);
    json_finish(&w);
}
