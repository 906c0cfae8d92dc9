/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_DIRECTORY_H
#define DIBS_BASE_DIRECTORY_H
/* The directory of a file. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Write the directory of `path`: "." if it names none. Return false if it does not fit. */
bool directory_of(const char *path, char *out, size_t size);
/* Make the directory and the missing ones above it. Return 0 or errno. */
int directory_make(const char *dir, mode_t mode);
#endif
