// SPDX-License-Identifier: MIT
// Every verb, with a daemon and without one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Worker } from "node:worker_threads";
import { Client, Exhausted, Missed, NotFound, Taken, Token, Usage, version } from "dibs";
import { HAS_DAEMON, SOCKET, check, command, commandLater, listening, refused, sleep } from "./support.mjs";

const last = (name) => name.slice(name.lastIndexOf("/") + 1);

check("the tests run in the mode that was asked for", async ({ client }) => {
    assert.equal(await client.daemon(), HAS_DAEMON ? SOCKET : null);
});

check("the package has the version of the program", async () => {
    assert.deepEqual(JSON.parse(command(["version", "--json"]).stdout), { version });
});

check("a claim is held by this process and released", async ({ client }) => {
    const claim = await client.claim();
    assert.deepEqual([claim.holder.kind, claim.holder.pid], ["process", process.pid]);
    assert.ok(claim.port >= 20000 && claim.port <= 32767 && claim.token);
    assert.equal(claim.bindings[0].address, "*");
    assert.equal((await client.find(claim)).id, claim.id);
    assert.equal(await client.release(claim), 1);
    assert.equal(await client.release(claim), 0);
    for (const which of [claim, new Token(claim.token)]) await refused(client.find(which), NotFound);
});

check("a name is the one that the command line has", async ({ client, folder, group }) => {
    const claim = await client.claim("web");
    assert.deepEqual([claim.name, claim.project], [`${group}/web`, folder]);
    const listed = JSON.parse(command(["ls", "--json", "--brief"]).stdout).filter((row) => row.name === claim.name);
    assert.deepEqual(listed.map((row) => row.port), [claim.port]);
    assert.ok((await client.claim("web")).wasThere);
    for (const which of ["web", claim.port, `/${claim.name}`]) assert.equal((await client.find(which)).id, claim.id);
    assert.equal(await client.release("web"), 1);
    assert.equal(await client.release("web"), 0);
    assert.equal((await client.claim("web")).port, claim.port);
    assert.equal((await client.claim(`/${group}-infra/db`)).name, `${group}-infra/db`);
});

check("names of a git worktree have its branch", async ({ client, group }) => {
    execFileSync("git", ["init", "-q", "-b", "feature/x", "."]);
    fs.mkdirSync("below");
    process.chdir("below");
    const { name } = await client.claim("web");
    assert.equal(name, `${group}@feature%2Fx/web`);
    const planned = command(["claim", "web", "--json", "--dry-run", "--pid", String(process.pid)]).stdout;
    assert.equal(JSON.parse(planned)[0].name, name);
});

check("options of a claim", async ({ client }) => {
    const both = await client.claim({ proto: "tcp,udp", address: ["127.0.0.1", "::1"], range: "21000-21999" });
    const bindings = both.bindings.map(({ proto, address }) => `${proto} ${address}`).sort();
    assert.deepEqual(bindings, ["tcp 127.0.0.1", "tcp ::1", "udp 127.0.0.1", "udp ::1"]);
    assert.ok(both.port >= 21000 && both.port <= 21999);
    const fixed = await client.claim({ port: both.port, address: "127.0.0.2" });
    assert.deepEqual([fixed.port, fixed.kind], [both.port, "static"]);
    assert.notEqual((await client.claim({ prefer: both.port, address: "127.0.0.1" })).port, both.port);
    assert.equal((await client.claim({ declare: both.port })).exclusive, false);
    const kept = await client.claim("kept", { keep: true });
    assert.deepEqual([kept.holder, kept.kept], [null, true]);
    for (const ttl of [90_000, "90s"]) assert.equal((await client.claim({ ttl })).holder.ttlMs, 90_000);
    assert.equal((await client.claim({ pid: process.ppid })).holder.pid, process.ppid);
    assert.ok((await client.claim(undefined, { pool: undefined, port: null })).port);
});

