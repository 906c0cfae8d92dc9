/* SPDX-License-Identifier: MIT */
/* Any bytes as the file of sessions: of an accepted file, the sessions that have not ended are written again
 * as a file that gives the same ones; a refused one changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "daemon/ui/sessions.h"
#include "support/check.h"

#define BOOT "0c8d2f4e-1111-2222-3333-444455556666"

enum { NOW = 1000000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sessions *sessions = NULL;
    struct bytes once = { 0 };
    struct bytes twice = { 0 };
    uint16_t port = 0;
    uint16_t again = 0;
    dibs_err err = { 0 };
    char *text = malloc(size ? size : 1); /* an exact end: a read beyond it is found */
    const struct bytes given = { .at = text, .n = size };

    CHECK(text && sessions_new(&sessions, &err) == DIBS_OK);
    memcpy(text, data, size);
    dibs_status s = sessions_parse(sessions, &given, BOOT, NOW, &port, &err);
    CHECK(s == DIBS_OK || (s == DIBS_INVALID && err.msg[0]));
    size_t n = sessions_count(sessions, NOW);
    CHECK(n <= SESSIONS_MAX && (n > 0) == (port != 0) && (s == DIBS_OK || n == 0));
    CHECK(sessions_count(sessions, (int64_t) NOW + SESSIONS_LIFE_MS) == 0);
    if (n > 0) {
        sessions_format(sessions, BOOT, port, &once);
        CHECK(once.n <= SESSIONS_TEXT_MAX);
        CHECK(sessions_parse(sessions, &once, BOOT, NOW, &again, &err) == DIBS_OK);
        CHECK(again == port && sessions_count(sessions, NOW) == n);
        sessions_format(sessions, BOOT, port, &twice);
        CHECK(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0);
    }
    bytes_done(&once);
    bytes_done(&twice);
    sessions_free(sessions);
    free(text);
    return 0;
}
