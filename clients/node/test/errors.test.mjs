// SPDX-License-Identifier: MIT
// Refusals: each error, hostile names and options, and daemons and programs that do not behave.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import * as dibs from "dibs";
import { Daemon, HAS_DAEMON, IS_LONG, PROGRAM, Unruly, check, command, isRoot, refused, script } from "./support.mjs";

const LIBRARY = path.join(path.dirname(new URL(import.meta.url).pathname), "../lib/index.cjs");
const { Client, Denied, DibsError, Failed, NotFound, Taken, Token, Unavailable, Usage } = dibs;

const HOSTILE = [
    "", " ", "a b", "/", "//", "..", "a/../b", "--all", "-n", "$(id)", "`id`", "a'b\"c", "a\nb", "a\r\nX-Evil: 1", "a\0b",
    "a\x1b[31m", "%2e%2e%2f", "a?force=true", "a#b", "a&all=true", "8080", "１２３", "-", "a".repeat(400), "ä".repeat(63),
    "\u202egnp.exe", "\u{1f980}", "\ud800", "1.1.00000000000000000000000000000000", "*", "a/b/c/d/e/f/g", "@main/x",
    "__proto__", "constructor",
];

check("a hostile name is refused as on the command line, or is only a name", async ({ client }) => {
    for (const name of HAS_DAEMON || IS_LONG ? HOSTILE : HOSTILE.slice(10, 20)) { // without a daemon each of them runs programs
        if (/\0|\ud800/.test(name)) { // such a word cannot be typed
            for (const verb of ["claim", "get", "find", "release", "claimMany"]) await refused(client[verb](name), Usage);
            continue;
        }
        const typed = command(["claim", "--json", "--dry-run", "--pid", String(process.pid), "--", name]);
        if (typed.status !== 0) {
            const { exit, message } = JSON.parse(typed.stderr).error;
            const error = await refused(client.claim(name), DibsError, message);
            assert.equal(error.exitCode, exit);
            continue;
        }
        const claim = await client.claim(name);
        assert.equal(claim.name, JSON.parse(typed.stdout)[0].name);
        assert.equal((await client.find(name)).id, claim.id);
        assert.equal((await client.claim(name)).id, claim.id);
        assert.equal(await client.release(name), 1);
    }
});

check("taken describes the holder of the port", async ({ client }) => {
    const claim = await client.claim("first");
    const error = await refused(client.claim("second", { port: claim.port }), Taken);
    const { relation, port, name, pid, differs } = error.blocker;
    assert.deepEqual([relation, port, name, pid, differs], ["same_holder", claim.port, claim.name, process.pid, false]);
    assert.ok(error.message.includes(claim.name));
    assert.deepEqual([error.exitCode, error.code, error.name], [3, "DIBS_TAKEN", "Taken"]);
});

check("not found, usage and failed", async ({ client }) => {
    await refused(client.find("nobody"), NotFound, /no claim is named '.*\/nobody'/);
    await refused(client.claim({ pid: 2 ** 22 + 1 }), NotFound);
    for (const options of [{ port: 70000 }, { port: 0 }, { port: -1 }, { range: "5-1" }, { ttl: "5" }, { proto: "icmp" }, { hold: "strong" }]) {
        await refused(client.claim(options), Usage);
    }
    await refused(client.claim({ port: 20000, prefer: 20000 }), Usage, /cannot be used together/);
    await refused(client.claim({ keep: true, ttl: "1m" }), Usage, /cannot be used together/);
    for (const key of ["a\r\nX-Evil: 1", "", " a", "\ud800", "a".repeat(129)]) await refused(client.claim({ key }), Usage);
    await refused(client.claim({ hold: "enforce" }), Failed, /'enforce' cannot be had/);
});

