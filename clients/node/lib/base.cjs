"use strict";
// SPDX-License-Identifier: MIT
/** What all verbs share: a place, a daemon or the program, and deadlines. */

const { Unavailable } = require("./errors.cjs");
const { Daemon, encode } = require("./http.cjs");
const { placeFrom } = require("./place.cjs");
const { findProgram, runProgram } = require("./program.cjs");
const { checked } = require("./request.cjs");
const { now, orAborted } = require("./wait.cjs");

const SETTINGS_MS = 10_000; // for the program to print its settings, which say how long a call may take

/** Asks the daemon of a place, or runs the program there. */
class Base {
    #given = {};
    #directory;
    #timeoutMs;
    #places = new Map();
    #daemons = new Map();

    constructor(options) {
        const given = checked("Client", options, ["socket", "group", "directory", "timeoutMs"]);
        for (const name of ["socket", "group"]) if (given[name] !== undefined) this.#given[name] = given[name];
        this.#directory = given.directory;
        this.#timeoutMs = given.timeoutMs;
    }

    /** Close the connections. Claims stay with their holders. */
    async close() {
        for (const daemon of this.#daemons.values()) daemon.close();
    }

    // ---- the place ----

    /** Return what counts here; it is read once for each directory. */
    _place(signal) {
        const directory = this.#directory || process.cwd();
        let place = this.#places.get(directory);
        if (place === undefined) {
            place = this.#read();
            this.#places.set(directory, place);
            place.catch(() => this.#places.delete(directory));
        }
        return orAborted(place, signal);
    }

    async #read() {
        const program = findProgram();
        const document = program && (await this._run(["settings", "--json"], { deadline: now() + SETTINGS_MS }));
        const place = placeFrom(document, this.#given, program);
        if (this.#timeoutMs !== undefined) place.timeoutMs = this.#timeoutMs;
        return place;
    }

    /** Return the place, and what a call needs: its deadline and its signal. */
    async _call({ timeoutMs, signal }) {
        const place = await this._place(signal);
        return { place, deadline: now() + (timeoutMs === undefined ? place.timeoutMs : timeoutMs), signal };
    }

    // ---- the daemon ----

    _daemon(place) {
        let daemon = this.#daemons.get(place.socket);
        if (daemon === undefined) {
            daemon = new Daemon(place.socket, place.isNamed);
            this.#daemons.set(place.socket, daemon);
        }
        return daemon;
    }

    /** Send a request; `options` are its query, body, repeat and key. */
    async _ask({ place, deadline, signal }, method, path, options = {}) {
        const words = Object.entries(options.query || {})
            .filter(([, value]) => value !== undefined && value !== null)
            .map(([name, value]) => `${name}=${encode(String(value))}`);
        const target = words.length === 0 ? path : `${path}?${words.join("&")}`;
        return this._daemon(place).ask(method, target, { ...options, deadline, signal });
    }

    // ---- the program ----

    /** Run the program in the directory of this client, with the daemon of the place. */
    async _run(words, { place, deadline, signal }) {
        const program = place === undefined ? findProgram() : place.program;
        if (program === null) {
            throw new Unavailable(
                "this needs the program dibs, and it is neither in PATH nor named by DIBS; the daemon alone " +
                    "knows full names (/GROUP/NAME), names of a client with a group, and claims of a client",
            );
        }
        const environment = {};
        for (const [name, value] of Object.entries(this.#given)) environment[`DIBS_${name.toUpperCase()}`] = value;
        if (place !== undefined && place.socket !== null) environment.DIBS_SOCKET = place.socket;
        return runProgram(program, words, { environment, directory: this.#directory, deadline, signal });
    }
}

module.exports = { Base };
