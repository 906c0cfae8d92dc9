#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs init: a first manifest. dibs env --format compose: a file for another tool. Ports of this file: 15500-15599.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_RANGE=15500-15589
}
teardown() { dibs_teardown; }

compose_file() {
    cat >compose.yaml <<'END'
x-limits: &limits { restart: always } # used twice
services:
  db:
    <<: *limits
    image: postgres # keep this comment
    ports: ["${DB_PORT:-5432}:5432"]
  mail:
    image: mailhog
    ports:
      - 1025:1025
      - target: 8025
        published: 8025
        protocol: tcp
      - "127.0.0.1:9000-9002:9000-9002/udp"
      - "3000"
      - "53:53/udp"
      - "53:53/tcp"
END
}

# The published ports, as docker-compose sees them: "db 5432/tcp 20001".
published() {
    docker-compose -f "$1" config >"$T/resolved" || return
    "$PYTHON" -SE -c 'import sys; sys.path.append("/usr/lib/python3/dist-packages")
import yaml
for name, service in yaml.safe_load(open(sys.argv[1]))["services"].items():
    for port in service.get("ports", []):
        if isinstance(port, dict):
            print(name, "%s/%s" % (port["target"], port.get("protocol", "tcp")), port.get("published", "none"))
        else:
            *host, target = port.split(":")
            print(name, target if "/" in target else target + "/tcp", *(host[-1:] or ["none"]))' "$T/resolved" | sort
}

@test "init writes a manifest of the compose file and package.json, and it works at once" {
    compose_file
    echo '{ "scripts": { "dev": "vite" } }' >package.json
    ok init
    [[ $errs = *"3 roles"*compose.yaml*package.json*"dibs up"* ]]
    ok up
    ok run web -- sh -c 'echo "$PORT $DB_PORT $MAIL_1025_PORT $MAIL_8025_PORT"'
    [ "$out" = "$(dibs get web/http) $(dibs get db/port) $(dibs get mail/port-1025) $(dibs get mail/port-8025)" ]
    grep -q 'npm run dev -- --port {http} --strictPort' dibs.yaml
}

@test "init never writes over a manifest, nor beside one in JSON" {
    echo 'roles: {}' >dibs.yaml
    refused 3 init
    [ "$(cat dibs.yaml)" = 'roles: {}' ]
    mv dibs.yaml dibs.json
    refused 3 init
    [ ! -e dibs.yaml ]
}

@test "init takes the commands of a Procfile, which say more than package.json; only those that listen get a port" {
    cat >Procfile <<'END'
# comment
web: echo "web on $PORT"
queue: echo "it's: a \"worker\"${PORT_NONE:+}; $HOME"
worker: echo work
END
    echo '{ "scripts": { "start": "node server.js" } }' >package.json
    ok init --json
    json 'd == {"file": "dibs.yaml", "roles": 3}'
    ok run web
    [ "$out" = "web on $(dibs get web/http)" ]
    ok run queue
    [ "$out" = "it's: a \"worker\"; $HOME" ]
    ok run worker
    [ "$out" = work ]
    ok env worker
    [ -z "$out" ]
}

@test "init uses the package manager whose lock file is there, and leaves a broken package.json to its user" {
    echo '{ "scripts": { "start": "next start" } }' >package.json
    touch yarn.lock
    ok init
    grep -q 'command: "yarn run start"' dibs.yaml
    rm dibs.yaml
    echo '{' >package.json
    refused 2 init
    says package.json
    [ ! -e dibs.yaml ]
}

@test "init without any of these writes an example, and one that it cannot write is not left half" {
    ok init
    [[ $errs = *example* ]]
    ok up
    rm dibs.yaml
    if [ "$(id -u)" -eq 0 ]; then
        mkdir "$T/full"
        mount -t tmpfs -o size=4k,nr_inodes=8 tmpfs "$T/full"
        cd "$T/full"
        dd if=/dev/zero of=filler bs=4096 count=1 2>/dev/null
        try init
        cd "$T"
        left=$(ls "$T/full")
        umount "$T/full"
        [ "$code" -eq 1 ]
        [ "$left" = filler ]
    fi
}

@test "the compose format replaces published host ports and no other byte" {
    needs docker-compose
    compose_file
    ok init
    ok env --format compose
    cp "$T/out" "$T/new.yaml"
    {
        echo "db 5432/tcp $(dibs get db/port)"
        echo "mail 1025/tcp $(dibs get mail/port-1025)"
        echo "mail 3000/tcp none"
        echo "mail 53/tcp $(dibs get mail/port-53)"
        echo "mail 53/udp $(dibs get mail/port-53-udp)"
        echo "mail 8025/tcp $(dibs get mail/port-8025)"
        first=$(dibs get mail/port-9000-udp)
        for i in 0 1 2; do echo "mail $((9000 + i))/udp $((first + i))"; done
    } | sort >"$T/want"
    published "$T/new.yaml" >"$T/have"
    diff "$T/want" "$T/have"
    # Only the lines of these ports differ.
    [ "$(diff compose.yaml "$T/new.yaml" | grep -c '^<')" -eq 6 ]
    ok env --format compose
    cmp "$T/out" "$T/new.yaml"
}

