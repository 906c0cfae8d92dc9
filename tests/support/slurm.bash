# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# A cluster of Slurm for bats files:   load ../support/dibs; load ../support/sandbox; load ../support/slurm
#
# It is a real one, with a controller and two nodes, n1 and n2. Each node is a set of namespaces (support/slurm-node), and
# a cable joins them. It needs root.

# slurm_start LINE...: with these lines at the end of slurm.conf. The scripts named there are in $SLURM/etc, which is made
# before (slurm_folder).
slurm_start() {
    local node
    cat >"$SLURM/etc/slurm.conf" <<END
ClusterName=test
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/var/spool/slurmd
StateSaveLocation=/var/spool
KillWait=1
NodeName=n[1-2] CPUs=8
PartitionName=all Nodes=ALL Default=YES State=UP
END
    printf '%s\n' "$@" >>"$SLURM/etc/slurm.conf"
    printf '127.0.0.1 localhost\n10.78.0.1 n1\n10.78.0.2 n2\n' >"$SLURM/hosts"
    start "$DIBS_TEST_SUPPORT/slurm-node" "$SLURM" n1 "$PUBLIC/dibs" controller
    local first=$STARTED
    start "$DIBS_TEST_SUPPORT/slurm-node" "$SLURM" n2 "$PUBLIC/dibs"
    local second=$STARTED
    wait_until 10 test -e "$SLURM/n1.made" -a -e "$SLURM/n2.made" || return 1
    declare -gA NODES=([n1]=$(first_child "$first") [n2]=$(first_child "$second"))
    ip link add cable netns "${NODES[n1]}" type veth peer name cable netns "${NODES[n2]}"
    for node in n1 n2; do
        nsenter --net --target "${NODES[$node]}" ip address add "10.78.0.${node#n}/24" dev cable
        nsenter --net --target "${NODES[$node]}" ip link set cable up
        touch "$SLURM/$node.linked"
    done
    wait_until 20 slurm_is_up || { tail -n 20 "$SLURM"/*.log >&2; return 1; }
}
first_child() { tr -d ' ' < <(ps -o pid= --ppid "$1"); }
slurm_is_up() {
    [ "$(on n1 sinfo -h -o '%D %T')" = '2 idle' ] && on n1 dibs ls && on n2 dibs ls
}

# slurm_folder: $SLURM, with a folder `etc`; public_folder comes before.
slurm_folder() {
    SLURM=$PUBLIC/slurm
    mkdir -p "$SLURM/etc"
}

# on NODE COMMAND...: as root, there. SLURM_USER=UID selects another user.
on() {
    local node=$1 user=${SLURM_USER:-0}
    shift
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        nsenter --all --target "${NODES[$node]}" --wdns="$PWD" -- \
        setpriv --reuid="$user" --regid="$user" --clear-groups timeout -k 5 60 "$@"
}

job_has_ended() { [ -z "$(on n1 squeue -h -j "$1" 2>/dev/null)" ]; } # job_has_ended JOB

# job_has_steps JOB COUNT: so many steps of it run; the batch script is one.
job_has_steps() { [ "$(on n1 squeue -h --steps -j "$1" | wc -l)" -eq "$2" ]; }
