// SPDX-License-Identifier: MIT
// Which daemon a client asks: the one that the command line asks in the same place.

import assert from "node:assert/strict";
import fs from "node:fs";
import { Client } from "dibs";
import { Daemon, check, command } from "./support.mjs";

/** Variables (PATH, RUNTIME and LEDGER stand for those of the test) and a settings file; null: no variable. */
const PLACES = [
    [{ DIBS_SOCKET: "PATH" }, ""],
    [{ DIBS_SOCKET: "none" }, ""],
    [{ DIBS_SOCKET: "auto", XDG_RUNTIME_DIR: "RUNTIME" }, ""],
    [{ DIBS_SOCKET: null, XDG_RUNTIME_DIR: "RUNTIME" }, ""],
    [{ DIBS_SOCKET: null, XDG_RUNTIME_DIR: "RUNTIME", DIBS_LEDGER: null }, ""],
    [{ DIBS_SOCKET: "", XDG_RUNTIME_DIR: "RUNTIME", DIBS_LEDGER: "" }, ""],
    [{ DIBS_SOCKET: null, XDG_RUNTIME_DIR: "RUNTIME", DIBS_LEDGER: null }, "ledger: sqlite:LEDGER"],
    [{ DIBS_SOCKET: null, DIBS_LEDGER: null }, "socket: PATH"],
    [{ DIBS_SOCKET: null }, "socket: PATH"],
    [{ DIBS_SOCKET: "none" }, "socket: PATH"],
    [{ DIBS_SOCKET: null, XDG_RUNTIME_DIR: "relative", DIBS_LEDGER: null }, "ledger: sqlite:LEDGER"],
];

check("it is the daemon of the command line", async ({ t, folder }) => {
    const daemon = await Daemon.start(t);
    const words = { PATH: daemon.socket, RUNTIME: `${folder}/runtime`, LEDGER: `${folder}/ledger.db` };
    fs.mkdirSync(words.RUNTIME);
    fs.symlinkSync(daemon.folder, `${words.RUNTIME}/dibs`);
    fs.mkdirSync("config/dibs", { recursive: true });
    process.env.XDG_CONFIG_HOME = `${folder}/config`;
    const before = { ...process.env };
    for (const [variables, file] of PLACES) {
        for (const name of ["DIBS", "DIBS_SOCKET", "DIBS_LEDGER", "XDG_RUNTIME_DIR"]) {
            if (before[name] === undefined) delete process.env[name];
            else process.env[name] = before[name];
        }
        for (const [name, value] of Object.entries(variables)) {
            if (value === null) delete process.env[name];
            else process.env[name] = words[value] || value;
        }
        fs.writeFileSync("config/dibs/dibs.yaml", Object.entries(words).reduce((text, [word, value]) => text.replace(word, value), file));
        const findings = JSON.parse(command(["doctor", "--json"]).stdout).filter(({ topic, text }) => topic === "daemon" && / answers/.test(text));
        const wanted = findings.length > 0 ? findings[0].text.split(" answers")[0] : null;
        assert.equal(await new Client().daemon(), wanted, JSON.stringify([variables, file]));
        if (file) continue;
        process.env.DIBS = "/no/such/program"; // the environment alone counts
        assert.equal(await new Client().daemon(), wanted, JSON.stringify(variables));
    }
});
