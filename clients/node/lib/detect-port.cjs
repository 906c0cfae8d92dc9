"use strict";
// SPDX-License-Identifier: MIT
/** The functions of the package detect-port, with ports that are claimed. */

const { lendAny, lendPort, probe, serially } = require("./lend.cjs");

const LAST = 65_535;
const NEXT = 10; // ports after the wished one, before any port is taken

class IPAddressNotAvailableError extends Error {
    constructor(options) {
        super("this machine does not have the IP address", options);
        this.name = "IPAddressNotAvailableError";
    }
}

class WaitPortRetryError extends Error {
    constructor(message, retries, count, options) {
        super(message, options);
        this.name = "WaitPortRetryError";
        this.retries = retries;
        this.count = count;
    }
}

/** Return the port if it can be had, else one of the next ten, else any. */
function detectPort(port, callback) {
    let hostname;
    if (port && typeof port === "object") ({ port, hostname, callback } = port);
    else if (typeof port === "function") [port, callback] = [undefined, port];
    const wished = parseInt(port, 10);
    const found = serially(() => detect(wished <= LAST ? wished : 0, hostname || undefined));
    if (typeof callback !== "function") return found;
    return found.then((value) => callback(null, value), callback);
}

async function detect(first, host) {
    if (host !== undefined) await probe({ host, port: 0 }).catch(notHere);
    const last = Math.min(first + NEXT, LAST);
    for (let port = first; port > 0 && (port < last || port === first); port++) {
        const got = await lendPort(port, { host });
        if (got !== null) return got;
    }
    const got = await lendAny({ host });
    if (got === null) throw new Error("no port is available");
    return got;
}

function notHere(error) {
    if (error.code === "EADDRNOTAVAIL") throw new IPAddressNotAvailableError({ cause: error });
    if (error.code !== "ENOTFOUND") throw error;
}

/** Wait until somebody has bound the port. */
async function waitPort(port, { retryInterval = 1000, retries = Infinity } = {}) {
    for (let count = 1; count <= retries; count++) {
        const isFree = await serially(() => probe({ port }).then(() => true, () => false));
        if (!isFree) return true;
        await new Promise((resolve) => {
            setTimeout(resolve, retryInterval);
        });
    }
    throw new WaitPortRetryError("nobody has bound the port", retries, retries + 1);
}

module.exports = detectPort;
module.exports.default = detectPort;
module.exports.detectPort = detectPort;
module.exports.detect = detectPort;
module.exports.waitPort = waitPort;
module.exports.IPAddressNotAvailableError = IPAddressNotAvailableError;
module.exports.WaitPortRetryError = WaitPortRetryError;
