/* SPDX-License-Identifier: MIT */
/* Any bytes as /proc/PID/stat: refused with the output untouched, or read the same way whatever name the
 * process has given itself. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char name[] = "1 (x) Z 9 9 9) ";
    struct proc_stat stat = { .state = 'q' };
    struct proc_stat renamed = { .state = 'q' };
    char *text = malloc(size ? size : 1); /* exactly as long: a read too far is found */
    char *other = malloc(size + sizeof name);

    if (text && other) {
        if (size)
            memcpy(text, data, size);
        if (proc_stat_parse(text, size, &stat)) {
            assert(stat.state > ' ' && stat.state < 0x7f);
            memcpy(other, name, sizeof name - 1);
            memcpy(other + sizeof name - 1, data, size);
            assert(proc_stat_parse(other, size + sizeof name - 1, &renamed));
            assert(renamed.state == stat.state && renamed.start_ticks == stat.start_ticks);
            assert(renamed.ppid == stat.ppid && renamed.num_threads == stat.num_threads);
        } else {
            assert(stat.state == 'q' && stat.start_ticks == 0);
        }
    }
    free(text);
    free(other);
    return 0;
}
