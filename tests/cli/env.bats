#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs env: what it prints is read by what it is for. dibs render: whole or not at all. Ports of this file: 15400-15499.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_RANGE=15400-15489
    cat >dibs.yaml <<'END'
roles:
  api: { ports: [ { name: http, env: PORT, address: 127.0.0.1 } ] }
  web:
    instances: 2
    ports:
      - { name: http, env: PORT }
      - { name: gossip, env: GOSSIP_PORT, scope: RoleScoped, proto: udp }
      - { name: data, env: DATA_PORTS, count: 3 }
      - { name: block, env: BLOCK_PORT, count: 4, contiguous: true }
    references: [ { env: API_PORT, from: api.http } ]
END
}
teardown() { dibs_teardown; }

# The same variables as what a command of the role gets, in this order.
expected() {
    dibs run web/1 -- sh -c 'echo "$PORT $GOSSIP_PORT $DATA_PORTS $BLOCK_PORT $API_PORT"'
}
show='echo "$PORT $GOSSIP_PORT $DATA_PORTS $BLOCK_PORT $API_PORT"'

# env_as FORMAT: what dibs env says, in $T/FORMAT.
env_as() {
    ok env web/1 --format "$1"
    cp "$T/out" "$T/$1"
}

@test "dotenv and export are read by a shell" {
    want=$(expected)
    [[ $want =~ ^[0-9]+\ [0-9]+\ [0-9]+,[0-9]+,[0-9]+\ [0-9]+\ [0-9]+$ ]]
    env_as dotenv
    [ "$(bash -c "set -a; . \"\$0\"; set +a; exec sh -c '$show'" "$T/dotenv")" = "$want" ]
    [ "$(sh -c "set -a; . \"\$0\"; $show" "$T/dotenv")" = "$want" ]
    env_as export
    [ "$(bash -c "eval \"\$(cat \"\$0\")\"; exec sh -c '$show'" "$T/export")" = "$want" ]
    ok env web/1
    cmp "$T/out" "$T/dotenv"
}

@test "fish reads its own format" {
    needs fish
    want=$(expected)
    env_as fish
    [ "$(fish --no-config -c "source $T/fish; sh -c '$show'")" = "$want" ]
}

@test "a variable that a shell does not let anybody set is refused: nothing that is printed fails or harms there" {
    # Read-only in bash; in zsh UID and GID change the user; path is zsh's PATH.
    for name in $(bash -c 'readonly -p' | sed -n 's/^declare -[A-Za-z]* \([A-Za-z_]*\).*/\1/p') UID GID path TMOUT; do
        printf 'roles: { api: { ports: [ { name: http, env: %s } ] } }\n' "$name" >dibs.yaml
        refused 2 env api --format export
        says "env '$name' cannot be a port"
    done
}

@test "json is an object of texts, the same with --json" {
    want=$(expected)
    env_as json
    [ "$("$PYTHON" -SE -c 'import json, sys; d = json.load(open(sys.argv[1]))
print(d["PORT"], d["GOSSIP_PORT"], d["DATA_PORTS"], d["BLOCK_PORT"], d["API_PORT"])' "$T/json")" = "$want" ]
    json 'len(d) == 5 and all(type(v) is str for v in d.values())'
    ok env web/1 --json
    cmp "$T/out" "$T/json"
}

@test "the systemd format is what EnvironmentFile= reads: NAME=VALUE lines without anything to quote" {
    want=$(expected)
    env_as systemd
    [ "$("$PYTHON" -SE -c 'import re, sys
d = {}
for line in open(sys.argv[1]):
    name, value = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9,]+)\n", line).groups()
    assert name not in d
    d[name] = value
print(d["PORT"], d["GOSSIP_PORT"], d["DATA_PORTS"], d["BLOCK_PORT"], d["API_PORT"])' "$T/systemd")" = "$want" ]
}

