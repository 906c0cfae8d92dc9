// SPDX-License-Identifier: MIT
// Aborted calls, and a daemon that is restarted in the middle.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Client, Missed, Unavailable } from "dibs";
import { Daemon, IS_LONG, PROGRAM, Relay, check, command, refused, script, sleep, until } from "./support.mjs";

async function aborted(promise, signal) {
    const reason = await promise.then(() => assert.fail("it was not aborted"), (error) => error);
    assert.equal(reason, signal.reason);
    assert.equal(reason.name, "AbortError");
}

check("an aborted claim that the daemon has made is ended", async ({ t }) => {
    const daemon = await Daemon.start(t);
    const relay = await Relay.start(t, "relay.sock", daemon.socket);
    const client = new Client({ socket: relay.path });
    const kept = await client.get("/kept");
    let held = 0;
    for (const name of [null, "/cancelled", "/kept"]) {
        const abort = new AbortController();
        relay.holds = true;
        const claiming = client.claim(name, { signal: abort.signal });
        claiming.catch(() => {});
        held++;
        await until(() => relay.held === held);
        assert.equal((await client.list()).length, name === "/kept" ? 1 : 2);
        abort.abort();
        await aborted(claiming, abort.signal);
        const left = await client.list();
        assert.deepEqual(left.map(({ id, holder }) => [id, holder]), [[kept.id, null]]); // what the name had before stays
    }
    await client.close();
});

check("an aborted claim that the daemon has not read yet leaves nothing", async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket });
    await client.log();
    daemon.send("SIGSTOP");
    const abort = new AbortController();
    const claiming = client.claim({ signal: abort.signal });
    claiming.catch(() => {});
    await sleep(50);
    abort.abort();
    daemon.send("SIGCONT");
    await aborted(claiming, abort.signal);
    assert.deepEqual(await client.list(), []);
    await client.close();
});

check("an aborted claim kills the program and leaves nothing", async ({ folder, group }) => {
    // A program that claims, and is killed before it has said so: the first time only.
    process.env.DIBS = script(
        `${folder}/halting`,
        `#!/bin/sh\n[ "$1" = claim ] || exec ${PROGRAM} "$@"\nif mkdir halted 2>/dev/null; then\n` +
            `    ${PROGRAM} "$@" >answer\n    echo $$ >pid.new; mv pid.new pid\n    exec sleep 600\nfi\nexec ${PROGRAM} "$@"\n`,
    );
    process.env.DIBS_LEDGER = `sqlite:${folder}/ledger.db`;
    const client = new Client({ socket: "none" });
    const abort = new AbortController();
    const claiming = client.claim("web", { signal: abort.signal });
    claiming.catch(() => {});
    await until(() => fs.existsSync("pid"));
    abort.abort();
    await aborted(claiming, abort.signal);
    assert.ok(fs.readFileSync("answer", "utf8").includes(`${group}/web`));
    assert.throws(() => process.kill(Number(fs.readFileSync("pid", "utf8")), 0), { code: "ESRCH" });
    assert.deepEqual(await client.list(group), []);
});

check("every verb is aborted at once, and before it begins", async ({ client, t }) => {
    const daemon = await Daemon.start(t);
    const stopped = new Client({ socket: daemon.socket });
    const claim = await stopped.claim();
    daemon.send("SIGSTOP");
    const calls = (given, signal) => [
        given.find(claim, { signal }), given.release(claim, { signal }), given.renew(claim, { signal }),
        given.transfer(claim, { signal }), given.list({ signal }), given.who(claim.port, { signal }),
        given.explain(claim.port, { signal }), given.assertListening(claim, { signal }), given.log({ signal }),
        given.pools({ signal }), given.pool("default", { signal }), given.events({ signal }).next(),
        given.get("/x/y", { signal }), given.up({ signal }), given.env("web", { signal }),
    ];
    const later = new AbortController();
    const waiting = calls(stopped, later.signal);
    for (const call of waiting) call.catch(() => {});
    await sleep(50);
    later.abort();
    for (const call of waiting) {
        const error = await call.then(() => assert.fail("it was not aborted"), (reason) => reason);
        assert.ok(error === later.signal.reason || error.name !== "AbortError", error);
    }
    daemon.send("SIGCONT");
    const over = AbortSignal.abort();
    for (const call of [...calls(client, over), client.claim({ signal: over }), client.listen({ signal: over })]) await aborted(call, over);
    await stopped.close();
});

