"use strict";
// SPDX-License-Identifier: MIT
/** The verbs that make, find and end claims. */

const { Base } = require("./base.cjs");
const { Denied, DibsError, Exhausted, NotFound, Taken, Unavailable, Usage } = require("./errors.cjs");
const { Lost, Repeat, encode, newKey } = require("./http.cjs");
const { duration, milliseconds } = require("./place.cjs");
const { warn } = require("./program.cjs");
const { Claim, Token, camel, claimFrom, countFrom, read } = require("./records.cjs");
const { CALL, CLAIM, Heir, PORT, Want, checked, onlyOne } = require("./request.cjs");
const { now, pause } = require("./wait.cjs");

const PAUSES_MS = [20, 500]; // of `wait`, as in the program
const UNDO_MS = 5000; // how long a cancelled claim is looked for, to end it
const COUNT_MAX = 4096; // ports of one call, as for the program

/** Verbs about one claim or several. */
class Claims extends Base {
    // ---- making ----

    /**
     * Claim one port, for the calling process unless the options say otherwise. The same name gets the same port
     * again. A call that is aborted ends what it may have claimed.
     */
    async claim(name, options) {
        if (isOptions(name) && options === undefined) [name, options] = [undefined, name];
        const [claim] = await this.#claim([nameOf(name)], new Want("claim", options));
        return claim;
    }

    /** Claim a port for each name, or `count` ports, all or nothing. */
    async claimMany(names, options) {
        if (isOptions(names) && options === undefined) [names, options] = [undefined, names];
        const want = new Want("claimMany", options, [...CLAIM, "count", "contiguous", "align", "dryRun"]);
        const list = names === undefined || names === null ? [] : Array.isArray(names) ? names : [names];
        const { count } = want;
        if (count !== undefined && (count < 1 || count > COUNT_MAX || list.length > 1)) {
            throw new Usage(`claim: '--count' is from 1 to ${COUNT_MAX}, and goes with one name or none`);
        }
        const shape = { contiguous: want.contiguous === true, dry_run: want.dryRun === true };
        if (want.align !== undefined) shape.align = want.align;
        return this.#claim(list.length > 0 ? list.map(nameOf) : [null], want, count, shape);
    }

    /** Return the kept claim of a name of this project, and make it if there is none. */
    async get(name, options) {
        const want = new Want("get", options, [...PORT, "create", ...CALL]);
        const call = await this._call(want);
        const full = this.#direct(call.place, textOf(name));
        if (full === null) {
            const words = ["get", "--json", ...want.words(), ...(want.create ? ["--create"] : []), "--", name];
            return this._claimFrom(await this._run(words, call));
        }
        const body = { ...want.request(), ...full, holder: null, keep: true, lookup: true, ...settingsOf(call.place) };
        const answer = await this._ask(call, "POST", "/v1/claims", { body, repeat: Repeat.KEYED, key: newKey() });
        return this._claimFrom(answer);
    }

    // ---- finding ----

    /** Return a claim as it is now. NotFound: it has ended. */
    async find(which, options) {
        const call = await this._call(checked("find", options, CALL));
        if (isClaim(which) && !which.token) return this.#findAgain(call, which);
        const target = await this.#target(call, which);
        if (target.path) return this._claimFrom(await this._ask(call, "GET", target.path, { query: target.query }));
        const option = typeof which === "string" ? ["--existing"] : [];
        return this._claimFrom(await this._run(["get", "--json", "--quiet", ...option, ...target.words], call));
    }

    /** Return the socket with which the holder of the claim listens. Taken: somebody else does, or nobody. */
    async assertListening(which, options) {
        const given = checked("assertListening", options, CALL);
        const call = await this._call(given);
        if (which instanceof Token && call.place.socket === null) which = await this.find(which, given);
        const target = await this.#target(call, which);
        const answer = target.path
            ? await this._ask(call, "GET", `${target.path}/assert`, { query: target.query })
            : await this._run(["assert", "--json", "--", typed(which)], call);
        return read(answer, camel);
    }

    // ---- changing ----

