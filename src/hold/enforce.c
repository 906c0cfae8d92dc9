/* SPDX-License-Identifier: MIT */
#include "hold/enforce.h"

#include <errno.h>
#include <linux/bpf.h>
#include <mntent.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash_table.h"
#include "hold/bpf/hand_over.h"
#include "hold/bpf/ports_map.h"
#include "host/kernel.h"
#include "host/process.h"
#include "net/proto.h"

#include "base/banned.h"

enum {
    LOAD_MS = 20000, /* the kernel checks the programs in some milliseconds, on a busy machine in more */
    KEYS_MAX = DIBS_PROTO_MAX,
};

/* What the map has of a claim. */
struct entry {
    struct hash_table_item item; /* first; key: the claim's id */
    size_t n;
    struct ports_key keys[KEYS_MAX];
};

/* The kernel's number of a network namespace, which is never used again, by its inode, which may be. */
struct cookie {
    struct hash_table_item item; /* first; key: the inode */
    uint64_t cookie;
};

struct enforce {
    int fds[HAND_OVER_FDS];
    struct hash_table entries;
    struct hash_table cookies;
    const struct process_view *view;
};

/* ---- the map ---- */

/* Debian's C library has no function for this system call, and libbpf is not linked into the daemon. */
static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int) syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int map_call(enum bpf_cmd command, int fd, const void *key, const void *value)
{
    union bpf_attr attr;

    memset(&attr, 0, sizeof attr); /* the kernel refuses unused bytes that are not 0 */
    attr.map_fd = (uint32_t) fd;
    attr.key = (uintptr_t) key;
    attr.value = (uintptr_t) value; /* of BPF_MAP_GET_NEXT_KEY: the next key */
    return bpf(command, &attr);
}

/* Remove the owners of a claim from the value. */
static void remove_claim(struct ports_value *value, uint64_t claim_id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < value->n && i < PORTS_OWNERS_MAX; i++)
        if (value->owner[i].claim != claim_id)
            value->owner[n++] = value->owner[i];
    memset(&value->owner[n], 0, (PORTS_OWNERS_MAX - n) * sizeof value->owner[0]);
    value->n = n;
}

static int write_value(const struct enforce *e, const struct ports_key *key, const struct ports_value *value)
{
    int fd = e->fds[HAND_OVER_CLAIMED];

    if (value->n > 0)
        return map_call(BPF_MAP_UPDATE_ELEM, fd, key, value);
    return map_call(BPF_MAP_DELETE_ELEM, fd, key, NULL) == 0 || errno == ENOENT ? 0 : -1;
}

static void drop_key(const struct enforce *e, const struct ports_key *key, uint64_t claim_id)
{
    struct ports_value value = { 0 };

    if (map_call(BPF_MAP_LOOKUP_ELEM, e->fds[HAND_OVER_CLAIMED], key, &value) != 0)
        return;
    remove_claim(&value, claim_id);
    (void) write_value(e, key, &value); /* removing and shrinking an element do not fail */
}

/* ---- claims ---- */

static dibs_status find_cookie(struct enforce *e, uint64_t netns, uint64_t *out, dibs_err *err)
{
    struct cookie *known = (struct cookie *) hash_table_first(&e->cookies, netns);

    if (known) {
        *out = known->cookie;
        return DIBS_OK;
    }
    dibs_status s = kernel_netns_cookie(netns, out, err);
    known = s == DIBS_OK ? calloc(1, sizeof *known) : NULL;
    if (!known)
        return s;
    known->cookie = *out;
    if (!hash_table_add(&e->cookies, &known->item, netns))
        free(known);
    return s;
}

/* The kernel's programs compare pids of the initial namespace, which only a daemon there knows. */
static void set_owner(const struct enforce *e, const dibs_claim *claim, struct ports_owner *out)
{
    bool is_process = claim->holder == DIBS_HELD_BY_PROCESS && e->view->is_initial_pidns;
    pid_t pid = is_process ? process_pid_here(e->view, &claim->process) : 0;

    *out = (struct ports_owner){ .claim = claim->id, .kind = PORTS_OWNER_UID, .uid = claim->uid };
    if (pid <= 0)
        return;
    out->kind = PORTS_OWNER_TREE;
    out->pid = (uint32_t) pid;
    out->start_ticks = claim->process.start_ticks;
}