check("an option of a wrong kind is a usage error, one that does not exist a TypeError", async ({ client }) => {
    const wrong = [
        { port: "8080" }, { port: 1.5 }, { port: NaN }, { range: 8080 }, { address: [1] }, { keep: 1 }, { ttl: {} }, { ttl: -1 },
        { ttl: NaN }, { wait: Infinity }, { timeoutMs: "1s" }, { timeoutMs: NaN }, { signal: {} }, { key: 1 },
    ];
    for (const options of wrong) await refused(client.claim(options), Usage);
    for (const name of [1, true, Symbol.iterator]) await refused(client.claim(name), Usage);
    for (const which of [undefined, null, {}, [], 1.5, NaN, true]) {
        for (const verb of ["find", "release", "renew", "transfer", "assertListening"]) await refused(client[verb](which), Usage);
    }
    for (const options of [{ prot: "tcp" }, { timeout: 5 }, { __proto__: null, toString: 1 }]) await refused(client.claim(options), TypeError);
    await refused(client.claim("web", "tcp"), TypeError);
    await refused(client.list({ project: "x" }), TypeError);
    assert.throws(() => client.events({ from: 1 }), TypeError);
    assert.throws(() => new Client({ sockets: "x" }), TypeError);
    assert.deepEqual(await client.list("nobody"), []);
});

check("a count that no dibs takes is refused before requests are made of it", async ({ client }) => {
    for (const count of [-1, 0, 4097, 2 ** 30]) await refused(client.claimMany("many", { count, dryRun: true }), Usage);
    assert.equal((await client.claimMany("many", { count: 3, dryRun: true })).length, 3);
});

check("a time without a limit works with a daemon and with the program", async ({ client }) => {
    for (const timeoutMs of [Infinity, Number.MAX_VALUE, 2 ** 53]) {
        assert.deepEqual(await client.list("nobody", { timeoutMs }), []);
        assert.equal(await client.releaseAll({ timeoutMs }), 0); // by the program
    }
});

check("a signal that is not of Node, as in jsdom, ends a call", async ({ client }) => {
    class Signal {
        aborted = false;
        calls = new Set();
        addEventListener(_, call) {
            this.calls.add(call);
        }
        removeEventListener(_, call) {
            this.calls.delete(call);
        }
        abort(reason) {
            Object.assign(this, { aborted: true, reason });
            for (const call of this.calls) call();
        }
    }
    const signal = new Signal();
    const claim = await client.claim("foreign", { signal });
    assert.equal(signal.calls.size, 0);
    const waiting = client.claim({ port: claim.port, wait: "1m", signal });
    setTimeout(() => signal.abort(new Error("enough")), 50);
    await assert.rejects(waiting, /enough/);
    await claim.leave();
});

check("another user's claim is denied", { skip: !isRoot && "needs root" }, async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket });
    const claim = await client.claim("/mine");
    const source = `
        process.setuid(65534);
        const { Client, Denied, Token } = require(${JSON.stringify(LIBRARY)});
        new Client({ socket: ${JSON.stringify(daemon.socket)} }).release(new Token("${claim.token}")).then(
            () => process.exit(1), (error) => process.exit(error instanceof Denied ? 0 : 2));`;
    const done = spawnSync(process.execPath, ["-e", source], { env: { ...process.env, DIBS: "/no/such/program" }, encoding: "utf8" });
    assert.equal(done.status, 0, done.stderr);
    assert.equal(new Denied("x").exitCode, 7);
    await client.close();
});

check("a daemon that is named must answer", async ({ folder }) => {
    const socket = `${folder}/nobody.sock`;
    const typed = command(["claim", "--json"], { DIBS_SOCKET: socket });
    assert.equal(typed.status, 6);
    await refused(new Client({ socket }).claim(), Unavailable, JSON.parse(typed.stderr).error.message);
    await refused(new Client({ socket: `/${"x".repeat(200)}` }).claim(), Usage, /too long/);
    await refused(new Client({ socket: "/a\0b" }).claim(), Usage);
    await refused(new Client({ directory: `${folder}/nowhere` }).claim(), Unavailable, /there is no such directory/);
});

