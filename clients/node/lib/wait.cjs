"use strict";
// SPDX-License-Identifier: MIT
/** Deadlines, pauses and signals. A deadline is a time of `now()`. */

const { setMaxListeners } = require("node:events");
const { performance } = require("node:perf_hooks");

const TIMER_MAX = 2 ** 31 - 1; // of setTimeout, in milliseconds

/** Return the milliseconds of a clock that never goes back. */
function now() {
    return performance.now();
}

/** Call a function at a deadline; returns how to cancel that. */
function at(deadline, call) {
    const timer = setTimeout(call, Math.min(Math.max(deadline - now(), 0), TIMER_MAX));
    return () => clearTimeout(timer);
}

/** Wait so long; rejects with the reason of the signal as soon as it is aborted. */
function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        if (signal && signal.aborted) return reject(signal.reason);
        const stop = onAbort(signal, () => {
            cancel();
            reject(signal.reason);
        });
        const cancel = at(now() + ms, () => {
            stop();
            resolve();
        });
        return undefined;
    });
}

/** Wait for a promise that others wait for, too: the signal ends only this wait. */
function orAborted(promise, signal) {
    if (!signal) return promise;
    return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const stop = onAbort(signal, () => reject(signal.reason));
        promise.then(resolve, reject).finally(stop);
        return undefined;
    });
}

/** Call a function when a signal is aborted; returns how to cancel that. Without a signal nothing happens. */
function onAbort(signal, call) {
    if (!signal) return () => {};
    try {
        setMaxListeners(0, signal); // one signal may be for many calls
    } catch {
        // a signal that is not Node's, as in jsdom: it does not count its listeners
    }
    signal.addEventListener("abort", call, { once: true });
    return () => signal.removeEventListener("abort", call);
}

module.exports = { now, at, pause, orAborted, onAbort };
