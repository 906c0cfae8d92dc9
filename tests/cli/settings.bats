#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Where settings come from, and what a bad one says. Ports of this file: 14000-14099.
load ../support/dibs
load cli

setup() {
    dibs_setup
    mkdir -p "$XDG_CONFIG_HOME/dibs"
    user=$XDG_CONFIG_HOME/dibs/dibs.yaml
}
teardown() { dibs_teardown; }

cooldown() { # cooldown VALUE SOURCE [ARGUMENT]...: what doctor shows
    ok doctor "${@:3}" --json
    json "any(f['text'].startswith('cooldown = $1 ($2') for f in d)"
}

# with_etc TEXT COMMAND...: with that /etc/dibs/dibs.yaml, in a mount namespace of its own.
with_etc() {
    printf '%s\n' "$1" >"$T/etc.yaml"
    shift
    # shellcheck disable=SC2016 # for the inner shell
    unshare -m sh -c '
        mount -t tmpfs none /etc && mkdir /etc/dibs && cp "$0" /etc/dibs/dibs.yaml && exec "$@"' "$T/etc.yaml" "$@"
}

@test "a flag wins over the environment, that over the user's file, that over the default" {
    cooldown 5s default
    echo 'cooldown: 6s' >"$user"
    cooldown 6s 'user file'
    export DIBS_COOLDOWN=7s
    cooldown 7s environment
    cooldown 8s flag --cooldown 8s
}

@test "/etc/dibs/dibs.yaml is below all of them" {
    needs_root
    with_etc 'ttl: 9m' true 2>/dev/null || skip "no mount namespace here"
    with_etc 'ttl: 9m' "$DIBS" claim --json >"$T/out"
    json 'd[0]["holder"]["ttl_ms"] == 540000'
    with_etc 'ttl: 9m' "$DIBS" doctor >"$T/out"
    grep -q 'ttl = 9m (/etc/dibs/dibs.yaml' "$T/out"
    echo 'ttl: 8m' >"$user"
    with_etc 'ttl: 9m' "$DIBS" claim --json >"$T/out"
    json 'd[0]["holder"]["ttl_ms"] == 480000'
    capture with_etc 'ttl: soon' "$DIBS" ls
    [ "$code" -eq 2 ]
    grep -q '/etc/dibs/dibs.yaml:1:1.*ttl' "$T/err"
}

@test "every setting can be written in a file" {
    cat >"$user" <<END
# all of them
ledger: sqlite:$T/from-file.db
ledger-mode: strict
mru-file: $T/mru
socket: none
sync: full
range: 14000-14009
pool: default
band: off
order: lowest
cooldown: 1s
ttl: 1h
timeout: 2s
allow-ephemeral: false
allow-blocked: false
group: filed
END
    unset DIBS_LEDGER DIBS_LEDGER_MODE DIBS_SOCKET
    ok claim --json
    json 'd[0]["port"] == 14000 and d[0]["holder"]["ttl_ms"] == 3600000'
    ok claim web --json
    json 'd[0]["name"] == "filed/web"'
    [ -f "$T/from-file.db" ]
    ok doctor
    [ "$(grep -c 'user file' "$T/out")" -eq 15 ]
}

@test "a bad value in a file names setting, file, line and column" {
    printf '# a comment\ncooldown: 5s\n  \nttl: 10\n' >"$user"
    refused 2 ls
    says "$user:4:1"
    says ttl
    says "'10'"
    printf 'cooldwon: 5s\n' >"$user"
    refused 2 ls
    says "$user:1:1"
    says cooldwon
}

@test "an unknown setting in a file names a command that still works, and lists them" {
    echo 'tll: 1m' >"$user"
    refused 2 ls
    [[ $errs == *"there is no setting 'tll'; 'dibs --help' lists them"* ]]
    ok --help
    [[ $out == *--ttl* ]]
}

@test "a malformed settings file is refused with its place" {
    for text in 'just text' '- a' 'a: [1, 2' 'ttl: [1]' 'ttl: {a: b}' 'ttl: &a 5m
cooldown: *a' 'ttl: 5m
ttl: 6m' "$(printf 'ttl: "5m\\0"')" "$(printf '\t ttl: 5m')" '? [a]
: 5m'; do
        printf '%s\n' "$text" >"$user"
        try claim
        [ "$code" -eq 2 ] || complain "accepted: $text"
        one_line
        says "$user"
    done
    printf 'ttl: 5m\0\n' >"$user"
    refused 2 claim
    head -c 100000 /dev/zero | tr '\0' '#' >"$user"
    refused 2 claim
    rm "$user"
    mkdir "$user"
    refused 2 claim
    rmdir "$user"
    mkfifo "$user"
    refused 2 claim
    rm "$user"
    : >"$user"
    ok ls
    nothing_claimed
}

