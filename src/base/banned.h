/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_BANNED_H
#define DIBS_BASE_BANNED_H
/* Included last by every .c file: calls that have a safer alternative do not compile. */
/* Fortified headers define these as macros. */
#undef strcpy
#undef strcat
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf strtok gmtime localtime atoi atol atoll
#pragma GCC poison strtol strtoul strtoll strtoull rand srand system gets
#endif
