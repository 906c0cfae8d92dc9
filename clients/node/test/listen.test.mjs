// SPDX-License-Identifier: MIT
// Claims with their sockets.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import cluster from "node:cluster";
import dgram from "node:dgram";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { Client, Denied, NotFound, Taken, Usage } from "dibs";
import { Daemon, HAS_DAEMON, check, connect, isRoot, listening, refused } from "./support.mjs";

const LIBRARY = path.join(path.dirname(new URL(import.meta.url).pathname), "../lib/index.cjs");

check("a port with its server takes connections at once, in both families", async ({ client }) => {
    const server = http.createServer((request, response) => response.end(request.socket.localAddress));
    const listener = await client.listen("web", { server });
    assert.equal(listener.server, server);
    assert.equal(server.address().port, listener.port);
    for (const host of ["127.0.0.1", "[::1]"]) assert.ok((await (await fetch(`http://${host}:${listener.port}`)).text()).includes("1"));
    assert.equal(listener.claim.hold, "fd");
    assert.equal((await client.assertListening(listener.claim)).pid, process.pid);
    await listener.leave();
    server.closeAllConnections();
    assert.equal(server.listening, false);
    await refused(connect(listener.port), Error, /ECONNREFUSED/);
    await refused(client.find(listener.claim), NotFound);
});

check("each binding has a socket, and one server gets the connections of all", async ({ client }) => {
    const server = net.createServer((connection) => connection.end(connection.localAddress));
    const listener = await client.listen({ proto: "tcp,udp", address: ["127.0.0.1", "::1"], server });
    assert.deepEqual([listener.servers.length, listener.sockets.length], [2, 2]);
    for (const host of ["127.0.0.1", "::1"]) assert.equal(await connect(listener.port, host), host);
    assert.deepEqual(listener.sockets.map((socket) => socket.address().address).sort(), ["127.0.0.1", "::1"]);
    const sender = dgram.createSocket("udp6");
    const [socket] = listener.sockets.filter((each) => each.address().address === "::1");
    const heard = new Promise((resolve) => socket.once("message", (data) => resolve(String(data))));
    sender.send("hello", listener.port, "::1");
    assert.equal(await heard, "hello");
    sender.close();
    // The end of the user's server is the end of the other TCP binding, too.
    await new Promise((resolve) => server.close(resolve));
    await refused(connect(listener.port, "::1"), Error, /ECONNREFUSED/);
    listener.close();
    await client.release(listener.claim);
    const udp = await client.listen({ proto: "udp", address: "localhost" });
    assert.deepEqual([udp.server, udp.sockets.length], [null, 2]);
    await udp.leave();
});

/** A client whose claims somebody else binds first. */
class Robbed extends Client {
    constructor(atMost) {
        super();
        this.left = atMost;
        this.stolen = [];
    }

    async claim(...args) {
        const claim = await super.claim(...args);
        if (this.left-- > 0) this.stolen.push(await listening(claim.port));
        return claim;
    }
}

check("a port that another process takes before the bind is replaced", async ({ client }) => {
    const server = net.createServer();
    server.on("error", (error) => assert.fail(error)); // the user's server does not hear of it
    let robbed = new Robbed(3);
    const listener = await robbed.listen({ server });
    for (const stolen of robbed.stolen) {
        assert.notEqual(stolen.address().port, listener.port);
        assert.deepEqual(await client.list({ port: stolen.address().port }), []);
        stolen.close();
    }
    assert.equal(robbed.stolen.length, 3);
    await listener.leave();
    await robbed.close();
    // One that was asked for by number is refused, and nothing stays claimed.
    robbed = new Robbed(9);
    await refused(robbed.listen({ port: 19710 }), Taken, "port 19710 is in use by another process");
    assert.deepEqual(await client.list({ port: 19710 }), []);
    // So is the eighth that is lost.
    await refused(robbed.listen(), Taken, /is in use by another process/);
    assert.equal(robbed.stolen.length, 9);
    for (const stolen of robbed.stolen) {
        assert.deepEqual(await client.list({ port: stolen.address().port }), []);
        stolen.close();
    }
    await robbed.close();
});

check("what cannot listen is refused before anything is claimed", async ({ client, group }) => {
    const server = await listening();
    await refused(client.listen("a", { server }), Usage, /listens already/);
    server.close();
    await refused(client.listen("a", { proto: "sctp" }), Usage, /sctp/);
    await refused(client.listen("a", { server: {} }), Usage, /net\.Server/);
    assert.deepEqual(await client.list(group), []);
});

