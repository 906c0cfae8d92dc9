/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_SPEAK_H
#define DIBS_TESTS_SPEAK_H
/* A handle that is used for a namespace from now on. */
#include "lib/handle.h"

/* The text is borrowed. */
static inline dibs_status speak_for(dibs *handle, const char *principal, dibs_err *err)
{
    dibs theirs = { 0 };
    dibs_status s = handle_for(handle, principal, &theirs, err);

    if (s == DIBS_OK)
        *handle = theirs;
    return s;
}
#endif