check("several claims at once", async ({ client, group }) => {
    const [a, b] = await client.claimMany(["a", "b"]);
    assert.deepEqual([a.name, b.name].sort(), [`${group}/a`, `${group}/b`]);
    assert.notEqual(a.port, b.port);
    const run = await client.claimMany("shard", { count: 4, contiguous: true, align: 4 });
    assert.deepEqual(run.map((claim) => claim.port - run[0].port), [0, 1, 2, 3]);
    assert.equal(run[0].port % 4, 0);
    assert.deepEqual(run.map((claim) => claim.name), [0, 1, 2, 3].map((i) => `${group}/shard/${i}`));
    assert.equal((await client.claimMany({ count: 3 })).length, 3);
    assert.equal((await client.claimMany(["c"], { dryRun: true }))[0].id, 0);
    assert.equal(await client.release("shard"), 4);
    await refused(client.find("c"), NotFound);
    await refused(client.claimMany(["a", "b"], { count: 2 }), Usage);
    await refused(client.claimMany([], { count: 0 }), Usage);
});

check("get keeps a port and finds it again", async ({ client }) => {
    const first = await client.get("api");
    assert.deepEqual([first.kept, first.holder, first.wasThere], [true, null, false]);
    const again = await client.get("api");
    assert.deepEqual([again.wasThere, again.id, again.port], [true, first.id, first.port]);
    assert.equal(command(["get", "api"]).stdout, `${first.port}\n`);
});

check("a lease is renewed as long as it was or as asked", async ({ client }) => {
    const claim = await client.claim("lease", { ttl: "1m" });
    assert.equal((await client.renew(claim)).holder.ttlMs, 60_000);
    assert.equal((await client.renew(claim, { ttl: "2m" })).holder.ttlMs, 120_000);
    assert.equal((await client.renew("lease")).holder.ttlMs, 120_000);
    assert.equal((await client.renew(new Token(claim.token), { ttl: 180_000 })).holder.ttlMs, 180_000);
});

check("transfer gives a new token and the old one ends nothing", async ({ client }) => {
    const claim = await client.claim("moved", { ttl: "1m" });
    const mine = await client.transfer(claim);
    assert.equal(mine.holder.pid, process.pid);
    assert.notEqual(mine.token, claim.token);
    assert.equal(await client.release(claim), 0);
    const kept = await client.transfer("moved", { keep: true });
    assert.deepEqual([kept.holder, kept.kept], [null, true]);
    assert.equal(await client.release(kept), 1);
});

check("a claim of a list is released and not its successor", async ({ client, group }) => {
    await client.claimMany(["one", "two"]);
    const listed = Object.fromEntries((await client.list(group)).map((claim) => [last(claim.name), claim]));
    assert.deepEqual(Object.keys(listed).sort(), ["one", "two"]);
    assert.equal(listed.one.token, null);
    assert.equal(await client.release(listed.one), 1);
    await client.release("two");
    const successor = await client.claim("two");
    assert.equal(await client.release(listed.two), 0);
    assert.equal((await client.find(successor)).id, successor.id);
    const unnamed = await client.claim();
    const [found] = await client.list({ port: unnamed.port });
    assert.equal((await client.renew(await client.transfer(found, { ttl: "1m" }), { ttl: "2m" })).holder.ttlMs, 120_000);
});

check("release all ends the claims of this project", async ({ client, group }) => {
    await client.claimMany(["a", "b", "c"]);
    assert.equal(await client.releaseAll(), 3);
    assert.deepEqual(await client.list(group), []);
});

