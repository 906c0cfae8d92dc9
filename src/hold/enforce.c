/* SPDX-License-Identifier: MIT */
#include "hold/enforce.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash_table.h"
#include "base/text.h"
#include "hold/bpf/hand_over.h"
#include "hold/bpf/numbers_map.h"
#include "hold/bpf/ports_map.h"
#include "hold/enforce_host.h"
#include "hold/owners.h"
#include "host/kernel.h"
#include "host/process.h"
#include "net/proto.h"

#include "base/banned.h"

enum {
    LOAD_MS = 20000, /* the kernel checks the programs in some milliseconds, on a busy machine in more */
    KEYS_MAX = DIBS_PROTO_MAX,
    LOCK_MS = 2000, /* a daemon that was killed, or one that starts, has the lock for some milliseconds */
    LOCK_STEP_MS = 10,
};

/* What the map has of a claim. */
struct entry {
    struct hash_table_item item; /* first; key: the claim's id */
    uint64_t netns;              /* inode of the claim's network namespace */
    size_t n;
    struct ports_key keys[KEYS_MAX]; /* there is at least one */
};

/* The kernel's number of a network namespace, by its inode. The kernel uses the inode of one that has ended
 * again, so these are valid only while all claims are put. */
struct cookie {
    struct hash_table_item item; /* first; key: the inode */
    uint64_t cookie;
};

struct enforce {
    int fds[HAND_OVER_FDS];
    int pins; /* the folder of pins, locked; -1: there is none, or another daemon has it */
    struct hash_table entries;
    struct hash_table cookies;
    uint64_t netns; /* inode of our network namespace */
    struct owners_maps owners;
    bool is_putting_all; /* between enforce_forget() and enforce_sweep() */
    const struct process_view *view;
    struct run_cgroups *cgroups;
};

/* ---- claims ---- */

static dibs_status find_cookie(struct enforce *e, uint64_t netns, uint64_t *out, dibs_err *err)
{
    struct cookie *known = e->is_putting_all ? (struct cookie *) hash_table_first(&e->cookies, netns) : NULL;
    bool is_ours = netns == 0 || netns == e->netns; /* it cannot end before we do */

    if (is_ours || known) {
        *out = is_ours ? e->owners.netns : known->cookie;
        return DIBS_OK;
    }
    dibs_status s = kernel_netns_cookie(netns, out, err);
    known = s == DIBS_OK && e->is_putting_all ? calloc(1, sizeof *known) : NULL;
    if (!known)
        return s;
    known->cookie = *out;
    if (!hash_table_add(&e->cookies, &known->item, netns))
        free(known);
    return s;
}

static void free_item(void *ctx, struct hash_table_item *item)
{
    hash_table_remove(ctx, item);
    free(item);
}

static void forget_cookies(struct enforce *e)
{
    hash_table_each(&e->cookies, free_item, &e->cookies);
}

