#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The dashboard's page in Debian's Chromium: each view and action, what goes wrong, and what attackers try.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153,SC2154 # JavaScript; every test is a subshell; variables of what is loaded
load ../support/dibs
load ../support/sandbox
load ../support/serve
load ../support/npm
load ../support/browser

setup_file() { browser_start; }
teardown_file() { browser_stop; }
setup() {
    dibs_setup
    needs_browser
    BUT='' # what the page's console may say
    export DIBS_RANGE=20000-20999
}
teardown() {
    local status=0
    page_end "$BUT" || status=$?
    restore_network
    sandbox_teardown
    return $status
}

LOST='ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|status of 503' # the daemon is away

# served: a daemon, which commands ask.
served() {
    serve_start
    export DIBS_SOCKET=$SOCKET
}
# open_page [JSON]: a page of the dashboard; the JSON has options for its context. It has the claim of its own port,
# so that no row moves any more below a test's pointer.
open_page() {
    page 'await open(given.url, JSON.parse(given.options));
        if (!given.options.includes("isMobile"))
            await claim("ui").first().waitFor()' "url=$(dibs ui --no-open)" "options=${1:-{\}}"
}
port_of() { dibs ls --all --json | python3 -c 'import json, sys
print(*[c["port"] for c in json.load(sys.stdin) if c["name"] == sys.argv[1]])' "$1"; }

# own_network: rules and settings may be changed; teardown restores them for the tests after this one.
own_network() {
    [ "$(readlink /proc/self/ns/net)" != "$(readlink /proc/1/ns/net)" ] || skip "needs a network of its own"
    SETTINGS=$(sysctl -e net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports)
}
restore_network() {
    [ -n "${SETTINGS:-}" ] || return 0
    nft flush ruleset || true
    sysctl -q -p - <<<"$SETTINGS"
}

# ---- views ----

@test "the page shows claims as a tree, the ports as a map, and the chosen port's claim and process" {
    served
    dibs claim --keep /shop@main/web >"$T/web"
    dibs claim --keep /shop@main/db >/dev/null
    dibs claim --keep /shop@fix/web/2 >/dev/null
    listen "$(cat "$T/web")"
    open_page
    page 'await shows("#list-count", "4 claims");
        for (const [name, level] of [["shop", 1], ["fix", 2], ["main", 2], ["web", 3]])
            await page.getByRole("treeitem", { name: new RegExp(`^${name}, \\d claim`), level, expanded: true }).waitFor();
        const row = page.getByRole("treeitem", { name: `web, dynamic, listening, port ${given.web}`, exact: true, level: 3 });
        await row.click();
        await shows("#detail h2", `Port ${given.web} TCP`);
        for (const part of ["shop@main/web yours", `pid ${given.pid}`, "listen.py", "kind dynamic, kept", "pool default", "hold level none",
            "holder none: kept until released", `user ${given.user}`, "claimed shop@main/web by"])
            await shows("#detail", part);
        same(await row.getAttribute("aria-selected"), "true");
        const map = page.getByRole("slider", { name: "Port", exact: true });
        same(await map.getAttribute("aria-valuenow"), given.web);
        same(await map.getAttribute("aria-valuetext"), `Port ${given.web}: dynamic, listening shop@main/web`)' \
        "web=$(cat "$T/web")" "pid=$STARTED" "user=$(id -un)"
}

@test "every kind of cell is there: free, static, dynamic, idle, squatter, cooling, reserved, ephemeral, NAT" {
    needs_root
    needs nft sysctl
    own_network
    sysctl -qw net.ipv4.ip_local_port_range='40000 40999' net.ipv4.ip_local_reserved_ports=20500-20509
    nft add table ip pages
    nft add chain ip pages in '{ type nat hook prerouting priority -100; }'
    nft add rule ip pages in tcp dport 20600-20603 dnat to 192.0.2.7
    served
    dibs claim --keep --port 20001 /k/static-idle >/dev/null
    dibs claim --keep --port 20002 /k/static >/dev/null
    dibs claim --keep /k/idle >/dev/null
    dibs claim --keep /k/dynamic >/dev/null
    listen 20002
    listen "$(port_of k/dynamic)"
    listen 20700
    listen 30000
    dibs claim --keep /k/gone >"$T/gone"
    dibs release /k/gone
    open_page
    page 'await page.getByText("The map in words").click();
        for (const row of ["outside of the pools", "free", "free, static band", "20500–20509 reserved", "20600–20603 NAT rule", "20001 static, idle k/static-idle",
            "20002 static, listening k/static", given.idle + " dynamic, idle k/idle", given.dynamic + " dynamic, listening k/dynamic", "20700 squatter",
            "30000 in use, no claim", given.gone + " cooling", "ephemeral"])
            await shows("#words", row);
        await page.locator("#query").fill("20700");
        await page.keyboard.press("Enter");
        await shows("#detail", "squatter: in use without a claim");
        await page.locator("#query").fill("20602");
        await page.keyboard.press("Enter");
        await shows("#detail", "NAT rule");
        await page.locator("#query").fill("20002");
        await page.keyboard.press("Enter");
        await shows("#detail", "in the static band");
        for (const name of ["squatter 1", "NAT rule 4", "cooling 1", "reserved 10", "static, idle 1"])
            await button(name).waitFor();
        await button("squatter 1").click();
        same(await button("squatter 1").getAttribute("aria-pressed"), "true")' \
        "idle=$(port_of k/idle)" "dynamic=$(port_of k/dynamic)" "gone=$(cat "$T/gone")"
}

@test "the map zooms from all ports to one, with wheel, keys, buttons, and to a pool" {
    served
    open_page
    page 'const map = page.locator("#map");
        await shows("#zoom-text", "all ports");
        await button("Pool default").click();
        await shows("#zoom-text", "1,");
        await button("All").click();
        await shows("#zoom-text", "all ports");
        const box = await map.boundingBox();
        await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
        await page.mouse.wheel(0, -100);
        await lacks("#zoom-text", "all ports");
        await map.focus();
        for (let i = 0; i < 30; i++)
            await page.keyboard.press("+");
        await shows("#zoom-text", "1 port");
        const port = await map.getAttribute("aria-valuenow");
        await page.keyboard.press("ArrowRight");
        same(Number(await map.getAttribute("aria-valuenow")), Number(port) + 1);
        // Another size of the window shows the same port.
        await page.setViewportSize({ width: 1280, height: 600 });
        await until(async () => (await map.boundingBox()).height < box.height - 100);
        const smaller = await map.boundingBox();
        await page.mouse.click(smaller.x + smaller.width / 2, smaller.y + smaller.height / 2);
        same(Number(await map.getAttribute("aria-valuenow")), Number(port) + 1);
        await page.setViewportSize({ width: 1280, height: 800 });
        await button("Zoom out").click();
        await lacks("#zoom-text", "1 port ");
        await map.focus();
        await page.keyboard.press("0");
        await shows("#zoom-text", "all ports");
        await page.keyboard.press("End");
        same(await map.getAttribute("aria-valuenow"), "65535");
        await page.keyboard.press("Home");
        same(await map.getAttribute("aria-valuenow"), "1");
        await page.keyboard.press("n");
        same(await map.getAttribute("aria-valuenow"), given.ui);
        await page.mouse.click(box.x + box.width / 2, box.y + box.height / 3);
        is(await map.getAttribute("aria-valuenow") !== given.ui, "a click chooses")' "ui=$(port_of dibs/ui)"
}

@test "the search finds ports, names and processes" {
    served
    dibs claim --keep /shop/web >"$T/web"
    dibs claim --keep /other/thing >/dev/null
    listen 0
    open_page
    page 'const query = page.getByRole("searchbox");
        const finds = async (text, count, row) => {
            await query.fill(text);
            await shows("#list-count", count);
            await page.getByRole("treeitem", { name: row }).first().waitFor();
        };
        await finds("SHOP web", "1 result", `shop/web, dynamic, idle, port ${given.web}`);
        await finds(given.web, "1 result", "shop/web");
        await finds("python3", "1 result", "port " + given.port);
        await finds(given.pid, "result", "port " + given.port);
        await finds("7", "result", "no claim, port 7");
        await page.keyboard.press("Enter");
        await shows("#detail h2", "Port 7 TCP");
        await query.fill("no such thing");
        await shows("#claims", "No port, name or process is like this.");
        await query.press("Escape");
        await shows("#list-count", "3 claims")' "web=$(cat "$T/web")" "port=$LISTENED" "pid=$STARTED"
}

@test "UDP has a map of its own, and a port of dibs run --as both of its numbers" {
    served
    dibs claim --keep --proto udp /both/dns >"$T/dns"
    listen "$(cat "$T/dns")" udp
    start dibs run --as 3000 -- python3 -c 'import socket, time; s = socket.create_server(("127.0.0.1", 3000)); time.sleep(600)'
    outside() { dibs ls --all --json | python3 -c 'import json, sys
print(*[c["port"] for c in json.load(sys.stdin) if c.get("as") == 3000] or sys.exit(1))'; }
    wait_until 10 outside
    web=$(outside)
    wait_until 10 sh -c "ss -Hltn | grep -q 127.0.0.1:$web"
    open_page
    page 'await claim("port " + given.web).click();
        await shows("#detail", `number 3000 inside of its run, ${given.web} outside`);
        await shows("#detail", "process python3");
        await page.getByText("UDP", { exact: true }).click();
        await page.getByRole("button", { name: "dynamic, listening 1", exact: true }).waitFor();
        await claim(`port ${given.dns}`).click();
        await shows("#detail h2", `Port ${given.dns} UDP`);
        await shows("#detail", "process python3");
        same(await page.getByRole("link", { name: "Open" }).count(), 0);
        await claim("port " + given.web).click(); // a claim of TCP brings that map back
        await shows("#detail h2", `Port ${given.web} TCP`);
        same(await page.getByRole("radio", { name: "TCP" }).isChecked(), true)' "web=$web" "dns=$(cat "$T/dns")"
}

# ---- live ----

@test "the page follows claims as they come and go, also over SIGKILL of the daemon" {
    BUT=$LOST
    served
    open_page
    dibs claim --keep /live/one >/dev/null
    page 'await claim("one, dynamic").waitFor()'
    dibs claim --keep /live/two >/dev/null
    page 'await claim("two, dynamic").waitFor()'
    dibs release /live/one
    page 'await claim("one, dynamic").waitFor({ state: "detached" })'
    end_process "$DAEMON"
    page 'await shows("#state", "reconnecting")'
    dibs=$(DIBS_SOCKET=none dibs claim --keep /live/meanwhile)
    DIBS_SOCKET=none dibs release /live/two
    served
    page 'await shows("#state", "live");
        await claim("port " + given.port).waitFor();
        await claim("two, dynamic").waitFor({ state: "detached" });
        await claim("port " + given.port).click();
        await shows("#detail", "claimed live/meanwhile")' "port=$dibs"
    dibs claim --keep /live/after >/dev/null
    page 'await claim("after, dynamic").waitFor()'
}

@test "the slider shows who had which port at a time of the past" {
    served
    dibs claim --keep /then/first >"$T/first"
    sleep 1.1
    dibs release /then/first
    sleep 1.1
    dibs claim --keep /then/second >/dev/null
    open_page
    page 'await claim("second").waitFor();
        same(await claim("first").count(), 0);
        const slider = page.getByRole("slider", { name: "Time" });
        await shows("#moment-note", "4 events"); // the page has a port, too
        await slider.press("Home");
        await shows("#state", "past");
        await shows("#list-count", "0 claims");
        await button("To the next event").click();
        await claim(`first, dynamic, port ${given.first}`).click();
        await shows("#detail", "then/first");
        await shows("#detail", "as the log has it");
        same(await button("Release").count(), 0);
        await shows("#map-note", "The log has the claims of the past, not its sockets.");
        same(await claim("second").count(), 0);
        await button("To the next event").click();
        await claim("first").waitFor({ state: "detached" });
        await button("To the next event").click();
        await claim("second").waitFor();
        await button("To the event before").click();
        await shows("#list-count", "0 claims");
        await button("Now").click();
        await shows("#state", "live");
        await claim("second").waitFor()' "first=$(cat "$T/first")"
}

@test "plots show the use of each pool and claims per second" {
    served
    dibs pool set extra --ranges 21000-21099 >/dev/null
    for i in 1 2 3; do dibs claim --keep "/plot/$i" >/dev/null; done
    dibs claim --keep --pool extra /plot/x >/dev/null
    open_page
    page 'await shows("#pools", "Pool default");
        await shows("#pools", "Pool extra 21000-21099");
        await shows("#pools", "0 static, 1 dynamic, 99 of 100 available");
        await shows("#rate", "per second");
        await page.getByRole("img", { name: /^Claims from .*: at most/ }).waitFor();
        same(await page.getByRole("img", { name: /^Ports of the pool with a claim/ }).count(), 2);
        is(await page.locator("#rate path").first().getAttribute("d") !== "", "the plot has no bar");
        await page.getByLabel("Time of the plots").selectOption("5 minutes");
        await shows("#moment-note", "events")'
}

# ---- actions ----

@test "one's own claim can be opened, copied, renewed and released, with a second to undo; no process is ended" {
    served
    export LISTEN=$DIBS_TEST_SUPPORT/listen.py
    dibs run -p /own/web -- sh -c 'exec "$LISTEN" "$PORT" tcp 127.0.0.1 "$T/ready"' 3>&- &
    runner=$!
    echo "$runner" >>"$T/started"
    dibs claim --ttl 1h /own/lease >"$T/lease"
    wait_until 10 test -f "$T/ready"
    web=$(port_of own/web)
    open_page '{ "permissions": ["clipboard-read", "clipboard-write"] }'
    ask '/v1/claims?prefix=own/lease'
    before=$(member claims.0.holder.until_boot_ms)
    page 'await claim("port " + given.lease).click();
        await button("Renew").click();
        await shows("#said", "Renewed own/lease for 60 min.");
        await button("Copy").click();
        await shows("#said", `Copied ${given.lease}.`);
        same(await page.evaluate(() => navigator.clipboard.readText()), given.lease);
        await claim("port " + given.web).click();
        await shows("#detail h2", given.web);
        const link = page.getByRole("link", { name: "Open" });
        same(await link.getAttribute("href"), `http://localhost:${given.web}`);
        same(await link.getAttribute("rel"), "noopener noreferrer");
        await secondTakes(60000);
        await button("Release").click();
        await button("Undo").first().click();
        await shows("#said", "own/web stays yours");
        await secondTakes(1000);
        await page.waitForTimeout(1500);
        await claim("port " + given.web).waitFor()' "lease=$(cat "$T/lease")" "web=$web"
    ask '/v1/claims?prefix=own/lease'
    [ "$(member claims.0.holder.until_boot_ms)" -gt "$before" ]
    [ "$(port_of own/web)" = "$web" ]
    page 'await claim("port " + given.lease).click();
        await secondTakes(60000);
        await button("Release").click();
        await page.keyboard.press("Control+z");
        await shows("#said", "own/lease stays yours");
        await secondTakes(1000);
        await button("Release").click();
        await shows("#said", "Released own/lease.");
        await claim("port " + given.lease).waitFor({ state: "detached" });
        await claim("port " + given.web).click();
        await button("Release").click();
        await shows("#said", "Released own/web.");
        await claim("web, dynamic").waitFor({ state: "detached" });
        await shows("#detail", "squatter")' "lease=$(cat "$T/lease")" "web=$web"
    kill -0 "$runner"
    dibs who "$web" | grep -q python3
}

@test "a port's details follow its claims and its process" {
    served
    dibs claim --keep --prefer 20100 /seen/web >/dev/null
    open_page
    page 'await claim("port 20100").click();
        await shows("#detail", "nothing listens");
        await until(async () => (await page.evaluate(() => performance.getEntriesByType("resource").map(one => one.name)))
            .some(url => url.endsWith("/v1/ports/tcp/20100")), "the daemon was asked about the port");
        await page.waitForTimeout(300)'
    listen 20100
    page 'await shows("#detail", "directory");
        await shows("#detail", `pid ${given.pid}`)' "pid=$STARTED"
    kill "$STARTED"
    page 'await lacks("#detail", `pid ${given.pid}`);
        await lacks("#detail", "Socket")' "pid=$STARTED"
    dibs release /seen/web
    page 'await lacks("#detail", "yours");
        await shows("#detail", "Can be claimed");
        await lacks("#detail", "Cannot be claimed")'
}

@test "a port shows the unit or the container of the process on it" {
    served
    local groups at id
    groups=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    mkdir "${groups:-/nowhere}/dibs-page.service" 2>/dev/null || skip "needs to make a cgroup"
    at=$groups/dibs-page.service
    id=$(printf 'ab%062d' 7) # as container engines name them
    mkdir "$at/docker-$id.scope"
    listen 20100
    echo "$STARTED" >"$at/cgroup.procs"
    open_page
    page 'await page.keyboard.press("/");
        await page.keyboard.type("dibs-page.service");
        await page.keyboard.press("Enter");
        await shows("#detail h2", "20100");
        await shows("#detail", "unit dibs-page.service")' || status=$?
    echo "$STARTED" >"$at/docker-$id.scope/cgroup.procs"
    [ -n "${status:-}" ] || page 'await shows("#detail", `unit container ${given.id.slice(0, 12)}`)' "id=$id" || status=$?
    end_process "$STARTED"
    rmdir "$at/docker-$id.scope" "$at"
    return "${status:-0}"
}

@test "a claim that ended while its release could be undone is not confused with the next one of its name" {
    served
    dibs claim --keep /same/web >"$T/first"
    dibs claim --ttl 1h /same/lease >"$T/lease"
    open_page
    page 'await claim("port " + given.first).click();
        await secondTakes(60000);
        await button("Release").click();
        await shows("#said", "Releasing same/web")' "first=$(cat "$T/first")"
    dibs release /same/web
    page 'await claim("port " + given.first).waitFor({ state: "detached" })' "first=$(cat "$T/first")"
    dibs claim --keep /same/web >"$T/second"
    page 'await claim("port " + given.second).waitFor();
        await secondTakes(1000);
        await claim("port " + given.lease).click();
        await button("Release").click();
        await shows("#said", "Released same/lease.")' "second=$(cat "$T/second")" "lease=$(cat "$T/lease")"
    [ "$(port_of same/web)" = "$(cat "$T/second")" ]
}

@test "a claim that changes while its release can be undone still shows that" {
    served
    dibs claim --ttl 1h /same/lease >"$T/lease"
    open_page
    page 'await claim("port " + given.lease).click();
        await secondTakes(60000);
        await button("Release").click();
        await page.locator("#detail").getByRole("button", { name: "Undo" }).waitFor()' "lease=$(cat "$T/lease")"
    dibs renew --ttl 2h /same/lease
    page 'await shows("#detail", "lease of 2 h");
        await page.locator("#detail").getByRole("button", { name: "Undo" }).click();
        await shows("#said", "same/lease stays yours")'
    [ "$(port_of same/lease)" = "$(cat "$T/lease")" ]
}

@test "a page that is loaded again or closed before the second is over has released the claim" {
    served
    for how in reload close; do
        dibs claim --keep "/left/$how" >"$T/port"
        open_page
        page 'await claim("port " + given.port).click();
            await secondTakes(60000);
            await button("Release").click();
            await shows("#said", `Releasing left/${given.how}`);
            await page[given.how]()' "port=$(cat "$T/port")" "how=$how"
        wait_until 10 eval '[ -z "$(port_of "left/$how")" ]'
    done
}

# ---- without a daemon ----

@test "a page without a daemon shows the user's ledger, follows it, and ends with its server" {
    BUT=$LOST
    dibs claim --keep /alone/web >"$T/web"
    : >"$T/out"
    start "$DIBS" ui --no-open >"$T/out" 2>"$T/err"
    server=$STARTED
    wait_until 10 test -s "$T/out"
    page 'await open(given.url)' "url=$(cat "$T/out")"
    page 'await shows("#where", "without a daemon");
        await claim("port " + given.web).click();
        await shows("#detail", "alone/web yours")' "web=$(cat "$T/web")"
    dibs claim --keep /alone/new >/dev/null
    page 'await claim("new, dynamic").waitFor();
        await claim("new, dynamic").click();
        await button("Release").click();
        await claim("new, dynamic").waitFor({ state: "detached" })'
    [ -z "$(port_of alone/new)" ]
    kill -TERM "$server"
    wait "$server"
    page 'await shows("#state", "reconnecting");
        await shows("#map-note", "does not answer")'
}

@test "the address that make run ends with shows its claims" {
    needs script
    BUT="$LOST|status of 404"
    start script -qfec "$BATS_TEST_DIRNAME/../../tools/demo.sh $DIBS" "$T/screen" </dev/null >/dev/null
    wait_until 30 grep -q '^http://127' "$T/screen"
    page 'const demo = await open(given.url);
        await claim("api, dynamic, idle, port").waitFor();
        await demo.evaluate(() => fetch("/v1/session", { method: "DELETE", headers: { Authorization: "Bearer " + JSON.parse(sessionStorage.getItem("dibs-session")).session } }))' \
        "url=$(tr -d '\r' <"$T/screen" | grep '^http://127')"
    wait "$STARTED"
}

# ---- other people ----

@test "names and commands are text: script, right-to-left, control characters, very long" {
    served
    script='<script>alert(1)</script>' rtl=$'\u202egnp.exe' image='<img src=x onerror=alert(1)>'
    long=$(printf '%0240d' 1)
    mkdir -p "$T/$rtl$image/$long"
    cd "$T/$rtl$image/$long"
    start python3 -c '
import ctypes, socket, time
s = socket.create_server(("127.0.0.1", 20900))
ctypes.CDLL(None).prctl(15, "<b>\x1b\u202eevil".encode(), 0, 0, 0)
time.sleep(600)' "$script" "$rtl" $'\e[31m' "$long"
    start python3 -c 'import socket, time; s = socket.create_server(("127.0.0.1", 20901)); time.sleep(600)' $'\xff\xfe no text'
    cd "$T"
    wait_until 10 sh -c 'ss -Hltn | grep -q :20901 && ss -Hltn | grep -q :20900'
    dibs claim --keep --port 20902 "/$(printf '%063d' 1)/$(printf '%063d' 2)" >/dev/null
    open_page
    page 'const choose = async port => {
            await page.locator("#query").fill(port);
            await page.keyboard.press("Enter");
            await shows("#detail h2", port);
        };
        await choose("20900");
        for (const part of ["evil (pid", given.image, given.script, "[U+202E]gnp.exe", "[U+001B][31m"])
            await shows("#detail", part);
        same(await page.locator("#detail script, #detail img, #detail b b").count(), 0);
        same(/[\u0000-\u0008\u000e-\u001f\u202a-\u202e]/.test(await page.locator("body").innerText()), false);
        const fits = () => page.evaluate(() => ["#detail", "#port", "html"].every(part => document.querySelector(part).scrollWidth <= document.querySelector(part).clientWidth));
        same(await fits(), true);
        await choose("20901");
        await shows("#detail", "no text");
        await choose("20902");
        same(await fits(), true);
        await page.locator("#query").fill("<b>");
        await shows("#list-count", "1 result");
        await page.locator("#map").focus();
        for (let i = 0; i < 26; i++)
            await page.keyboard.press("+");
        await page.locator("#query").fill("<script>alert(1)");
        await shows("#list-empty", "No port, name or process is like this.")' "image=$image" "script=$script"
}

@test "an address that was used, or that another program answers, begins no session, and the page says what to do" {
    BUT="status of 401|$LOST"
    served
    url=$(dibs ui --no-open)
    page 'await open(given.url)' "url=$url"
    page 'await open(given.url, { wait: false });
        await shows("[role=alert]", "There is no session here");
        await shows("[role=alert]", "Run dibs ui in a terminal")' "url=$url"
    page 'await open(given.url, { wait: false });
        await shows("[role=alert]", "There is no session here")' "url=${url%%#*}"
    open_page
    page 'await claim("ui").waitFor()'
    # Its daemon ends, and another program has the port.
    port=$(port_of dibs/ui)
    end_process "$DAEMON"
    cat >"$T/other.py" <<'END'
import http.server, sys
class Other(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.path, self.headers.get("Authorization"), self.rfile.read(int(self.headers["Content-Length"])), flush=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"proof":"AAAA"}')
    def do_GET(self):
        print(self.path, self.headers.get("Authorization"), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Other).serve_forever()
END
    start python3 "$T/other.py" "$port" >"$T/stolen"
    page 'await shows("#map-note", "Another program answers on this port");
        return page.evaluate(() => sessionStorage.getItem("dibs-session"))'
    secret=$(member session)
    grep -q proof "$T/stolen"
    if grep -e "$secret" -e Bearer "$T/stolen"; then false; fi
}

@test "a session that has ended is said, with the way to a new one" {
    BUT='status of 401|status of 404'
    served
    open_page
    page 'await page.evaluate(() => fetch("/v1/session", { method: "DELETE", headers: { Authorization: "Bearer " + JSON.parse(sessionStorage.getItem("dibs-session")).session } }));
        await shows("#state", "session ended");
        same(await page.evaluate(() => document.querySelector("main").inert), true);
        await shows("[role=alert]", "Run dibs ui in a terminal");
        same(await page.evaluate(() => sessionStorage.length), 0);
        const before = page.url();
        await page.evaluate(url => location.href = url, given.url);
        await shows("#state", "live");
        await claim("ui").waitFor()' "url=$(dibs ui --no-open)"
}

@test "another user's address and session are of no use in one's own browser, and others' claims have no actions" {
    needs_root
    needs setpriv
    BUT='status of 401'
    public_folder
    SOCKET_DIR=$PUBLIC served
    DIBS_SOCKET=$SOCKET as_user 65533 "$PUBLIC/dibs" claim --keep /theirs/web >"$T/theirs"
    open_page # root's browser may forward for others
    page 'await claim("port " + given.port).click();
        await shows("#detail", "theirs/web");
        await shows("#detail", "uid 65533");
        for (const name of ["Release", "Copy", "Renew"])
            same(await button(name).count(), 0);
        same(await page.getByRole("link", { name: "Open" }).count(), 0);
        return page.evaluate(() => sessionStorage.getItem("dibs-session"))' "port=$(cat "$T/theirs")"
    session=$output
    cat >"$PUBLIC/chromium" <<END
#!/bin/sh
exec setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$PUBLIC/home.65534 TMPDIR=$PUBLIC $(command -v chromium) "\$@"
END
    chmod 755 "$PUBLIC/chromium"
    mkdir "$PUBLIC/profile" "$PUBLIC/home.65534"
    chown 65534 "$PUBLIC/profile" "$PUBLIC/home.65534"
    page 'const theirs = await browserOf(given.chromium, given.profile);
        await theirs.goto(given.url);
        await until(async () => (await theirs.locator("[role=alert]").innerText()).includes("no session here"));
        await theirs.evaluate(session => sessionStorage.setItem("dibs-session", session), given.session);
        await theirs.reload();
        await until(async () => (await theirs.locator("[role=alert]").innerText()).includes("session has ended"));
        const answers = await theirs.evaluate(async session => Promise.all(["/v1/claims", "/v1/map", "/v1/events"].map(async path =>
            (await fetch(path, { headers: { Authorization: "Bearer " + JSON.parse(session).session } })).status)), given.session);
        same(answers, [401, 401, 401])' \
        "chromium=$PUBLIC/chromium" "profile=$PUBLIC/profile" "session=$session" "url=$(DIBS_SOCKET=$SOCKET as_user 65533 "$PUBLIC/dibs" ui --no-open)"
}

# ---- other pages ----

# attacker ADDRESS PORT: a server of an empty page; it closes each connection.
attacker() {
    cat >"$T/attacker.py" <<'END'
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>other</title>")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Page)
print(server.server_address[1], flush=True)
server.serve_forever()
END
    start python3 "$T/attacker.py" "$1" "$2" >"$T/attacker"
    wait_until 10 test -s "$T/attacker"
}

@test "a page of another origin can neither read, change nor show the dashboard, also with the session's secret" {
    served
    dibs claim --keep /csrf/web >"$T/port"
    attacker 127.0.0.1 0
    open_page
    page 'const session = await page.evaluate(() => JSON.parse(sessionStorage.getItem("dibs-session")).session);
        const home = new URL(page.url()).origin;
        const evil = await other(`http://127.0.0.1:${given.port}/`);
        const seen = await evil.evaluate(async ([home, session]) => {
            const got = [];
            const attempt = (path, options) => fetch(home + path, options).then(answer => got.push(path + answer.status + answer.type), () => {});
            await attempt("/v1/claims", {});
            await attempt("/v1/claims", { headers: { Authorization: `Bearer ${session}` } });
            await attempt("/v1/claims/-?name=csrf/web", { method: "DELETE", headers: { Authorization: `Bearer ${session}` } });
            await attempt("/v1/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
            const form = document.createElement("form");
            form.method = "post";
            form.action = home + "/v1/claims/-/renew?name=csrf/web";
            form.target = "frame";
            const frame = document.createElement("iframe");
            frame.name = "frame";
            document.body.append(frame, form);
            const shown = new Promise(done => frame.onload = done);
            form.submit();
            await shown;
            const script = document.createElement("script");
            script.src = home + "/ui.js";
            const result = new Promise(done => { script.onload = () => done("loaded"); script.onerror = () => done("refused"); });
            document.body.append(script);
            got.push(await result);
            try { got.push(frame.contentDocument.body.innerText); } catch { }
            return got;
        }, [home, session]);
        same(seen.filter(Boolean), ["refused"]);
        same(await evil.evaluate(async home => (await fetch(home + "/v1/session", { mode: "no-cors", method: "POST", body: "{}" })).type, home).catch(() => "none"), "none")' \
        "port=$(cat "$T/attacker")"
    [ "$(port_of csrf/web)" = "$(cat "$T/port")" ]
}

@test "a page whose name now leads to the dashboard (DNS rebinding) is refused" {
    needs_root
    needs nft
    own_network
    served
    dibs claim --keep /rebind/web >"$T/port"
    open_page
    port=$(port_of dibs/ui)
    attacker 127.0.0.2 "$port"
    page 'globalThis.evil = await other(`http://rebind.example:${given.port}/`);
        same(await evil.title(), "other");
        same(await evil.evaluate(async () => (await fetch("/again")).status), 200)' "port=$port"
    # From now on that name's address is the dashboard's.
    nft add table ip rebind
    nft add chain ip rebind out '{ type nat hook output priority -100; }'
    nft add rule ip rebind out ip daddr 127.0.0.2 tcp dport "$port" dnat to "127.0.0.1:$port"
    page 'const session = await page.evaluate(() => JSON.parse(sessionStorage.getItem("dibs-session")).session);
        const answers = await evil.evaluate(async session => {
            const got = [];
            for (const [path, method] of [["/", "GET"], ["/ui.js", "GET"], ["/v1/claims", "GET"], ["/v1/claims/-?name=rebind/web", "DELETE"], ["/v1/session", "POST"]]) {
                const answer = await fetch(path, { method, headers: { Authorization: `Bearer ${session}` } });
                got.push(answer.status, (await answer.text()).includes("rebind/web"));
            }
            return got;
        }, session);
        same(answers, [403, false, 403, false, 403, false, 403, false, 403, false])'
    [ "$(port_of rebind/web)" = "$(cat "$T/port")" ]
}

# ---- keyboard, sizes, looks ----

@test "all can be done by the keyboard alone, and each control has a name" {
    served
    dibs claim --keep /keys@main/web >"$T/web"
    dibs claim --ttl 1h /keys@main/db >/dev/null
    open_page
    page 'const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.act || document.activeElement.textContent);
        const named = await page.evaluate(() => [...document.querySelectorAll("button, input, select, canvas, a, [tabindex]")]
            .filter(one => one.checkVisibility() && one.tabIndex >= 0 && !one.innerText?.trim() && !one.ariaLabel && !one.labels?.length
                && !one.getAttribute("aria-labelledby")).map(one => one.outerHTML));
        same(named, []);
        await page.keyboard.press("/");
        same(await focused(), "query");
        await page.keyboard.type("keys db");
        await page.keyboard.press("Enter");
        await shows("#detail", "keys@main/db");
        same(await focused(), "list");
        await page.keyboard.press("/");
        await page.keyboard.press("Escape");
        same(await focused(), "map");
        await page.keyboard.press("Enter");
        same(await focused(), "detail");
        await secondTakes(60000);
        for (let i = 0; i < 4 && !(await focused()).startsWith("Release"); i++)
            await page.keyboard.press("Tab");
        await page.keyboard.press("Enter");
        await shows("#said", "Releasing keys@main/db");
        same(await page.evaluate(() => document.activeElement.textContent), "Undo");
        await page.keyboard.press("Enter");
        await shows("#said", "keys@main/db stays yours");
        await page.locator("#list").focus();
        await page.keyboard.press("Home");
        const active = () => page.evaluate(() => document.getElementById(list.getAttribute("aria-activedescendant")).ariaLabel);
        await until(async () => (await active()).startsWith("dibs, 1 claim"));
        await page.keyboard.press("ArrowLeft");
        await page.keyboard.press("ArrowDown");
        await until(async () => (await active()).startsWith("keys, 2 claims"));
        await page.keyboard.press("ArrowRight");
        await until(async () => (await active()).startsWith("main, 2 claims"));
        await page.keyboard.press("End");
        await page.keyboard.press("Enter");
        await shows("#detail", "keys@main/web");
        const seen = new Set();
        for (let i = 0; i < 60; i++) {
            await page.keyboard.press("Tab");
            seen.add(await page.evaluate(() => document.activeElement.id));
        }
        for (const id of ["query", "theme", "help", "list", "map", "moment", "plot-time"])
            is(seen.has(id), `Tab does not reach ${id}`);
        await page.locator("#help").focus();
        await page.keyboard.press("Enter");
        await page.getByRole("dialog", { name: "Keys" }).waitFor();
        await page.keyboard.press("Escape");
        await page.getByRole("dialog").waitFor({ state: "hidden" });
        same(await focused(), "help")'
}

@test "on a phone each view fits the screen, and is reached by its tab" {
    served
    dibs claim --keep /phone@main/web >"$T/web"
    open_page '{ "viewport": { "width": 360, "height": 740 }, "hasTouch": true, "isMobile": true }'
    page 'const views = { Claims: "#claims", Map: "#view", Port: "#port", Usage: "#usage" };
        await button("Zoom in").tap();
        for (const [name, part] of Object.entries(views)) {
            await button(name).tap();
            same(await button(name).getAttribute("aria-pressed"), "true");
            for (const other of Object.values(views))
                same([other, await page.locator(other).isVisible()], [other, other === part]);
            same([name, await page.evaluate(() => document.documentElement.scrollWidth)], [name, 360]);
            const wide = await page.evaluate(() => [...document.querySelectorAll("body *")].filter(one => one.checkVisibility() && one.getBoundingClientRect().right > 361
                && !one.closest("#pools")).map(one => one.outerHTML.slice(0, 80)));
            same([name, wide], [name, []]);
            const small = await page.evaluate(() => [...document.querySelectorAll("button, select")].filter(one => one.checkVisibility() && one.getBoundingClientRect().height < 24)
                .map(one => one.outerHTML.slice(0, 80)));
            same([name, small], [name, []]);
        }
        await button("Claims").tap();
        await claim("port " + given.web).tap();
        await page.locator("#port").waitFor();
        await shows("#detail", "phone@main/web yours")' "web=$(cat "$T/web")"
}

@test "the page is light or dark as the system or its user wants, readable in both, and without animations" {
    served
    dibs claim --keep /looks/web >/dev/null
    open_page '{ "colorScheme": "dark", "reducedMotion": "reduce" }'
    page 'const paper = () => page.evaluate(() => {
            const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
            return r + g + b;
        });
        // The least contrast of texts with what is below them (WCAG wants 4.5).
        const contrast = () => page.evaluate(() => {
            const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const rgb = color => { probe.fillStyle = color; probe.fillRect(0, 0, 1, 1); return [...probe.getImageData(0, 0, 1, 1).data]; };
            const light = color => { const [r, g, b] = rgb(color).map(x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
            const ground = one => { for (; one; one = one.parentElement) { const color = getComputedStyle(one).backgroundColor; if (!/, 0\)$|transparent/.test(color)) return color; } };
            return [...document.querySelectorAll("body *")].filter(one => one.checkVisibility() && !one.disabled && !one.closest(".row.current") &&
                [...one.childNodes].some(child => child.nodeType === 3 && child.data.trim())).map(one => {
                    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
                    return [(a + .05) / (b + .05), one.outerHTML.slice(0, 80)];
                }).filter(([ratio]) => ratio < 4.5);
        });
        is(await paper() < 200, "not dark");
        same(await contrast(), []);
        await page.emulateMedia({ colorScheme: "light" });
        is(await paper() > 600, "not light");
        same(await contrast(), []);
        await button("Theme: auto").click();
        await button("Theme: light").click();
        is(await paper() < 200, "not dark by choice");
        await page.reload();
        await shows("#state", "live");
        await button("Theme: dark").waitFor();
        is(await paper() < 200, "the choice is not kept");
        same(await page.evaluate(() => document.getAnimations().length), 0)'
}

@test "an idle page draws nothing and asks little, and a hidden one asks nothing" {
    served
    dibs claim --keep /idle/web >/dev/null
    open_page
    page 'await claim("web, dynamic").waitFor();
        await page.mouse.move(0, 0);
        await page.waitForTimeout(1000);
        await page.evaluate(() => {
            window.frames_ = 0;
            const ask = requestAnimationFrame;
            window.requestAnimationFrame = what => { frames_++; return ask(what); };
        });
        const before = urls().length;
        await page.waitForTimeout(3000);
        const frames = await page.evaluate(() => frames_);
        is(frames <= 20, `${frames} frames in three seconds of nothing`);
        is(urls().length - before <= 6, `${urls().length - before} requests in three seconds`);
        await page.evaluate(() => Object.defineProperty(document, "hidden", { get: () => true }));
        await page.waitForTimeout(500);
        const hidden = urls().length;
        await page.waitForTimeout(3000);
        is(urls().length - hidden <= 1, "a hidden page goes on asking")'
}