check("who, explain and assert know the listener", async ({ client }) => {
    const claim = await client.claim("server");
    await refused(client.assertListening("server"), Taken);
    const server = await listening(claim.port);
    for (const which of ["server", claim, claim.port, new Token(claim.token)]) {
        assert.equal((await client.assertListening(which)).pid, process.pid);
    }
    for (const which of ["server", claim.port]) {
        const report = await client.who(which);
        assert.deepEqual(report.claims.map(({ id }) => id), [claim.id]);
        assert.deepEqual(report.sockets.map(({ pid, serves }) => [pid, serves]), [[process.pid, true]]);
        const reasons = await client.explain(which);
        assert.equal(reasons.canClaim, false);
        assert.equal(reasons.reasons[0].kind, "claimed");
    }
    server.close();
    await client.release(claim);
    await refused(client.who(claim.port), NotFound, `port ${claim.port}: no claim and no socket`);
    assert.equal((await client.explain(99, { pool: "default" })).canChoose, false);
});

check("the log and the events have every change once", async ({ client }) => {
    const [newest] = await client.log({ limit: 1 });
    const before = newest ? newest.seq : 0;
    const claim = await client.claim("seen");
    await client.release(claim);
    const wanted = [["claimed", claim.port, claim.name], ["released", claim.port, claim.name]];
    const seen = [];
    for await (const event of client.events({ since: before, idleMs: 500 })) if (event.claim === claim.id) seen.push(event);
    assert.deepEqual(seen.map(({ what, port, name }) => [what, port, name]), wanted);
    const logged = (await client.log({ since: before, limit: 1000 })).filter((event) => event.claim === claim.id);
    assert.deepEqual(logged, seen);
    // From the last one on: nothing twice.
    for await (const event of client.events({ since: seen[1].seq, idleMs: 200 })) assert.notEqual(event.claim, claim.id);
    await refused(client.events({ since: seen[1].seq + 1_000_000, idleMs: 200 }).next(), Missed);
});

check("pools have their usage", async ({ client }) => {
    const pool = (await client.pools()).find(({ name }) => name === "default");
    assert.deepEqual([pool.ranges, pool.usage.size], ["20000-32767", 12768]);
    const claim = await client.claim();
    assert.ok((await client.pool("default")).usage.dynamic >= 1);
    await client.release(claim);
    await refused(client.pool("no-such-pool"), NotFound);
});

check("settings of the caller count", async ({ folder }) => {
    process.env.DIBS_TTL = "7m";
    process.env.XDG_CONFIG_HOME = folder;
    fs.mkdirSync("dibs");
    fs.writeFileSync("dibs/dibs.yaml", "range: 22000-22099\n");
    const client = new Client();
    const inRange = (first) => async () => {
        const { port } = await client.claim();
        assert.ok(port >= first && port < first + 100, String(port));
    };
    await inRange(22000)();
    fs.mkdirSync("project");
    process.chdir("project");
    fs.writeFileSync("dibs.yaml", "range: 23000-23099\n");
    await inRange(23000)();
    fs.mkdirSync("../broken");
    process.chdir("../broken");
    fs.writeFileSync("dibs.yaml", "nonsense: 1\n");
    await refused(client.claim(), Usage, /has no key 'nonsense'/);
    assert.deepEqual(await client.list("nobody"), []);
    await client.close();
});

check("a role of the manifest has its environment", async ({ client, group }) => {
    const roles =
        "roles:\n  api: { ports: [ { name: http, env: PORT } ] }\n" +
        "  web: { ports: [ { name: http, env: PORT } ], references: [ { env: API_PORT, from: api.http } ] }\n";
    fs.writeFileSync("dibs.yaml", `group: ${group}\n${roles}`);
    assert.deepEqual(new Set((await client.plan()).map(({ change }) => change)), new Set(["add"]));
    const ports = Object.fromEntries((await client.up()).map(({ claim }) => [claim.name.split("/")[1], claim.port]));
    assert.deepEqual(await client.env("web"), { PORT: String(ports.web), API_PORT: String(ports.api) });
    assert.equal((await client.get("web")).port, ports.web);
    assert.equal((await client.find("api/http")).port, ports.api);
    const own = await client.env("web", { pid: process.pid, group: `${group}-test` });
    assert.deepEqual(Object.keys(own).sort(), ["API_PORT", "PORT"]);
    for (const port of Object.values(own)) assert.ok(!Object.values(ports).includes(Number(port)));
    assert.deepEqual(new Set((await client.down()).map(({ change }) => change)), new Set(["drop"]));
    await refused(client.env("wbe"), NotFound);
});