check("without the program the daemon serves full names", async ({ t }) => {
    const daemon = await Daemon.start(t);
    process.env.DIBS = "/no/such/program";
    const client = new Client({ socket: daemon.socket });
    const claim = await client.claim("/shop/web", { address: "127.0.0.1" });
    for (const which of ["/shop/web", claim.port]) assert.equal((await client.find(which)).id, claim.id);
    assert.equal((await client.get("/shop/db")).name, "shop/db");
    assert.equal((await client.who(claim.port)).claims[0].id, claim.id);
    await refused(client.claim("web"), Usage, /DIBS_GROUP/);
    await refused(client.claim("/a\ud800"), Usage);
    await refused(client.claim("/a\0b"), Usage);
    await refused(client.find("/a\ud800"), Usage);
    await refused(client.env("web"), Unavailable, /needs the program/);
    assert.equal(await client.release("/shop/web"), 1);
    assert.equal(await client.release((await client.get("/shop/db")).port), 1);
    const shop = new Client({ socket: daemon.socket, group: "shop" });
    assert.equal((await shop.claim("web")).name, "shop/web");
    assert.equal(await shop.release("web"), 1);
    await refused(new Client({ socket: "none" }).claim(), Unavailable, /needs the program/);
    await Promise.all([client.close(), shop.close()]);
});

check("without a ledger a port is degraded or refused", { skip: HAS_DAEMON && "the daemon has the ledger" }, async ({ folder }) => {
    Object.assign(process.env, { DIBS_LEDGER: "sqlite:/dev/null/ledger", DIBS_LEDGER_MODE: "strict" });
    await refused(new Client().claim(), Unavailable);
    Object.assign(process.env, { DIBS_LEDGER_MODE: "fallback", DIBS_MRU_FILE: `${folder}/mru` });
    const warnings = [];
    const hear = (warning) => warnings.push(warning);
    process.on("warning", hear);
    const claim = await new Client().claim();
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", hear);
    assert.deepEqual([claim.degraded, claim.token], [true, null]);
    assert.ok(warnings.some(({ name }) => name === "DibsWarning"));
    await claim.leave();
});

check("a program that is no dibs is reported", async ({ folder }) => {
    const other = (text) => (process.env.DIBS = script(`${folder}/other`, `#!/bin/sh\n${text}\n`));
    other("echo hello");
    await refused(new Client().claim(), Failed, /no JSON/);
    other("kill -SEGV $$");
    await refused(new Client().claim(), Failed, /signal SIGSEGV/);
    other("echo first >&2; echo oops >&2; exit 9");
    await refused(new Client().claim(), Failed, /exit code 9: oops$/);
    other(`[ "$1" = settings ] && exec ${PROGRAM} "$@"; echo '{"a":1}'`);
    await refused(new Client({ socket: "none" }).claim(), Unavailable, /not understood/);
    other(`[ "$1" = settings ] && exec ${PROGRAM} "$@"; echo '[{"port":1}]'`);
    await refused(new Client({ socket: "none" }).claim(), Unavailable, /not understood/);
    fs.writeFileSync(`${folder}/other`, "#!/no/such/interpreter\n");
    await refused(new Client().claim(), Unavailable, /cannot run .*: No such file or directory/);
});

// ---- daemons that do not behave ----

const STRANGE = {
    "no HTTP": "220 mail.example.org ESMTP\r\n\r\n",
    "a head without an end": `HTTP/1.1 200 OK\r\nX: ${"x".repeat(200_000)}`,
    "a header without a colon": "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "no JSON": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a huge length": "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    "a negative length": "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a malformed chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "an error without a reason": "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}",
    "another document": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "null": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
    "a claim without a port": 'HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{"claims":[{"port":"x"} ]}',
    "a switch of protocols": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
};

