// SPDX-License-Identifier: MIT
// Helpers for node:test, Vitest and Playwright, each with its real runner: workers with servers never collide, and one
// that is killed leaves nothing. WORKERS and TESTS are those of the long form.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { HAS_DAEMON, IS_LONG, check, command, until } from "./support.mjs";

const PEERS = `${process.env.DIBS_TEST_NPM}/node_modules`;
const HERE = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const WORKERS = Number(process.env.WORKERS || 2);
const TESTS = Number(process.env.TESTS || 5); // of each worker

/** A project with these files, and what `npm install` leaves. */
function project(folder, files) {
    fs.mkdirSync(`${folder}/node_modules`);
    fs.symlinkSync(HERE, `${folder}/node_modules/dibs`);
    for (const name of ["vitest", "@playwright"]) fs.symlinkSync(`${PEERS}/${name}`, `${folder}/node_modules/${name}`);
    fs.writeFileSync(`${folder}/package.json`, '{ "type": "module" }\n');
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(`${folder}/${name}`, text);
}

/** Run Node there; what it prints is shown when it ends otherwise than it should. */
async function node(words, status = 0) {
    const env = { ...process.env, CI: "1", FORCE_COLOR: "0", NO_COLOR: "1" };
    for (const name of ["NODE_TEST_CONTEXT", "NODE_CHANNEL_FD"]) delete env[name];
    const child = spawn(process.execPath, words, { env, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (data) => (text += data));
    const code = await new Promise((resolve) => child.once("close", resolve));
    if (status !== null) assert.equal(code, status, text);
    return text;
}
const vitest = (words, status) => node([`${PEERS}/vitest/vitest.mjs`, "run", "--pool=forks", `--poolOptions.forks.maxForks=${WORKERS}`, ...words], status);
const playwright = (words, status) => node([`${PEERS}/@playwright/test/cli.js`, "test", `--workers=${WORKERS}`, "--reporter=line", ...words], status);

/** What a test does with its server: others can see that no port is used twice at once. */
const SERVE = `
import assert from "node:assert/strict";
import fs from "node:fs";
import net from "node:net";
export async function serve(port) {
    const text = process.pid + " " + Math.random();
    const server = net.createServer((connection) => connection.end(text));
    await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
    const got = await new Promise((resolve, reject) => {
        let heard = "";
        net.connect(port, "127.0.0.1").on("data", (data) => (heard += data)).on("end", () => resolve(heard)).on("error", reject);
    });
    assert.equal(got, text);
    await new Promise((resolve) => server.close(resolve));
    fs.appendFileSync("served", process.pid + " " + port + "\\n");
}
`;
const served = () => fs.readFileSync("served", "utf8").trim().split("\n").map((line) => line.split(" ").map(Number));

/** No claim of these processes is left; without a daemon `dibs reap` ends those of the dead. */
async function nothingIsLeft(client) {
    if (!HAS_DAEMON) command(["reap"]);
    await until(async () => (await client.list()).every(({ holder }) => holder === null || holder.pid === process.pid));
}

function assertServed() {
    const all = served();
    assert.equal(all.length, WORKERS * TESTS);
    assert.equal(new Set(all.map(([pid]) => pid)).size, WORKERS);
}

check("node:test: ports, servers and variables end with their test", async ({ client, folder }) => {
    project(folder, {
        "serve.mjs": SERVE,
        "dibs.yaml": `group: g-${path.basename(folder)}\nroles:\n  api: { ports: [ { name: http, env: PORT } ] }\n`,
        "one.test.mjs": `
            import assert from "node:assert/strict";
            import http from "node:http";
            import test from "node:test";
            import { client, env, listen, port, ports } from "dibs/test";
            import { serve } from "./serve.mjs";
            let before = [];
            test("ports", async (t) => {
                const one = await port(t);
                const [two, three] = await ports(t, 2);
                const { web, api } = await ports(t, ["web", "api"], { proto: "tcp,udp" });
                before = [one, two, three, web, api];
                assert.equal(new Set(before).size, 5);
                await serve(one);
                const { PORT } = await env(t, "api");
                before.push(Number(PORT));
                const listener = await listen(t, http.createServer((request, response) => response.end("served")));
                before.push(listener.port);
                assert.equal(await (await fetch("http://127.0.0.1:" + listener.port)).text(), "served");
            });
            test("they are free", async () => {
                assert.equal(before.length, 7);
                for (const each of before) assert.deepEqual(await client().list({ port: each }), []);
            });
            test("without a test there is no port", async () => {
                await assert.rejects(port(), TypeError);
            });`,
    });
    await node(["--test", "one.test.mjs"]);
    assert.equal(served().length, 1);
    await nothingIsLeft(client);
});

check("Vitest: workers with real servers never collide", async ({ client, folder }) => {
    const files = { "serve.mjs": SERVE };
    for (let i = 0; i < WORKERS; i++) {
        files[`${i}.test.js`] = `
            import { test as base, expect } from "vitest";
            import { fixtures, port } from "dibs/test";
            import { serve } from "./serve.mjs";
            const test = base.extend(fixtures);
            for (let i = 1; i < ${TESTS}; i++) test("serves " + i, ({ dibsPort }) => serve(dibsPort));
            base("the context", async (context) => expect(await port(context)).toBeGreaterThan(0));
            test("others", async ({ dibsPorts, dibsListen, onTestFinished }) => {
                const { a${i}: a, b${i}: b } = await dibsPorts(["a${i}", "b${i}"]);
                expect(a).toBeGreaterThan(0);
                expect(a).not.toBe(b);
                expect((await dibsListen()).server.listening).toBe(true);
                await serve(await port({ onTestFinished }));
            });`;
    }
    project(folder, files);
    await vitest(["--root", folder]);
    assertServed();
    await nothingIsLeft(client);
});

check("Vitest: a worker that is killed leaves nothing", async ({ client, folder }) => {
    project(folder, {
        "one.test.js": `
            import fs from "node:fs";
            import { test as base } from "vitest";
            import { fixtures } from "dibs/test";
            base.extend(fixtures)("dies", async ({ dibsPort }) => {
                fs.writeFileSync("port", String(dibsPort));
                process.kill(process.pid, "SIGKILL");
                await new Promise(() => {});
            });`,
    });
    await vitest(["--root", folder], null);
    assert.ok(Number(fs.readFileSync("port", "utf8")) > 0);
    await nothingIsLeft(client);
});

check("Playwright: the server of the configuration and the fixtures have ports of their own", async ({ client, folder }) => {
    const files = {
        "serve.mjs": SERVE,
        "server.mjs": `
            import http from "node:http";
            http.createServer((request, response) => response.end("page " + process.env.PORT + " " + process.argv[2])).listen(process.env.PORT);`,
        "playwright.config.mjs": `
            import { defineConfig } from "@playwright/test";
            import { webServer } from "dibs/test";
            export default defineConfig({ fullyParallel: true, ...webServer({ command: "${process.execPath} server.mjs {port}" }) });`,
    };
    for (let i = 0; i < WORKERS; i++) {
        files[`${i}.spec.mjs`] = `
            import { test as base, expect } from "@playwright/test";
            import { playwrightFixtures } from "dibs/test";
            import { serve } from "./serve.mjs";
            const test = base.extend(playwrightFixtures);
            test.describe.configure({ mode: "default" });
            const workers = new Set();
            for (let i = 1; i < ${TESTS}; i++) {
                test("serves " + i, async ({ dibsPort, dibsWorkerPort }) => {
                    workers.add(dibsWorkerPort);
                    expect(workers.size).toBe(1);
                    expect(dibsPort).not.toBe(dibsWorkerPort);
                    await serve(dibsPort);
                });
            }
            test("asks the page", async ({ request, baseURL, dibsPorts }) => {
                const number = new URL(baseURL).port;
                expect(await (await request.get("/")).text()).toBe("page " + number + " " + number);
                await serve((await dibsPorts(2))[1]);
            });`;
    }
    project(folder, files);
    await playwright([]);
    assert.equal(served().length, WORKERS * TESTS);
    await nothingIsLeft(client);
});

check("Playwright: a second run in the same project is refused with the holder", { skip: !IS_LONG && "in the long form" }, async ({ client, folder }) => {
    project(folder, {
        "playwright.config.mjs": `
            import { webServer } from "dibs/test";
            export default webServer({ command: "true" });`,
    });
    const claim = await client.claim("web");
    assert.match(await playwright(["--list"], 1), new RegExp(`Taken: name '.*web' \\(port ${claim.port}\\) is held by`));
});
