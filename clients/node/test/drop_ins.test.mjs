// SPDX-License-Identifier: MIT
// What get-port, portfinder and detect-port document, side by side: each test runs with the package of npm and with ours.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import { pathToFileURL } from "node:url";
import { Client } from "dibs";
import { check, command, connect, listening, refused, until } from "./support.mjs";

const PEERS = process.env.DIBS_TEST_NPM && fs.existsSync(`${process.env.DIBS_TEST_NPM}/fetched`) && `${process.env.DIBS_TEST_NPM}/node_modules`;
const require = createRequire(PEERS ? `${PEERS}/x.cjs` : import.meta.url);
const skip = !PEERS && "npm could not fetch the packages of tests/npm/package.json";

/** A test for our module and the real one; both must do the same. */
function both(name, text, body) {
    for (const kind of ["dibs", "npm"]) {
        check(`${kind === "dibs" ? `dibs/${name}` : `the real ${name}`}: ${text}`, { skip: kind === "npm" && skip }, async (test) => {
            const entry = kind === "dibs" ? `dibs/${name}` : entryOf(name);
            await body(await import(entry), { ...test, isOurs: kind === "dibs" });
        });
    }
}

function entryOf(name) {
    const modules = { "get-port": "index.js", "detect-port": "dist/esm/index.js" };
    return pathToFileURL(modules[name] ? `${PEERS}/${name}/${modules[name]}` : require.resolve(name)).href;
}

const between = (port, first, last) => assert.ok(port >= first && port <= last, `${port} is not from ${first} to ${last}`);

/** So many ports after each other on which nobody listens. */
async function free(count) {
    for (let first = 40_000 + Math.floor(Math.random() * 15_000); ; first++) {
        const servers = [];
        try {
            for (let i = 0; i < count; i++) servers.push(await listening(first + i));
            return Array.from({ length: count }, (_, i) => first + i);
        } catch {
            // the next ones
        } finally {
            await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
        }
    }
}

// ---- get-port ----

both("get-port", "a port can be bound", async ({ default: getPort }) => {
    const port = await getPort();
    between(port, 1024, 65_535);
    const server = await listening(port);
    await connect(port);
    server.close();
});

both("get-port", "the wished port is returned if it can be had, else another", async ({ default: getPort }) => {
    const [port] = await free(1);
    assert.equal(await getPort({ port }), port);
    const server = await listening();
    const used = server.address().port;
    assert.notEqual(await getPort({ port: used }), used);
    server.close();
});

both("get-port", "of an iterable the first port that can be had is returned, and another if there is none", async ({ default: getPort, portNumbers }) => {
    const server = await listening();
    const used = server.address().port;
    const [a, b, c, d] = await free(4);
    assert.equal(await getPort({ port: [used, a, b] }), a);
    assert.equal(await getPort({ port: portNumbers(c, d) }), c);
    assert.equal(await getPort({ port: new Set([c, d]) }), d);
    assert.notEqual(await getPort({ port: [used] }), used);
    server.close();
});

both("get-port", "excluded ports are not returned", async ({ default: getPort, portNumbers }, { isOurs }) => {
    const ports = await free(3);
    assert.equal(await getPort({ port: ports, exclude: ports.slice(0, 2) }), ports[2]);
    // The real one may return them when it takes any port.
    if (isOurs) assert.ok(!ports.includes(await getPort({ port: ports, exclude: portNumbers(ports[0], ports[2]) })));
    for (const exclude of [5, ["80"], [1.5], [NaN], [2 ** 60]]) await refused(getPort({ exclude }), TypeError);
});

both("get-port", "a port is not returned again, until the locked ports are cleared", async ({ default: getPort, clearLockedPorts }) => {
    const port = await free(3);
    assert.deepEqual([await getPort({ port }), await getPort({ port })], port.slice(0, 2));
    clearLockedPorts();
    assert.equal(await getPort({ port, reserve: true }), port[0]);
    assert.equal(await getPort({ port, reserve: true }), port[1]);
    clearLockedPorts();
    assert.equal(await getPort({ port }), port[0]);
    clearLockedPorts();
});

both("get-port", "calls at once get different ports", async ({ default: getPort, clearLockedPorts }) => {
    const ports = await Promise.all(Array.from({ length: 20 }, () => getPort()));
    assert.equal(new Set(ports).size, 20);
    clearLockedPorts();
});

