/* SPDX-License-Identifier: MIT */
#include "hold/enforce.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
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
#include "hold/bpf/numbers_map.h"
#include "hold/bpf/ports_map.h"
#include "hold/enforce_host.h"
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
    struct run_cgroups *cgroups;
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

/* All owners of a port. */
struct owners {
    uint32_t n;
    struct ports_owner of[PORTS_OWNERS_MAX];
};

static int read_owners(const struct enforce *e, struct ports_key key, struct owners *out)
{
    *out = (struct owners){ 0 };
    for (key.index = 0; key.index < PORTS_OWNERS_MAX; key.index++) {
        struct ports_owner *owner = &out->of[key.index];

        if (map_call(BPF_MAP_LOOKUP_ELEM, e->fds[HAND_OVER_CLAIMED], &key, owner) != 0)
            return errno == ENOENT ? 0 : -1;
        out->n = key.index + 1;
        if (out->n >= out->of[0].n)
            break;
    }
    return 0;
}

/* Write the owners, and remove those behind them. Index 0 says how many there are: what it counts is there
 * already, or still. */
static int write_owners(const struct enforce *e, struct ports_key key, struct owners *owners,
                        uint32_t n_before)
{
    int fd = e->fds[HAND_OVER_CLAIMED];

    owners->of[0].n = (uint8_t) owners->n;
    for (uint32_t i = owners->n; i-- > 0;) {
        key.index = i;
        if (map_call(BPF_MAP_UPDATE_ELEM, fd, &key, &owners->of[i]) != 0)
            return -1;
    }
    for (key.index = owners->n; key.index < n_before; key.index++)
        (void) map_call(BPF_MAP_DELETE_ELEM, fd, &key, NULL); /* fails only where there is none */
    return 0;
}

static void remove_claim(struct owners *owners, uint64_t claim_id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < owners->n; i++)
        if (owners->of[i].claim != claim_id)
            owners->of[n++] = owners->of[i];
    owners->n = n;
}

static void drop_key(const struct enforce *e, const struct ports_key *key, uint64_t claim_id)
{
    struct owners owners;

    if (read_owners(e, *key, &owners) != 0)
        return;
    uint32_t n_before = owners.n;
    remove_claim(&owners, claim_id);
    if (owners.n < n_before)
        (void) write_owners(e, *key, &owners, n_before); /* replacing and removing need no memory */
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
    struct run_cgroup cgroup = { 0 };
    dibs_process here = claim->process;
    here.pid = pid;
    if (run_cgroup_of(e->cgroups, &here, &cgroup)) {
        out->cgroup = cgroup.id;
        out->level = (uint8_t) cgroup.level;
    }
}

void enforce_address(const dibs_address *address, uint32_t out[4])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    uint8_t bytes[16];

    memcpy(bytes, address->bytes, sizeof bytes);
    if (address->len == 4) {
        memcpy(bytes, mapped, sizeof mapped);
        memcpy(bytes + sizeof mapped, address->bytes, 4);
    }
    memcpy(out, bytes, sizeof bytes);
}

static void set_address(const dibs_address *address, struct ports_owner *out)
{
    enforce_address(address, out->address);
    out->any = 0;
    if (dibs_address_is_wildcard(address))
        out->any = address->len == 4 ? PORTS_ANY4 : address->v6only ? PORTS_ANY6 : PORTS_ANY4 | PORTS_ANY6;
}