@test "a bad value in the environment or a flag names the setting and its source" {
    while read -r name bad; do
        env=DIBS_$(tr 'a-z-' 'A-Z_' <<<"$name")
        capture env "$env=$bad" "$DIBS" ls
        [ "$code" -eq 2 ] || complain "$env=$bad is accepted"
        one_line
        says "$name"
        says environment
        [[ $name = allow-* ]] || { # as a flag it has no value
            refused 2 doctor "--$name=$bad"
            says "$name"
            says flag
        }
    done <<'END'
ledger nonsense
ledger sqlite:
ledger-mode maybe
sync sometimes
range 10-5
range 0-5
range 65536
range 1e3
band -1
band some
order sideways
cooldown 5
cooldown -5s
cooldown 5y
ttl 0s
ttl 100000d
timeout 0s
timeout 5
allow-ephemeral perhaps
allow-blocked perhaps
group a/b
END
    nothing_claimed
}

@test "an empty variable is not set" {
    DIBS_TTL='' DIBS_RANGE='' ok claim
}

@test "durations have units everywhere" {
    for good in 500ms 10s 5m 2h 7d; do
        ok claim --ttl $good
    done
    for good in 0s 500ms 10s 5m 1h; do
        ok claim --cooldown $good
    done
    refused 2 claim --cooldown 2h # marks of released ports are kept for an hour
    for bad in 10 10x ' 10s' '10 s' 1.5s 1e3s s -1s +1s 99999999999999999999s 0s; do
        refused 2 claim --ttl "$bad"
    done
}

@test "a socket that is named must answer, else exit 6: never silently another ledger" {
    DIBS_SOCKET=$T/no.sock refused 6 claim
    says "$T/no.sock"
    refused 6 claim --socket "$T/no.sock"
    echo "socket: $T/no.sock" >"$user"
    unset DIBS_SOCKET
    refused 6 claim
    ok claim --socket none
    [ "$(held)" -eq 1 ]
}

@test "without HOME, and without an entry in the user database, it says so" {
    needs_root
    needs setpriv
    as_nobody "$DIBS" version >/dev/null 2>&1 || skip "another user cannot reach the program"
    capture setpriv --reuid=71234 --regid=71234 --clear-groups env -i "$DIBS" ls
    [ "$code" -eq 2 ]
    says HOME
}

@test "a settings file that cannot be seen or read is reported and skipped" {
    shared_ledger
    export XDG_CONFIG_HOME=$T/closed
    mkdir -p "$T/closed/dibs"
    echo 'ttl: nonsense' >"$T/closed/dibs/dibs.yaml"
    for closed in "$T/closed" "$T/closed/dibs" "$T/closed/dibs/dibs.yaml"; do
        chmod 0 "$closed"
        capture as_nobody "$DIBS" claim
        [ "$code" -eq 0 ] || complain "$closed"
        [[ $out =~ ^[0-9]+$ ]]
        says "warning: settings file $T/closed/dibs/dibs.yaml may not be read"
        capture as_nobody "$DIBS" doctor
        prints "warn  $T/closed/dibs/dibs.yaml may not be read"
        chmod 0755 "$closed"
    done
    capture as_nobody "$DIBS" claim
    [ "$code" -eq 2 ]
    says nonsense
}

@test "without HOME the ledger is below the folder of the user database" {
    shared_ledger
    needs unshare
    echo "someone:x:65534:65534::$T/entry:/bin/sh" >"$T/passwd"
    mkdir -m 0777 "$T/entry"
    # shellcheck disable=SC2016 # for the inner shell
    unshare -m sh -c 'mount --bind "$T/passwd" /etc/passwd && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
        env -i "$DIBS" claim' >"$T/out"
    [ -s "$T/out" ]
    [ -f "$T/entry/.local/state/dibs/ledger.db" ]
}

# A client of a daemon does not choose the ledger file.
# bats test_tags=unserved
@test "a relative ledger is resolved where the call is made, shown whole, and refused in a file" {
    unset DIBS_LEDGER
    ok claim web --keep --ledger sqlite:here.db
    [ -f "$T/project/here.db" ]
    mkdir sub
    cd sub
    DIBS_LEDGER=sqlite:../here.db ok ls --names
    prints web
    DIBS_LEDGER=sqlite:../here.db ok doctor
    prints "ledger = sqlite:$T/project/sub/../here.db (environment)"
    echo 'ledger: sqlite:here.db' >"$user"
    refused 2 ls
    says "$user:1:1"
    says "whole path"
}

