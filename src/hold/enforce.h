/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_ENFORCE_H
#define DIBS_HOLD_ENFORCE_H
/* Let the kernel refuse the bind of a claimed port to every process that is not the claim's (level
 * "enforce"). Programs of eBPF at the root of the cgroup hierarchy look each bind up in a map of claimed
 * ports, which these functions keep. Needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and cgroup v2. One thread.
 */
#include <stdbool.h>

#include "hold/run_cgroup.h"
#include "host/process.h"

struct enforce;
struct numbers;

struct enforce_options {
    const char *program;             /* path of dibs-bpf */
    const struct process_view *view; /* borrowed */
    bool is_persistent;              /* ports stay refused while no daemon runs */
};

/* Load and attach the programs. UNAVAILABLE: this host or its kernel cannot, with the reason. */
dibs_status enforce_open(const struct enforce_options *options, struct enforce **out, dibs_err *err);
/* NULL is fine. Unless it is persistent, every process may bind every port afterwards. */
void enforce_close(struct enforce *enforce);

/* Refuse the ports of this claim to others, replacing what an earlier state of the claim said. Nobody is
 * refused a declared port. UNAVAILABLE: its network namespace cannot be reached from here, or the map is
 * full. */
dibs_status enforce_put(struct enforce *enforce, const dibs_claim *claim, dibs_err *err);
/* The claim has ended. Unknown claims are ignored. */
void enforce_drop(struct enforce *enforce, uint64_t claim_id);
/* Give the process (of our pid namespace) a cgroup of its own, as run_cgroup_make(): claims that it makes or
 * gets afterwards belong to all processes in it. */
dibs_status enforce_isolate(struct enforce *enforce, const dibs_process *process, uint32_t uid, char *path,
                            dibs_err *err);
/* Has enforce_put() given the claim to the kernel? */
bool enforce_has(const struct enforce *enforce, uint64_t claim_id);
/* Write the address as the kernel's programs compare it: IPv4 mapped into IPv6. */
void enforce_address(const dibs_address *address, uint32_t out[4]);
/* Let the processes of the process's cgroup use port numbers of their own (hold/bpf/numbers_map.h), after
 * enforce_isolate(). They keep them when the daemon ends. */
dibs_status enforce_numbers(struct enforce *enforce, const dibs_process *process, struct numbers *numbers,
                            dibs_err *err);
/* Remove the cgroups in which no process is left. */
void enforce_clean(struct enforce *enforce);
/* Are there cgroups that enforce_clean() may have to remove? */
bool enforce_has_cgroups(const struct enforce *enforce);
/* Before all claims are put again: forget them. Their ports stay refused until enforce_sweep(), which removes
 * from the map what was not put meanwhile. */
void enforce_forget(struct enforce *enforce);
void enforce_sweep(struct enforce *enforce);
#endif