    /** End a claim and return how many ended: a name also ends NAME/0, NAME/1, ... */
    async release(which, options) {
        const given = checked("release", options, ["force", ...CALL]);
        const call = await this._call(given);
        let target;
        try {
            target = await this.#target(call, which, true);
        } catch (error) {
            if (error instanceof NotFound) return 0;
            throw error;
        }
        if (target.path) {
            const query = { ...target.query, force: given.force ? "true" : undefined };
            return countFrom(await this._ask(call, "DELETE", target.path, { query }), "released");
        }
        const words = ["release", "--json", "--quiet", ...(given.force ? ["--force"] : []), ...target.words];
        return countFrom(await this._run(words, call), "released");
    }

    /** End all claims of this project, or of all projects of this user. */
    async releaseAll(options) {
        const given = checked("releaseAll", options, ["everyProject", "force", ...CALL]);
        const words = ["release", "--json", "--quiet", "--yes", "--all"];
        if (given.everyProject) words.push("--every-project");
        if (given.force) words.push("--force");
        return countFrom(await this._run(words, await this._call(given)), "released");
    }

    /** Extend a lease: it ends `ttl` from now, or as long from now as it was. */
    async renew(which, options) {
        const given = checked("renew", options, ["ttl", ...CALL]);
        let length = given.ttl === undefined ? null : duration(given.ttl);
        const call = await this._call(given);
        const target = await this.#target(call, which);
        if (target.path && length === null) {
            const found = await this._ask(call, "GET", target.path, { query: target.query });
            const ttlMs = read(found, () => (found.holder || {}).ttl_ms);
            length = ttlMs ? `${ttlMs}ms` : null;
        }
        const words = ["renew", "--json", "--quiet", ...(length ? [`--ttl=${length}`] : [])];
        return this.#change(call, target, "/renew", { words, body: length ? { ttl: length } : undefined, repeat: Repeat.TWICE });
    }

    /** Give a claim to another holder: a process (by default the calling one), a lease, or nobody. */
    async transfer(which, options) {
        const given = checked("transfer", options, ["pid", "ttl", "keep", ...CALL]);
        onlyOne(given, ["pid", "ttl", "keep"]);
        const heir = new Heir(given);
        const call = await this._call(given);
        const target = await this.#target(call, which);
        const words = ["transfer", "--json", "--quiet", ...heir.words()];
        return this.#change(call, target, "/transfer", { words, body: heir.members(), repeat: Repeat.ONCE });
    }

    /** End a claim as the end of its block does: one that the name had before stays. */
    async leave(claim, options) {
        if (!isClaim(claim)) throw new TypeError("leave: it is for a claim");
        const given = checked("leave", options, CALL);
        if (!claim.wasThere) {
            await this.release(claim, given);
        } else if (claim.wasKept && claim.holder !== null) {
            await this.transfer(claim, { ...given, keep: true }).catch(ignore(NotFound));
        }
    }

    // ---- a batch ----