/* With numbers of its own the command may be served by its parent, which binds in its place (hold/as). */
static void set_helper(const struct enforce *e, pid_t pid, struct ports_owner *out)
{
    struct process_facts holder = { 0 };
    struct process_facts parent = { 0 };

    if (process_identify(e->view, pid, &holder, NULL) != DIBS_OK || holder.ppid <= 1 ||
        process_identify(e->view, holder.ppid, &parent, NULL) != DIBS_OK || parent.uid != holder.uid)
        return;
    out->helper_pid = (uint32_t) holder.ppid;
    out->helper_start_ticks = (uint32_t) parent.process.start_ticks;
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
    out->start_ticks = (uint32_t) claim->process.start_ticks;
    if (claim->as_port)
        set_helper(e, pid, out);
    struct run_cgroup cgroup = { 0 };
    dibs_process here = claim->process;
    here.pid = pid;
    if (run_cgroup_of(e->cgroups, &here, &cgroup)) {
        out->cgroup = cgroup.id;
        out->level = cgroup.level;
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
    struct ports_owner owners[DIBS_BINDINGS_MAX];
    struct ports_owner owner;
    uint32_t n = 0;

    set_owner(e, claim, &owner);
    for (size_t i = 0; i < claim->n_bindings; i++) {
        if (claim->bindings[i].proto != proto)
            continue;
        set_address(&claim->bindings[i].address, &owner);
        owners[n++] = owner;
    }
    if (owners_replace(&e->owners, *key, claim->id, owners, n) == 0)
        return DIBS_OK;
    if (errno == ENOSPC)
        return err_set(err, DIBS_UNAVAILABLE, "port %u has more than %d claims that differ in their address",
                       claim->port, PORTS_OWNERS_MAX);
    return err_os(err, DIBS_UNAVAILABLE, errno, "writing the kernel's map of claimed ports");
}

static bool has_proto(const dibs_claim *claim, dibs_proto proto)
{
    for (size_t i = 0; i < claim->n_bindings; i++)
        if (claim->bindings[i].proto == proto)
            return true;
    return false;
}

static void set_keys(struct entry *entry, uint64_t cookie, const dibs_claim *claim)
{
    entry->n = 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if (has_proto(claim, proto))
            entry->keys[entry->n++] = (struct ports_key){ .netns = cookie,
                                                          .port = claim->port,
                                                          .proto = (uint16_t) proto_row(proto)->ip_proto };
}

static void drop_key(const struct enforce *e, const struct ports_key *key, uint64_t claim_id)
{
    /* Replacing and removing need no memory of the kernel's. */
    (void) owners_replace(&e->owners, *key, claim_id, NULL, 0);
}

static void drop_keys(const struct enforce *e, const struct entry *entry, uint64_t claim_id)
{
    for (size_t i = 0; i < entry->n; i++)
        drop_key(e, &entry->keys[i], claim_id);
}

/* Find or make what is known of the claim. One that changes keeps its keys: between dropping and writing them
 * a stranger could bind the port. */
static dibs_status find_entry(struct enforce *e, const dibs_claim *claim, struct entry **out, dibs_err *err)
{
    struct entry *known = (struct entry *) hash_table_first(&e->entries, claim->id);
    struct entry next = { .netns = claim->netns };
    uint64_t cookie = known ? known->keys[0].netns : 0;
    dibs_status s = DIBS_OK;

    if (!known || known->netns != claim->netns)
        s = find_cookie(e, claim->netns, &cookie, err);
    if (s != DIBS_OK)
        return s;
    set_keys(&next, cookie, claim);
    if (known && (known->n != next.n || memcmp(known->keys, next.keys, sizeof next.keys) != 0))
        drop_keys(e, known, claim->id);
    if (!known) {
        known = calloc(1, sizeof *known);
        if (!known || !hash_table_add(&e->entries, &known->item, claim->id)) {
            free(known);
            return err_set(err, DIBS_FAILURE, "enforcing a claim: out of memory");
        }
    }
    known->netns = next.netns;
    known->n = next.n;
    memcpy(known->keys, next.keys, sizeof next.keys);
    *out = known;
    return DIBS_OK;
}

dibs_status enforce_put(struct enforce *enforce, const dibs_claim *claim, dibs_err *err)
{
    struct entry *entry = NULL;

    if (claim->hold != DIBS_HOLD_ENFORCE || claim->is_damaged || claim->node[0]) {
        enforce_drop(enforce, claim->id);
        return DIBS_OK;
    }
    dibs_status s = find_entry(enforce, claim, &entry, err);
    if (s != DIBS_OK) {
        enforce_drop(enforce, claim->id);
        return s;
    }
    size_t i = 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++)
        if (has_proto(claim, proto))
            s = put_proto(enforce, claim, proto, &entry->keys[i++], err);
    return s;
}

void enforce_drop(struct enforce *enforce, uint64_t claim_id)
{
    struct entry *entry = (struct entry *) hash_table_first(&enforce->entries, claim_id);

    if (!entry)
        return;
    drop_keys(enforce, entry, claim_id);
    hash_table_remove(&enforce->entries, &entry->item);
    free(entry);
}

bool enforce_has(const struct enforce *enforce, uint64_t claim_id)
{
    return hash_table_first(&enforce->entries, claim_id) != NULL;
}

static bool is_known(const void *ctx, uint64_t claim_id)
{
    return enforce_has(ctx, claim_id);
}

void enforce_sweep(struct enforce *enforce)
{
    owners_sweep(&enforce->owners, is_known, enforce);
    enforce->is_putting_all = false;
    forget_cookies(enforce);
}

void enforce_forget(struct enforce *enforce)
{
    hash_table_each(&enforce->entries, free_item, &enforce->entries);
    enforce->is_putting_all = true;
}

dibs_status enforce_isolate(struct enforce *enforce, const dibs_process *process, uint32_t uid, char *path,
                            dibs_err *err)
{
    return run_cgroup_make(enforce->cgroups, process, uid, path, err);
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
    return owners_bpf(BPF_PROG_ATTACH, &attr);
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
    if (owners_map_call(BPF_MAP_UPDATE_ELEM, enforce->fds[HAND_OVER_NUMBERS], &cgroup.id, numbers) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "writing the numbers of a cgroup");
    return DIBS_OK;
}

