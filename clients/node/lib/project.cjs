"use strict";
// SPDX-License-Identifier: MIT
/** The verbs about a project's manifest. The program reads manifests, with a daemon, too. */

const { Look } = require("./look.cjs");
const { changeFrom, read } = require("./records.cjs");
const { CALL, checked } = require("./request.cjs");

/** Verbs about the manifest of the directory. */
class Project extends Look {
    /**
     * Return the variables of a role of the manifest (ROLE/INSTANCE), or of all roles. Missing ports are claimed: kept,
     * or with `pid` held by that process until it ends. With `group` they are other claims than those of the project.
     */
    async env(role, options) {
        if (typeof role === "object" && role !== null) [role, options] = [undefined, role];
        const given = checked("env", options, ["pid", "group", ...CALL]);
        const words = ["env", "--json", "--quiet"];
        if (given.pid !== undefined) words.push(`--pid=${given.pid}`);
        if (given.group !== undefined) words.push(`--group=${given.group}`);
        if (role !== undefined && role !== null) words.push("--", String(role));
        return this._run(words, await this._call(given));
    }

    /** Claim every port of the manifest, all or nothing; release what it does not have any more. */
    async up(options) {
        const { move, ...given } = checked("up", options, ["move", ...CALL]);
        return this.#changes(["up", ...(move ? ["--move"] : [])], given);
    }

    /** Release every port of the manifest. */
    async down(options) {
        return this.#changes(["down"], checked("down", options, CALL));
    }

    /** Return what `up` would change. */
    async plan(options) {
        return this.#changes(["plan"], checked("plan", options, CALL));
    }

    async #changes(words, given) {
        const answer = await this._run([...words, "--json", "--quiet"], await this._call(given));
        return read(answer, () => answer.map((item) => changeFrom(item, this)));
    }
}

module.exports = { Project };
