#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Completions in the real shells, each from the place where the shell looks: what a TAB makes of a line is what dibs
# accepts. Ports of this file: the default pool.
load ../support/dibs
load cli

# $T/bin/dibs answers completions, and writes the arguments of other calls to $T/typed, a line each.
setup() {
    dibs_setup
    mkdir "$T/bin"
    cat >"$T/bin/dibs" <<'END'
#!/bin/sh
case $1 in complete | pool | help) exec "$DIBS" "$@" ;; esac
printf '<%s>' "$@" >>"$T/typed"
echo >>"$T/typed"
END
    chmod +x "$T/bin/dibs"
    PATH=$T/bin:$PATH
    repository "$T/proj"
    cd "$T/proj" || return
    cat >dibs.yaml <<'END'
roles:
  frontend: { ports: [http], command: ["true"] }
  backend: { instances: 2, ports: [rpc] }
END
    ok get --create cache
    ok claim job/long:name --keep
    ok get /shared/thing
    ok pool set reserved --ranges 13470-13479
}
teardown() { dibs_teardown; }

# The lines that are typed, and the arguments that they become.
lines() {
    cat <<'END'
dibs rele\tx
dibs release ca\t
dibs release proj@main/ca\t
dibs renew job/lo\t
dibs get /sha\t
dibs get front\t
dibs get --exis\tx
dibs run fron\t
dibs run backend/1 fron\t
dibs run -p cac\t true
dibs env backe\t
dibs claim --pool res\t
dibs ls --proto ud\t
exit
END
}
wanted() {
    cat <<'END'
<release><x>
<release><cache>
<release><proj@main/cache>
<renew><job/long:name>
<get></shared/thing>
<get><frontend/0/http>
<get><--existing><x>
<run><frontend>
<run><backend/1><frontend>
<run><-p><cache><true>
<env><backend>
<claim><--pool><reserved>
<ls><--proto><udp>
END
}

# typed SHELL...: type the lines in that shell, compare what dibs got.
typed() {
    lines | "$DIBS_TEST_SUPPORT/type.py" "$@" >"$T/shown" || { tail -c 2000 "$T/shown" >&2; return 1; }
    diff <(wanted) "$T/typed"
}

# What dibs answers through a daemon shows in the last tests.
# bats test_tags=unserved
@test "bash completes names, roles, options and pools, also names with @ and :" {
    mkdir -p "$T/data/bash-completion/completions"
    dibs help --format bash >"$T/data/bash-completion/completions/dibs"
    cat >"$T/rc" <<'END'
PS1='ready> '
if [ -f /usr/share/bash-completion/bash_completion ]; then
    . /usr/share/bash-completion/bash_completion # it loads dibs' file at the first TAB
else
    . "$XDG_DATA_HOME/bash-completion/completions/dibs"
fi
END
    XDG_DATA_HOME=$T/data typed bash --rcfile "$T/rc" -i
}

# What dibs answers through a daemon shows in the last tests.
# bats test_tags=unserved
@test "zsh completes the same from a folder of its functions" {
    needs zsh
    mkdir "$T/site-functions"
    dibs help --format zsh >"$T/site-functions/_dibs"
    cat >"$T/.zshrc" <<END
PS1='ready> '
fpath=("$T/site-functions" \$fpath)
autoload -Uz compinit && compinit -u -d "$T/dump"
END
    ZDOTDIR=$T typed zsh -i
}

# What dibs answers through a daemon shows in the last tests.
# bats test_tags=unserved
@test "fish completes the same from its vendor folder" {
    needs fish
    mkdir -p "$T/data/fish/vendor_completions.d"
    dibs help --format fish >"$T/data/fish/vendor_completions.d/dibs.fish"
    # fish needs a terminal that answers its questions: ask it for its candidates instead of pressing TAB.
    lines | grep '\\t' | while IFS= read -r line; do
        line=${line%%'\t'*} last=${line##* }
        XDG_DATA_DIRS=$T/data:/usr/share fish -c "complete -C '$line'" | cut -f1 | grep -- "^$last" | head -1
    done >"$T/out"
    cat >"$T/wanted" <<'END'
release
cache
proj@main/cache
job/long:name
/shared/thing
frontend/0/http
--existing
frontend
frontend
cache
backend
reserved
udp
END
    diff "$T/wanted" "$T/out"
}

@test "complete answers for the last word of a line" {
    ok complete -- ls --proto u
    [ "$out" = $'tcp\nudp\nsctp' ]
    ok complete -- ls --proto=u
    prints --proto=udp
    ok complete -- -q claim --cont
    prints $'--contiguous\tthe ports follow each other'
    ok complete -- release ''
    prints $'cache\tport '
    prints backend/1/rpc
    not prints proj@main
    ok complete -- release proj
    prints $'proj@main/cache\tport '
    ok complete -- render --output x ''
    [ "$out" = :files ]
    ok complete -- run ''
    [ "$out" = $'frontend\nbackend\nbackend/0\nbackend/1\n:command 2' ]
    ok complete -- run -p web -- echo --pool ''
    [ "$out" = ':command 5' ]
    ok complete -- run frontend -- ec
    [ "$out" = ':command 4' ]
    ok complete -- env b
    prints backend/1
    ok complete
    [ -z "$out" ]
}

@test "completion is silent and quick without a usable manifest or ledger" {
    echo '{' >dibs.yaml
    DIBS_LEDGER=sqlite:$T/none/ledger.db
    for words in "get ''" "run ''" "env ''"; do
        eval "capture timeout 10 dibs complete -- $words"
        [ "$code" -eq 0 ]
        not prints proj
    done
}