void enforce_clean(struct enforce *enforce)
{
    run_cgroups_clean(enforce->cgroups);
}

bool enforce_has_cgroups(const struct enforce *enforce)
{
    return run_cgroups_count(enforce->cgroups) > 0;
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

/* Lock the folder of pins, so that no second daemon replaces the state of one that runs: a daemon without
 * pins does that only while it starts, and shares the lock with others. *has_other: another daemon has it.
 * Without the folder there is nothing to lock. */
static dibs_status lock_pins(struct enforce *e, bool is_persistent, bool *has_other, dibs_err *err)
{
    *has_other = false;
    if (is_persistent && mkdir(HAND_OVER_PINS, 0700) != 0 && errno != EEXIST)
        return err_os(err, DIBS_UNAVAILABLE, errno,
                      "cannot make " HAND_OVER_PINS
                      " (if no bpf file system is there: mount -t bpf bpf /sys/fs/bpf)");
    e->pins = open(HAND_OVER_PINS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t end_ms = clock_monotonic_ms() + LOCK_MS;
    while (e->pins >= 0) {
        if (flock(e->pins, (is_persistent ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
            return DIBS_OK;
        if (errno != EWOULDBLOCK || !is_persistent || clock_monotonic_ms() >= end_ms)
            break;
        (void) poll(NULL, 0, LOCK_STEP_MS);
    }
    *has_other = e->pins >= 0 && errno == EWOULDBLOCK;
    fd_auto(&e->pins);
    if (is_persistent)
        return *has_other ? err_set(err, DIBS_TAKEN,
                                    "another daemon with --enforce-persistent runs, and has " HAND_OVER_PINS)
                          : err_os(err, DIBS_UNAVAILABLE, errno, "cannot lock " HAND_OVER_PINS);
    return DIBS_OK;
}

static dibs_status run_loader(struct enforce *e, const struct enforce_options *options, char *cgroups,
                              dibs_err *err)
{
    int ends[2] = { -1, -1 };
    bool has_other = false;
    dibs_status s = lock_pins(e, options->is_persistent, &has_other, err);
    char pinning[16];
    char *argv[] = { (char[]){ "dibs-bpf" }, cgroups, pinning, NULL };
    char *no_environment[] = { NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;

    if (s != DIBS_OK)
        return s;
    (void) text_copy(pinning, sizeof pinning,
                     has_other                ? HAND_OVER_IGNORE
                     : options->is_persistent ? HAND_OVER_PIN
                                              : HAND_OVER_UNPIN);
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
    struct ports_exempt us = { 0 };
    struct process_facts facts = { 0 };

    if (e->view->is_initial_pidns && process_identify(e->view, getpid(), &facts, NULL) == DIBS_OK)
        us = (struct ports_exempt){ .pid = (uint32_t) getpid(),
                                    .start_ticks = (uint32_t) facts.process.start_ticks };
    if (owners_map_call(BPF_MAP_UPDATE_ELEM, e->fds[HAND_OVER_EXEMPT], &first, &us) != 0)
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
    self->pins = -1;
    self->view = options->view;
    self->netns = kernel_netns();
    self->is_putting_all = true; /* the daemon begins with it */
    dibs_status s = enforce_find_cgroups(cgroups, sizeof cgroups, err);
    if (s == DIBS_OK)
        s = kernel_netns_cookie(0, &self->owners.netns, err);
    if (s == DIBS_OK)
        s = run_loader(self, options, cgroups, err);
    if (!options->is_persistent)
        fd_auto(&self->pins); /* what was pinned has ended */
    if (s == DIBS_OK &&
        owners_open(self->fds[HAND_OVER_CLAIMED], self->fds[HAND_OVER_OWN], &self->owners) != 0)
        s = err_os(err, DIBS_UNAVAILABLE, errno, "mapping the kernel's list of claimed ports");
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
    forget_cookies(enforce);
    hash_table_done(&enforce->entries);
    hash_table_done(&enforce->cookies);
    run_cgroups_close(enforce->cgroups);
    owners_close(&enforce->owners);
    for (size_t i = 0; i < HAND_OVER_FDS; i++)
        fd_auto(&enforce->fds[i]);
    fd_auto(&enforce->pins);
    free(enforce);
}
