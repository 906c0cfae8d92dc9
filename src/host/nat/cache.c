/* SPDX-License-Identifier: MIT */
#include "host/nat/cache.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"
#include "host/kernel.h"

#include "base/banned.h"

enum { VERSION = 2, PATH_BYTES = 4096 };

struct head {
    uint32_t version, unused; /* no bytes between the members: they are compared */
    uint64_t netns_cookie;
    int64_t read_ms;
    char program[16], boot_id[40];
    uint8_t state[NAT_CACHE_STATE_MAX];
};

/* What follows it in the file. */
static struct iovec ports_of(const struct nat_list *list)
{
    return (struct iovec){ (void *) (uintptr_t) &list->ports[DIBS_TCP],
                           sizeof list->ports - sizeof list->ports[0] };
}

static bool set_path(const struct nat_cache *cache, const struct nat_cache_key *key, char out[PATH_BYTES])
{
    int n = snprintf(out, PATH_BYTES, "%s%s", cache->path, key->part);

    return cache->path[0] && n > 0 && n < PATH_BYTES - 16;
}

static bool set_head(struct nat_cache *cache, const struct nat_cache_key *key, struct head *out)
{
    assert(key->n_state <= sizeof out->state);
    if (!cache->netns_cookie && kernel_netns_cookie(0, &cache->netns_cookie, NULL) != DIBS_OK)
        return false;
    memset(out, 0, sizeof *out);
    out->version = VERSION;
    out->netns_cookie = cache->netns_cookie;
    (void) text_copy(out->program, sizeof out->program, DIBS_VERSION);
    (void) text_copy(out->boot_id, sizeof out->boot_id, cache->boot_id);
    memcpy(out->state, key->state, key->n_state);
    return true;
}

bool nat_cache_read(struct nat_cache *cache, const struct nat_cache_key *key, struct nat_list *list,
                    int64_t *read_ms)
{
    char path[PATH_BYTES];
    struct stat st = { 0 };
    struct head head;
    struct head wanted;

    if (!set_path(cache, key, path))
        return false;
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct iovec ports = ports_of(list);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 077) != 0 || st.st_size != (off_t) (sizeof head + ports.iov_len) ||
        read(fd, &head, sizeof head) != (ssize_t) sizeof head || !set_head(cache, key, &wanted))
        return false;
    wanted.read_ms = head.read_ms;
    if (memcmp(&head, &wanted, sizeof head) != 0)
        return false;
    nat_list_clear(list);
    list->is_brief = true;
    if (read(fd, ports.iov_base, ports.iov_len) != (ssize_t) ports.iov_len) {
        list->is_cut = true; /* the ports may be half there */
        nat_list_clear(list);
        return false;
    }
    *read_ms = head.read_ms;
    return true;
}

void nat_cache_write(struct nat_cache *cache, const struct nat_cache_key *key, const struct nat_list *list,
                     int64_t read_ms)
{
    char path[PATH_BYTES];
    char temporary[PATH_BYTES + 16];
    struct head head;

    if (list->is_cut || !set_path(cache, key, path) || !set_head(cache, key, &head))
        return;
    head.read_ms = read_ms;
    (void) snprintf(temporary, sizeof temporary, "%s.%d", path, (int) getpid());
    (void) unlink(temporary); /* of a process that had our number and was killed */
    AUTO(fd_auto) int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    const struct iovec parts[] = { { &head, sizeof head }, ports_of(list) };
    (void) unlink(path); /* some file systems write to the disk what replaces a file */
    if (writev(fd, parts, 2) != (ssize_t) (sizeof head + parts[1].iov_len) || rename(temporary, path) != 0)
        (void) unlink(temporary);
}