@test "a pool that is set and does not exist is what doctor finds first" {
    DIBS_POOL=nosuch try doctor
    [ "$code" -eq 1 ]
    prints "there is no pool 'nosuch'"
    prints 'environment'
    ok pool set nosuch --ranges 14050-14059
    DIBS_POOL=nosuch ok doctor
}

# A daemon writes within its own limits.
# bats test_tags=unserved
@test "the limit of file sizes is exit 6, and the command of run has the signal as it was" {
    capture sh -c "ulimit -f 8; exec '$DIBS' claim web"
    [ "$code" -eq 6 ]
    one_line
    ok run grep SigCgt /proc/self/status
    bits=$(awk '{ print $2 }' "$T/out")
    ok run grep SigIgn /proc/self/status
    ignored=$(awk '{ print $2 }' "$T/out")
    [ $((0x$bits & 1 << 24)) -eq 0 ]
    [ $((0x$ignored & 1 << 24)) -eq 0 ]
}

@test "the default ledger of a user is made with a private folder and file" {
    shared_ledger
    as_nobody env -i HOME="$T/home" XDG_STATE_HOME="$T/fresh" "$DIBS" claim >/dev/null
    [ "$(stat -c %a "$T/fresh/dibs")" = 700 ]
    [ "$(stat -c %a "$T/fresh/dibs/ledger.db")" = 600 ]
}

@test "a manifest may not say where the ledger is" {
    for line in "ledger: sqlite:$T/evil.db" 'socket: /tmp/evil' 'ledger-mode: mru' "mru-file: $T/evil" 'sync: normal'; do
        echo "$line" >dibs.yaml
        refused 2 claim
        grep -q "dibs.yaml:1:1: a project may not set '${line%%:*}'" "$T/err"
        [ ! -e "$T/evil.db" ]
    done
}

@test "a manifest's settings count below environment and flags and above the user's file" {
    mkdir -p "$XDG_CONFIG_HOME/dibs"
    echo 'range: 23000-23099' >"$XDG_CONFIG_HOME/dibs/dibs.yaml"
    echo 'range: 24000-24099' >dibs.yaml
    ok claim
    [ "$out" -ge 24000 ] && [ "$out" -le 24099 ]
    mkdir below && cd below
    DIBS_RANGE=25000-25099 ok claim
    [ "$out" -ge 25000 ] && [ "$out" -le 25099 ]
    ok claim --range 26000-26099
    [ "$out" -ge 26000 ] && [ "$out" -le 26099 ]
    ok doctor
    grep -q 'range = 24000-24099 (manifest)' "$T/out"
    echo 'range: 0-5' >../dibs.yaml
    refused 2 claim
    grep -q 'dibs.yaml:1:1: setting range (manifest)' "$T/err"
}

@test "dibs settings shows each setting with its source, and the group and project of names, and asks no ledger" {
    echo 'cooldown: 6s' >"$user"
    echo 'range: 14020-14029' >dibs.yaml
    DIBS_TTL=7m ok settings --timeout 2s --json
    json '{s["name"]: s["source"] for s in d["settings"] if s["source"] != "default"} == {"ledger": "environment",
        "ledger-mode": "environment", "socket": "environment", "range": "manifest", "cooldown": "user file",
        "ttl": "environment", "timeout": "flag"}'
    json 'next(s["value"] for s in d["settings"] if s["name"] == "range") == "14020-14029"'
    made_no_ledger || is_served
    json "d['group'] == 'project' and d['project'] == '$T/project' and d['manifest'] and not d['manifest_problem']"
    ok settings
    grep -q '^range  *14020-14029  *manifest$' "$T/out"
    grep -qF "the group project of $T/project, which has a manifest" "$T/out"
    ok settings --group shop --json
    json 'd["group"] == "shop" and d["project"] is None'
    ok claim --json
    json '14020 <= d[0]["port"] <= 14029'
    # A manifest that cannot be used is no failure here: the answer says so.
    echo 'nonsense: 1' >dibs.yaml
    try settings --json
    [ "$code" -eq 0 ]
    json "not d['manifest'] and \"has no key 'nonsense'\" in d['manifest_problem']"
    rm dibs.yaml
    refused 2 settings --range nonsense
}
