// SPDX-License-Identifier: MIT
// The plugin for Vite, with the real Vite.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { NotFound } from "dibs";
import { check, command, listening, refused, until } from "./support.mjs";

const PEERS = `${process.env.DIBS_TEST_NPM}/node_modules`;
const HERE = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const vite = await import(pathToFileURL(`${PEERS}/vite/dist/node/index.js`).href);
const { default: dibs } = await import("dibs/vite");

/** Files of a project; what `npm install` leaves is beside them. */
function project(folder, plugin = "dibs()") {
    fs.mkdirSync(`${folder}/node_modules`, { recursive: true });
    fs.symlinkSync(HERE, `${folder}/node_modules/dibs`);
    fs.symlinkSync(`${PEERS}/vite`, `${folder}/node_modules/vite`);
    fs.writeFileSync(`${folder}/package.json`, '{ "type": "module", "scripts": { "dev": "vite" } }\n');
    fs.writeFileSync(`${folder}/vite.config.js`, `import dibs from "dibs/vite";\nexport default { plugins: [${plugin}], clearScreen: false };\n`);
    fs.writeFileSync(`${folder}/index.html`, `<p>${folder}</p><script type="module" src="/main.js"></script>`);
    fs.writeFileSync(`${folder}/main.js`, "export const text = 'one'; import.meta.hot.accept();");
}

/** Start `vite` there; its output is `text`. */
function start(t, folder, words = [], command_ = [process.execPath, `${PEERS}/vite/bin/vite.js`]) {
    const child = spawn(command_[0], [...command_.slice(1), ...words], { cwd: folder, stdio: ["pipe", "pipe", "pipe"], detached: true });
    const server = { child, text: "" };
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (data) => (server.text += data));
    server.ended = new Promise((resolve) => child.once("exit", resolve));
    t.after(async () => {
        try {
            process.kill(-child.pid, "SIGKILL"); // the group of the test's own program
        } catch (error) {
            assert.equal(error.code, "ESRCH");
        }
        for (const stream of [child.stdout, child.stderr]) stream.destroy();
        await server.ended;
    });
    return server;
}

async function portOf(server) {
    // eslint-disable-next-line no-control-regex
    const plain = () => server.text.replace(/\x1b\[[0-9;]*m/g, "");
    await until(() => /localhost:\d+/.test(plain()) || server.child.exitCode !== null);
    assert.match(plain(), /localhost:\d+/);
    return Number(/localhost:(\d+)/.exec(plain())[1]);
}

/** Open the connection for hot reload as the page does: returns the messages that arrive. */
async function hotReload(port, page = port) {
    const client = await (await fetch(`http://localhost:${page}/@vite/client`)).text();
    const token = /const wsToken = "([^"]*)"/.exec(client);
    const messages = [];
    const key = randomBytes(16).toString("base64");
    const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "vite-hmr" };
    const request = http.get({ port, host: "localhost", path: `/${token ? `?token=${token[1]}` : ""}`, headers });
    const socket = await new Promise((resolve, reject) => {
        request.on("upgrade", (response, connection, head) => {
            connection.unshift(head);
            resolve(connection);
        });
        request.on("error", reject).on("response", ({ statusCode }) => reject(new Error(`HTTP ${statusCode}`)));
    });
    socket.on("error", () => {}).on("data", (data) => messages.push(data.toString("latin1")));
    return { messages, close: () => socket.destroy(), client };
}

