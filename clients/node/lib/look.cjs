"use strict";
// SPDX-License-Identifier: MIT
/** The verbs that look at claims, ports, pools and events. */

const { Claims, settingsOf } = require("./claims.cjs");
const { Missed, NotFound, Usage } = require("./errors.cjs");
const { follow } = require("./events.cjs");
const { encode } = require("./http.cjs");
const { camel, countFrom, read, reportFrom } = require("./records.cjs");
const { CALL, checked } = require("./request.cjs");

const PAGE = 1000;

/** Verbs that change nothing. */
class Look extends Claims {
    /** List the claims of all projects and users that the caller may see. `prefix`: whole leading parts of the full name. */
    async list(prefix, options) {
        if (typeof prefix === "object" && prefix !== null) [prefix, options] = [undefined, prefix];
        const { timeoutMs, signal, ...filter } = checked("list", options, ["pool", "port", "proto", ...CALL]);
        const call = await this._call({ timeoutMs, signal });
        if (call.place.socket === null) {
            const words = ["ls", "--all", "--json", ...optionWords(filter)];
            if (prefix !== undefined && prefix !== null) words.push("--", `/${prefix}`);
            const answer = await this._run(words, call);
            return read(answer, () => answer.map((item) => this._claimFrom(item)));
        }
        const claims = [];
        let after = null;
        do {
            const query = { prefix, ...filter, judge: "true", after, limit: PAGE };
            const page = await this._ask(call, "GET", "/v1/claims", { query });
            claims.push(...read(page, () => page.claims.map((item) => this._claimFrom(item))));
            after = page.next === undefined ? null : page.next;
        } while (after !== null);
        return claims;
    }

    /** Return why a port, or that of a claim's name, can or cannot be claimed, with what to do. */
    async explain(which, options) {
        const { timeoutMs, signal, ...asked } = checked("explain", options, ["proto", "address", "pool", ...CALL]);
        const call = await this._call({ timeoutMs, signal });
        if (call.place.socket === null || (call.place.program && typeof which === "string")) {
            const answer = await this._run(["explain", "--json", ...optionWords(asked), "--", portOrName(which)], call);
            return reportFrom(answer, this);
        }
        const port = await this.#portOf(which, { timeoutMs, signal });
        const { proto = "tcp", ...query } = asked;
        return reportFrom(await this.#report(call, port, proto, query), this);
    }

    /** Return who claims a port, and who really has it. NotFound: nobody. */
    async who(which, options) {
        const given = checked("who", options, CALL);
        const call = await this._call(given);
        if (call.place.socket === null || (call.place.program && typeof which === "string")) {
            return reportFrom(await this._run(["who", "--json", "--", portOrName(which)], call), this);
        }
        const port = await this.#portOf(which, given);
        const answer = await this.#report(call, port, "tcp,udp", {});
        const report = reportFrom(answer, this);
        if (report.claims.length + report.sockets.length + report.nat.length === 0) {
            throw new NotFound(`port ${port}: no claim and no socket`);
        }
        const { claims, sockets, nat, cut } = answer;
        return reportFrom({ port, claims, sockets, nat, cut }, this);
    }

    /** Return the newest events, or those with a number above `since`, the oldest first. */
    async log(options) {
        const given = checked("log", options, ["since", "limit", ...CALL]);
        const { since, limit = 50 } = given;
        const call = await this._call(given);
        if (call.place.socket === null) {
            const option = since === undefined ? [] : [`--since=${since}`];
            return read(await this._run(["log", "--json", ...option, `--limit=${limit}`], call), camel);
        }
        const query = { since, limit, newest: since === undefined ? "true" : undefined };
        const answer = await this._ask(call, "GET", "/v1/events", { query });
        return read(answer, () => camel([...answer.events]));
    }

    /**
     * Follow the changes of the ledger: from now on, or those with a number above `since`. The iteration goes on when
     * the daemon is restarted, and ends when there was no event for `idleMs`. Missed: events are gone that it has not
     * seen.
     */
    events(options) {
        return follow(this, checked("events", options, ["since", "idleMs", ...CALL]));
    }

    /** Return the number to follow from. Missed: later events are gone, or the ledger is another one. */
    async _checkSince(call, since) {
        const query = since === undefined ? { newest: "true", limit: 1 } : { since, limit: 1 };
        const page = await this._ask(call, "GET", "/v1/events", { query });
        const seq = countFrom(page, "seq");
        if (since === undefined) return seq;
        if (since > seq) throw new Missed(`the ledger's newest event is ${seq}, not ${since}: it is another ledger`);
        if (since + 1 < page.oldest) {
            throw new Missed(`events ${since + 1} to ${page.oldest - 1} are gone; list the claims again`);
        }
        return since;
    }

    /** List the pools, each with its usage. */
    async pools(options) {
        const call = await this._call(checked("pools", options, CALL));
        if (call.place.socket === null) return read(await this._run(["pool", "--json"], call), camel);
        const answer = await this._ask(call, "GET", "/v1/pools", { query: settingsQuery(call.place) });
        const pools = [];
        for (const pool of read(answer, () => [...answer.pools])) pools.push(await this.#withUsage(call, pool));
        return read(pools, camel);
    }

    /** Return a pool with its usage. */
    async pool(name, options) {
        const call = await this._call(checked("pool", options, CALL));
        if (typeof name !== "string") throw new Usage("pool: the name is a text");
        if (call.place.socket === null) return read(await this._run(["pool", "show", "--json", "--", name], call), camel);
        return read(await this.#withUsage(call, { name }), camel);
    }

    // ---- answers ----

    async #portOf(which, given) {
        return typeof which === "string" ? (await this.find(which, given)).port : Number(portOrName(which));
    }

    async #report(call, port, proto, asked) {
        const [first, ...others] = proto.replaceAll("+", ",").split(",");
        const query = { ...asked, with: others.length > 0 ? others.join(",") : undefined, ...settingsQuery(call.place) };
        return this._ask(call, "GET", `/v1/ports/${encode(first)}/${port}`, { query });
    }

    async #withUsage(call, pool) {
        const path = `/v1/pools/${encode(pool.name)}`;
        const query = settingsQuery(call.place);
        const found = pool.ranges === undefined ? await this._ask(call, "GET", path, { query }) : pool;
        return { ...found, usage: await this._ask(call, "GET", `${path}/usage`, { query }) };
    }
}

function optionWords(options) {
    return Object.entries(options).map(([name, value]) => `--${name}=${value}`);
}

function portOrName(which) {
    if (typeof which === "string" || Number.isSafeInteger(which)) return String(which);
    throw new Usage("a port or a name is asked for");
}

function settingsQuery(place) {
    const { settings } = settingsOf(place);
    return settings === undefined ? {} : { settings: JSON.stringify(settings) };
}

module.exports = { Look };