check("a strange answer is reported", async ({ t }) => {
    const server = await Unruly.start(t, "unruly.sock");
    for (const [what, answer] of Object.entries(STRANGE)) {
        server.answers = [answer];
        const error = await refused(new Client({ socket: server.path }).list(), Unavailable);
        assert.match(error.message, /^daemon socket .*: |^the answer of dibs is not understood/, what);
    }
    const deep = `{"claims":[${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}]}`;
    server.answers = [`HTTP/1.1 200 OK\r\nContent-Length: ${deep.length}\r\n\r\n${deep}`];
    await refused(new Client({ socket: server.path }).list(), Unavailable, /not understood/);
});

check("an answer without an end is too large", async ({ t }) => {
    const server = await Unruly.start(t, "unruly.sock");
    let sent = 0;
    server.answers = [(connection) => {
        const chunk = `100000\r\n${" ".repeat(0x100000)}\r\n`;
        connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        const more = () => {
            if (!connection.writable) return;
            sent++;
            connection.write(chunk, more);
        };
        more();
    }];
    await refused(new Client({ socket: server.path, timeoutMs: 60_000 }).list(), Unavailable, /too large/);
    assert.ok(sent > 60 && sent < 200, String(sent));
});

check("an answer that was cut off is asked for again with the same key", async ({ t }) => {
    const server = await Unruly.start(t, "unruly.sock");
    const seq = 'HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n{"events":[],"seq":0,"oldest":0} ';
    const cut = "HTTP/1.1 200 OK\r\nContent-Len";
    const client = new Client({ socket: server.path });
    server.answers = [seq.slice(0, -5)];
    await refused(client.log(), Unavailable, /the connection was lost/); // the first request of a client does not wait for a daemon
    server.answers = [seq];
    assert.deepEqual(await client.log(), []);
    server.requests.length = 0;
    const problem = '{"detail": "taken", "code": 3}';
    const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"";
    const wait = "HTTP/1.1 429 Wait\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    server.answers = [cut, "", chunked, wait, `HTTP/1.1 409 Conflict\r\nContent-Length: ${problem.length}\r\n\r\n${problem}`];
    await refused(client.claim(), Taken, "taken");
    const keys = new Set(server.requests.map((request) => /^Idempotency-Key: (.*)\r$/m.exec(request)[1]));
    assert.deepEqual([server.requests.length, keys.size], [5, 1]);
    // A transfer is not repeated: a second one would find another token.
    server.answers = [cut];
    await refused(client.transfer(new Token("1.1.0")), Unavailable, /check before you repeat it/);
    await client.close();
});

check("a silent daemon is given up at the deadline", async ({ t }) => {
    const server = await Unruly.start(t, "unruly.sock");
    server.isSilent = true;
    const client = new Client({ socket: server.path, timeoutMs: 200 });
    const late = await refused(client.claim(), Unavailable, /no answer in time/);
    assert.equal(late.name, "Unavailable");
    assert.ok(server.requests[0].includes(late.key));
    await refused(client.list({ timeoutMs: 50 }), Unavailable, /no answer in time/);
    await refused(client.events({ timeoutMs: 50 }).next(), Unavailable, /no answer in time/);
    // A head without a body is no answer.
    const slow = await Unruly.start(t, "slow.sock");
    slow.answers = [(connection) => connection.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")];
    await refused(new Client({ socket: slow.path, timeoutMs: 1000 }).list(), Unavailable, /no answer in time/);
    await client.close();
});

check("a program that does not end is killed", async ({ folder }) => {
    process.env.DIBS = script(`${folder}/slow`, `#!/bin/sh\n[ "$1" = claim ] || exec ${PROGRAM} "$@"\necho $$ >pid\nsleep 600 &\nwait\n`);
    const error = await refused(new Client({ socket: "none" }).claim({ timeoutMs: 100 }), Unavailable, /does not end in time/);
    assert.ok(error.key);
    const pid = Number(fs.readFileSync("pid", "utf8"));
    assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
    const children = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name) && fs.existsSync(`/proc/${name}/cwd`) &&
        fs.readFileSync(`/proc/${name}/cmdline`, "latin1") === "sleep\x00600\x00" && fs.readlinkSync(`/proc/${name}/cwd`) === folder);
    for (const child of children) process.kill(Number(child)); // of the script
});
