"use strict";
// SPDX-License-Identifier: MIT
/** What dibs answers. The members are those of the HTTP API and of `dibs --json`, in the form of JavaScript. */

const { Unavailable, camel } = require("./errors.cjs");

const owners = new WeakMap(); // the client that claimed: it ends the claim with the block

/** The members that an answer leaves out when they have these values. */
const CLAIM = {
    life: "alive", orphan: false, wasThere: false, wasKept: false, degraded: false, narrowed: false, damaged: false,
    hold: "none", holdNote: null, node: null, env: null, keeper: null, asPort: null, run: null, token: null,
};
const HOLDER = { pid: null, startTicks: null, pidNamespace: null, ttlMs: null, untilBootMs: null };

/** A port that is claimed. */
class Claim {
    constructor(members, owner) {
        Object.assign(this, CLAIM, members);
        if (this.holder) this.holder = { ...HOLDER, ...this.holder };
        owners.set(this, owner);
    }

    /** End the claim, as the end of a block does: one that the name had before stays. */
    async leave() {
        await owners.get(this).leave(this);
    }
}

/** The token of a claim, for the process that received it from another one. */
class Token {
    constructor(text) {
        this.text = String(text);
    }

    toString() {
        return this.text;
    }
}

/** Make records of an answer. Unavailable: it is not what a dibs of this version says. */
function read(document, make) {
    try {
        return make(document);
    } catch (error) {
        if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
        throw new Unavailable(`the answer of dibs is not understood; is it of another version?: ${error.message}`);
    }
}

function claimFrom(document, owner) {
    return read(document, () => {
        const members = camel(document);
        if (!Number.isInteger(members.port) || !Array.isArray(members.bindings)) throw new TypeError("it is no claim");
        return new Claim(members, owner);
    });
}

function reportFrom(document, owner) {
    return read(document, () => {
        const report = camel(document);
        report.claims = document.claims.map((claim) => claimFrom(claim, owner));
        if (!Array.isArray(report.sockets) || !Array.isArray(report.nat)) throw new TypeError("it is no report");
        return { canClaim: null, canChoose: null, verdict: null, reasons: [], ...report };
    });
}

function changeFrom(document, owner) {
    return read(document, () => {
        const { change = null, was = null, needsRestart = false, pod = null } = camel(document);
        return { change, was, needsRestart, pod, claim: claimFrom(document, owner) };
    });
}

/** Return the number that an answer has as this member. */
function countFrom(document, member) {
    if (document === null || !Number.isInteger(document[member])) {
        throw new Unavailable(`the answer of dibs is not understood; is it of another version?: it has no '${member}'`);
    }
    return document[member];
}

module.exports = { Claim, Token, camel, changeFrom, claimFrom, countFrom, read, reportFrom };

if (Symbol.asyncDispose) {
    Claim.prototype[Symbol.asyncDispose] = function dispose() {
        return this.leave();
    };
}
