"use strict";
// SPDX-License-Identifier: MIT
/** Errors: one class for each exit code of dibs, with its message unchanged. */

/** A refusal or failure of dibs. Its message is that of dibs. */
class DibsError extends Error {
    constructor(message) {
        super(message);
        this.exitCode = 1;
        this.code = "DIBS_FAILED";
        /** The claim, process or NAT rule that has the port. */
        this.blocker = null;
        this.trouble = null;
        /** Of a claim whose answer was lost: call again with this key to get the same claim. */
        this.key = null;
    }

    get name() {
        return this.constructor.name;
    }
}

/** Make the class of an exit code. */
function kind(name, exitCode, code) {
    return {
        [name]: class extends DibsError {
            constructor(message) {
                super(message);
                this.exitCode = exitCode;
                this.code = code;
            }
        },
    }[name];
}

const Failed = kind("Failed", 1, "DIBS_FAILED");
const Usage = kind("Usage", 2, "DIBS_USAGE");
const Taken = kind("Taken", 3, "DIBS_TAKEN");
const Exhausted = kind("Exhausted", 4, "DIBS_EXHAUSTED");
const NotFound = kind("NotFound", 5, "DIBS_NOT_FOUND");
const Unavailable = kind("Unavailable", 6, "DIBS_UNAVAILABLE");
const Denied = kind("Denied", 7, "DIBS_DENIED");
const Missed = kind("Missed", 1, "DIBS_MISSED");

const BY_EXIT_CODE = [null, Failed, Usage, Taken, Exhausted, NotFound, Unavailable, Denied];

/** Make the error of an exit code from the document that describes it. */
function errorFrom(exitCode, message, document) {
    const Kind = BY_EXIT_CODE[exitCode] || Failed;
    const error = new Kind(message);
    if (document.blocker && typeof document.blocker === "object") {
        error.blocker = camel(document.blocker);
        error.blocker.differs = error.blocker.differs === true;
    }
    error.trouble = document.trouble === undefined ? null : document.trouble;
    return error;
}

const DEPTH_MAX = 32; // of an answer

/** Copy a JSON value with members in the form of JavaScript: created_ms becomes createdMs. */
function camel(value, depth = 0) {
    if (value === null || typeof value !== "object") return value;
    if (depth > DEPTH_MAX) throw new RangeError("the answer is nested too deeply");
    if (Array.isArray(value)) return value.map((item) => camel(item, depth + 1));
    const copy = {};
    for (const [name, member] of Object.entries(value)) {
        if (name === "__proto__") continue;
        const own = name === "as" ? "asPort" : name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
        copy[own] = camel(member, depth + 1);
    }
    return copy;
}

module.exports = {
    DibsError, Failed, Usage, Taken, Exhausted, NotFound, Unavailable, Denied, Missed, errorFrom, camel,
};