static void set_address(const dibs_address *address, struct ports_owner *out)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    static const uint8_t none[16] = { 0 };
    uint8_t bytes[16];

    memcpy(bytes, address->bytes, sizeof bytes);
    if (address->len == 4) {
        memcpy(bytes, mapped, sizeof mapped);
        memcpy(bytes + sizeof mapped, address->bytes, 4);
    }
    memcpy(out->address, bytes, sizeof out->address);
    out->any = 0;
    if (memcmp(address->bytes, none, address->len) == 0)
        out->any = address->len == 4 ? PORTS_ANY4 : address->v6only ? PORTS_ANY6 : PORTS_ANY4 | PORTS_ANY6;
}

/* Write the claim's bindings of one protocol. */
static dibs_status put_proto(const struct enforce *e, const dibs_claim *claim, dibs_proto proto,
                             const struct ports_key *key, dibs_err *err)
{
    struct ports_value value = { 0 };
    struct ports_owner owner;

    if (map_call(BPF_MAP_LOOKUP_ELEM, e->fds[HAND_OVER_CLAIMED], key, &value) != 0 && errno != ENOENT)
        return err_os(err, DIBS_UNAVAILABLE, errno, "reading the kernel's map of claimed ports");
    remove_claim(&value, claim->id);
    set_owner(e, claim, &owner);
    for (size_t i = 0; i < claim->n_bindings; i++) {
        if (claim->bindings[i].proto != proto)
            continue;
        if (value.n == PORTS_OWNERS_MAX)
            return err_set(err, DIBS_UNAVAILABLE,
                           "port %u has more than %d claims that differ in their address", claim->port,
                           PORTS_OWNERS_MAX);
        set_address(&claim->bindings[i].address, &owner);
        value.owner[value.n++] = owner;
    }
    if (write_value(e, key, &value) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "writing the kernel's map of claimed ports");
    return DIBS_OK;
}

static bool has_proto(const dibs_claim *claim, dibs_proto proto)
{
    for (size_t i = 0; i < claim->n_bindings; i++)
        if (claim->bindings[i].proto == proto)
            return true;
    return false;
}

dibs_status enforce_put(struct enforce *enforce, const dibs_claim *claim, dibs_err *err)
{
    uint64_t netns = 0;
    struct entry *entry = NULL;

    enforce_drop(enforce, claim->id);
    if (!claim->is_exclusive || claim->is_damaged || claim->node[0])
        return DIBS_OK;
    dibs_status s = find_cookie(enforce, claim->netns, &netns, err);
    if (s != DIBS_OK)
        return s;
    entry = calloc(1, sizeof *entry);
    if (!entry || !hash_table_add(&enforce->entries, &entry->item, claim->id)) {
        free(entry);
        return err_set(err, DIBS_FAILURE, "enforcing a claim: out of memory");
    }
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++) {
        if (!has_proto(claim, proto))
            continue;
        struct ports_key *key = &entry->keys[entry->n++];
        *key = (struct ports_key){ .netns = netns,
                                   .port = claim->port,
                                   .proto = (uint16_t) proto_row(proto)->ip_proto };
        s = put_proto(enforce, claim, proto, key, err);
    }
    return s;
}

void enforce_drop(struct enforce *enforce, uint64_t claim_id)
{
    struct entry *entry = (struct entry *) hash_table_first(&enforce->entries, claim_id);

    if (!entry)
        return;
    for (size_t i = 0; i < entry->n; i++)
        drop_key(enforce, &entry->keys[i], claim_id);
    hash_table_remove(&enforce->entries, &entry->item);
    free(entry);
}

/* Remove the owners that are of no known claim. */
static void sweep_key(const struct enforce *e, const struct ports_key *key)
{
    struct ports_value value = { 0 };
    uint32_t n = 0;

    if (map_call(BPF_MAP_LOOKUP_ELEM, e->fds[HAND_OVER_CLAIMED], key, &value) != 0)
        return;
    n = value.n;
    for (uint32_t i = value.n; i-- > 0;)
        if (!hash_table_first(&e->entries, value.owner[i].claim))
            remove_claim(&value, value.owner[i].claim);
    if (value.n != n)
        (void) write_value(e, key, &value);
}

void enforce_sweep(struct enforce *enforce)
{
    struct ports_key key;
    struct ports_key next;
    bool has_next = map_call(BPF_MAP_GET_NEXT_KEY, enforce->fds[HAND_OVER_CLAIMED], NULL, &next) == 0;

    /* Get the next key before the current one may be removed. A map changes only by us. */
    for (size_t i = 0; i < PORTS_MAX && has_next; i++) {
        key = next;
        has_next = map_call(BPF_MAP_GET_NEXT_KEY, enforce->fds[HAND_OVER_CLAIMED], &key, &next) == 0;
        sweep_key(enforce, &key);
    }
}

