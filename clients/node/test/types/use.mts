// The types of the package, as a user of ES modules sees them. tools/check-node-client.sh compiles it.
import http from "node:http";
import test from "node:test";
import dibs, { Client, Taken, type Claim, type Which } from "dibs";
import detectPort, { detect, waitPort } from "dibs/detect-port";
import getPort, { clearLockedPorts, portNumbers, type Options } from "dibs/get-port";
import portfinder, { getPortPromise } from "dibs/portfinder";
import {
    env, fixtures, listen, playwrightFixtures, port, ports, webServer, type TestFixtures, type WorkerFixtures,
} from "dibs/test";
import plugin from "dibs/vite";
import { defineConfig } from "@playwright/test";
import { test as playwright } from "@playwright/test";
import { defineConfig as viteConfig } from "vite";
import { test as vitest } from "vitest";

const client: Client = new Client({ timeoutMs: 5 });
const claim: Claim = await client.claim("web", { ttl: "1m", signal: AbortSignal.timeout(5) });
const which: Which = claim;
const [first] = await client.claimMany(["a"], { count: 1 });
console.log(first?.port, await client.release(which), (await new dibs.Client().claim({ prefer: 80 })).port);
try {
    await client.listen("web", { server: http.createServer(), address: ["127.0.0.1"] });
} catch (error) {
    if (error instanceof Taken) console.log(error.blocker?.pid, error.exitCode);
}
for await (const event of client.events({ since: 0 })) console.log(event.timeMs);
// @ts-expect-error there is no such option
await client.claim("web", { prot: "x" });
// @ts-expect-error a name is a text
await client.claim(5);

const options: Options = { port: portNumbers(3000, 3100), reserve: true, host: "::1" };
const numbers: number[] = [await getPort(options), await detect(80), await detectPort({ port: 5 }), await getPortPromise({ port: 1 })];
clearLockedPorts();
detectPort(80, (error, found) => console.log(error, found, numbers));
portfinder.getPorts(3, { port: 80 }, (error, found) => console.log(error, found.length));
await waitPort(80, { retries: 1 });

test("ports", async (t) => {
    const { web }: { web: number } = await ports(t, ["web"]);
    const [one] = await ports(t, 3);
    console.log(web, one, await port(t), (await env(t, "web")).PORT, (await listen(t, http.createServer())).port);
});
vitest.extend(fixtures)("ports", async ({ dibsPort, dibsPorts, onTestFinished }) => {
    const { a }: { a: number } = await dibsPorts(["a"]);
    console.log(dibsPort + a, await port({ onTestFinished }));
});
playwright.extend<TestFixtures, WorkerFixtures>(playwrightFixtures)("ports", async ({ dibsPort, dibsWorkerPort, dibsListen }) => {
    console.log(dibsPort + dibsWorkerPort, (await dibsListen()).port);
});
export const config = defineConfig({ ...webServer({ command: "true" }) });
export default viteConfig({ plugins: [plugin({ name: "web" })] });
