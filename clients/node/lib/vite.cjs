"use strict";
// SPDX-License-Identifier: MIT
/** A plugin for Vite: the development server, its hot reload and the preview have a claimed port. */

const fs = require("node:fs");
const path = require("node:path");
const { Client } = require("./index.cjs");
const { Taken } = require("./errors.cjs");

/** By directory and name: { client, claim, isOurs, users }. Shared by the servers of a process, over restarts. */
const ports = new Map();

/** The plugin. `name` is the port's name in the project, or that of the manifest: "web", "web/http". */
function dibs(options = {}) {
    const { name = "web", preview = `${name}-preview`, hmr = `${name}-hmr`, ...others } = options;
    for (const option of Object.keys(others)) throw new TypeError(`dibs/vite: there is no option '${option}'; there are: name, preview, hmr`);
    const used = [];
    return {
        name: "dibs",
        apply: "serve",
        enforce: "post", // other plugins may set the port that is wished
        async config(config, { isPreview = false }) {
            if (process.env.VITEST) return undefined; // it needs no server of the project
            const root = path.resolve(config.root || process.cwd());
            const wish = (isPreview ? config.preview : config.server) || {};
            if (isPreview) {
                const port = await take(used, root, preview, wish);
                return { preview: { port, strictPort: true } };
            }
            const server = { strictPort: true };
            const isMiddleware = Boolean(wish.middlewareMode);
            if (!isMiddleware) server.port = await take(used, root, name, wish);
            // Without a server of its own Vite listens for hot reload on one number for all projects.
            const needsHmr = isMiddleware && wish.hmr !== false && !(wish.hmr && (wish.hmr.server || wish.hmr.port));
            if (needsHmr) server.hmr = { port: await take(used, root, hmr, {}) };
            return { server };
        },
        configureServer: (server) => follow(server, used),
        configurePreviewServer: (server) => follow(server, used),
    };
}

/** Return the port of a name; the claim lives until the last server that uses it is closed. */
async function take(used, directory, name, wish) {
    const key = JSON.stringify([directory, name, wish.port || null, Boolean(wish.strictPort)]);
    let port = ports.get(key);
    if (port === undefined) {
        port = { users: 0, found: claimFor(directory, name, wish) };
        ports.set(key, port);
        port.found.catch(() => ports.delete(key));
    }
    used.push(key);
    return (await port.found).claim.port;
}

async function claimFor(directory, name, { port, strictPort }) {
    const client = new Client({ directory });
    const wished = port === undefined ? {} : strictPort ? { port } : { prefer: port };
    const { hasManifest } = await client._place();
    if (hasManifest) return { client, claim: await client.get(name), isOurs: false }; // kept by the manifest
    try {
        return { client, claim: await client.claim(name, wished), isOurs: true };
    } catch (error) {
        // `dibs run -p web -- npm run dev`: a process above this one holds it.
        if (error instanceof Taken && error.blocker && isAbove(error.blocker.pid)) {
            return { client, claim: await client.find(name), isOurs: false };
        }
        throw error;
    }
}

/** Is it a process that started this one, or started one that did? */
function isAbove(pid) {
    for (let at = process.ppid; at > 1; ) {
        if (at === pid) return true;
        try {
            const stat = fs.readFileSync(`/proc/${at}/stat`, "latin1");
            at = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
        } catch {
            return false;
        }
    }
    return false;
}

/** End the claims when the server is closed. A restart makes its new server before it closes the old one. */
function follow(server, used) {
    const keys = used.splice(0);
    for (const key of keys) ports.get(key).users++;
    const { close } = server;
    if (typeof close !== "function") return; // an older preview: the claim ends with the process
    let isClosed = false;
    server.close = async function closeAndLeave(...words) {
        try {
            return await close.apply(this, words);
        } finally {
            if (!isClosed) await leave(keys);
            isClosed = true;
        }
    };
}

async function leave(keys) {
    for (const key of keys) {
        const port = ports.get(key);
        if (port === undefined || --port.users > 0) continue;
        ports.delete(key);
        const { client, claim, isOurs } = await port.found;
        if (isOurs) await client.leave(claim);
        await client.close();
    }
}

module.exports = dibs;
module.exports.default = dibs;
module.exports.dibs = dibs;