both("get-port", "a host is the only address that counts", async ({ default: getPort }) => {
    const server = await listening(0, "127.0.0.1");
    const { port } = server.address();
    assert.notEqual(await getPort({ port, host: "127.0.0.1" }), port);
    assert.equal(await getPort({ port, host: "127.0.0.2" }), port);
    assert.notEqual(await getPort({ port }), port);
    for (const host of ["127.0.0.1", "localhost", "::1", "0.0.0.0"]) between(await getPort({ host }), 1, 65_535);
    between(await getPort({ host: "::1", ipv6Only: true }), 1, 65_535);
    server.close();
    assert.equal((await getPort({ host: "192.0.2.1" }).catch((error) => error)).code, "EADDRNOTAVAIL");
});

both("get-port", "what is no port is refused", async ({ default: getPort, portNumbers }) => {
    for (const port of [70_000, -1, 1.5]) await refused(getPort({ port }), RangeError);
    for (const pair of [["1024", 2000], [1024], [1.5, 2000]]) assert.throws(() => portNumbers(...pair), TypeError);
    for (const pair of [[1, 2000], [1024, 70_000], [3000, 2000]]) assert.throws(() => portNumbers(...pair), RangeError);
    assert.deepEqual([...portNumbers(1024, 1026)], [1024, 1025, 1026]);
    assert.deepEqual([...portNumbers(65_535, 65_535)], [65_535]);
});

// ---- portfinder ----

both("portfinder", "it finds the lowest port that can be had, by promise and callback", async ({ default: portfinder }) => {
    const [a, b, c, d] = await free(4);
    const servers = [await listening(a), await listening(b)];
    assert.equal(await portfinder.getPortPromise({ port: a }), c);
    const answers = await new Promise((resolve) => portfinder.getPort({ port: d, stopPort: d }, (...got) => resolve(got)));
    assert.deepEqual(answers, [null, d]);
    between(await portfinder.getPort(), 8000, 65_535);
    between(await new Promise((resolve, reject) => portfinder.getPort((error, port) => (error ? reject(error) : resolve(port)))), 8000, 65_535);
    for (const server of servers) server.close();
});

both("portfinder", "base and highest port bound the search", async ({ default: portfinder }) => {
    const [a, b] = await free(2);
    portfinder.setBasePort(b);
    assert.equal(portfinder.basePort, b);
    assert.equal(await portfinder.getPortPromise(), b);
    portfinder.basePort = a;
    portfinder.setHighestPort(a);
    const server = await listening(a);
    await refused(portfinder.getPortPromise(), Error);
    await refused(portfinder.getPortPromise({ port: a, stopPort: a }), Error);
    server.close();
    portfinder.setHighestPort(65_535);
    portfinder.setBasePort(8000);
    await refused(portfinder.getPortPromise({ port: 9000, stopPort: 8000 }), Error);
    await refused(portfinder.getPortPromise({ port: -5 }), Error);
    const error = await new Promise((resolve) => portfinder.getPort({ port: 9000, stopPort: 8000 }, resolve));
    assert.ok(error instanceof Error);
});

both("portfinder", "several ports go upwards", async ({ default: portfinder }) => {
    const [first] = await free(8);
    for (const ports of [
        await portfinder.getPortsPromise(3, { port: first }),
        await portfinder.getPorts(2, { port: first + 3 }),
        await new Promise((resolve, reject) => portfinder.getPorts(2, { port: first + 5 }, (error, got) => (error ? reject(error) : resolve(got)))),
        await new Promise((resolve, reject) => portfinder.getPorts(2, (error, got) => (error ? reject(error) : resolve(got)))),
    ]) {
        assert.ok(ports.length >= 2 && ports.every((port, i) => i === 0 || port > ports[i - 1]), String(ports));
    }
});

both("portfinder", "a host that cannot be bound is refused", async ({ default: portfinder }) => {
    await refused(portfinder.getPortPromise({ host: "192.0.2.1" }), Error, /192\.0\.2\.1/);
    const [port] = await free(1);
    assert.equal(await portfinder.getPortPromise({ port, host: "127.0.0.1" }), port);
});