check("a warning says that an aborted claim may be left", { skip: !IS_LONG && "takes five seconds: in the long form" }, async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket });
    await client.log();
    daemon.send("SIGSTOP");
    const abort = new AbortController();
    const claiming = client.claim({ signal: abort.signal });
    claiming.catch(() => {});
    await sleep(50);
    const warned = new Promise((resolve) => process.once("warning", resolve));
    abort.abort();
    await daemon.stop("SIGKILL");
    await aborted(claiming, abort.signal);
    assert.match((await warned).message, /^an aborted call may have claimed a port/);
    await client.close();
});

check("calls and events go on when the daemon is restarted", async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket, timeoutMs: 60_000 });
    const events = client.events({ since: 0 });
    const seen = [];
    const following = (async () => {
        for await (const event of events) seen.push(event);
    })();
    const first = await client.claim("/first");
    await until(() => seen.length === 1);
    for (const signal of ["SIGTERM", "SIGKILL"]) {
        await daemon.stop(signal);
        let isDone = false;
        const waiting = client.claim().finally(() => (isDone = true));
        await sleep(100);
        assert.equal(isDone, false);
        await daemon.start();
        await waiting;
    }
    assert.equal((await client.find(first)).id, first.id);
    assert.equal(await client.release(first), 1);
    await until(() => seen.length === 4);
    assert.deepEqual(seen.map(({ what }) => what), ["claimed", "claimed", "claimed", "released"]);
    assert.deepEqual(seen.map(({ seq }) => seq), [1, 2, 3, 4]);
    await events.return();
    await following;
    await client.close();
});

check("a daemon that dies during calls loses none and makes none twice", async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket, timeoutMs: 60_000 });
    await client.log();
    const claims = [];
    const working = Promise.all(Array.from({ length: 8 }, async () => {
        for (let i = 0; i < 5; i++) claims.push(await client.claim());
    }));
    for (let i = 0; i < 2; i++) {
        await sleep(10);
        await daemon.stop("SIGKILL");
        await daemon.start();
    }
    await working;
    const listed = (await client.list()).map(({ port }) => port).sort();
    assert.deepEqual(listed, claims.map(({ port }) => port).sort());
    assert.equal(new Set(listed).size, 40);
    await client.close();
});

check("a reader of another ledger has missed events", async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket, timeoutMs: 60_000 });
    const events = client.events({ since: 0 });
    for (let i = 0; i < 3; i++) await client.claim();
    for (let i = 0; i < 3; i++) await events.next();
    await daemon.stop();
    for (const file of fs.readdirSync(daemon.folder)) if (file.startsWith("ledger.db")) fs.unlinkSync(path.join(daemon.folder, file));
    await daemon.start();
    await refused(events.next(), Missed, /another ledger/);
    assert.equal((await events.next()).done, true);
    await client.close();
});

check("a stream of events ends when it is idle, returned or aborted", async ({ client }) => {
    for await (const event of client.events({ idleMs: 100 })) assert.fail(event.what);
    const events = client.events();
    const reading = events.next();
    await sleep(300);
    const claim = await client.claim();
    const { value } = await reading;
    assert.deepEqual([value.what, value.port], ["claimed", claim.port]);
    const waiting = events.next();
    await sleep(20);
    assert.equal((await events.return()).done, true);
    assert.equal((await waiting).done, true);
    assert.equal((await events.next()).done, true);
    const abort = new AbortController();
    const read = client.events({ signal: abort.signal }).next();
    read.catch(() => {});
    await sleep(20);
    abort.abort();
    await aborted(read, abort.signal);
});

check("a client does not keep its process running, and its claims end with it", async ({ client, folder }) => {
    const source = `
        const { Client } = require(${JSON.stringify(path.join(path.dirname(new URL(import.meta.url).pathname), "../lib/index.cjs"))});
        new Client().claim("own").then((claim) => console.log(claim.port));`;
    const child = spawn(process.execPath, ["-e", source], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (data) => (text += data));
    assert.equal(await new Promise((resolve) => child.once("exit", resolve)), 0);
    assert.match(text, /^\d+\n$/);
    const claim = await client.claim("own");
    assert.deepEqual([claim.port, claim.holder.pid], [Number(text), process.pid]);
});

check("the program and the client see the same claims", async ({ client }) => {
    const claim = await client.claim("web");
    assert.equal(command(["get", "web"]).stdout, `${claim.port}\n`);
    assert.ok(Unavailable);
});
