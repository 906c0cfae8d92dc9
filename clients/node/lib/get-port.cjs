"use strict";
// SPDX-License-Identifier: MIT
/** The functions of the package get-port, with ports that are claimed. */

const { endAll, lendAny, lendPort, serially } = require("./lend.cjs");

const PORTS = { first: 1024, last: 65_535 };

/** Return the first of the wished ports that can be had, else any other. */
async function getPort(options) {
    const { port, exclude, reserve = false, ...netOptions } = options || {};
    const excluded = numbers(exclude);
    const wished = port ? (typeof port === "number" ? [port] : port) : [];
    return serially(async () => {
        for (const each of wished) {
            if (excluded.has(each)) continue;
            const got = await (each === 0 ? null : lendPort(each, netOptions, reserve));
            if (got !== null) return got;
        }
        const got = excluded.has(0) ? null : await lendAny(netOptions, reserve, (each) => excluded.has(each));
        if (got === null) throw new Error("no port is available");
        return got;
    });
}

function numbers(exclude) {
    if (!exclude) return new Set();
    if (typeof exclude[Symbol.iterator] !== "function") throw new TypeError("The option `exclude` is not iterable.");
    const found = new Set(exclude);
    for (const each of found) {
        if (!Number.isSafeInteger(each)) throw new TypeError(`The option \`exclude\` has ${String(each)}, which is no port number.`);
    }
    return found;
}

/** Iterate over the numbers from `from` to `to`. */
function portNumbers(from, to) {
    if (!Number.isInteger(from) || !Number.isInteger(to)) throw new TypeError("`from` and `to` are whole numbers.");
    for (const [name, value] of [["from", from], ["to", to]]) {
        if (value < PORTS.first || value > PORTS.last) {
            throw new RangeError(`\`${name}\` is from ${PORTS.first} to ${PORTS.last}, not ${value}.`);
        }
    }
    if (from > to) throw new RangeError("`to` is not less than `from`.");
    return (function* each() {
        for (let port = from; port <= to; port++) yield port;
    })();
}

/** End the claims of all ports that nobody needs any more. */
function clearLockedPorts() {
    endAll();
}

module.exports = getPort;
module.exports.default = getPort;
module.exports.getPort = getPort;
module.exports.portNumbers = portNumbers;
module.exports.clearLockedPorts = clearLockedPorts;
