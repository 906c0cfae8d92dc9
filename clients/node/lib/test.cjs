"use strict";
// SPDX-License-Identifier: MIT
/** Ports for tests: helpers for node:test, and fixtures for Vitest and Playwright. They end with their test. */

const { execFileSync } = require("node:child_process");
const { Client } = require("./index.cjs");
const { errorFrom, NotFound, Unavailable } = require("./errors.cjs");
const { findProgram } = require("./program.cjs");

let shared = null;

/** The client of this process, for all its tests. */
function client() {
    shared = shared || new Client();
    return shared;
}

/** Call a function when the test is over: `t` of node:test, the context of Vitest, or an object with `after`. */
function atEnd(t, call) {
    const add = t && (t.after || t.onTestFinished);
    if (typeof add !== "function") throw new TypeError("dibs/test: the first argument is the test: t of node:test, or the context of Vitest");
    add.call(t, call);
}

/** End a claim that may have ended. */
async function end(claim) {
    await client().leave(claim).catch((error) => {
        if (!(error instanceof NotFound)) throw error;
    });
}

/** Claim a port for this test. */
async function port(t, name, options) {
    const claim = await client().claim(name, options);
    atEnd(t, () => end(claim));
    return claim.port;
}

/** Claim so many ports, or one for each name, for this test. */
async function ports(t, wanted, options) {
    const claims = await claimSome(wanted, options);
    atEnd(t, () => Promise.all(claims.map(end)));
    return asked(wanted, claims);
}

function claimSome(wanted, options) {
    return typeof wanted === "number" ? client().claimMany([], { ...options, count: wanted }) : client().claimMany(wanted, options);
}

/** A list for a number, an object for names. */
function asked(wanted, claims) {
    const found = claims.map((claim) => claim.port);
    return typeof wanted === "number" ? found : Object.fromEntries(wanted.map((name, i) => [name, found[i]]));
}

/** Claim a port and let the server listen on it until the test is over. Returns the listener. */
async function listen(t, server, options) {
    const listener = await client().listen({ ...options, server });
    atEnd(t, () => stop(listener));
    return listener;
}

async function stop(listener) {
    listener.close();
    const { server } = listener;
    if (server && typeof server.closeAllConnections === "function") server.closeAllConnections();
    await end(listener.claim);
}

let groups = 0;

/** Return the variables of a role of the manifest, with ports that this test has alone. */
async function env(t, role, options) {
    const group = `test-${process.pid}-${++groups}`;
    const variables = await client().env(role, { ...options, pid: process.pid, group });
    atEnd(t, () => endGroup(group));
    return variables;
}

async function endGroup(group) {
    const claims = await client().list(group);
    await Promise.all(claims.map((claim) => client().release(claim)));
}

/** Make a fixture whose function collects what ends with the test. */
function collecting(make) {
    return async (use) => {
        const calls = [];
        try {
            await use(make({ after: (call) => calls.push(call) }));
        } finally {
            for (const call of calls.reverse()) await call();
        }
    };
}

const withPorts = collecting((t) => (wanted, options) => ports(t, wanted, options));
const withListen = collecting((t) => (server, options) => listen(t, server, options));
const withEnv = collecting((t) => (role, options) => env(t, role, options));
async function withPort(use) {
    const claim = await client().claim();
    try {
        await use(claim.port);
    } finally {
        await end(claim);
    }
}

/* eslint-disable no-empty-pattern -- both runners read the parameters from the source */
/** For `test.extend` of Vitest and Playwright. */
const fixtures = {
    dibsPort: async ({}, use) => withPort(use),
    dibsPorts: async ({}, use) => withPorts(use),
    dibsListen: async ({}, use) => withListen(use),
    dibsEnv: async ({}, use) => withEnv(use),
};

/** For `test.extend` of Playwright: also a port that belongs to the worker, for a server that all its tests use. */
const playwrightFixtures = {
    ...fixtures,
    dibsWorkerPort: [async ({}, use) => withPort(use), { scope: "worker" }],
};
/* eslint-enable no-empty-pattern */

/**
 * Make `webServer` and `use` of a Playwright configuration. Playwright reads the configuration again in each worker: these
 * get the port of the first process by a variable. The runner holds the claim, and the server runs below it.
 */
function webServer({ name = "web", command, url = "http://localhost:{port}", ...options }) {
    const variable = `DIBS_PLAYWRIGHT_${Buffer.from(name).toString("hex")}`;
    const number = process.env[variable] || String(claimNow(name));
    process.env[variable] = number;
    const fill = (text) => text.replaceAll("{port}", number);
    const address = fill(url);
    return {
        webServer: { ...options, command: fill(command), url: address, reuseExistingServer: false, env: { PORT: number, ...options.env } },
        use: { baseURL: address },
    };
}

/** Claim the port of a name for this process, at once: a configuration is no coroutine. */
function claimNow(name) {
    const program = findProgram();
    if (program === null) throw new Unavailable("this needs the program dibs, and it is neither in PATH nor named by DIBS");
    const words = ["claim", "--json", "--quiet", `--pid=${process.pid}`, "--", name];
    try {
        return JSON.parse(execFileSync(program, words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }))[0].port;
    } catch (error) {
        if (!error.stderr) throw error;
        let refusal;
        try {
            refusal = JSON.parse(error.stderr.trim().split("\n").pop()).error;
        } catch {
            throw error;
        }
        throw errorFrom(refusal.exit, refusal.message, refusal);
    }
}

module.exports = { client, env, fixtures, listen, playwrightFixtures, port, ports, webServer };
