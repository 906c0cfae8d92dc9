"use strict";
// SPDX-License-Identifier: MIT
/** Runs the program `dibs`, within a deadline. */

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { Failed, Unavailable, Usage, errorFrom } = require("./errors.cjs");
const { reason } = require("./http.cjs");
const { at, now, onAbort } = require("./wait.cjs");

const LIMIT_MS = 86_400_000; // DIBS_TIMEOUT is a day at most
const GRACE_MS = 2000; // the program has its own deadline; so much later it is ended
const OUTPUT_MAX = 256 * 1024 * 1024;

/** Return the program that $DIBS names, else the one in PATH; null: there is none. */
function findProgram() {
    const name = process.env.DIBS || "dibs";
    const folders = name.includes("/") ? [""] : (process.env.PATH || "").split(":");
    for (const folder of folders) {
        const program = name.includes("/") ? path.resolve(name) : path.join(folder || ".", name);
        try {
            fs.accessSync(program, fs.constants.X_OK);
            if (fs.statSync(program).isFile()) return path.resolve(program);
        } catch {
            // the next one
        }
    }
    return null;
}

/** Show a warning of dibs, as Node shows its own: process.on("warning") gets it. */
function warn(text) {
    process.emitWarning(text, "DibsWarning");
}

/** Run a command and return the JSON that it prints. A child that is not waited for is killed. */
async function runProgram(program, words, { environment, directory, deadline, signal }) {
    if (signal && signal.aborted) throw signal.reason;
    for (const word of words) {
        if (/\0|\p{Surrogate}/u.test(word)) { // Node would replace the half of a pair
            throw new Usage("a word for dibs cannot have a NUL or half of a surrogate pair");
        }
    }
    const left = Math.max(deadline - now(), 1);
    const env = { ...process.env, ...environment, DIBS_TIMEOUT: `${Math.min(Math.max(Math.floor(left), 1), LIMIT_MS)}ms` };
    const { code, by, output, errors } = await run(program, words, { env, directory, end: now() + left + GRACE_MS, signal });
    return answer(program, code === null ? `signal ${by}` : code, output, errors);
}

function run(program, words, { env, directory, end, signal }) {
    return new Promise((resolve, reject) => {
        let child;
        try {
            child = spawn(program, words, { cwd: directory, env, stdio: ["ignore", "pipe", "pipe"] });
        } catch (error) {
            return reject(cannotRun(program, directory, error));
        }
        const output = [];
        const errors = [];
        let why = null; // for which it is killed
        let size = 0;
        const kill = (error) => {
            why = why || { error };
            child.kill("SIGKILL");
            child.stdout.destroy(); // a process that it started may keep its pipes
            child.stderr.destroy();
        };
        const take = (to) => (data) => {
            size += data.length;
            if (size <= OUTPUT_MAX) to.push(data);
            else kill(new Failed(`${program}: its answer is too large`));
        };
        child.stdout.on("data", take(output));
        child.stderr.on("data", take(errors));
        const cancel = at(end, () => kill(new Unavailable("the program dibs does not end in time; 'dibs doctor' checks its ledger")));
        const stop = onAbort(signal, () => kill(signal.reason));
        child.on("error", (error) => {
            cancel();
            stop();
            reject(why ? why.error : cannotRun(program, directory, error));
        });
        child.on("close", (code, by) => {
            cancel();
            stop();
            if (why) reject(why.error);
            else resolve({ code, by, output: Buffer.concat(output), errors: Buffer.concat(errors).toString() });
        });
        return undefined;
    });
}

function cannotRun(program, directory, error) {
    if (error.code === "ERR_INVALID_ARG_VALUE") return new Usage(`a word for dibs cannot be one: ${error.message}`);
    if (error.code === "ENOENT" && directory && !fs.existsSync(directory)) {
        return new Unavailable(`cannot run ${program} in ${directory}: there is no such directory`);
    }
    return new Unavailable(`cannot run ${program}: ${reason(error.code)}`);
}

function answer(program, code, output, errors) {
    const lines = errors.split("\n").filter((line) => line !== "");
    if (code === 0) {
        for (const line of lines) warn(line.replace(/^dibs: /, ""));
        const text = output.toString().trim();
        try {
            return text === "" ? null : JSON.parse(text);
        } catch {
            throw new Failed(`${program}: its answer is no JSON; is it another program of this name?`);
        }
    }
    for (const line of [...lines].reverse()) {
        let document;
        try {
            document = JSON.parse(line).error;
        } catch {
            continue;
        }
        if (document && Number.isInteger(document.exit)) throw errorFrom(document.exit, String(document.message), document);
    }
    const how = typeof code === "string" ? code : `exit code ${code}`;
    const last = lines.length > 0 ? `: ${lines[lines.length - 1]}` : "";
    throw new Failed(`${program}: it ended by ${how}${last}`);
}

module.exports = { findProgram, runProgram, warn };