    async #claim(names, want, count, shape) {
        const beganMs = Date.now();
        const patienceMs = want.wait === undefined ? 0 : milliseconds(duration(want.wait));
        const heir = new Heir(want);
        const key = want.key === undefined ? newKey() : want.key;
        const { place } = await this._call(want);
        if (place.manifestProblem) throw new Usage(place.manifestProblem);
        const timeoutMs = want.timeoutMs === undefined ? place.timeoutMs : want.timeoutMs;
        const batch = { names, want, heir, count, shape, key, isSent: false };
        try {
            return await this.#patiently(place, batch, patienceMs, timeoutMs);
        } catch (error) {
            if (error instanceof Unavailable) error.key = key;
            const isAborted = want.signal !== undefined && want.signal.aborted && error === want.signal.reason;
            if (isAborted && batch.isSent && want.key === undefined && !want.dryRun) await this.#undo(place, batch, beganMs);
            throw error;
        }
    }

    /** Claim, and while the ports are held try again until the time is over, as `dibs claim --wait` does. */
    async #patiently(place, batch, patienceMs, timeoutMs) {
        const { wait, signal } = batch.want;
        const end = now() + patienceMs;
        let [pauseMs] = PAUSES_MS;
        for (;;) {
            try {
                batch.isSent = true;
                return await this.#attempt({ place, deadline: now() + timeoutMs, signal }, batch);
            } catch (error) {
                const isHeld = error instanceof Taken || error instanceof Exhausted;
                if (!isHeld || wait === undefined || (error.blocker && error.blocker.differs)) throw error;
                batch.isSent = false;
                if (now() >= end) {
                    error.message = `waited ${duration(wait)}: ${error.message}`;
                    throw error;
                }
            }
            await pause(Math.min(pauseMs, end - now()), signal);
            pauseMs = Math.min(2 * pauseMs, PAUSES_MS[1]);
        }
    }

    async #attempt(call, batch) {
        const requests = this.#requests(call.place, batch);
        if (requests === null) return this.#claimByProgram(call, batch);
        const settings = settingsOf(call.place);
        const isOne = batch.shape === undefined;
        const body = isOne ? { ...requests[0], ...settings } : { requests, ...batch.shape, ...settings };
        const options = { body, repeat: Repeat.KEYED, key: batch.key };
        const answer = await this._ask(call, "POST", isOne ? "/v1/claims" : "/v1/batch", options);
        return read(answer, () => (isOne ? [answer] : answer.claims).map((item) => this._claimFrom(item)));
    }

    /** Make the requests for the daemon; null: the program has to make them. */
    #requests(place, { names, want, heir, count }) {
        if (place.socket === null) return null;
        const requests = [];
        for (const name of names) {
            const full = name === null ? {} : this.#direct(place, name, true);
            if (full === null) return null;
            for (let i = 0; i < (count === undefined ? 1 : count); i++) {
                const named = full.name !== undefined && count !== undefined ? { ...full, name: `${full.name}/${i}` } : full;
                requests.push({ ...want.request(), ...named, ...heir.members() });
            }
        }
        return requests;
    }

    async #claimByProgram(call, { names, want, heir, count, shape, key }) {
        const words = ["claim", "--json", "--quiet", `--key=${key}`, ...want.words(), ...heir.words()];
        if (count !== undefined) words.push(`--count=${count}`);
        for (const [member, value] of Object.entries(shape || {})) {
            const option = `--${member.replaceAll("_", "-")}`;
            if (value !== false) words.push(value === true ? option : `${option}=${value}`);
        }
        const answer = await this._run([...words, "--", ...names.filter((name) => name !== null)], call);
        return read(answer, () => answer.map((item) => this._claimFrom(item)));
    }

    /**
     * End what an aborted call may have claimed: the same key finds it. A claim that is older than the call stays, without
     * a holder if it was kept and the call has made this process its holder.
     */
    async #undo(place, batch, beganMs) {
        try {
            for (const claim of await this.#attempt({ place, deadline: now() + UNDO_MS }, batch)) {
                if (claim.name === null || claim.createdMs >= beganMs) {
                    await this.release(claim, { timeoutMs: UNDO_MS });
                } else if (claim.kept && claim.holder !== null && claim.changedMs >= beganMs) {
                    await this.transfer(claim, { keep: true, timeoutMs: UNDO_MS });
                }
            }
        } catch (error) {
            if ([NotFound, Taken, Exhausted, Usage, Denied].some((kind) => error instanceof kind)) return; // nothing was claimed, or it has ended
            if (!(error instanceof DibsError || error instanceof Lost)) throw error;
            warn(`an aborted call may have claimed a port, which ends with its holder: ${error.message}`);
        }
    }

    // ---- which claim ----

    /** Return the full name to send to the daemon, and its directory; null: ask the program. */
    #direct(place, name, isClaim = false) {
        if (place.socket === null) return null;
        if (place.program) {
            if (isStrange(name)) return null; // refused, with the message of the program
            return isClaim && name.startsWith("/") ? { name: name.slice(1) } : named(place.simple(name));
        }
        if (name.startsWith("/")) return { name: name.slice(1) };
        if (place.group === null) {
            throw new Usage(
                `'${name}' is a name of a project, which only the program dibs knows, and it is not in PATH: write ` +
                    "/GROUP/NAME, or set DIBS_GROUP",
            );
        }
        return named({ name: `${place.group}/${name}`, project: place.project });
    }

    /** Find out how to name a claim to the daemon and to the program. NotFound: it is known to have ended. */
    async #target(call, which, isRelease = false) {
        const { place } = call;
        const token = which instanceof Token ? which.text : isClaim(which) ? which.token : null;
        if (token) {
            return { words: [`--token=${token}`], path: place.socket && `/v1/claims/${encode(token)}`, query: {} };
        }
        let words = ["--", typed(which)];
        if (isClaim(which)) {
            if (!which.degraded) await this.#findAgain(call, which);
            if (which.project) words = [`--project=${which.project}`, ...words];
            return { words, path: place.socket && "/v1/claims/-", query: query(which) };
        }
        // The program knows the project's names and numbers, and that `release NAME` ends NAME/0, NAME/1, ...
        const isForProgram = typeof which === "number" || (isRelease && place.program);
        const full = isForProgram ? null : this.#direct(place, which);
        if (full !== null) return { words, path: "/v1/claims/-", query: full };
        if (place.socket && !place.program) {
            return { words, path: "/v1/claims/-", query: typeof which === "number" ? { port: which } : this.#direct(place, which) };
        }
        return { words, path: null, query: {} };
    }

    /** Find a claim by its name or number, and check that it is still the same one. */
    async #findAgain(call, claim) {
        const { proto } = claim.bindings[0];
        let found;
        if (claim.name && call.place.socket) {
            found = [await this._ask(call, "GET", "/v1/claims/-", { query: query(claim) })];
        } else if (claim.name) {
            found = [await this._run(["get", "--json", "--quiet", "--force", "--existing", "--", typed(claim)], call)];
        } else if (call.place.socket) {
            const asked = { port: claim.port, proto, judge: "true" };
            found = read(await this._ask(call, "GET", "/v1/claims", { query: asked }), ({ claims }) => [...claims]);
        } else {
            const words = ["ls", "--json", "--all", `--port=${claim.port}`, `--proto=${proto}`];
            found = read(await this._run(words, call), (rows) => [...rows]);
        }
        for (const document of found) {
            if (document && document.id === claim.id && document.generation === claim.generation) return this._claimFrom(document);
        }
        throw new NotFound(`the claim of port ${claim.port} has ended, or has another holder now`);
    }

    /** Renew or transfer a claim. */
    async #change(call, target, action, { words, body, repeat }) {
        const answer = target.path
            ? await this._ask(call, "POST", target.path + action, { query: target.query, body, repeat })
            : await this._run([...words, ...target.words], call);
        return this._claimFrom(answer);
    }

    _claimFrom(document) {
        return claimFrom(document, this);
    }
}