@test "the compose format names a service without a role, and refuses what it cannot place" {
    compose_file
    cat >dibs.yaml <<'END'
roles:
  db: { ports: [ sql ] }
END
    try env --format compose
    [ "$code" -eq 0 ]
    says "'mail'"
    grep -q "\"$(dibs get db/sql):5432\"" "$T/out"
    grep -q ' - 1025:1025$' "$T/out"
    sed -i 's/\[ sql \]/[ sql, { name: x, container: 5433 } ]/' dibs.yaml
    refused 2 env --format compose
    says 'container: 5432'
    says compose.yaml:6
    refused 2 env db --format compose
    rm compose.yaml
    refused 5 env --format compose
    says compose.yaml
    cat >docker-compose.yml <<'END'
x-ports: &ports ["80:80"]
services:
  db: { ports: *ports }
END
    refused 2 env --format compose
    says docker-compose.yml:3
}

@test "init and the compose format read what real files have: ranges, the long form, IPv6, variables, addresses" {
    needs docker-compose
    cat >docker-compose.yml <<'END'
version: "3.8"
services:
  web:
    build: .
    ports:
      - "8080-8082:80-82"
      - target: 443
        published: 8443
        protocol: tcp
        mode: host
      - "[::1]:9000:9000"
      - "127.0.0.1:9000:9000"
      - "127.0.0.1::5000"
      - "${METRICS_PORT:-9100}:9100"
      - "${ADMIN_PORT:-}:9200"
      - 6060:6060/udp
      - "0.0.0.0:7000-7001:7000-7001/udp"
      - "80"
      - "20000-20100:20000-20100"
  odd.name: { image: x, ports: ["3000:3000"] }
  quiet: { image: x }
END
    try init
    [ "$code" -eq 0 ]
    says '101 ports in a row'
    [ "$(grep -c '{ name:' dibs.yaml)" -eq 8 ]
    ok get odd.name/port
    ok up
    # The range that has no role has to go.
    sed -i '/20000-20100/d' docker-compose.yml
    ok env --format compose
    cp "$T/out" "$T/new.yaml"
    published "$T/new.yaml" >"$T/have" 2>"$T/err" || { cat "$T/err" >&2; return 1; }
    base=$(dibs get web/port-80)
    grep -qx "web 80/tcp $base" "$T/have"
    grep -qx "web 82/tcp $((base + 2))" "$T/have"
    grep -qx "web 443/tcp $(dibs get web/port-443)" "$T/have"
    grep -qx "web 6060/udp $(dibs get web/port-6060-udp)" "$T/have"
    nine=$(dibs get web/port-9000)
    grep -qF "[::1]:$nine:9000" "$T/new.yaml"
    grep -qF "127.0.0.1:$nine:9000" "$T/new.yaml"
    grep -qF '"127.0.0.1::5000"' "$T/new.yaml"
    not grep -qE '[^0-9](8080|8443|9100:9100|6060:6060)' "$T/new.yaml"
    # One number cannot be published twice on one address.
    sed -i 's/127.0.0.1:9000:9000/[::1]:9001:9000/' docker-compose.yml
    refused 2 env --format compose
    says 'a second time'
    refused 3 init # it has a manifest
}

@test "init says that a script has a port of its own, and takes a manifest that parses from odd package.json files" {
    for script in 'next dev -p 3000' 'vite --port 3000' 'vite --port=3000' 'PORT=3000 node .'; do
        printf '{ "scripts": { "dev": "%s" } }' "$script" >package.json
        rm -f dibs.yaml
        try init
        [ "$code" -eq 0 ]
        says "script 'dev' has port 3000 of its own"
    done
    for text in '{}' '{ "scripts": {} }' '{ "scripts": [] }' '{ "scripts": { "dev": 5 } }' '[]' '{ "scripts": { "dev": "" } }' \
        '{ "scripts": { "dev": "a \"b\" # \u0027c\u0027 {x}" } }'; do
        printf '%s' "$text" >package.json
        rm -f dibs.yaml
        ok init
        ok up
    done
    rm dibs.yaml
    ln -s nowhere dibs.yaml
    refused 3 init
    [ -L dibs.yaml ] && [ ! -e nowhere ]
}