check("a guard keeps the port until it is bound", async ({ t }) => {
    const daemon = await Daemon.start(t);
    const client = new Client({ socket: daemon.socket });
    const claim = await client.claim({ hold: "guard" });
    // A program without a reuse option is refused, as is an outgoing connection.
    await refused(bindPlainly(claim.port), Error, /Address already in use/);
    const listener = await client.listen({ hold: "guard", server: net.createServer((connection) => connection.end("guarded")) });
    assert.equal(listener.claim.hold, "guard");
    assert.equal(await connect(listener.port), "guarded");
    await claim.leave();
    await listener.leave();
    await client.close();
});

/** Bind as a program does that sets no option; Node always sets SO_REUSEADDR. */
function bindPlainly(port) {
    const source = `import socket; socket.socket(socket.AF_INET6).bind(("::", ${port}))`;
    return promisify(execFile)("/usr/bin/python3", ["-c", source]);
}

const MANY = `
    const { Client } = require(${JSON.stringify(LIBRARY)});
    const net = require("node:net");
    (async () => {
        const client = new Client({ timeoutMs: 120_000 });
        const ports = [];
        for (let i = 0; i < 18; i++) {
            const server = net.createServer((connection) => connection.end(String(server.address().port)));
            ports.push((await client.listen({ server, range: "19720-19799", address: "127.0.0.1" })).port);
        }
        console.log(ports.join(" "));
    })();`;

check("processes that listen at once never get one port twice", async () => {
    // 80 ports, 4 processes with 18 servers each, and a stranger that asks nobody.
    const children = Array.from({ length: 4 }, () => spawn(process.execPath, ["-e", MANY], { stdio: ["ignore", "pipe", "inherit"] }));
    const strangers = [];
    const stealing = (async () => {
        for (let port = 19720; port < 19800; port += 12) {
            await listening(port, "127.0.0.1").then((server) => strangers.push(server), () => {});
        }
    })();
    const lines = children.map((child) => new Promise((resolve, reject) => {
        let text = "";
        child.stdout.setEncoding("utf8").on("data", (data) => (text += data).includes("\n") && resolve(text.trim().split(" ").map(Number)));
        child.once("exit", (code) => reject(new Error(`it ended: ${code}`)));
    }));
    const ports = (await Promise.all(lines)).flat();
    await stealing;
    const taken = strangers.map((server) => server.address().port);
    assert.equal(ports.length, 72);
    assert.equal(new Set([...ports, ...taken]).size, 72 + taken.length);
    for (const port of ports) assert.equal(await connect(port), String(port));
    for (const child of children) child.kill("SIGKILL");
    for (const server of strangers) server.close();
});

check("a worker of a cluster has a port of its own", async ({ folder }) => {
    const source = `
        const { Client } = require(${JSON.stringify(LIBRARY)});
        const net = require("node:net");
        const server = net.createServer((connection) => connection.end(String(process.pid)));
        new Client().listen({ server }).then((listener) => process.send({ port: listener.port, pid: process.pid }));`;
    cluster.setupPrimary({ exec: process.execPath, execArgv: [], args: [], cwd: folder });
    const file = path.join(folder, "worker.cjs");
    fs.writeFileSync(file, source);
    cluster.setupPrimary({ exec: file, cwd: folder });
    const workers = [cluster.fork(), cluster.fork()];
    const got = await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once("message", resolve))));
    assert.notEqual(got[0].port, got[1].port);
    for (const { port, pid } of got) assert.equal(await connect(port), String(pid));
    for (const worker of workers) worker.kill("SIGKILL");
});

check("a port that may not be bound is denied", { skip: (!isRoot || HAS_DAEMON) && "needs root, and looks at the bind alone" }, async ({ client, folder }) => {
    const source = `
        const { Client, Denied } = require(${JSON.stringify(LIBRARY)});
        class Low extends Client {
            async claim(...args) {
                const claim = await super.claim(...args);
                claim.bindings[0].port = 81;
                process.setuid(65534);
                return claim;
            }
            async release() {}
        }
        new Low().listen({ address: "127.0.0.1" }).then(() => process.exit(1), (error) => process.exit(error instanceof Denied ? 0 : 2));`;
    const child = spawn(process.execPath, ["-e", source], { cwd: folder, stdio: "inherit" });
    assert.equal(await new Promise((resolve) => child.once("exit", resolve)), 0);
    assert.ok(Denied && client);
});
