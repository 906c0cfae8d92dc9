/* SPDX-License-Identifier: MIT */
/* The rules for names, which become keys, columns and variables; the same for every front end. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "dibs/settings.h"

#include "base/banned.h"

static bool is_number(const char *name)
{
    return name[strspn(name, "0123456789")] == '\0';
}

/* Return whether the part is the number of a moved name: "8080", or "8080.17" if not the first. */
static bool is_left_number(const char *part)
{
    size_t n = strspn(part, "0123456789");

    return n > 0 && (part[n] == '\0' || (part[n] == '.' && part[n + 1] != '\0' && is_number(part + n + 1)));
}

/* Return an error text for the part of `len` bytes at p; NULL: it is valid. */
static const char *part_fault(const char *p, size_t len)
{
    if (len == 0)
        return "a part is empty";
    if (len > DIBS_NAME_PART_MAX)
        return "a part has more than 63 bytes";
    if (len <= 2 && strncmp(p, "..", len) == 0)
        return "a part is '.' or '..'";
    for (size_t i = 0; i < len;) {
        size_t step = text_utf8_length(p + i, len - i);
        unsigned char c = (unsigned char) p[i];

        if (step == 0)
            return "it is not valid UTF-8";
        if (c <= 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char) p[i + 1] < 0xa1))
            return "it has a blank or control character";
        i += step;
    }
    return NULL;
}

dibs_status dibs_name_check(const char *name, dibs_err *err)
{
    if (!name || !name[0])
        return err_set(err, DIBS_INVALID, "a name cannot be empty");
    if (strnlen(name, DIBS_NAME_MAX + 1) > DIBS_NAME_MAX)
        return err_set(err, DIBS_INVALID, "name '%.76s' has more than %d bytes", name, DIBS_NAME_MAX);
    const char *fault = is_number(name) ? "it is only a number, which would be taken for a port" : NULL;
    size_t parts = 0;

    for (const char *p = name; !fault;) {
        size_t len = strcspn(p, "/");

        fault = part_fault(p, len);
        if (++parts > DIBS_NAME_PARTS_MAX && !is_left_number(p))
            fault = "it has more than five parts";
        if (!p[len])
            break;
        p += len + 1;
    }
    if (fault)
        return err_set(err, DIBS_INVALID, "name '%.76s': %s", name, fault);
    return DIBS_OK;
}
