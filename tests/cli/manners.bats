#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Help, version, man page, completions, JSON: the manners of every command.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "the list of commands is what the help shows" {
    ok --list-commands
    [ "$out" = "$(printf '%s\n' run stop init up down plan env render get claim release renew transfer mcp \
        ls who explain assert log ui settings pool snapshot reap repair doctor serve node kube help version)" ]
    cp "$T/out" "$T/commands"
    ok --help
    while read -r name; do grep -q "^  $name  *[A-Z]" "$T/out"; done <"$T/commands"
}

@test "help of every command fits 80 columns, on stdout, with exit 0, in three spellings" {
    for name in $(dibs --list-commands); do
        ok "$name" --help
        [ -z "$errs" ]
        [ "$(head -c 12 "$T/out")" = 'Usage: dibs ' ]
        LC_ALL=C.UTF-8 not grep -n '.\{81\}' "$T/out"
        not grep -n ' $' "$T/out"
        grep -q '^Examples:' "$T/out"
        cp "$T/out" "$T/long"
        ok "$name" -h
        cmp "$T/out" "$T/long"
        ok help "$name"
        cmp "$T/out" "$T/long"
    done
    for spelling in --help -h help; do
        ok $spelling
        [ -z "$errs" ]
        not grep -n '.\{81\}' "$T/out"
    done
    made_no_ledger
}

@test "help needs no settings and no ledger" {
    DIBS_RANGE=nonsense DIBS_LEDGER=nonsense ok claim --help
    DIBS_RANGE=nonsense ok help
    DIBS_RANGE=nonsense ok version
    DIBS_RANGE=nonsense ok --version
}

@test "the version is one line, and the same in JSON" {
    ok version
    [[ $out =~ ^dibs\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    version=${out#dibs }
    ok --version
    [ "$out" = "dibs $version" ]
    ok -V
    [ "$out" = "dibs $version" ]
    ok version --json
    json "d == {'version': '$version'}"
}

@test "every command has valid JSON" {
    ok claim web --port 14500
    ok get db
    for command in ls 'ls --audit' log pool 'pool show default' reap 'repair --dry-run' doctor settings help 'help claim' version \
        'get db' 'claim web' 'who 14500' 'explain 14500' 'renew web' 'transfer web --keep' 'release nothing' \
        'claim -n 2 --dry-run' 'release web' 'release --all-mine' 'snapshot export'; do
        # shellcheck disable=SC2086 # several words
        ok $command --json
        json True
        # shellcheck disable=SC2086 # in front, too
        ok --json $command
        json True
    done
}

@test "errors are JSON on stderr with --json, for every exit code" {
    ok claim web --port 14510
    while read -r want args; do
        # shellcheck disable=SC2086 # several words
        try $args --json
        [ "$code" -eq "$want" ] || complain "dibs $args"
        [ -z "$out" ] || complain "dibs $args: stdout"
        cp "$T/err" "$T/out"
        json "d['error']['exit'] == $want and d['error']['message'] and d['error']['code']"
    done <<'END'
2 claim --port 0
2 no-such-command
2 ls --no-such
3 claim other --port 14510
4 claim --range 14510
5 assert nobody
6 ls --ledger sqlite:/dev/null/x
1 snapshot import /no/such/file
END
}

@test "notes are for people: --quiet leaves them out, and stdout is the same" {
    ok claim --dry-run --port 14520
    says 'dry run'
    ok claim --dry-run --port 14520 --quiet
    [ "$out" = 14520 ]
    [ -z "$errs" ]
    ok -q release nothing
    [ -z "$out$errs" ]
}

@test "no colours and no progress when it is not a terminal" {
    ok claim web
    for command in ls doctor log pool "explain 14530" --help; do
        # shellcheck disable=SC2086 # several words
        try $command
        not LC_ALL=C grep -q $'\033' "$T/out" "$T/err"
    done
}

@test "the man page formats without a warning and names every command" {
    needs man
    dibs help --format man >"$T/dibs.1"
    LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$T/dibs.1" >/dev/null 2>"$T/err"
    [ ! -s "$T/err" ] || { cat "$T/err" >&2; return 1; }
    MANWIDTH=80 MANPAGER=cat man -l "$T/dibs.1" >"$T/page"
    for name in $(dibs --list-commands); do grep -q "dibs-$name(1)" "$T/page"; done
}

@test "help --format man COMMAND is the page of one command; no other format has one" {
    ok help --format man claim
    prints '.TH DIBS\-CLAIM 1'
    prints 'contiguous'
    refused 2 help --format bash claim
    try help --format man --json
    [ "$code" -eq 2 ]
    refused 2 help --format man nosuch
}

@test "mandoc has nothing to say against the man page" {
    needs mandoc
    dibs help --format man >"$T/dibs.1"
    mandoc -T lint -W warning "$T/dibs.1"
}

@test "every example of every command's help runs in a fresh project" {
    mkdir "$T/bin"
    ln -s "$DIBS" "$T/bin/dibs"
    export PATH=$T/bin:$PATH
    count=0
    cat >dibs.yaml <<'END'
roles:
  web: { instances: 2, ports: [http], references: [{ env: API_PORT, from: api.http }], command: [echo, "{http}"] }
  api: { ports: [http] }
END
    # In the order of a day: what later examples need is claimed by earlier ones.
    dibs claim db api worker/0 >/dev/null
    dibs release --all-mine
    for name in $(dibs --list-commands); do
        dibs help "$name" | sed -n '/^Examples:/,$p' | sed 1d | sed 's/^  //' >"$T/examples"
        [ -s "$T/examples" ]
        case $name in
            get | render | renew | transfer | assert | who | explain) dibs -q claim web >/dev/null ;;
            init) mv dibs.yaml "$T" ;; # it writes one
        esac
        while IFS= read -r example; do
            count=$((count + 1))
            bash -c "$example" >"$T/out" 2>"$T/err" </dev/null || { echo "$example" >&2; cat "$T/err" >&2; return 1; }
        done <"$T/examples"
        dibs -q release --all-mine
        [ ! -e "$T/dibs.yaml" ] || mv "$T/dibs.yaml" .
    done
    [ "$count" -ge 36 ]
}
