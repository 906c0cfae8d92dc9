// SPDX-License-Identifier: MIT
// Where the tests run: a daemon when DIBS_SOCKET names one, else the program alone; a directory for each test.

import assert from "node:assert/strict";
import { execFile, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { promisify } from "node:util";
import { Client, Unavailable } from "dibs";

export const PROGRAM = process.env.DIBS;
export const SOCKET = process.env.DIBS_SOCKET;
export const HAS_DAEMON = SOCKET !== undefined && SOCKET !== "none";
export const IS_LONG = process.env.DIBS_TEST_LONG === "1";
export const isRoot = process.geteuid() === 0;

/** A test in a directory of its own, whose name it gets; its client is closed at the end, its variables are restored. */
export function check(name, options, body) {
    if (typeof options === "function") [options, body] = [{}, options];
    test(name, { timeout: IS_LONG ? 1_200_000 : 120_000, ...options }, async (t) => {
        const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "dibs-node-")));
        const environment = { ...process.env };
        process.env.DIBS_TIMEOUT = "60s"; // a busy machine
        process.chdir(folder);
        const client = new Client();
        try {
            await body({ client, folder, group: path.basename(folder), t });
        } finally {
            for (const variable of Object.keys(process.env)) if (!(variable in environment)) delete process.env[variable];
            Object.assign(process.env, environment);
            await client.close();
            process.chdir("/");
            fs.rmSync(folder, { recursive: true, force: true });
        }
    });
}

/** Run the program as a user would. */
export function command(words, environment = {}) {
    const done = spawnSync(PROGRAM, words, { env: { ...process.env, ...environment }, encoding: "utf8", timeout: 120_000 });
    if (done.error) throw done.error;
    return done;
}
export const commandLater = promisify(execFile).bind(null, PROGRAM);

/** Wait until a condition comes true. */
export async function until(condition) {
    for (let i = 0; i < 6000; i++) {
        if (await condition()) return;
        await sleep(10);
    }
    throw new Error("the condition has not come true");
}

export function sleep(ms) {
    return new Promise((resolve) => {
        setTimeout(resolve, ms);
    });
}

/** Write a program. */
export function script(file, text) {
    fs.writeFileSync(file, text, { mode: 0o755 });
    return path.resolve(file);
}

/** A server that listens on a port of the kernel's choice, or on this one. */
export function listening(port = 0, host = undefined) {
    return new Promise((resolve, reject) => {
        const server = net.createServer((connection) => connection.end());
        server.once("error", reject);
        server.listen({ port, host, exclusive: true }, () => resolve(server));
    });
}

/** Connect to a port, and return what the server says until it closes. */
export function connect(port, host = "127.0.0.1") {
    return new Promise((resolve, reject) => {
        let text = "";
        const connection = net.connect({ port, host });
        connection.setEncoding("utf8").on("data", (data) => (text += data));
        connection.on("error", reject).on("end", () => resolve(text));
    });
}

/** A daemon of the test's own, with a ledger beside its socket. */
export class Daemon {
    static async start(t) {
        const daemon = new Daemon();
        daemon.folder = fs.mkdtempSync(path.join(os.tmpdir(), "dibs-node-"));
        fs.chmodSync(daemon.folder, 0o755); // other users may reach the socket
        daemon.socket = path.join(daemon.folder, "dibs.sock");
        await daemon.start();
        t.after(async () => {
            await daemon.stop("SIGKILL");
            fs.rmSync(daemon.folder, { recursive: true, force: true });
        });
        return daemon;
    }

    async start() {
        const environment = { ...process.env, DIBS_SOCKET: "none", DIBS_LEDGER: `sqlite:${this.folder}/ledger.db` };
        const words = ["serve", "--socket", this.socket, "--admin-socket", path.join(this.folder, "admin.sock")];
        const log = fs.openSync(path.join(this.folder, "log"), "a");
        this.child = spawn(PROGRAM, words, { env: environment, stdio: ["ignore", "ignore", log] });
        fs.closeSync(log);
        await until(async () => {
            const client = new Client({ socket: this.socket });
            try {
                await client.log({ limit: 1 });
                return true;
            } catch (error) {
                assert.ok(error instanceof Unavailable, error);
                assert.equal(this.child.exitCode, null, fs.readFileSync(path.join(this.folder, "log"), "utf8"));
                return false;
            } finally {
                await client.close();
            }
        });
    }

    send(signal) {
        this.child.kill(signal);
    }

    async stop(signal = "SIGTERM") {
        if (this.child.exitCode !== null || this.child.signalCode !== null) return;
        const ended = new Promise((resolve) => this.child.once("exit", resolve));
        this.child.kill("SIGCONT");
        this.child.kill(signal);
        await ended;
    }
}

/** A server that answers each connection with the next of these texts and closes it, or answers nothing. */
export class Unruly {
    static async start(t, file) {
        const server = new Unruly();
        server.answers = [];
        server.requests = [];
        server.isSilent = false;
        server.path = path.resolve(file);
        const open = new Set();
        const listener = net.createServer((connection) => {
            open.add(connection);
            connection.on("error", () => {}).once("data", (data) => {
                server.requests.push(data.toString("latin1"));
                if (server.isSilent) return;
                const answer = server.answers.shift();
                if (typeof answer === "function") answer(connection);
                else connection.end(answer === undefined ? "" : answer);
            });
        });
        await new Promise((resolve) => listener.listen(server.path, resolve));
        t.after(() => {
            listener.close();
            for (const connection of open) connection.destroy();
        });
        return server;
    }
}

/** Stands between a client and the daemon, and can hold back an answer that the daemon has given. */
export class Relay {
    static async start(t, file, socket) {
        const relay = new Relay();
        relay.path = path.resolve(file);
        relay.holds = false;
        relay.held = 0;
        const open = new Set();
        const listener = net.createServer((client) => {
            const daemon = net.connect(socket);
            open.add(client).add(daemon);
            client.on("error", () => {}).on("close", () => daemon.destroy());
            daemon.on("error", () => {}).on("close", () => client.destroy());
            client.on("data", (data) => daemon.write(data));
            daemon.on("data", (data) => {
                if (relay.holds) {
                    relay.holds = false;
                    relay.held++;
                } else if (!client.isHeld) {
                    client.write(data);
                }
            });
        });
        await new Promise((resolve) => listener.listen(relay.path, resolve));
        t.after(() => {
            listener.close();
            for (const connection of open) connection.destroy();
        });
        return relay;
    }
}

/** Expect an error of this class, whose message has the text or pattern. */
export async function refused(promise, Kind, pattern = /./s) {
    let error;
    try {
        await promise;
    } catch (caught) {
        error = caught;
    }
    assert.ok(error !== undefined, `it was not refused as ${Kind.name}`);
    assert.ok(error instanceof Kind, error);
    if (pattern instanceof RegExp) assert.match(error.message, pattern);
    else assert.equal(error.message, pattern);
    return error;
}
