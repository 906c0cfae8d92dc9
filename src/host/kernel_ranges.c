/* SPDX-License-Identifier: MIT */
/* Ports that the kernel keeps: the ephemeral range, the reserved ports, the privileged ones. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "host/kernel.h"

#include "base/banned.h"

/* Linux's own default of net.ipv4.ip_local_port_range. */
#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_LAST 60999

/* A list that fits is read cheaply (9 us instead of 65). */
#define RESERVED_SMALL_BYTES 4096
/* The longest list, every second port, has 32768 numbers: below 200,000 bytes. The kernel returns it
 * in one read alone and cuts what does not fit, so the buffer must be larger than any list. */
#define RESERVED_LARGE_BYTES (1u << 20)

/* Digits at *p: a number up to 65535, *p moved behind it. */
static bool take_number(const char **p, const char *end, uint32_t *out)
{
    const char *start = *p;
    uint32_t n = 0;

    while (*p < end && **p >= '0' && **p <= '9') {
        n = n * 10 + (uint32_t) (**p - '0');
        if (n > DIBS_PORT_MAX)
            return false;
        ++*p;
    }
    *out = n;
    return *p > start;
}

static bool parse_pair(const char *text, size_t len, dibs_range *out)
{
    const char *p = text;
    const char *end = text + len;
    uint32_t first = 0;
    uint32_t last = 0;

    if (!take_number(&p, end, &first))
        return false;
    const char *gap = p;
    while (p < end && (*p == '\t' || *p == ' '))
        p++;
    if (p == gap || !take_number(&p, end, &last))
        return false;
    if (p < end && *p == '\n')
        p++;
    if (p != end || first == 0 || first > last)
        return false;
    *out = (dibs_range){ (uint16_t) first, (uint16_t) last };
    return true;
}

static ssize_t read_once(const char *path, char *buf, size_t size)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -1 : read(fd, buf, size);
}

void kernel_ephemeral(dibs_range *out, enum kernel_source *source)
{
    char text[64];
    ssize_t n = read_once("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof text);
    bool is_known = n > 0 && parse_pair(text, (size_t) n, out);

    if (!is_known)
        *out = (dibs_range){ EPHEMERAL_FIRST, EPHEMERAL_LAST };
    if (source)
        *source = is_known ? KERNEL_DETECTED : KERNEL_DEFAULT;
}

uint16_t kernel_unprivileged_start(void)
{
    enum { USUAL_START = 1024 };
    char text[16];
    ssize_t n = read_once("/proc/sys/net/ipv4/ip_unprivileged_port_start", text, sizeof text);
    const char *p = text;
    uint32_t start = 0;

    if (n <= 0 || !take_number(&p, text + n, &start) || start > DIBS_PORT_MAX)
        return USUAL_START;
    return (uint16_t) start;
}

bool kernel_reserved_parse(const char *text, size_t len, struct portbits *out)
{
    struct portbits bits = { { 0 } };
    const char *p = text;
    const char *end = text + len;

    /* The kernel ends every list with a newline: without it the text was cut. */
    if (len == 0 || end[-1] != '\n')
        return false;
    end--;
    while (p < end) {
        uint32_t first = 0;
        uint32_t last = 0;

        if (!take_number(&p, end, &first))
            return false;
        last = first;
        if (p < end && *p == '-') {
            p++;
            if (!take_number(&p, end, &last) || last < first)
                return false;
        }
        /* The kernel lets port 0 be reserved; for us it is no port. */
        if (last > 0)
            portbits_add_range(&bits, (dibs_range){ (uint16_t) (first ? first : 1), (uint16_t) last });
        if (p == end)
            break;
        if (*p != ',' || p + 1 == end)
            return false;
        p++;
    }
    *out = bits;
    return true;
}

/* One read with a buffer of `size`; *is_cut when the list did not surely fit. */
static bool read_reserved(size_t size, struct portbits *out, bool *is_cut)
{
    char *text = malloc(size);
    ssize_t n = text ? read_once("/proc/sys/net/ipv4/ip_local_reserved_ports", text, size) : -1;

    *is_cut = n > 0 && (size_t) n == size;
    bool is_good = n > 0 && !*is_cut && kernel_reserved_parse(text, (size_t) n, out);
    free(text);
    return is_good;
}

bool kernel_reserved_ports(struct portbits *out)
{
    bool is_cut = false;

    if (read_reserved(RESERVED_SMALL_BYTES, out, &is_cut) ||
        (is_cut && read_reserved(RESERVED_LARGE_BYTES, out, &is_cut)))
        return true;
    memset(out, 0, sizeof *out);
    return false;
}
