"use strict";
// SPDX-License-Identifier: MIT
/** What a caller asks for, as words for the program and as members of a request to the daemon. */

const { Usage } = require("./errors.cjs");
const { checkKey } = require("./http.cjs");
const { duration } = require("./place.cjs");

const isText = (value) => typeof value === "string";
const isWhole = (value) => Number.isSafeInteger(value);
const isFlag = (value) => typeof value === "boolean";
const isTime = (value) => isText(value) || typeof value === "number";

/** The options of all verbs: whether a value can be one, and in words what it is. */
const OPTIONS = {
    port: [isWhole, "a whole number"],
    prefer: [isWhole, "a whole number"],
    declare: [isWhole, "a whole number"],
    pid: [isWhole, "a whole number"],
    count: [isWhole, "a whole number"],
    align: [isWhole, "a whole number"],
    since: [isWhole, "a whole number"],
    limit: [isWhole, "a whole number"],
    backlog: [isWhole, "a whole number"],
    range: [isText, "a text"],
    pool: [isText, "a text"],
    proto: [isText, "a text"],
    hold: [isText, "a text"],
    key: [isText, "a text"],
    group: [isText, "a text"],
    socket: [isText, "a text"],
    directory: [isText, "a text"],
    address: [(value) => isText(value) || (Array.isArray(value) && value.every(isText)), "a text or a list of texts"],
    ttl: [isTime, 'a text such as "10m", or a number of milliseconds'],
    wait: [isTime, 'a text such as "10m", or a number of milliseconds'],
    keep: [isFlag, "true or false"],
    force: [isFlag, "true or false"],
    create: [isFlag, "true or false"],
    move: [isFlag, "true or false"],
    contiguous: [isFlag, "true or false"],
    dryRun: [isFlag, "true or false"],
    everyProject: [isFlag, "true or false"],
    timeoutMs: [(value) => typeof value === "number" && value >= 0, "a number of milliseconds"],
    idleMs: [(value) => typeof value === "number" && value >= 0, "a number of milliseconds"],
    signal: [(value) => value && typeof value.addEventListener === "function", "an AbortSignal"],
    server: [(value) => value && typeof value.listen === "function" && typeof value.once === "function", "a net.Server"],
};

const CALL = ["timeoutMs", "signal"];
/** What a port shall be. */
const PORT = ["port", "prefer", "range", "pool", "proto", "address", "hold"];
/** The options of `dibs claim`. */
const CLAIM = [...PORT, "declare", "pid", "ttl", "keep", "wait", "key", ...CALL];

/** Return the options without those that are undefined or null. TypeError: there is no such option. */
function checked(verb, options, names) {
    if (options === undefined || options === null) return {};
    if (typeof options !== "object" || Array.isArray(options)) throw new TypeError(`${verb}: the options are an object`);
    const given = {};
    for (const [name, value] of Object.entries(options)) {
        if (!names.includes(name)) throw new TypeError(`${verb}: there is no option '${name}'; there are: ${names.join(", ")}`);
        if (value === undefined || value === null) continue;
        const [isValid, what] = OPTIONS[name];
        if (!isValid(value)) throw new Usage(`${verb}: the option '${name}' is ${what}`);
        given[name] = value;
    }
    return given;
}

/** The options of a call that claims. */
class Want {
    constructor(verb, options, names = CLAIM) {
        Object.assign(this, checked(verb, options, names));
        onlyOne(this, ["port", "prefer", "declare"]);
        onlyOne(this, ["range", "pool"]);
        onlyOne(this, ["pid", "ttl", "keep"]);
        if (this.key !== undefined) checkKey(this.key);
    }

    addresses() {
        if (this.address === undefined) return [];
        return isText(this.address) ? [this.address] : [...this.address];
    }

    /** Return the options for the program, but for the holder, wait and key. */
    words() {
        const words = [];
        for (const name of ["port", "prefer", "declare", "range", "pool", "hold", "proto"]) {
            if (this[name] !== undefined) words.push(`--${name}=${this[name]}`);
        }
        return [...words, ...this.addresses().map((address) => `--address=${address}`)];
    }

    /** Return the members of a request, but for the name and the holder. */
    request() {
        const body = {};
        for (const [mode, name] of [["required", "port"], ["preferred", "prefer"], ["declared", "declare"]]) {
            if (this[name] !== undefined) Object.assign(body, { mode, port: this[name] });
        }
        for (const [member, name] of [["ranges", "range"], ["pool", "pool"], ["hold", "hold"]]) {
            if (this[name] !== undefined) body[member] = this[name];
        }
        if (this.proto !== undefined || this.address !== undefined) {
            const addresses = this.addresses();
            const proto = this.proto === undefined ? "tcp" : this.proto;
            body.bindings = (addresses.length > 0 ? addresses : ["*"]).map((address) => ({ proto, address }));
        }
        return body;
    }
}

function onlyOne(options, names) {
    const given = names.filter((name) => options[name] !== undefined && options[name] !== false);
    if (given.length > 1) throw new Usage(`claim: '--${given[0]}' and '--${given[1]}' cannot be used together`);
}

/** A holder: a process, a lease, or nobody. */
class Heir {
    constructor({ pid, ttl, keep }) {
        this.ttl = ttl === undefined ? null : duration(ttl);
        this.pid = this.ttl !== null || keep ? null : pid === undefined ? process.pid : pid;
    }

    words() {
        if (this.ttl !== null) return [`--ttl=${this.ttl}`];
        return this.pid === null ? ["--keep"] : [`--pid=${this.pid}`];
    }

    members() {
        if (this.ttl !== null) return { holder: { kind: "lease", ttl: this.ttl } };
        if (this.pid === null) return { holder: null, keep: true };
        return { holder: { kind: "process", pid: this.pid } };
    }
}

module.exports = { CALL, CLAIM, Heir, PORT, Want, checked, onlyOne };