check("wait takes a port as soon as it is free", async ({ client }) => {
    const claim = await client.claim({ ttl: "10m" });
    await refused(client.claim({ port: claim.port, wait: 100 }), Taken, /^waited 100ms: /);
    const later = sleep(200).then(() => commandLater(["release", String(claim.port)]));
    assert.equal((await client.claim({ port: claim.port, wait: "60s" })).port, claim.port);
    await later;
});

check("the same key gets the same claim", async ({ client, folder }) => {
    const key = `job-4711 ${folder} ü`;
    const first = await client.claim({ key });
    assert.equal((await client.claim({ key })).id, first.id);
    await refused(client.claim({ key, proto: "udp" }), Usage, /was used before, for another request/);
});

check("the end of a block ends its claim and leaves one that was there", async ({ client }) => {
    const claim = await client.claim("web");
    await (await client.claim("web")).leave();
    assert.equal((await client.find("web")).id, claim.id);
    if (Symbol.asyncDispose) await claim[Symbol.asyncDispose]();
    else await claim.leave();
    await refused(client.find("web"), NotFound);
    const kept = await client.get("kept");
    const held = await client.claim("kept");
    assert.equal(held.holder.pid, process.pid);
    await held.leave();
    const left = await client.find("kept");
    assert.deepEqual([left.id, left.kept, left.holder], [kept.id, true, null]);
});

check("a claim can be sent to another thread, which ends it", async ({ client }) => {
    const claim = await client.claim({ ttl: "1m" });
    const source = `
        const { parentPort, workerData } = require("node:worker_threads");
        const { Client } = require(workerData.dibs);
        const client = new Client();
        client.release(workerData.claim).then((ended) => client.close().then(() => parentPort.postMessage(ended)));`;
    const dibs = path.join(path.dirname(new URL(import.meta.url).pathname), "../lib/index.cjs");
    const worker = new Worker(source, { eval: true, workerData: { claim: JSON.parse(JSON.stringify(claim)), dibs } });
    const ended = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
    assert.equal(ended, 1);
    await refused(client.find(claim), NotFound);
});

check("many calls share a client", async ({ client }) => {
    const claims = await Promise.all(Array.from({ length: 40 }, () => client.claim()));
    assert.equal(new Set(claims.map(({ port }) => port)).size, 40);
    assert.deepEqual(await Promise.all(claims.map((claim) => client.release(claim))), Array(40).fill(1));
});

check("group and directory of a client", async ({ folder, group }) => {
    fs.mkdirSync("elsewhere");
    const elsewhere = new Client({ directory: `${folder}/elsewhere` });
    assert.equal((await elsewhere.claim("web")).project, `${folder}/elsewhere`);
    const shop = new Client({ group: `shop-${group}` });
    const claim = await shop.claim("web");
    assert.deepEqual([claim.name, claim.project], [`shop-${group}/web`, null]);
    assert.equal((await shop.find("web")).id, claim.id);
    assert.deepEqual((await shop.list(`shop-${group}`)).map(({ id }) => id), [claim.id]);
    await Promise.all([elsewhere.close(), shop.close()]);
});

check("an exhausted pool is exhausted", async ({ client }) => {
    const claims = await client.claimMany({ count: 2, range: "19700-19701" });
    const error = await refused(client.claim({ range: "19700-19701" }), Exhausted, /^no free port left in pool '19700-19701'/);
    assert.deepEqual([error.exitCode, error.code], [4, "DIBS_EXHAUSTED"]);
    await refused(client.claimMany({ count: 3, range: "19700-19702", contiguous: true }), Exhausted);
    await Promise.all(claims.map((claim) => client.release(claim)));
});