@test "every port of the whole group has a name, and a second call claims nothing" {
    ok env
    # Three ports are PORT; each web has DATA_PORTS of its own, all share GOSSIP_PORT and API_PORT.
    names=$(sed 's/=.*//' "$T/out")
    [ "$names" = 'API_HTTP_PORT
WEB_0_HTTP_PORT
GOSSIP_PORT
WEB_0_DATA_PORT
WEB_0_BLOCK_PORT
API_PORT
WEB_1_HTTP_PORT
WEB_1_DATA_PORT
WEB_1_BLOCK_PORT' ]
    grep -qx "API_PORT=$(dibs get api/http)" "$T/out"
    grep -qx "WEB_1_HTTP_PORT=$(dibs get web/1/http)" "$T/out"
    says 'PORT, DATA_PORTS, BLOCK_PORT have more than one meaning'
    [ "$(held)" -eq 18 ]
    ok log --json
    cp "$T/out" "$T/log"
    ok env
    ok env web/0 --format fish
    ok log --json
    cmp "$T/out" "$T/log"
    ok plan --json
    json 'all(c["change"] == "keep" for c in d)'
}

@test "env --pid gives each process ports of its own, which end with it" {
    start_sleeper
    ok env web/1 --pid "$STARTED" --group one --json
    cp "$T/out" "$T/one"
    ok ls --all --json
    json "len(d) == 10 and all(c['holder']['pid'] == $STARTED and not c['kept'] for c in d)"
    # The same process gets the same again, another one not.
    ok env web/1 --pid "$STARTED" --group one --json
    cmp "$T/out" "$T/one"
    refused 3 env web/1 --pid $$ --group one
    says 'is held by'
    ok env web/1 --pid $$ --group two --json
    not cmp "$T/out" "$T/one"
    end_process "$STARTED"
    ok reap
    ok ls --all --json
    json "len(d) == 10 and all(c['name'].startswith('two/') for c in d)"
    refused 2 env --pid 0
    refused 2 env --pid $$ --format procfile
}

@test "env claims everything that it prints or nothing, and refuses an unknown format first" {
    refused 2 env web --format toml
    says dotenv
    refused 5 env wbe
    listen 15490
    sed -i 's/name: data, env: DATA_PORTS, count: 3/name: data, env: DATA_PORTS, port: 15490/; s/instances: 2/instances: 1/' dibs.yaml
    refused 3 env web
    says 15490
    refused 3 env
    nothing_claimed
}

@test "env of the whole group refuses two ports of one variable before it claims anything" {
    cat >dibs.yaml <<'END'
roles:
  a-b: { ports: [ { name: c, env: PORT } ] }
  a: { ports: [ { name: b-c, env: PORT } ] }
END
    refused 2 env
    says A_B_C_PORT
    nothing_claimed
    ok env a
}

# Texts that need quotes everywhere, as a list for Python.
texts='["a b", "it'"'"'s", "\"q\"", "$HOME `x` \\ #", "{x}", "", "~", "&|;<>*?()!", "\u00e4"]'
manifest_of_texts() {
    "$PYTHON" -SE -c 'import json, sys
texts = json.loads(sys.argv[1])
print(json.dumps({"roles": {"r": {"ports": ["p"], "env": {
    f"T{i}": text.replace("{", "{{").replace("}", "}}") for i, text in enumerate(texts)}}}}))' "$texts" >dibs.json
    rm -f dibs.yaml
}
# What a program gets, as the same list; read as a list from standard input.
same_texts='import json, os, sys
want = json.loads(sys.argv[1])
have = [os.environ[f"T{i}"] for i in range(len(want))]
assert have == want, f"{have}"
assert os.environ["P_PORT"].isdigit()'

@test "whatever a text has in it, the command and the reader of each format get this text" {
    manifest_of_texts
    ok run r -- "$PYTHON" -SE -c "$same_texts" "$texts"
    for format in dotenv export; do
        env_as_r "$format"
        for shell in bash dash; do
            "$shell" -c 'set -a; . "$0"; set +a; "$@"' "$T/$format" "$PYTHON" -SE -c "$same_texts" "$texts"
        done
    done
    env_as_r fish
    fish --no-config -c 'source $argv[1]; exec $argv[2..]' "$T/fish" "$PYTHON" -SE -c "$same_texts" "$texts"
    env_as_r json
    json "[d[f'T{i}'] for i in range(9)] == $texts"
}
env_as_r() {
    ok env r --format "$1"
    cp "$T/out" "$T/$1"
}

@test "a variable of env is checked like a reference, and refused where it would harm" {
    for row in '{nope} neither' '{pg.sq} sql' '{pq.sql} pg' '{pg[1].sql} counted' '{ {{' 'a} }}' '{} neither'; do
        printf 'roles:\n  pg: { ports: [ sql ] }\n  web:\n    env: { URL: "%s" }\n' "${row%% *}" >dibs.yaml
        refused 2 env
        says "dibs.yaml:4:"
        says "${row##* }"
    done
    for name in PATH LD_PRELOAD IFS DIBS_LEDGER HOME NODE_OPTIONS; do
        printf 'roles: { web: { env: { %s: x } } }\n' "$name" >dibs.yaml
        refused 2 plan
        says "env '$name' cannot be set for a command"
    done
    printf 'roles: { web: { ports: [ http ], env: { HTTP_PORT: x } } }\n' >dibs.yaml
    refused 2 up
    says 'HTTP_PORT'
    nothing_claimed
}

@test "a Procfile starts what dibs run starts, with the same ports" {
    needs foreman
    mkdir front
    cat >dibs.yaml <<'END'
roles:
  pg: { ports: [ sql ] }
  api:
    instances: 2
    ports: [ { name: http, env: PORT } ]
    env: { URL: "postgres://it's:{pg.sql}/$x" }
    command: |
      echo "at $PWD: $PORT {http} $URL $DIBS_INSTANCE"
    cwd: front
  web: { references: [ { env: API, from: "api[1].http" } ], command: [ printenv, API ] }
END
    ok env --format procfile
    cp "$T/out" Procfile
    foreman start >"$T/said" 2>&1 || true
    for i in 0 1; do
        port=$(dibs get "api/$i/http")
        grep -qF "at $PWD/front: $port $port postgres://it's:$(dibs get pg/sql)/\$x $i" "$T/said"
    done
    grep -q "web.*| $port\$" "$T/said"
    ok release --all-mine
    sed -i 's/echo "at/: two\n      &/' dibs.yaml
    refused 2 env --format procfile
    says 'several lines'
    refused 2 env web --format procfile
    printf 'roles: { pg: { ports: [ sql ] } }\n' >dibs.yaml
    refused 2 env --format procfile
    [ "$(held)" -eq 0 ]
}

@test "render fills in variables of roles" {
    cat >>dibs.yaml <<'END'
    env: { URL: "http://localhost:{api.http}/{data}/{block}" }
END
    echo '{{ env "web/URL" }} {{ env "web/1/PORT" }} {{ env "web/DATA_PORTS" }}' >template
    ok render template
    filled=$out
    [ "$(dibs env web --format json | "$PYTHON" -SE -c 'import json, sys; d = json.load(sys.stdin); print(d["URL"], d["DATA_PORTS"])')" = \
        "$(cut -d' ' -f1,3 <<<"$filled")" ]
    [ "$(cut -d' ' -f2 <<<"$filled")" = "$(dibs get web/1/http)" ]
    ok release --all-mine
    echo '{{ env "web/UR" }}' >template
    refused 5 render template
    says template:1:1
    echo '{{ env "wbe/URL" }}' >template
    refused 5 render template
    nothing_there
}
nothing_there() { [ "$(held)" -eq 0 ]; }

@test "render into /dev/stdout leaves what stands in the file beside it" {
    echo '{{ port "cache" }}' >"$T/template"
    (echo before && "$DIBS" render "$T/template" -o /dev/stdout && echo after) >"$T/out"
    [ "$(head -1 "$T/out")" = before ]
    [ "$(tail -1 "$T/out")" = after ]
    [ "$(wc -l <"$T/out")" -eq 3 ]
}

@test "render writes an IPv6 address as a URL has it" {
    sed -i 's/address: 127.0.0.1/address: "::1"/' dibs.yaml
    echo 'http://{{ address "api/http" }}:{{ port "api/http" }}/' >"$T/template"
    ok render "$T/template"
    [ "$out" = "http://[::1]:$(dibs get api/http)/" ]
}

@test "render fills in what get and env say, into a file that is there whole or not at all" {
    cat >"$T/template" <<'END'
listen {{ port "web/1/http" }} of {{ address "web/1/http" }};
api http://{{ address "api/http" }}:{{ port "api/http" }}/ {{ env "GREETING" }} {{ port "cache" }} {{ "{{" }}
END
    export GREETING=hello
    ok render "$T/template" -o "$T/rendered"
    [ -z "$out" ]
    [ "$(held)" -eq 3 ]
    cat >"$T/want" <<END
listen $(dibs get web/1/http) of localhost;
api http://127.0.0.1:$(dibs get api/http)/ hello $(dibs get cache) {{
END
    cmp "$T/rendered" "$T/want"
    [ "$(held)" -eq 3 ]
    ok render "$T/template"
    cmp "$T/out" "$T/want"
    ok render - <"$T/template"
    cmp "$T/out" "$T/want"
}

@test "a file that cannot be written stays as it was, and claims nothing" {
    mkdir "$T/closed"
    echo old >"$T/closed/config"
    echo '{{ port "web/0/http" }} {{ port "cache" }}' >"$T/template"
    if [ "$(id -u)" -eq 0 ]; then
        mount -t tmpfs -o size=64k none "$T/closed" 2>/dev/null || skip "needs a mount of its own"
        echo old >"$T/closed/config"
        mount -o remount,ro "$T/closed"
    else
        chmod 0555 "$T/closed"
    fi
    try render "$T/template" -o "$T/closed/config"
    [ "$(cat "$T/closed/config")" = old ]
    [ "$(ls -A "$T/closed")" = config ]
    if [ "$(id -u)" -eq 0 ]; then umount "$T/closed"; else chmod 0755 "$T/closed"; fi
    [ "$code" -eq 1 ] || complain 'must be exit 1'
    [ "$(held)" -eq 0 ]
    # Earlier lines stay.
    ok get --create cache
    refused 1 render "$T/template" -o "$T/none/config"
    [ "$(held)" -eq 1 ]
}

@test "a template that is wrong anywhere claims nothing" {
    printf 'first {{ port "web/0/http" }}\nthen {{ prot "x" }}\n' >"$T/template"
    refused 2 render "$T/template"
    says 'template:2:'
    printf '{{ port "web/0/http" }} {{ env "NOT_SET" }}\n' >"$T/template"
    refused 2 render "$T/template"
    says NOT_SET
    printf '{{ port "web/0/http" }} {{ port "web/0/htp" }}\n' >"$T/template"
    refused 5 render "$T/template"
    says "web/0/htp"
    listen 15490
    sed -i 's/name: data, env: DATA_PORTS, count: 3/name: data, env: DATA_PORTS, port: 15490/; s/instances: 2/instances: 1/' dibs.yaml
    printf '{{ port "web/0/http" }} {{ port "web/0/data" }}\n' >"$T/template"
    refused 3 render "$T/template"
    nothing_claimed
}
