/* SPDX-License-Identifier: MIT */
/* Port ranges of the kernel: ephemeral, reserved and privileged ports. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/text.h"
#include "host/kernel.h"
#include "host/proc_read.h"

#include "base/banned.h"

/* Linux's default of net.ipv4.ip_local_port_range. */
#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_LAST 60999

/* Read a file that holds exactly `n` numbers, each at most a port. */
static bool read_numbers(const char *path, uint64_t *out, size_t n)
{
    char text[64];
    ssize_t len = proc_read_file(AT_FDCWD, path, text, sizeof text);
    const char *p = text;
    const char *word = NULL;

    if (len < 0)
        return false;
    const char *end = text + len;
    for (size_t i = 0; i < n; i++)
        if (!proc_next_word(&p, end, &word) ||
            !text_number(word, (size_t) (p - word), DIBS_PORT_MAX, &out[i]))
            return false;
    return !proc_next_word(&p, end, &word);
}

bool kernel_ephemeral(dibs_range *out)
{
    uint64_t n[2] = { 0 };
    bool is_known = read_numbers("/proc/sys/net/ipv4/ip_local_port_range", n, 2) && n[0] > 0 && n[0] <= n[1];

    *out = is_known ? (dibs_range){ (uint16_t) n[0], (uint16_t) n[1] }
                    : (dibs_range){ EPHEMERAL_FIRST, EPHEMERAL_LAST };
    return is_known;
}

uint16_t kernel_unprivileged_start(void)
{
    enum { USUAL_START = 1024 };
    uint64_t start = 0;

    return read_numbers("/proc/sys/net/ipv4/ip_unprivileged_port_start", &start, 1) ? (uint16_t) start
                                                                                    : USUAL_START;
}

bool kernel_reserved_parse(const char *text, size_t len, struct portbits *out)
{
    struct portbits bits = { { 0 } };
    const char *end = text + len;

    /* The kernel ends every list with a newline; without it the text was cut. */
    if (len == 0 || *--end != '\n')
        return false;
    for (const char *p = text; p < end; p++) {
        const char *comma = memchr(p, ',', (size_t) (end - p));
        const char *stop = comma ? comma : end;
        const char *dash = memchr(p, '-', (size_t) (stop - p));
        uint64_t first = 0;
        uint64_t last = 0;

        if ((comma && comma + 1 == end) ||
            !text_number(p, (size_t) ((dash ? dash : stop) - p), DIBS_PORT_MAX, &first))
            return false;
        last = first;
        if (dash &&
            (!text_number(dash + 1, (size_t) (stop - dash - 1), DIBS_PORT_MAX, &last) || last < first))
            return false;
        /* The kernel allows port 0 to be reserved; it is no port for us. */
        if (last > 0)
            portbits_add_range(&bits, (dibs_range){ (uint16_t) (first ? first : 1), (uint16_t) last });
        p = stop;
    }
    *out = bits;
    return true;
}

bool kernel_reserved_ports(struct portbits *out)
{
    /* Try a small buffer first (9 us instead of 65). The longest list, every second port, has 32768 numbers
     * in less than 200,000 bytes. The kernel returns the list in one read only, and cuts it to the buffer. */
    static const size_t sizes[] = { 4096, 1u << 20 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        AUTO(free_auto) char *text = malloc(sizes[i]);
        ssize_t n =
            text ? proc_read_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_local_reserved_ports", text, sizes[i])
                 : -1;
        bool is_cut = n >= 0 && (size_t) n == sizes[i] - 1;

        if (n > 0 && !is_cut && kernel_reserved_parse(text, (size_t) n, out))
            return true;
    }
    memset(out, 0, sizeof *out);
    return false;
}
