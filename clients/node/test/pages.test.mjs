// SPDX-License-Identifier: MIT
// Runs the examples of the client's README and of docs/CLIENTS.md as they stand.
//
// A block "js FILE", "ts FILE", "json FILE" or "yaml FILE" is that file; program.mjs and program.cjs are run at once, and a block
// "sh run" is typed beside the files before it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { PROGRAM, check } from "./support.mjs";

const HERE = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const PAGES = { README: `${HERE}/README.md`, CLIENTS: `${HERE}/../../docs/CLIENTS.md` };
const BLOCK = /^```(js|ts|json|yaml|sh) ([^\n]+)\n(.*?)^```$/gms;

/** What `npm install` leaves in a project: this package, and those that the tests have. */
function install(folder) {
    fs.mkdirSync(`${folder}/node_modules`);
    fs.symlinkSync(HERE, `${folder}/node_modules/dibs`);
    const fetched = process.env.DIBS_TEST_NPM ? `${process.env.DIBS_TEST_NPM}/node_modules` : `${folder}/none`;
    if (!fs.existsSync(fetched)) return;
    for (const name of fs.readdirSync(fetched)) fs.symlinkSync(`${fetched}/${name}`, `${folder}/node_modules/${name}`);
}

for (const [name, file] of Object.entries(PAGES)) {
    check(`the examples of ${name} run`, async ({ folder }) => {
        let text = fs.readFileSync(file, "utf8");
        if (name === "CLIENTS") text = text.split("\n## Node\n")[1].split(/^## /m)[0];
        install(folder);
        fs.mkdirSync("bin");
        fs.symlinkSync(PROGRAM, "bin/dibs");
        fs.symlinkSync(process.execPath, "bin/node");
        const env = { ...process.env, PATH: `${folder}/bin:${folder}/node_modules/.bin:${process.env.PATH}` };
        delete env.NODE_TEST_CONTEXT; // a runner of its own
        delete env.NODE_CHANNEL_FD;
        let ran = 0;
        for (const [, language, place, body] of text.matchAll(BLOCK)) {
            if (language !== "sh") fs.writeFileSync(place, body);
            const words = place.startsWith("program.") ? [process.execPath, place] : ["bash", "-eu", "-c", body];
            if (!place.startsWith("program.") && place !== "run") continue;
            const done = spawnSync(words[0], words.slice(1), { env, encoding: "utf8", timeout: 100_000 });
            assert.equal(done.status, 0, `${body}\n${done.stdout}${done.stderr}`);
            ran++;
        }
        assert.ok(ran >= 1, `${ran} examples`);
    });
}
