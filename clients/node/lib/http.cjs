"use strict";
// SPDX-License-Identifier: MIT
/** HTTP to the daemon over its Unix socket: requests within a deadline, and event streams. */

const { randomBytes } = require("node:crypto");
const http = require("node:http");
const { getSystemErrorMap } = require("node:util");
const { Unavailable, Usage, errorFrom } = require("./errors.cjs");
const { at, now, onAbort, pause } = require("./wait.cjs");

const PAUSE_MS = 20; // between two attempts: a daemon restarts within a few of them
const HEAD_MAX = 65536;
const BODY_MAX = 64 * 1024 * 1024;
const PATH_MAX = 107; // bytes in a socket's address
const CONNECTIONS_MAX = 32; // requests at once; more of them wait for their turn

/** Whether a request may be sent again after its connection was lost. */
const Repeat = Object.freeze({
    TWICE: "twice", // a second request changes nothing
    KEYED: "keyed", // the daemon recognises its key
    ONCE: "once", // never, once the daemon may have read it
});

/** The connection was closed, or could not be opened. */
class Lost extends Error {
    constructor(error, wasSent) {
        super(error.message);
        this.error = error;
        this.wasSent = wasSent;
    }
}

/** The deadline has come before the answer. */
class TooLate extends Unavailable {
    get name() {
        return "Unavailable";
    }
}

/** The answer is no HTTP of a daemon. */
class Strange extends Error {}

/** Make an Idempotency-Key. */
function newKey() {
    return randomBytes(16).toString("hex");
}

/** Refuse a key that cannot be a header. The daemon checks its length. */
function checkKey(key) {
    // eslint-disable-next-line no-control-regex
    if (key === "" || key !== key.trim() || /[\x00-\x1f\x7f]|\p{Surrogate}/u.test(key)) {
        throw new Usage("a key has 1 to 128 bytes, no control characters and no blank at its ends");
    }
}

/** Write a part of a URL. */
function encode(text) {
    try {
        return encodeURIComponent(text);
    } catch {
        throw new Usage("half of a surrogate pair is no character");
    }
}