/** A claim, or the copy of one that another thread or process has sent. */
function isClaim(which) {
    return which instanceof Claim || (typeof which === "object" && which !== null && Array.isArray(which.bindings) && isPort(which.port));
}

function isPort(value) {
    return Number.isSafeInteger(value);
}

function isOptions(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return the name, or null when there is none. */
function nameOf(name) {
    return name === undefined || name === null ? null : textOf(name);
}

function textOf(name) {
    if (typeof name !== "string") throw new Usage(`a name is a text, not ${name === null ? "null" : typeof name}`);
    return name;
}

/** Has the name a character that no dibs prints, or is it too long for one? */
function isStrange(name) {
    return name.length > 255 || /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(name);
}

function named(full) {
    if (full === null) return null;
    return full.project === null ? { name: full.name } : full;
}

/** What a user would type for a claim. */
function typed(which) {
    if (isClaim(which)) return which.name ? `/${which.name}` : String(which.port);
    if (which instanceof Token || typeof which === "string") return String(which);
    if (isPort(which)) return String(which);
    throw new Usage("which claim is meant: a claim, a token, a name or a port");
}

/** Name a claim without its token to the daemon. */
function query(claim) {
    return claim.name ? { name: claim.name } : { port: claim.port, proto: claim.bindings[0].proto };
}

function settingsOf(place) {
    return Object.keys(place.settings).length > 0 ? { settings: place.settings } : {};
}

function ignore(kind) {
    return (error) => {
        if (!(error instanceof kind)) throw error;
    };
}

module.exports = { Claims, isOptions, settingsOf };
