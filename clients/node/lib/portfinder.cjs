"use strict";
// SPDX-License-Identifier: MIT
/** The functions of the package portfinder, with ports that are claimed. */

const fs = require("node:fs/promises");
const path = require("node:path");
const { lendPort, probe, serially } = require("./lend.cjs");

exports.basePort = 8000;
exports.highestPort = 65_535;
exports.basePath = "/tmp/portfinder";

exports.setBasePort = (port) => void (exports.basePort = port);
exports.setHighestPort = (port) => void (exports.highestPort = port);
exports.setBasePath = (place) => void (exports.basePath = place);
exports.nextPort = (port) => port + 1;

/** Return the lowest port that can be had, from `port` (or basePort) to `stopPort` (or highestPort). */
async function find(options) {
    const first = Number(options.port) || Number(options.startPort) || Number(exports.basePort);
    const last = Number(options.stopPort) || Number(exports.highestPort);
    const start = Number(options.startPort) || first;
    if (start < 0) throw new Error(`the port ${start} is less than 0`);
    if (last < start) throw new Error(`the last port ${last} is less than the first one, ${start}`);
    const host = options.host || undefined;
    if (host !== undefined) await probe({ host, port: 0 }).catch(notBindable(host));
    for (let port = first; port <= last; port = exports.nextPort(port)) {
        const got = await lendPort(port, { host });
        if (got !== null) return got;
    }
    throw new Error(`no open port from ${start} to ${last}`);
}

function notBindable(host) {
    return (error) => {
        if (error.code !== "EADDRNOTAVAIL" && error.code !== "EINVAL") throw error;
        throw new Error(`the host ${host} cannot be bound; name another one`);
    };
}

async function findMany(count, options) {
    const ports = [];
    for (let i = 0; i < count; i++) {
        const port = i === 0 ? options.port : exports.nextPort(ports[i - 1]);
        ports.push(await find({ ...options, port }));
    }
    return ports;
}

/** Return the first of basePath.sock, basePath1.sock, ... that does not exist. */
async function findSocket({ path: place = `${exports.basePath}.sock`, mod = 0o755 }) {
    await fs.mkdir(path.dirname(place), { mode: mod, recursive: true });
    for (;;) {
        try {
            await fs.lstat(place);
        } catch (error) {
            if (error.code === "ENOENT") return place;
            throw error;
        }
        place = exports.nextSocket(place);
    }
}

exports.nextSocket = (place) => {
    const [, base, number] = /^(.*?)(\d*)$/s.exec(path.basename(place, ".sock"));
    return path.join(path.dirname(place), `${base}${Number(number) + 1}.sock`);
};

/** Give the result of a promise to a callback, or return the promise. */
function answer(promise, callback) {
    if (!callback) return promise;
    promise.then((value) => process.nextTick(callback, null, value), (error) => process.nextTick(callback, error));
    return undefined;
}

exports.getPort = (options, callback) => {
    if (typeof options === "function") [options, callback] = [{}, options];
    return answer(serially(() => find(options || {})), callback);
};
exports.getPorts = (count, options, callback) => {
    if (typeof options === "function") [options, callback] = [{}, options];
    return answer(serially(() => findMany(count, options || {})), callback);
};
exports.getSocket = (options, callback) => {
    if (typeof options === "function") [options, callback] = [{}, options];
    return answer(findSocket(options || {}), callback);
};
exports.getPortPromise = exports.getPort;
exports.getPortsPromise = exports.getPorts;
exports.getSocketPromise = exports.getSocket;
