"use strict";
// SPDX-License-Identifier: MIT
/**
 * Ports for callers that know no claims: the core of the drop-ins for other packages.
 *
 * A port is claimed for this process when it is lent. The claim ends when nobody has listened on the port for 15 to 30
 * seconds, unless it is reserved: a program that asks for thousands of ports must not use up the pool.
 */

const dns = require("node:dns/promises");
const net = require("node:net");
const { Client } = require("./index.cjs");
const { Denied, Exhausted, Taken } = require("./errors.cjs");

const AGE_MS = 15_000;
const TRIES = 64; // of a port that dibs chooses and that cannot be bound, or that the caller excludes

const lent = new Map(); // by port: { claim, isYoung, isReserved }
let client = null;
let timer = null;
let queue = Promise.resolve(); // one search after the other: they probe ports by binding them
let ending = Promise.resolve(); // releases that are under way

/** Run a search when those before it are over. */
function serially(search) {
    const result = queue.then(async () => {
        await ending;
        client = client || new Client();
        return search();
    });
    queue = result.catch(() => {});
    return result;
}

/** Bind the port for a moment, as a server would, and return it. The errors are those of Node. */
function probe(options) {
    return new Promise((resolve, reject) => {
        const server = net.createServer();
        server.unref();
        server.once("error", reject);
        server.listen({ exclusive: true, ...options }, () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

const isInUse = (error) => error.code === "EADDRINUSE" || error.code === "EACCES";
const isRefusal = (error) => [Taken, Exhausted, Denied].some((kind) => error instanceof kind);

/** Return the address to claim for a host: a server on it binds that one. */
async function addressOf(host) {
    if (host === undefined || host === null || host === "") return undefined;
    return net.isIP(host) ? host.replace(/%.*$/, "") : (await dns.lookup(host)).address;
}

/** Lend this port. null: it is in use, claimed, or lent already. Other errors of Node and dibs are thrown. */
async function lendPort(port, netOptions = {}, isReserved = false) {
    if (lent.has(port)) return null;
    try {
        await probe({ ...netOptions, port });
    } catch (error) {
        if (isInUse(error)) return null;
        throw error;
    }
    try {
        return keep(await client.claim({ port, address: await addressOf(netOptions.host) }), isReserved);
    } catch (error) {
        if (isRefusal(error)) return null;
        throw error;
    }
}

/** Lend a port that dibs chooses; null: there is none. */
async function lendAny(netOptions = {}, isReserved = false, isExcluded = () => false) {
    const aside = [];
    if (netOptions.host) await probe({ ...netOptions, port: 0 }); // it may be none of this machine
    try {
        for (let tries = 0; tries < TRIES; tries++) {
            const claim = await client.claim({ address: await addressOf(netOptions.host) });
            try {
                if (!isExcluded(claim.port)) {
                    await probe({ ...netOptions, port: claim.port });
                    return keep(claim, isReserved);
                }
            } catch (error) {
                if (!isInUse(error)) {
                    aside.push(claim);
                    throw error;
                }
            }
            aside.push(claim); // so that the next one is another
        }
        return null;
    } catch (error) {
        if (error instanceof Exhausted) return null;
        throw error;
    } finally {
        for (const claim of aside) await client.release(claim);
    }
}

function keep(claim, isReserved) {
    lent.set(claim.port, { claim, isYoung: true, isReserved });
    if (timer === null) {
        timer = setInterval(age, AGE_MS);
        timer.unref();
    }
    return claim.port;
}

/** End the claims on whose ports nobody listens. */
function age() {
    serially(async () => {
        for (const [port, loan] of lent) {
            if (loan.isReserved) continue;
            if (loan.isYoung) {
                loan.isYoung = false;
                continue;
            }
            const isFree = await probe({ port, host: loan.claim.bindings[0].address.replace("*", "") || undefined }).then(() => true, () => false);
            if (!isFree) continue;
            lent.delete(port);
            await client.release(loan.claim);
        }
        if (lent.size === 0) {
            clearInterval(timer);
            timer = null;
        }
    }).catch((error) => process.emitWarning(error.message, "DibsWarning"));
}

/** End all loans. The next search waits for it. */
function endAll() {
    const loans = [...lent.values()];
    lent.clear();
    ending = Promise.all([ending, ...loans.map(({ claim }) => client.release(claim))]).then(() => {}, (error) => {
        process.emitWarning(error.message, "DibsWarning");
    });
}

module.exports = { endAll, lendAny, lendPort, probe, serially };