/* Write the claim's bindings of one protocol. */
static dibs_status put_proto(const struct enforce *e, const dibs_claim *claim, dibs_proto proto,
                             const struct ports_key *key, dibs_err *err)
{
    struct owners owners;
    struct ports_owner owner;

    if (read_owners(e, *key, &owners) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "reading the kernel's map of claimed ports");
    uint32_t n_before = owners.n;
    remove_claim(&owners, claim->id);
    set_owner(e, claim, &owner);
    for (size_t i = 0; i < claim->n_bindings; i++) {
        if (claim->bindings[i].proto != proto)
            continue;
        if (owners.n == PORTS_OWNERS_MAX)
            return err_set(err, DIBS_UNAVAILABLE,
                           "port %u has more than %d claims that differ in their address", claim->port,
                           PORTS_OWNERS_MAX);
        set_address(&claim->bindings[i].address, &owner);
        owners.of[owners.n++] = owner;
    }
    if (write_owners(e, *key, &owners, n_before) != 0)
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
    if (claim->hold != DIBS_HOLD_ENFORCE || claim->is_damaged || claim->node[0])
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

void enforce_sweep(struct enforce *enforce)
{
    int fd = enforce->fds[HAND_OVER_CLAIMED];
    struct ports_key key;
    struct ports_key next;
    struct ports_owner owner;
    bool has_next = map_call(BPF_MAP_GET_NEXT_KEY, fd, NULL, &next) == 0;

    /* Get the next key before the current one may be removed. After a key that is gone the kernel begins
     * at the first, so the number of steps is bounded, too. */
    for (size_t i = 0; i < (size_t) PORTS_MAX * 2 && has_next; i++) {
        key = next;
        has_next = map_call(BPF_MAP_GET_NEXT_KEY, fd, &key, &next) == 0;
        if (map_call(BPF_MAP_LOOKUP_ELEM, fd, &key, &owner) == 0 &&
            !hash_table_first(&enforce->entries, owner.claim))
            drop_key(enforce, &key, owner.claim);
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

dibs_status enforce_isolate(struct enforce *enforce, const dibs_process *process, char *path, dibs_err *err)
{
    return run_cgroup_make(enforce->cgroups, process, path, err);
}

void enforce_join(struct enforce *enforce, const dibs_process *process, pid_t pid)
{
    run_cgroup_join(enforce->cgroups, process, pid);
}

/* Attach a program to a cgroup. Unlike a link this stays until the cgroup is removed, also without us. */
static int attach(int cgroup, int program, enum bpf_attach_type type)
{
    union bpf_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.target_fd = (uint32_t) cgroup;
    attr.attach_bpf_fd = (uint32_t) program;
    attr.attach_type = type;
    attr.attach_flags = BPF_F_ALLOW_MULTI;
    return bpf(BPF_PROG_ATTACH, &attr);
}

dibs_status enforce_numbers(struct enforce *enforce, const dibs_process *process, struct numbers *numbers,
                            dibs_err *err)
{
#define TYPE(program, type) type,
    static const enum bpf_attach_type types[] = { HAND_OVER_AS_MAP(TYPE) };
#undef TYPE
    struct run_cgroup cgroup = { 0 };
    AUTO(fd_auto) int fd = run_cgroup_open(enforce->cgroups, process);

    if (fd < 0 || !run_cgroup_of(enforce->cgroups, process, &cgroup))
        return err_set(err, DIBS_NOT_FOUND, "process %" PRId32 " has no cgroup of its own", process->pid);
    uint64_t cookie = 0;
    dibs_status s = find_cookie(enforce, numbers->netns, &cookie, err);
    if (s != DIBS_OK)
        return s;
    numbers->netns = cookie;
    /* A second call replaces the numbers; its programs are attached already. */
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (attach(fd, enforce->fds[HAND_OVER_AS + i], types[i]) != 0 && errno != EINVAL)
            return err_os(err, DIBS_UNAVAILABLE, errno, "attaching programs to a cgroup");
    if (map_call(BPF_MAP_UPDATE_ELEM, enforce->fds[HAND_OVER_NUMBERS], &cgroup.id, numbers) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "writing the numbers of a cgroup");
    return DIBS_OK;
}

void enforce_clean(struct enforce *enforce)
{
    run_cgroups_clean(enforce->cgroups);
}

/* ---- open and close ---- */

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

static dibs_status run_loader(struct enforce *e, const struct enforce_options *options, char *cgroups,
                              dibs_err *err)
{
    int ends[2] = { -1, -1 };
    char *argv[] = { (char[]){ "dibs-bpf" }, cgroups,
                     options->is_persistent ? (char[]){ HAND_OVER_PINS } : NULL, NULL };
    char *no_environment[] = { NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    dibs_status s = DIBS_OK;

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

/* Let the daemon itself bind every port: it probes ports that others have just released. In a pid namespace
 * below the initial one it does not know its pid there, and is no exception. */
static dibs_status exempt_us(const struct enforce *e, dibs_err *err)
{
    uint32_t first = 0;
    uint32_t pid = e->view->is_initial_pidns ? (uint32_t) getpid() : 0;

    if (map_call(BPF_MAP_UPDATE_ELEM, e->fds[HAND_OVER_EXEMPT], &first, &pid) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "writing a map of the kernel");
    return DIBS_OK;
}

dibs_status enforce_open(const struct enforce_options *options, struct enforce **out, dibs_err *err)
{
    struct enforce *self = calloc(1, sizeof *self);
    char cgroups[256];

    if (!self)
        return err_set(err, DIBS_FAILURE, "enforcing claims: out of memory");
    for (size_t i = 0; i < HAND_OVER_FDS; i++)
        self->fds[i] = -1;
    self->view = options->view;
    dibs_status s = enforce_find_cgroups(cgroups, sizeof cgroups, err);
    if (s == DIBS_OK)
        s = run_loader(self, options, cgroups, err);
    if (s == DIBS_OK)
        s = exempt_us(self, err);
    if (s == DIBS_OK)
        s = run_cgroups_open(cgroups, &self->cgroups, err);
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
    run_cgroups_close(enforce->cgroups);
    for (size_t i = 0; i < HAND_OVER_FDS; i++)
        fd_auto(&enforce->fds[i]);
    free(enforce);
}