check("two worktrees have a port of their own each, where page and hot reload work", async ({ t, folder }) => {
    execFileSync("git", ["init", "-q", "-b", "main", "one"]);
    project(`${folder}/one`);
    execFileSync("git", ["-C", "one", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first"]);
    execFileSync("git", ["-C", "one", "worktree", "add", "-q", "-b", "other", "../two"]);
    project(`${folder}/two`);
    const ports = [];
    for (const name of ["one", "two"]) ports.push(portOf(start(t, `${folder}/${name}`)));
    const [one, two] = await Promise.all(ports);
    assert.notEqual(one, two);
    for (const [name, port] of [["one", one], ["two", two]]) {
        assert.ok((await (await fetch(`http://localhost:${port}/`)).text()).includes(`${folder}/${name}<`));
        process.chdir(`${folder}/${name}`);
        assert.equal(command(["get", "web"]).stdout, `${port}\n`);
        assert.equal(command(["assert", "-q", "web"]).status, 0);
        const page = await hotReload(port);
        await until(() => page.messages.join("").includes("connected"));
        await (await fetch(`http://localhost:${port}/main.js`)).text();
        fs.writeFileSync("main.js", "export const text = 'two'; import.meta.hot.accept();");
        await until(() => page.messages.join("").includes("/main.js"));
        page.close();
    }
    // A second one in the same tree is refused, and says who has the port.
    const third = start(t, `${folder}/two`);
    assert.notEqual(await third.ended, 0);
    assert.match(third.text, /is held by/);
});

check("the port stays over restarts and ends with the last server", async ({ client, folder, t }) => {
    project(folder);
    const server = await vite.createServer({ root: folder, logLevel: "silent" });
    t.after(() => server.close());
    await server.listen();
    const { port } = server.config.server;
    assert.equal(server.httpServer.address().port, port);
    assert.equal(server.config.server.strictPort, true);
    const { id } = await client.find("web");
    for (let i = 0; i < 2; i++) await server.restart();
    assert.equal((await client.find("web")).id, id);
    assert.equal(server.httpServer.address().port, port);
    // A second server of this process shares the claim, and Vite says that its port is in use.
    const second = await vite.createServer({ root: folder, logLevel: "silent" });
    await assert.rejects(second.listen(), /already in use/);
    await second.close();
    assert.equal((await client.find("web")).id, id);
    await server.close();
    await refused(client.find("web"), NotFound);
});

check("preview has a port of its own", async ({ client, folder }) => {
    project(folder);
    fs.mkdirSync("dist");
    fs.writeFileSync("dist/index.html", "built");
    const server = await vite.preview({ root: folder, logLevel: "silent" });
    const { port } = await client.find("web-preview");
    assert.equal(await (await fetch(`http://localhost:${port}/`)).text(), "built");
    await server.close();
    await refused(client.find("web-preview"), NotFound);
});

check("in middleware mode hot reload has a port of its own", async ({ client, folder }) => {
    project(folder, "dibs({ name: 'app' })");
    const server = await vite.createServer({ root: folder, logLevel: "silent", server: { middlewareMode: true } });
    const claim = await client.find("app-hmr");
    assert.equal(server.config.server.hmr.port, claim.port);
    await refused(client.find("app"), NotFound);
    const page = http.createServer(server.middlewares);
    const listener = await client.listen("app", { server: page });
    const reload = await hotReload(claim.port, listener.port);
    await until(() => reload.messages.join("").includes("connected"));
    assert.ok(reload.client.includes(String(claim.port)));
    reload.close();
    await listener.leave();
    page.closeAllConnections();
    await server.close();
    await refused(client.find("app-hmr"), NotFound);
});

check("a port of Vite's configuration is wished, with strictPort it is required", async ({ client, folder }) => {
    project(folder);
    const used = await listening();
    const { port } = used.address();
    const config = { root: folder, logLevel: "silent" };
    const other = await vite.createServer({ ...config, server: { port } });
    assert.notEqual(other.config.server.port, port);
    await other.close();
    await new Promise((resolve) => used.close(resolve));
    const lease = await client.claim({ port, ttl: "1m" });
    await assert.rejects(vite.createServer({ ...config, server: { port, strictPort: true } }), { name: "Taken" });
    await client.release(lease);
    const server = await vite.createServer({ ...config, server: { port, strictPort: true } });
    await server.listen();
    assert.equal((await client.find("web")).port, port);
    await server.close();
});

check("the manifest's port and that of 'dibs run' are used, and stay", async ({ client, folder, t }) => {
    fs.mkdirSync("plain");
    project(`${folder}/plain`);
    const under = start(t, `${folder}/plain`, ["run", "-p", "web", "--", "sh", "-c", `${process.execPath} ${PEERS}/vite/bin/vite.js; :`], [process.env.DIBS]);
    const port = await portOf(under);
    process.chdir("plain");
    assert.equal(command(["get", "web"]).stdout, `${port}\n`);
    process.chdir(folder);
    project(folder, "dibs({ name: 'site/http' })");
    fs.writeFileSync("dibs.yaml", `group: g-${path.basename(folder)}\nroles:\n  site: { ports: [ { name: http }, { name: debug } ] }\n`);
    const server = await vite.createServer({ root: folder, logLevel: "silent" });
    const kept = await client.find("site/http");
    assert.deepEqual([server.config.server.port, kept.kept], [kept.port, true]);
    await server.close();
    assert.equal((await client.find("site/http")).id, kept.id);
    await client.down();
});

check("Vitest and a build claim nothing, and an unknown option is refused", async ({ client, folder, group }) => {
    project(folder);
    process.env.VITEST = "true";
    await (await vite.createServer({ root: folder, logLevel: "silent" })).close();
    delete process.env.VITEST;
    await vite.resolveConfig({ root: folder, logLevel: "silent" }, "build");
    assert.deepEqual(await client.list(group), []);
    assert.throws(() => dibs({ port: 5 }), TypeError);
});
