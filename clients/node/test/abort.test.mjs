// SPDX-License-Identifier: MIT
// Calls that are aborted at random moments. DIBS_TEST_SEED=N repeats a run, as far as time allows that.

import assert from "node:assert/strict";
import { IS_LONG, check } from "./support.mjs";

check("claims that are aborted at any moment leave nothing", async ({ client, group }) => {
    const seed = Number(process.env.DIBS_TEST_SEED || Date.now() % 100_000);
    let state = seed;
    const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
    const count = IS_LONG ? 2000 : 40;
    await client.claim({ ttl: "1m" }).then((claim) => client.release(claim));
    let ended = 0;
    const verbs = [
        (signal) => client.claim({ signal, hold: "none" }),
        (signal) => client.claim(`n${state}`, { signal }),
        (signal) => client.claimMany({ count: 3, signal }),
        (signal) => client.listen({ signal, address: "127.0.0.1" }),
    ];
    const one = async (i) => {
        const abort = new AbortController();
        const timer = setTimeout(() => abort.abort(), random() * 25);
        try {
            const got = await verbs[i % verbs.length](abort.signal);
            if (typeof got.close === "function") got.close();
            for (const claim of got.claim ? [got.claim] : [].concat(got)) await client.release(claim);
        } catch (error) {
            assert.equal(error, abort.signal.reason, `seed ${seed}: ${error.stack}`);
            ended++;
        }
        clearTimeout(timer);
    };
    for (let i = 0; i < count; i += 4) await Promise.all([0, 1, 2, 3].map((j) => one(i + j)));
    const left = (await client.list()).filter(({ holder, name }) => (holder && holder.pid === process.pid) || (name || "").startsWith(`${group}/`));
    assert.deepEqual(left.map(({ port, name }) => [port, name]), [], `seed ${seed}`);
    assert.ok(ended > 0, "none was aborted");
});
