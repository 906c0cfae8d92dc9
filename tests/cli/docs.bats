#!/usr/bin/env bats
# Every example in the documents is executed: ```sh blocks by bash in a scratch project, ```c blocks by the compiler.
load ../support/dibs
load ../support/etcd

setup() {
    dibs_setup
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    bin=$BATS_TEST_TMPDIR/bin
    mkdir -p "$bin" "$BATS_TEST_TMPDIR/project"
    ln -s "$DIBS" "$bin/dibs"
    cd "$BATS_TEST_TMPDIR/project" || return 1
}

teardown() { dibs_teardown; }

# blocks LANGUAGE FILE OUT: writes OUT.1, OUT.2, ... and prints how many; those of a list are indented
blocks() {
    awk -v lang="\`\`\`$1" -v out="$3" '
        { line = $0; sub(/^ +/, "", line) }
        line == "```" && on { on = 0; next }
        line == lang { on = 1; n++; next }
        on { print > (out "." n) }
        END { print n + 0 }' "$2"
}

@test "every shell example of the documents runs" {
    count=0
    for file in "$top"/README.md "$top"/CONTRIBUTING.md "$top"/docs/*.md; do
        n=$(blocks sh "$file" "$BATS_TEST_TMPDIR/block")
        for i in $(seq 1 "$n"); do
            count=$((count + 1))
            PATH=$bin:$PATH timeout 60 bash -eu "$BATS_TEST_TMPDIR/block.$i" >"$BATS_TEST_TMPDIR/out" 2>&1 || {
                echo "$file, shell block $i:"
                cat "$BATS_TEST_TMPDIR/block.$i" "$BATS_TEST_TMPDIR/out"
                return 1
            }
        done
    done
    [ "$count" -ge 2 ]
}

@test "the manifest of the README works as it says" {
    [ "$(blocks yaml "$top/README.md" "$BATS_TEST_TMPDIR/manifest")" -eq 1 ]
    [ "$(blocks "sh manifest" "$top/README.md" "$BATS_TEST_TMPDIR/block")" -eq 1 ]
    cp "$BATS_TEST_TMPDIR/manifest.1" dibs.yaml
    PATH=$bin:$PATH timeout 60 bash -eu "$BATS_TEST_TMPDIR/block.1" >out 2>&1 || { cat out; return 1; }
    grep -q '^web/1 | web 1 on [0-9]*, api on [0-9]*$' out
    grep -q '^proxy_pass http://localhost:[0-9]*;$' out
}

@test "the manifest's reference has an example that works, and every key of the schema and no other" {
    [ "$(blocks yaml "$top/docs/MANIFEST.md" "$BATS_TEST_TMPDIR/manifest")" -eq 1 ]
    [ "$(blocks "sh manifest" "$top/docs/MANIFEST.md" "$BATS_TEST_TMPDIR/block")" -eq 1 ]
    cp "$BATS_TEST_TMPDIR/manifest.1" dibs.yaml
    PATH=$bin:$PATH timeout 60 bash -eu "$BATS_TEST_TMPDIR/block.1" >out 2>&1 || { cat out; return 1; }
    python3 - "$top/docs/MANIFEST.md" "$top/share/dibs.schema.json" <<'END'
import json, re, sys
known = {}  # section of the page: the schema's keys
schema = json.load(open(sys.argv[2]))
known["At the top"] = set(schema["properties"])
for section, part in (("A role", "role"), ("A component", "component"), ("A port", "port"), ("A reference", "reference")):
    known[section] = set(schema["$defs"][part]["properties"])
listed = {}
for line in open(sys.argv[1]):
    if line.startswith("## "):
        section = line[3:].strip()
    elif line.startswith("| ") and not line.startswith("| `"):
        has_keys = line.startswith("| key ")  # what a table is about
    elif line.startswith("| `") and has_keys:
        listed.setdefault(section, set()).update(re.findall("`([^`]+)`", line.split("|")[1]))
assert listed == known, f"the page has {listed}\nthe schema  {known}"
END
}

@test "the daemon's page runs as it stands, and has every option, route and metric and no other" {
    needs curl openssl
    n=$(blocks "sh daemon" "$top/docs/SERVE.md" "$BATS_TEST_TMPDIR/block")
    {
        # shellcheck disable=SC2016 # for the shell there
        echo 'trap "kill \$(jobs -p); wait" EXIT'
        for i in $(seq 1 "$n"); do cat "$BATS_TEST_TMPDIR/block.$i"; done
        echo 'curl -sS --unix-socket dibs.sock http://dibs/metrics >metrics'
    } >"$BATS_TEST_TMPDIR/page"
    PATH=$bin:$PATH timeout 60 bash -eu "$BATS_TEST_TMPDIR/page" >out 2>&1 || { tail -n 20 out; cat ./*.log; return 1; }
    "$DIBS" serve --help >help
    python3 - "$top/docs/SERVE.md" "$top/share/openapi.json" help metrics <<'END'
import json, re, sys
page = open(sys.argv[1]).read()
examples = "".join(re.findall("```sh daemon\n(.*?)```", page, re.S))
lines = page.splitlines()
for path, item in json.load(open(sys.argv[2]))["paths"].items():
    shape = re.sub(r"\\\{\w+\\\}", "[^/? ']+", re.escape(path))
    assert re.search(f"http://dibs{shape}(?![\\w/])", examples), f"no example of {path}"
    for method in item if path.startswith("/v1") else ():
        assert any(f"{path}`" in line and method.upper() in line for line in lines), f"{method} {path} is missing"
real = set(re.findall(r"^ +(--[a-z-]+)", open(sys.argv[3]).read().split("Options of every")[0], re.M))
listed = set(re.findall(r"--[a-z-]+", "".join(l.split("|")[1] for l in lines if l.startswith("| `--"))))
assert listed == real, f"options: the page has {listed}, the program {real}"
real = dict(re.findall(r"^# TYPE (\S+) (\S+)", open(sys.argv[4]).read(), re.M))
listed = dict(re.findall(r"^\| `((?:dibs|process)_\w+)` \| (\w+) \|", page, re.M))
assert listed == real, f"metrics: the page has {listed}, the daemon {real}"
END
}

# bats test_tags=unserved
@test "the cluster's page runs as it stands on one member of etcd, and has every metric of it and no other" {
    needs etcd curl
    etcd_start 1
    n=$(blocks "sh cluster" "$top/docs/CLUSTER.md" "$BATS_TEST_TMPDIR/block")
    [ "$n" -ge 5 ]
    {
        # shellcheck disable=SC2016 # for the shell there
        echo 'trap "kill \$(jobs -p); wait" EXIT'
        for i in $(seq 1 "$n"); do cat "$BATS_TEST_TMPDIR/block.$i"; done
        echo 'curl -sS --unix-socket dibs.sock http://dibs/metrics | grep -oE "^# TYPE dibs_etcd_.*" | cut -d" " -f3- | sort >metrics'
    } | sed "s/h1:2379,h2:2379,h3:2379/127.0.0.1:${ETCD_PORTS[0]}/" >"$BATS_TEST_TMPDIR/page"
    PATH=$bin:$PATH timeout 60 bash -eu "$BATS_TEST_TMPDIR/page" >out 2>&1 || { tail -n 20 out; cat ./*.log; return 1; }
    # shellcheck disable=SC2016 # the backquotes are those of the page
    grep -E '^\| `dibs_etcd_' "$top/docs/CLUSTER.md" | sed -E 's/^\| `([a-z_]+)` \| ([a-z]+) .*/\1 \2/' | sort | diff - metrics
}

