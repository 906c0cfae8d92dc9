#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The dashboard's page with many claims: 2,000 here, 50,000 in the long form. Prints the frames' times, which no test asserts.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # JavaScript; variables of what is loaded
load ../support/dibs
load ../support/serve
load ../support/npm
load ../support/browser

setup_file() { browser_start; }
teardown_file() { browser_stop; }
setup() {
    dibs_setup
    needs_browser
    export DIBS_RANGE=10000-65535 DIBS_ALLOW_EPHEMERAL=true
}
teardown() {
    local status=0
    page_end || status=$?
    dibs_teardown
    return $status
}

# claim_many COUNT: of projects with four work trees of ten claims; some are kept, the others have a lease.
claim_many() {
    python3 - "$1" "$SOCKET" <<'END'
import json, subprocess, sys
count, roles, trees = int(sys.argv[1]), ("web", "api", "db", "worker", "cache"), ("main", "fix", "search", "idea")
def asked(i):
    claim = {"name": f"project-{i // 40:04d}@{trees[i // 10 % 4]}/{roles[i % 5]}/{i % 10 // 5}"}
    return claim | ({"keep": True} if i % 3 == 0 else {"holder": {"kind": "lease", "ttl": "2h"}})
for first in range(0, count, 4000):
    body = json.dumps({"requests": [asked(i) for i in range(first, min(count, first + 4000))]})
    answer = subprocess.run(["curl", "-sS", "--max-time", "60", "--unix-socket", sys.argv[2], "--json", "@-", "http://dibs/v1/batch"],
                            input=body, capture_output=True, text=True, check=True).stdout
    assert "claims" in json.loads(answer), answer[:500]
END
}

@test "many claims: the tree, the map at each zoom, the search and the slider work, with few elements" {
    count=$(long_or 50000 2000)
    serve_start --quota 65000 --rate 100000
    export DIBS_SOCKET=$SOCKET
    claim_many "$count"
    began=$(date +%s%3N)
    page 'await open(given.url);
        await shows("#list-count", (Number(given.count) + 1).toLocaleString("en") + " claims");
        await shows("#moment-note", (Number(given.count) + 1).toLocaleString("en") + " events");
        await lacks("#moment-note", "being read")' "url=$(dibs ui --no-open)" "count=$count"
    echo "# $count claims and their log are shown after $(($(date +%s%3N) - began)) ms" >&3
    page 'const report = [];
        const box = await page.locator("#map").boundingBox();
        // Do something in each of some frames, and report how long they took.
        const frames = async (what, act) => {
            const times = await page.evaluate(`(async () => {
                const times = [];
                let before = await new Promise(requestAnimationFrame);
                for (let i = 0; i < ${given.frames}; i++) {
                    ${act};
                    const now = await new Promise(requestAnimationFrame);
                    times.push(now - before);
                    before = now;
                }
                return times.sort((a, b) => a - b).map(time => time.toFixed(1));
            })()`);
            const part = share => times[Math.ceil(share * times.length) - 1];
            report.push(`${what}: frames of ${part(.5)} ms (median), ${part(.95)} ms (95 %), ${part(1)} ms (longest)`);
        };
        const wheel = `document.getElementById("map").dispatchEvent(new WheelEvent("wheel", { deltaY: 40, shiftKey: true, cancelable: true }))`;
        const tree = page.locator("#list");
        await frames("nothing happens", "");
        await tree.focus();
        for (let i = 0; i < 20; i++)
            for (const key of ["ArrowRight", "ArrowDown"])
                await page.keyboard.press(key);
        await frames("the tree scrolls", "document.getElementById(\"list\").scrollTop = i * 80");
        is(await page.getByRole("treeitem").count() < 100, "rows out of sight have elements");
        await tree.focus();
        await page.keyboard.press("End");
        await page.getByRole("treeitem", { name: "project-" + String(Math.ceil(given.count / 40) - 1).padStart(4, "0") }).waitFor();
        await frames("the map of all ports", wheel);
        for (let i = 0; i < 24; i++) {
            await button("Zoom in").click();
            if (i % 6 === 3)
                await frames("the map scrolls with " + await text("#zoom-text"), wheel);
        }
        await button("All").click();
        await frames("the time slider moves", `const slider = document.getElementById("moment");
            slider.value = 1000 - 5 * i;
            slider.dispatchEvent(new Event("input"))`);
        await button("Now").click();
        await shows("#state", "live");
        await page.locator("#query").fill("project-0007 web");
        await shows("#list-count", "8 results");
        await page.keyboard.press("Enter");
        await shows("#detail", "project-0007@");
        await page.locator("#query").press("Escape");
        await page.getByText("The map in words").click();
        await shows("#words", "more rows.");
        await page.getByText("The map in words").click();
        const cdp = await page.context().newCDPSession(page);
        await cdp.send("Performance.enable");
        const metrics = async () => Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map(one => [one.name, one.value]));
        const before = await metrics();
        await page.waitForTimeout(given.idle * 1000);
        const after = await metrics();
        report.push(`${given.idle} seconds of nothing: ${((after.TaskDuration - before.TaskDuration) * 1000).toFixed(0)} ms of work`);
        await cdp.send("HeapProfiler.collectGarbage");
        const { JSHeapUsedSize, Nodes } = await metrics();
        report.push(`memory: ${(JSHeapUsedSize / 1048576).toFixed(0)} MiB of JavaScript, ${Nodes} nodes`);
        return report.join("\n")' "count=$count" "frames=$(long_or 100 20)" "idle=$(long_or 10 2)"
    echo "# ${output//$'\n'/$'\n'# }" >&3
    dibs claim --keep /late/web >/dev/null
    page 'await page.locator("#query").fill("late");
        await claim("late/web").waitFor()'
}
