/* SPDX-License-Identifier: MIT */
#include "hold/owners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

#include "base/banned.h"

int owners_bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int) syscall(SYS_bpf, command, attr, sizeof *attr);
}

int owners_map_call(enum bpf_cmd command, int fd, const void *key, const void *value)
{
    union bpf_attr attr;

    memset(&attr, 0, sizeof attr); /* the kernel refuses unused bytes that are not 0 */
    attr.map_fd = (uint32_t) fd;
    attr.key = (uintptr_t) key;
    attr.value = (uintptr_t) value;
    return owners_bpf(command, &attr);
}

/* All owners of a port. */
struct owners {
    uint32_t n;
    struct ports_owner of[PORTS_OWNERS_MAX];
};

static int read_owners(int fd, struct ports_key key, struct owners *out)
{
    out->n = 0;
    for (key.index = 0; key.index < PORTS_OWNERS_MAX; key.index++) {
        if (owners_map_call(BPF_MAP_LOOKUP_ELEM, fd, &key, &out->of[key.index]) != 0)
            return errno == ENOENT ? 0 : -1;
        out->n = key.index + 1;
        if (out->n >= out->of[0].n)
            break;
    }
    return 0;
}

/* Write the owners that differ, and remove those behind them. Index 0 says how many there are: what it counts
 * is there already, or still. */
static int write_owners(int fd, struct ports_key key, struct owners *owners, const struct owners *before)
{
    if (owners->n > 0)
        owners->of[0].n = (uint16_t) owners->n;
    for (uint32_t i = owners->n; i-- > 0;) {
        if (i < before->n && memcmp(&owners->of[i], &before->of[i], sizeof *owners->of) == 0)
            continue;
        key.index = i;
        if (owners_map_call(BPF_MAP_UPDATE_ELEM, fd, &key, &owners->of[i]) != 0)
            return -1;
    }
    for (key.index = owners->n; key.index < before->n; key.index++)
        (void) owners_map_call(BPF_MAP_DELETE_ELEM, fd, &key, NULL); /* fails only where there is none */
    return 0;
}

/* Put the new owners where the old ones were, so that no other owner moves; the last one fills a hole. */
static int replace(struct owners *owners, uint64_t claim_id, const struct ports_owner *with, uint32_t n)
{
    uint32_t done = 0;
    uint32_t i = 0;

    while (i < owners->n) {
        if (owners->of[i].claim != claim_id)
            i++;
        else if (done < n)
            owners->of[i++] = with[done++];
        else
            owners->of[i] = owners->of[--owners->n];
    }
    if (n - done > PORTS_OWNERS_MAX - owners->n) {
        errno = ENOSPC;
        return -1;
    }
    while (done < n)
        owners->of[owners->n++] = with[done++];
    return 0;
}

int owners_replace(int fd, struct ports_key key, uint64_t claim_id, const struct ports_owner *with,
                   uint32_t n)
{
    AUTO(free_auto) struct owners *before = calloc(1, sizeof *before);
    AUTO(free_auto) struct owners *owners = calloc(1, sizeof *owners);

    if (!before || !owners || read_owners(fd, key, before) != 0)
        return -1;
    owners->n = before->n;
    memcpy(owners->of, before->of, before->n * sizeof *owners->of);
    if (replace(owners, claim_id, with, n) != 0)
        return -1;
    return write_owners(fd, key, owners, before);
}