@test "every C example of the documents compiles without a warning" {
    n=$(blocks c "$top/README.md" "$BATS_TEST_TMPDIR/example")
    [ "$n" -ge 1 ]
    for i in $(seq 1 "$n"); do
        cp "$BATS_TEST_TMPDIR/example.$i" "$BATS_TEST_TMPDIR/example.c"
        cc -std=c17 -Wall -Wextra -Werror -fsyntax-only -I"$top/include" "$BATS_TEST_TMPDIR/example.c"
    done
}

@test "the README shows the two commands and every command of the program" {
    grep -q 'make run' "$top/README.md"
    grep -q 'make test' "$top/README.md"
    for command in $("$DIBS" --list-commands); do
        grep -q "$command" "$top/README.md" || { echo "README does not mention: $command"; return 1; }
    done
}

@test "every link of the documents leads to a page, a heading or a picture" {
    python3 - "$top" <<'END'
import glob, os, re, sys
top = sys.argv[1]
pages = [os.path.join(top, name) for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + glob.glob(top + "/docs/*.md")
def anchors(path):
    for line in re.sub(r"```.*?```", "", open(path).read(), flags=re.S).splitlines():
        if line.startswith("#"):
            yield re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
lost = []
for page in pages:
    for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", open(page).read(), flags=re.S)):
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not link.startswith("https:") and (not os.path.exists(target) or anchor and anchor not in anchors(target)):
            lost.append(f"{os.path.basename(page)}: {link}")
assert not lost, lost
END
}

# bats test_tags=unserved
@test "the recipes of the README are those that the tests run, and its messages those of the page about trouble" {
    python3 - "$top" <<'END'
import re, sys
readme, recipes, trouble = (open(f"{sys.argv[1]}/{page}").read() for page in
                            ("README.md", "docs/RECIPES.md", "docs/TROUBLESHOOTING.md"))
def blocks(page):  # with a file's name, or to be typed
    return [block for block in re.findall(r"^```.+?^```$", page, re.S | re.M)
            if re.match(r"```(sh recipe|\w+ \S+\.\w+)\n", block)]
assert len(blocks(readme)) > 5
for block in blocks(readme):
    assert block in blocks(recipes), f"not in docs/RECIPES.md:\n{block}"
messages = re.findall(r"^\| `([^`]+)` \|", readme.split("| message |")[1].split("\n\n")[0], re.M)
assert len(messages) > 3
for message in messages:
    assert f"**`{message}`**" in trouble.replace("\n", " "), f"not in docs/TROUBLESHOOTING.md: {message}"
END
}

# bats test_tags=unserved
@test "the README's recording shows what the program does today" {
    unshare --map-root-user --mount --pid --net --uts --fork --mount-proc true || skip "needs namespaces"
    timeout 60 "$top/tools/record.py" "$DIBS" >demo.svg
    # What is typed, ports, names, the beginning of a refusal; not how a table is set.
    substance() {
        sed -n 's/^ *<text[^>]*>//p' "$1" | sed 's/<[^>]*>//g' |
            sed -nE '/^\$ |^[0-9]+$/p; s/^(dibs: .{38}).*/\1/p; s/^([0-9]+) .* ([^ ]+@[^ ]+) .*/\1 \2/p'
    }
    [ "$(substance demo.svg | wc -l)" -ge 11 ]
    diff <(substance demo.svg) <(substance "$top/docs/img/demo.svg") || {
        echo "Record it again: tools/record.py build/dibs >docs/img/demo.svg"
        return 1
    }
}

# bats test_tags=unserved
@test "the page about performance, and its plots, are what the results of make bench give" {
    mkdir made
    /usr/bin/python3 "$top/tests/bench/plot.py" "$top/docs/img/bench.json" made
    diff made/PERFORMANCE.md "$top/docs/PERFORMANCE.md"
    for file in made/img/*; do cmp "$file" "$top/docs/img/${file##*/}"; done
    [ "$(find made/img -name '*.svg' | wc -l)" -eq "$(find "$top/docs/img" -name 'bench-*.svg' | wc -l)" ]
    # A row that a plot needs and that is missing is an error, not an empty picture.
    sed 's/"pick, /"other, /' made/img/bench.json >less.json
    run /usr/bin/python3 "$top/tests/bench/plot.py" less.json made
    assert_status 1
    assert_output_has "Choosing a free port"
}

@test "the messages that the page about trouble explains are messages of the program" {
    python3 - "$top" <<'END'
import glob, re, sys
top = sys.argv[1]
source = "".join(open(path).read() for path in glob.glob(top + "/src/**/*.c", recursive=True))
source = re.sub(r'"\s*\n\s*"', "", source)  # a text that goes over several lines
messages = re.findall(r"\*\*`([^`]+)`\*\*", open(top + "/docs/TROUBLESHOOTING.md").read().replace("\n", " "))
assert len(messages) > 15, messages
for message in messages:
    for part in message.split("..."):
        part = part.strip(" :;")
        assert not part or part in source or part in ("database is locked",), f"no message has: {part}"
END
}
