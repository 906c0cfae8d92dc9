/* SPDX-License-Identifier: MIT */
#include "host/nat/cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"

#include "base/banned.h"

enum { VERSION = 1, PATH_BYTES = 4096 };

struct head {
    uint32_t version, rule_bytes;
    uint64_t netns_cookie;
    uint32_t generation, n;
    uint32_t is_cut, unused; /* no bytes between the members: they are compared */
    char program[16], boot_id[40];
};

static struct head head_of(const struct nat_cache_key *key)
{
    struct head head;

    memset(&head, 0, sizeof head);
    head.version = VERSION;
    head.rule_bytes = sizeof(struct nat_rule);
    head.netns_cookie = key->netns_cookie;
    head.generation = key->generation;
    (void) text_copy(head.program, sizeof head.program, DIBS_VERSION);
    (void) text_copy(head.boot_id, sizeof head.boot_id, key->boot_id);
    return head;
}

static bool is_valid(const struct nat_rule *rule)
{
    return rule->proto >= DIBS_TCP && rule->proto <= DIBS_PROTO_MAX && rule->ports.first > 0 &&
           rule->ports.first <= rule->ports.last && (rule->address.len == 4 || rule->address.len == 16) &&
           memchr(rule->text, '\0', sizeof rule->text);
}

bool nat_cache_read(const struct nat_cache_key *key, struct nat_list *list)
{
    AUTO(fd_auto) int fd = open(key->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st = { 0 };
    struct head head;
    struct head wanted = head_of(key);

    nat_list_clear(list);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 077) != 0 || read(fd, &head, sizeof head) != (ssize_t) sizeof head)
        return false;
    wanted.n = head.n;
    wanted.is_cut = head.is_cut;
    size_t size = head.n * sizeof(struct nat_rule);
    if (memcmp(&head, &wanted, sizeof head) != 0 || head.n > NAT_RULES_MAX || head.is_cut ||
        st.st_size != (off_t) (sizeof head + size))
        return false;
    AUTO(free_auto) struct nat_rule *rules = malloc(size ? size : 1);
    if (!rules || read(fd, rules, size) != (ssize_t) size)
        return false;
    for (size_t i = 0; i < head.n; i++)
        if (!is_valid(&rules[i]))
            return false;
    for (size_t i = 0; i < head.n; i++)
        portbits_add_range(&list->ports[rules[i].proto], rules[i].ports);
    free(list->rules);
    list->rules = TAKE(rules);
    list->n = list->max = head.n;
    return true;
}

void nat_cache_write(const struct nat_cache_key *key, const struct nat_list *list)
{
    struct head head = head_of(key);
    char path[PATH_BYTES];

    head.n = (uint32_t) list->n;
    int n = snprintf(path, sizeof path, "%s.%d", key->path, (int) getpid());
    if (list->is_cut || n < 0 || (size_t) n >= sizeof path)
        return;
    (void) unlink(path); /* of a process that had our number and was killed */
    AUTO(fd_auto) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    size_t size = list->n * sizeof *list->rules;
    bool is_written = write(fd, &head, sizeof head) == (ssize_t) sizeof head &&
                      (size == 0 || write(fd, list->rules, size) == (ssize_t) size);
    if (!is_written || rename(path, key->path) != 0)
        (void) unlink(path);
}
