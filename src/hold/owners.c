/* SPDX-License-Identifier: MIT */
#include "hold/owners.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

int owners_open(int claimed, int own, struct owners_maps *maps)
{
    void *memory = mmap(NULL, PORTS_OWN_MAX * sizeof *maps->own, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);

    if (memory == MAP_FAILED)
        return -1;
    maps->claimed = claimed;
    maps->own = memory;
    return 0;
}

void owners_close(struct owners_maps *maps)
{
    if (maps->own)
        (void) munmap(maps->own, PORTS_OWN_MAX * sizeof *maps->own);
    maps->own = NULL;
}

/* ---- one owner ---- */

/* Where the array has the owner; NULL: the hash table has it. */
static struct ports_owner *slot_of(const struct owners_maps *maps, const struct ports_key *key)
{
    uint32_t index = ports_own_index(key, maps->netns);

    return index ? &maps->own[index] : NULL;
}

enum { WORDS = sizeof(struct ports_owner) / sizeof(uint64_t) };

/* The programs read a slot while it changes. Its last word says whether the others count. Between two states
 * of one claim the owner is the old one, the new one, or either. */
static void write_slot(struct ports_owner *slot, const struct ports_owner *owner)
{
    uint64_t words[WORDS];
    uint64_t *at = (uint64_t *) slot;
    struct ports_owner hidden = { .n = slot->n };

    if (slot->n > 0 && slot->claim != owner->claim) {
        memcpy(words, &hidden, sizeof words);
        __atomic_store_n(&at[WORDS - 1], words[WORDS - 1], __ATOMIC_SEQ_CST);
    }
    memcpy(words, owner, sizeof words);
    for (size_t i = 0; i < WORDS; i++)
        __atomic_store_n(&at[i], words[i], __ATOMIC_RELEASE);
}

/* False: there is none, or errno says why it cannot be read. */
static bool read_one(const struct owners_maps *maps, const struct ports_key *key, struct ports_owner *out)
{
    const struct ports_owner *slot = slot_of(maps, key);

    if (!slot)
        return owners_map_call(BPF_MAP_LOOKUP_ELEM, maps->claimed, key, out) == 0;
    *out = *slot;
    errno = ENOENT;
    return out->n > 0;
}

static bool write_one(const struct owners_maps *maps, const struct ports_key *key,
                      const struct ports_owner *owner)
{
    struct ports_owner *slot = slot_of(maps, key);

    if (!slot)
        return owners_map_call(BPF_MAP_UPDATE_ELEM, maps->claimed, key, owner) == 0;
    write_slot(slot, owner);
    return true;
}

/* Fails only where there is none. */
static void erase_one(const struct owners_maps *maps, const struct ports_key *key)
{
    struct ports_owner *slot = slot_of(maps, key);

    if (slot)
        __atomic_store_n((uint64_t *) slot + WORDS - 1, 0, __ATOMIC_SEQ_CST);
    else
        (void) owners_map_call(BPF_MAP_DELETE_ELEM, maps->claimed, key, NULL);
}

/* ---- all owners of a port ---- */

struct owners {
    uint32_t n;
    struct ports_owner of[PORTS_OWNERS_MAX];
};

static int read_owners(const struct owners_maps *maps, struct ports_key key, struct owners *out)
{
    out->n = 0;
    for (key.index = 0; key.index < PORTS_OWNERS_MAX; key.index++) {
        if (!read_one(maps, &key, &out->of[key.index]))
            return errno == ENOENT ? 0 : -1;
        out->n = key.index + 1;
        if (out->n >= out->of[0].n)
            break;
    }
    return 0;
}

/* Write the owners that differ, and remove those behind them. Index 0 says how many there are: what it counts
 * is there already, or still. */
static int write_owners(const struct owners_maps *maps, struct ports_key key, struct owners *owners,
                        const struct owners *before)
{
    if (owners->n > 0)
        owners->of[0].n = (uint16_t) owners->n;
    for (uint32_t i = owners->n; i-- > 0;) {
        if (i < before->n && memcmp(&owners->of[i], &before->of[i], sizeof *owners->of) == 0)
            continue;
        key.index = i;
        if (!write_one(maps, &key, &owners->of[i]))
            return -1;
    }
    for (key.index = owners->n; key.index < before->n; key.index++)
        erase_one(maps, &key);
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

int owners_replace(const struct owners_maps *maps, struct ports_key key, uint64_t claim_id,
                   const struct ports_owner *with, uint32_t n)
{
    /* Large, and nearly always they have one owner: only that is written. */
    struct owners before;
    struct owners owners;

    if (read_owners(maps, key, &before) != 0)
        return -1;
    owners.n = before.n;
    memcpy(owners.of, before.of, before.n * sizeof *owners.of);
    if (replace(&owners, claim_id, with, n) != 0)
        return -1;
    return write_owners(maps, key, &owners, &before);
}

/* ---- all ports ---- */

static void sweep_array(const struct owners_maps *maps, bool (*is_known)(const void *, uint64_t),
                        const void *ctx)
{
    for (uint32_t i = 1; i < PORTS_OWN_MAX; i++) {
        struct ports_key key = { .netns = maps->netns,
                                 .port = (uint16_t) i,
                                 .proto = i < PORTS_OWN_MAX / 2 ? IPPROTO_TCP : IPPROTO_UDP };
        const struct ports_owner *slot = &maps->own[i];

        /* Another owner of the port takes the place of one that is removed. */
        for (size_t k = 0; k < PORTS_OWNERS_MAX && slot->n > 0 && !is_known(ctx, slot->claim); k++)
            (void) owners_replace(maps, key, slot->claim, NULL, 0);
    }
}

void owners_sweep(const struct owners_maps *maps, bool (*is_known)(const void *, uint64_t), const void *ctx)
{
    struct ports_key key;
    struct ports_key next = { 0 };
    struct ports_owner owner = { 0 };
    bool has_next = owners_map_call(BPF_MAP_GET_NEXT_KEY, maps->claimed, NULL, &next) == 0;

    sweep_array(maps, is_known, ctx);
    /* Get the next key before the current one may be removed. After a key that is gone the kernel begins
     * at the first, so the number of steps is bounded, too. */
    for (size_t i = 0; i < (size_t) PORTS_MAX * 2 && has_next; i++) {
        key = next;
        has_next = owners_map_call(BPF_MAP_GET_NEXT_KEY, maps->claimed, &key, &next) == 0;
        if (owners_map_call(BPF_MAP_LOOKUP_ELEM, maps->claimed, &key, &owner) == 0 &&
            !is_known(ctx, owner.claim))
            (void) owners_replace(maps, key, owner.claim, NULL, 0);
    }
}