/** The daemon at a socket. Idle connections are kept for later requests, and do not keep the process running. */
class Daemon {
    constructor(path, isNamed) {
        this.path = path;
        this._isNamed = isNamed;
        this._wasReached = false;
        this._agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX });
    }

    /** Close the idle connections; a later request opens a new one. */
    close() {
        this._agent.destroy();
    }

    /** Send a request, again where that is safe, and return the JSON of its answer. */
    async ask(method, target, { body, repeat = Repeat.TWICE, key, deadline, signal }) {
        const request = { method, target, text: body === undefined ? "" : JSON.stringify(body), key, repeat };
        for (;;) {
            let answer;
            try {
                answer = await this._attempt(request, deadline, signal);
            } catch (lost) {
                if (!(lost instanceof Lost)) throw lost;
                if (lost.wasSent && repeat === Repeat.ONCE) {
                    throw new Unavailable(
                        `daemon socket ${this.path}: the connection was lost before the answer came, so that ` +
                            "it is not known whether it was done; check before you repeat it",
                    );
                }
                // The first request fails at once without a daemon; a later one waits for its restart.
                if (!this._wasReached || !(await pauseUntil(PAUSE_MS, deadline, signal))) throw lost.error;
                continue;
            }
            this._wasReached = true;
            const after = answer.status === 429 ? answer.headers["retry-after"] || "" : "";
            const seconds = /^[0-9]{1,5}$/.test(after) ? Number(after) : 0;
            if (answer.status !== 429 || !(await pauseUntil(Math.max(seconds * 1000, PAUSE_MS), deadline, signal))) {
                return this._read(answer.status, answer.body);
            }
        }
    }

    /** Open an event stream; returns the response, whose chunks are the stream. */
    async stream(target, deadline, signal) {
        const request = { method: "GET", target, text: "", accept: "text/event-stream", repeat: Repeat.ONCE };
        const response = await this._send(request, deadline, signal, async (incoming) => {
            if ((incoming.headers["content-type"] || "").startsWith("text/event-stream")) return incoming;
            this._read(incoming.statusCode, await readBody(incoming));
            throw this._notUnderstood("it is no event stream");
        });
        this._wasReached = true;
        return response;
    }

    async _attempt(request, deadline, signal) {
        return this._send(request, deadline, signal, async (incoming) => {
            const body = await readBody(incoming);
            return { status: incoming.statusCode, headers: incoming.headers, body };
        });
    }

    /** Send a request and let `receive` read its answer, both within the deadline. */
    _send(request, deadline, signal, receive) {
        return new Promise((resolve, reject) => {
            if (signal && signal.aborted) return reject(signal.reason);
            let client;
            try {
                client = http.request(this._options(request));
            } catch (error) {
                return reject(error instanceof Usage ? error : new Usage(`a request cannot have this text: ${error.message}`));
            }
            const end = (error, answer) => {
                cancel();
                stop();
                if (error === null) return resolve(answer);
                client.destroy();
                return reject(this._outcome(error));
            };
            const cancel = at(deadline, () => end(new TooLate(this._late())));
            const stop = onAbort(signal, () => {
                client.on("error", () => {});
                cancel();
                stop();
                client.destroy();
                reject(signal.reason);
            });
            client.on("error", (error) => end(error));
            client.on("upgrade", (incoming, socket) => {
                socket.destroy();
                end(new Strange("it wants another protocol"));
            });
            client.on("response", (incoming) => {
                receive(incoming).then((answer) => end(null, answer), (error) => end(error));
            });
            client.end(request.text);
            return undefined;
        });
    }

    _options({ method, target, text, key, accept, repeat }) {
        if (Buffer.byteLength(this.path) > PATH_MAX || this.path.includes("\0")) {
            throw new Usage(`daemon socket ${JSON.stringify(this.path)}: the path is too long, or has a NUL`);
        }
        const headers = { Host: "dibs" };
        if (accept) headers.Accept = accept;
        if (key !== undefined) headers["Idempotency-Key"] = Buffer.from(key).toString("latin1"); // the bytes of UTF-8
        if (method !== "GET") {
            headers["Content-Type"] = "application/json";
            headers["Content-Length"] = Buffer.byteLength(text);
        }
        // A kept connection may be closed by the daemon meanwhile: not for what cannot be repeated.
        const agent = repeat === Repeat.ONCE ? new http.Agent() : this._agent;
        return { socketPath: this.path, path: target, method, headers, agent, maxHeaderSize: HEAD_MAX };
    }

    // ---- outcomes ----

    /** Return what an error of a connection means. */
    _outcome(error) {
        if (error instanceof Strange || (/^HPE_/.test(error.code) && error.code !== "HPE_INVALID_EOF_STATE")) {
            const why = error.reason || error.message;
            return new Unavailable(`daemon socket ${this.path}: the program that answers is no dibs daemon: ${why}`);
        }
        if (typeof error.code !== "string" || error.code.startsWith("DIBS_")) return error;
        if (error.syscall !== "connect") {
            return new Lost(this._unreachable("the connection was lost before the answer came", "ECONNRESET"), true);
        }
        if (error.code === "EACCES" || error.code === "EPERM") {
            return new Unavailable(
                `daemon socket ${this.path}: you may not use it; name another one with DIBS_SOCKET, or none ` +
                    `to use the ledger itself: ${reason(error.code)}`,
            );
        }
        if (error.code === "EAGAIN") { // the queue of the daemon is full, so that it lives
            this._wasReached = true;
            return new Lost(new TooLate(this._late()), false);
        }
        const unreachable = this._unreachable("no daemon answers", error.code);
        // ECONNRESET: the daemon ended with the connection in its queue.
        const isGone = ["ECONNREFUSED", "ENOENT", "ECONNRESET"].includes(error.code);
        return isGone ? new Lost(unreachable, false) : unreachable;
    }

    _read(status, body) {
        if (status === 414 || status === 431) { // answered by the HTTP library of the daemon, in HTML
            throw new Usage("a name, a directory or another text is too long for a request");
        }
        let document = null;
        try {
            if (body.length > 0) document = JSON.parse(body.toString());
        } catch (error) {
            throw this._notUnderstood(error.message);
        }
        if (status >= 200 && status < 300) return document;
        if (document && typeof document.detail === "string" && Number.isInteger(document.code)) {
            throw errorFrom(document.code, document.detail, document);
        }
        throw this._notUnderstood(`HTTP status ${status} without a reason`);
    }

    _late() {
        return (
            `daemon socket ${this.path}: no answer in time; check it with 'dibs doctor', or wait longer ` +
            "with a timeout or DIBS_TIMEOUT"
        );
    }

    _notUnderstood(why) {
        return new Unavailable(
            `daemon socket ${this.path}: its answer is not understood; is it of another version?: ${why}`,
        );
    }

    _unreachable(what, code) {
        const way = this._isNamed ? "name another one" : "remove that file";
        return new Unavailable(
            `daemon socket ${this.path}: ${what}: ${reason(code)}; start it with 'dibs serve', ${way}, or set ` +
                "DIBS_SOCKET=none to use the ledger itself",
        );
    }
}

/** Wait, if the deadline does not come first. */
async function pauseUntil(ms, deadline, signal) {
    if (now() + ms >= deadline) return false;
    await pause(ms, signal);
    return true;
}

/** Read the body of an answer. */
function readBody(incoming) {
    return new Promise((resolve, reject) => {
        const length = incoming.headers["content-length"];
        if (length !== undefined && !(Number(length) <= BODY_MAX)) {
            return reject(new Strange("its answer has no usable length"));
        }
        const chunks = [];
        let size = 0;
        incoming.on("data", (chunk) => {
            size += chunk.length;
            if (size <= BODY_MAX) chunks.push(chunk);
            else reject(new Strange("its answer is too large"));
        });
        incoming.on("error", reject);
        incoming.on("end", () => resolve(Buffer.concat(chunks)));
        return undefined;
    });
}

/** What the C library says of an error. */
const TEXTS = {
    ECONNREFUSED: "Connection refused",
    ENOENT: "No such file or directory",
    EACCES: "Permission denied",
    EPERM: "Operation not permitted",
    ECONNRESET: "Connection reset by peer",
};
function reason(code) {
    for (const [name, text] of getSystemErrorMap().values()) {
        if (name === code) return TEXTS[code] || text;
    }
    return code;
}

module.exports = { Daemon, Lost, Repeat, checkKey, encode, newKey, reason };