static void free_item(void *ctx, struct hash_table_item *item)
{
    hash_table_remove(ctx, item);
    free(item);
}

void enforce_forget(struct enforce *enforce)
{
    hash_table_each(&enforce->entries, free_item, &enforce->entries);
}

/* ---- open and close ---- */

/* Find where cgroup v2 is mounted; it may be beside v1. */
static dibs_status find_cgroups(char *out, size_t size, dibs_err *err)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    char text[8192];
    struct mntent mount;
    bool is_found = false;

    while (mounts && !is_found && getmntent_r(mounts, &mount, text, sizeof text))
        is_found = strcmp(mount.mnt_type, "cgroup2") == 0 &&
                   (size_t) snprintf(out, size, "%s", mount.mnt_dir) < size;
    if (mounts)
        (void) endmntent(mounts);
    return is_found ? DIBS_OK
                    : err_set(err, DIBS_UNAVAILABLE, "no cgroup v2 hierarchy is mounted on this host");
}

/* Receive the descriptors from dibs-bpf. */
static dibs_status receive(struct enforce *e, int fd, dibs_err *err)
{
    char text[HAND_OVER_TEXT_MAX + 1] = "";
    union {
        char bytes[CMSG_SPACE(sizeof e->fds)];
        struct cmsghdr align;
    } control;
    struct iovec part = { text, HAND_OVER_TEXT_MAX };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };

    if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, LOAD_MS) != 1)
        return err_set(err, DIBS_UNAVAILABLE, "dibs-bpf has not answered for %d s", LOAD_MS / 1000);
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (n > 0 && head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof e->fds)) {
        memcpy(e->fds, CMSG_DATA(head), sizeof e->fds);
        return DIBS_OK;
    }
    return err_set(err, DIBS_UNAVAILABLE, "%s", n > 0 ? text : "dibs-bpf ended without an answer");
}

static dibs_status run_loader(struct enforce *e, const struct enforce_options *options, dibs_err *err)
{
    char cgroups[256];
    int ends[2] = { -1, -1 };
    char *argv[] = { (char[]){ "dibs-bpf" }, cgroups,
                     options->is_persistent ? (char[]){ HAND_OVER_PINS } : NULL, NULL };
    char *no_environment[] = { NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    dibs_status s = find_cgroups(cgroups, sizeof cgroups, err);

    if (s != DIBS_OK)
        return s;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "cannot make a socket");
    (void) posix_spawn_file_actions_init(&actions);
    (void) posix_spawn_file_actions_adddup2(&actions, ends[1], HAND_OVER_FD);
    int failed = posix_spawn(&pid, options->program, &actions, NULL, argv, no_environment);
    (void) posix_spawn_file_actions_destroy(&actions);
    fd_auto(&ends[1]);
    if (failed)
        s = err_os(err, DIBS_UNAVAILABLE, failed, "cannot run %s", options->program);
    else
        s = receive(e, ends[0], err);
    fd_auto(&ends[0]);
    if (!failed && waitpid(pid, &status, s == DIBS_OK ? 0 : WNOHANG) < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "waiting for dibs-bpf");
    return s;
}

/* Let the daemon itself bind every port: it probes ports that others have just released. */
static dibs_status exempt_us(const struct enforce *e, dibs_err *err)
{
    uint32_t first = 0;
    uint32_t pid = (uint32_t) getpid();

    if (map_call(BPF_MAP_UPDATE_ELEM, e->fds[HAND_OVER_EXEMPT], &first, &pid) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "writing a map of the kernel");
    return DIBS_OK;
}

dibs_status enforce_open(const struct enforce_options *options, struct enforce **out, dibs_err *err)
{
    struct enforce *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "enforcing claims: out of memory");
    for (size_t i = 0; i < HAND_OVER_FDS; i++)
        self->fds[i] = -1;
    self->view = options->view;
    dibs_status s = run_loader(self, options, err);
    if (s == DIBS_OK)
        s = exempt_us(self, err);
    if (s != DIBS_OK) {
        enforce_close(self);
        return err_wrap(err, s, "ports cannot be enforced here");
    }
    *out = self;
    return DIBS_OK;
}

void enforce_close(struct enforce *enforce)
{
    if (!enforce)
        return;
    enforce_forget(enforce);
    hash_table_each(&enforce->cookies, free_item, &enforce->cookies);
    hash_table_done(&enforce->entries);
    hash_table_done(&enforce->cookies);
    for (size_t i = 0; i < HAND_OVER_FDS; i++)
        fd_auto(&enforce->fds[i]);
    free(enforce);
}
