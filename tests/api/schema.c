/* SPDX-License-Identifier: MIT */
/* Print the reader's answer to each manifest named, one line each: "ok", or why it is refused. */
#include "workload/manifest.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        AUTO(workload_free_auto) struct workload_group *group = NULL;
        dibs_err err = { 0 };
        dibs_status s = workload_manifest_read(argv[i], &group, &err);

        (void) printf("%s\n", s == DIBS_OK ? "ok" : err.msg);
    }
    return ferror(stdout) || fflush(stdout) != 0;
}
