"use strict";
// SPDX-License-Identifier: MIT
/** The changes of the ledger as an asynchronous iterator, which goes on when the daemon is restarted. */

const { Missed, Unavailable } = require("./errors.cjs");
const { Lost } = require("./http.cjs");
const { camel, read } = require("./records.cjs");
const { at, now, onAbort, pause } = require("./wait.cjs");

const PAGE = 1000;
const POLL_MS = [100, 1000]; // between two looks at the log, without a daemon
const LINE_MAX = 1024 * 1024;
const FOREVER = 1e12;

/**
 * Iterate over the events. `return()` ends a `next()` that waits, too: a generator alone would let it wait for one
 * more event.
 */
function follow(client, { since, idleMs = FOREVER, timeoutMs, signal }) {
    const ended = new AbortController();
    const stop = onAbort(signal, () => ended.abort(signal.reason));
    if (signal && signal.aborted) ended.abort(signal.reason);
    const events = eventsOf(client, { since, idleMs, timeoutMs, signal: ended.signal });
    const isOver = () => ended.signal.aborted && !(signal && signal.aborted);
    const finish = async () => {
        stop();
        ended.abort();
        await events.return().catch(() => {});
        return { value: undefined, done: true };
    };
    return {
        async next() {
            try {
                const result = await events.next();
                if (result.done) stop();
                return result;
            } catch (error) {
                stop();
                if (isOver()) return { value: undefined, done: true };
                throw error;
            }
        },
        return: finish,
        async throw(error) {
            await finish();
            throw error;
        },
        [Symbol.asyncIterator]() {
            return this;
        },
        ...(Symbol.asyncDispose ? { [Symbol.asyncDispose]: async () => void (await finish()) } : {}),
    };
}

async function* eventsOf(client, { since, idleMs, timeoutMs, signal }) {
    const place = await client._place(signal);
    const limit = timeoutMs === undefined ? place.timeoutMs : timeoutMs;
    if (place.socket === null) yield* pollLog(client, { since, idleMs, limit, signal });
    else yield* fromDaemon(client, { place, since, idleMs, limit, signal });
}

async function* fromDaemon(client, { place, since, idleMs, limit, signal }) {
    const daemon = client._daemon(place);
    for (;;) {
        const call = { place, deadline: now() + limit, signal };
        since = await client._checkSince(call, since);
        let response;
        try {
            response = await daemon.stream(`/v1/events?since=${since}`, call.deadline, signal);
        } catch (error) {
            if (!(error instanceof Lost)) throw error;
            await pause(POLL_MS[0], signal);
            continue;
        }
        const lines = new Lines(response, signal);
        try {
            for (;;) {
                const event = await lines.event(now() + idleMs);
                if (event === Lines.IDLE) return;
                if (event === null) break;
                since = event.seq;
                yield event;
            }
        } finally {
            lines.close();
        }
    }
}

/** Reads the events of a stream. */
class Lines {
    static IDLE = Symbol("idle");

    constructor(response, signal) {
        this._response = response;
        this._chunks = response.setEncoding("utf8")[Symbol.asyncIterator]();
        this._signal = signal;
        this._text = "";
        this._pending = null; // a read that was not over when its deadline came
    }

    close() {
        this._response.destroy();
        if (this._pending) this._pending.catch(() => {});
    }

    /** Return the next event; null: the daemon has ended the stream; IDLE: the deadline came first. */
    async event(deadline) {
        for (;;) {
            const end = this._text.indexOf("\n");
            if (end >= 0) {
                const line = this._text.slice(0, end);
                this._text = this._text.slice(end + 1);
                if (line.startsWith("data: ")) return this._read(line.slice(6));
                continue;
            }
            if (this._text.length > LINE_MAX) throw new Unavailable("a line of the event stream does not end");
            const chunk = await this._more(deadline);
            if (typeof chunk !== "string") return chunk;
            this._text += chunk;
        }
    }

    _read(text) {
        return read(text, () => {
            try {
                return camel(JSON.parse(text));
            } catch (error) {
                throw new TypeError(error.message);
            }
        });
    }

    _more(deadline) {
        this._pending = this._pending || this._chunks.next();
        return new Promise((resolve, reject) => {
            if (this._signal.aborted) return reject(this._signal.reason);
            const over = (settle, value) => {
                cancel();
                stop();
                settle(value);
            };
            const cancel = at(deadline, () => over(resolve, Lines.IDLE));
            const stop = onAbort(this._signal, () => over(reject, this._signal.reason));
            const took = (value) => {
                this._pending = null;
                over(resolve, value);
            };
            this._pending.then(({ value, done }) => took(done ? null : value), () => took(null));
            return undefined;
        });
    }
}

async function* pollLog(client, { since, idleMs, limit, signal }) {
    const newest = await client.log({ limit: 1, timeoutMs: limit, signal });
    const last = newest.length > 0 ? newest[newest.length - 1].seq : 0;
    if (since === undefined) since = last;
    else if (since > last) throw new Missed(`the ledger's newest event is ${last}, not ${since}: it is another ledger`);
    let [pauseMs] = POLL_MS;
    let quietSince = now();
    for (;;) {
        const found = await client.log({ since, limit: PAGE, timeoutMs: limit, signal });
        if (found.length > 0 && found[0].seq > since + 1) {
            throw new Missed(`events ${since + 1} to ${found[0].seq - 1} are gone; list the claims again`);
        }
        for (const event of found) {
            since = event.seq;
            yield event;
        }
        if (found.length > 0) {
            [pauseMs] = POLL_MS;
            quietSince = now();
            continue;
        }
        const left = quietSince + idleMs - now();
        if (left <= 0) return;
        await pause(Math.min(pauseMs, left), signal);
        pauseMs = Math.min(2 * pauseMs, POLL_MS[1]);
    }
}

module.exports = { follow };