both("portfinder", "it finds the path of a socket that does not exist", async ({ default: portfinder }, { folder }) => {
    const path = `${folder}/sockets/test.sock`;
    assert.equal(await portfinder.getSocketPromise({ path }), path);
    fs.writeFileSync(path, "");
    fs.writeFileSync(`${folder}/sockets/test1.sock`, "");
    assert.equal(await portfinder.getSocketPromise({ path }), `${folder}/sockets/test2.sock`);
    portfinder.setBasePath(`${folder}/sockets/test`);
    assert.equal(await new Promise((resolve, reject) => portfinder.getSocket((error, got) => (error ? reject(error) : resolve(got)))), `${folder}/sockets/test2.sock`);
    portfinder.setBasePath("/tmp/portfinder");
    assert.equal(portfinder.nextPort(80), 81);
    assert.equal(portfinder.nextSocket("/a/b.sock"), "/a/b1.sock");
    assert.equal(portfinder.nextSocket("/a/b9.sock"), "/a/b10.sock");
});

// ---- detect-port ----

both("detect-port", "a port that can be had is returned, else one after it", async ({ default: detect, detectPort, detect: alias }) => {
    assert.equal(detectPort, detect);
    assert.equal(alias, detect);
    const [a, b, c, d] = await free(4);
    assert.equal(await detect(d), d);
    assert.equal(await detect(String(c)), c);
    const server = await listening(a);
    assert.equal(await detect({ port: a }), b);
    server.close();
    between(await detect(), 1, 65_535);
    for (const wish of ["nonsense", -3, 65_536, 70_000]) between(await detect(wish), 1, 65_535);
});

both("detect-port", "the callback gets the port or the error", async ({ detect }) => {
    const [a, b] = await free(2);
    assert.deepEqual(await new Promise((resolve) => detect(a, (...got) => resolve(got))), [null, a]);
    assert.deepEqual(await new Promise((resolve) => detect({ port: b, callback: (...got) => resolve(got) })), [null, b]);
    between((await new Promise((resolve) => detect((...got) => resolve(got))))[1], 1, 65_535);
});

both("detect-port", "a host name is the only address that counts", async ({ detect, IPAddressNotAvailableError }) => {
    const server = await listening(0, "127.0.0.1");
    const { port } = server.address();
    assert.notEqual(await detect({ port, hostname: "127.0.0.1" }), port);
    assert.equal(await detect({ port, hostname: "127.0.0.2" }), port);
    server.close();
    await refused(detect({ port, hostname: "192.0.2.1" }), IPAddressNotAvailableError);
});

both("detect-port", "ten used ports later any port is taken", async ({ detect }) => {
    const ports = await free(12);
    const servers = await Promise.all(ports.map((port) => listening(port)));
    const port = await detect(ports[0]);
    assert.ok(!ports.includes(port) && port > 0);
    for (const server of servers) server.close();
});

both("detect-port", "it waits for a port that somebody binds, so often as asked", async ({ waitPort, WaitPortRetryError }) => {
    const [port] = await free(1);
    const error = await refused(waitPort(port, { retryInterval: 5, retries: 2 }), WaitPortRetryError);
    assert.equal(error.retries, 2);
    const waiting = waitPort(port, { retryInterval: 10 });
    let server = null;
    await until(async () => (server = await listening(port).catch(() => null))); // it binds the port for a moment, too
    assert.equal(await waiting, true);
    server.close();
});

// ---- what is ours alone ----

for (const [name, get] of [
    ["get-port", async () => (await import("dibs/get-port")).default()],
    ["portfinder", async () => (await import("dibs/portfinder")).getPortPromise({ port: 30_000 })],
    ["detect-port", async () => (await import("dibs/detect-port")).default(30_100)],
]) {
    check(`dibs/${name}: no other process gets the port, and this one gets another`, async ({ client }) => {
        const port = await get();
        assert.equal((await client.find((await client.list({ port }))[0])).holder.pid, process.pid);
        assert.notEqual(await get(), port);
        assert.equal(command(["claim", "--port", String(port)]).status, 3);
    });
}

check("dibs/get-port: without options its ports are those of the pool, and a reserved one stays", async ({ client }) => {
    const { default: getPort, clearLockedPorts } = await import("dibs/get-port");
    const port = await getPort({ reserve: true });
    between(port, 20_000, 32_767);
    clearLockedPorts();
    const [next] = await free(1);
    await getPort({ port: next });
    assert.deepEqual(await client.list({ port }), []);
    assert.ok(net && Client);
});
