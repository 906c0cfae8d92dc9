"use strict";
// SPDX-License-Identifier: MIT
/** Which daemon, settings and names count in a directory, by the rules of the command line. */

const fs = require("node:fs");
const path = require("node:path");
const { Usage } = require("./errors.cjs");

const ADMIN = "/run/dibs/admin.sock";
const PUBLIC = "/run/dibs/dibs.sock";
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const TIMEOUT_MS = 5000;
/** The settings that the daemon needs from its caller, as the program sends them. */
const CARRIED = ["range", "pool", "band", "order", "cooldown", "ttl", "allow-ephemeral", "allow-blocked"];

/** Read a duration of dibs, "500ms" or "5m", in milliseconds. */
function milliseconds(text) {
    const found = /^([0-9]+)(ms|s|m|h|d)$/.exec(text);
    if (!found) throw new Usage(`duration '${text}': expected a number with a unit, such as 500ms, 10s, 5m, 2h or 7d`);
    return Number(found[1]) * UNITS[found[2]];
}

/** Write a duration for dibs: a number is milliseconds, a text stays as it is. */
function duration(value) {
    if (typeof value === "string") return value;
    if (typeof value === "number" && value >= 0 && Number.isSafeInteger(Math.round(value))) return `${Math.round(value)}ms`;
    throw new Usage(`duration '${String(value)}': expected a text such as "10m", or a number of milliseconds`);
}

/** What counts in a directory. */
class Place {
    constructor(values) {
        /** Of the daemon; null: there is none, the program opens the ledger. */
        this.socket = values.socket;
        /** The caller or a setting names it. */
        this.isNamed = values.isNamed;
        this.timeoutMs = values.timeoutMs;
        /** For requests to the daemon. */
        this.settings = values.settings;
        /** Of simple names; null: only the program knows it. */
        this.group = values.group;
        /** The directory that they belong to. */
        this.project = values.project;
        this.hasManifest = values.hasManifest;
        this.manifestProblem = values.manifestProblem;
        this.program = values.program;
    }

    /**
     * Return the full name of NAME and the project's directory; null: the program has to find it. It also takes a name
     * of several parts for a full one, and a port of the manifest.
     */
    simple(name) {
        if (this.group === null || name === "" || name.includes("/") || /^\p{Nd}+$/u.test(name)) return null;
        return { name: `${this.group}/${name}`, project: this.project };
    }
}

/** Make the place of `dibs settings --json`; without it (null) of the environment. `given` are the client's settings. */
function placeFrom(document, given, program) {
    const settings = new Map();
    for (const [name, value] of Object.entries(process.env)) {
        if (document === null && name.startsWith("DIBS_") && value) {
            settings.set(name.slice(5).toLowerCase().replaceAll("_", "-"), { value, source: "environment" });
        }
    }
    let group = null;
    let project = null;
    if (document !== null) {
        for (const row of document.settings) {
            if (row.value !== null) settings.set(row.name, { value: row.value, source: row.source });
        }
        const isSimple = !document.manifest && !document.manifest_problem;
        if (isSimple && !(document.project || "").includes("\ufffd")) ({ group, project } = document); // U+FFFD: it is no UTF-8
    }
    for (const [name, value] of Object.entries(given)) settings.set(name, { value, source: "flag" });
    if (document === null && settings.has("group")) group = settings.get("group").value;
    const carried = {};
    for (const name of CARRIED) {
        const setting = settings.get(name);
        if (setting && setting.source !== "default") carried[name.replaceAll("-", "_")] = setting.value;
    }
    return new Place({
        ...findSocket(settings),
        timeoutMs: settings.has("timeout") ? milliseconds(settings.get("timeout").value) : TIMEOUT_MS,
        settings: carried,
        group,
        project,
        hasManifest: document !== null && Boolean(document.manifest),
        manifestProblem: document === null ? null : document.manifest_problem,
        program,
    });
}

/** The rule of src/lib/remote.c: a ledger that is meant, a socket that is named, or one that is there. */
function findSocket(settings) {
    const ledger = settings.get("ledger") || { value: "", source: "default" };
    const socket = settings.get("socket") || { value: "auto", source: "default" };
    if (ledger.source === "environment" && socket.source === "default") return { socket: null, isNamed: false };
    if (socket.value === "none") return { socket: null, isNamed: true };
    if (socket.value !== "auto") return { socket: path.resolve(socket.value), isNamed: true };
    if (process.geteuid() === 0 && isWritable(ADMIN)) return { socket: ADMIN, isNamed: false };
    if (fs.existsSync(PUBLIC)) return { socket: PUBLIC, isNamed: false };
    const runtime = process.env.XDG_RUNTIME_DIR || "";
    const own = `${runtime}/dibs/dibs.sock`;
    const stat = runtime.startsWith("/") ? fs.statSync(own, { throwIfNoEntry: false }) : undefined;
    const isOwn = stat !== undefined && (stat.uid === 0 || stat.uid === process.geteuid());
    return { socket: isOwn ? own : null, isNamed: false };
}

function isWritable(file) {
    try {
        fs.accessSync(file, fs.constants.W_OK);
        return true;
    } catch {
        return false;
    }
}

module.exports = { Place, duration, milliseconds, placeFrom };
