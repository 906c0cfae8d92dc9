// Coding agents, scripted: each is a process with the official client of MCP on `dibs mcp`, in a work tree of its own.
//   node agents.mjs session TREE TREE TREE   three agents at once bring up, test and tear down the same stack
//   node agents.mjs client TREE              one client asks for everything that there is
// It must lie beside the packages that it loads. The last line is a JSON report for the shell's test.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { strict as assert } from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const DIBS = process.env.DIBS;
const SECONDS = 60; // a step that does not end fails by then

async function until(what, check) {
    const end = Date.now() + SECONDS * 1000;
    for (;;) {
        const value = await check();
        if (value) return value;
        assert(Date.now() < end, `not within ${SECONDS} s: ${what}`);
        await sleep(20);
    }
}

async function connect(cwd, { capabilities = {}, args = [] } = {}) {
    const client = new Client({ name: "test", version: "1" }, { capabilities });
    if (capabilities.roots)
        client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: `file://${capabilities.roots.at}` }] }));
    client.transport_ = new StdioClientTransport({ command: DIBS, args: ["mcp", ...args], cwd, env: process.env, stderr: "inherit" });
    await client.connect(client.transport_);
    await client.listTools(); // from now on the client checks answers against the tools' schemas
    return client;
}

// The answer of a tool, or an Error with its text.
async function give(client, tool, parameters = {}) {
    const result = await client.callTool({ name: tool, arguments: parameters });
    if (result.isError) throw new Error(result.content[0].text);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    return result.structuredContent;
}

const fails = (client, tool, parameters, pattern) => assert.rejects(give(client, tool, parameters), pattern);

// ---- an agent: it does what its coordinator says, one step at a time ----

async function agent(tree) {
    const client = await connect(tree);
    const ask = (tool, parameters) => give(client, tool, parameters);
    const steps = {
        hello: () => ({ server: client.transport_.pid }),
        async up() {
            const [{ ports }, web] = [await ask("up"), await ask("role_env", { role: "web" })];
            const api = await ask("role_env", { role: "api" });
            assert.equal(web.env.API_PORT, api.env.PORT);
            assert.equal(Number(web.env.PORT), ports["web/0/http"]);
            const scratch = await ask("claim_port", { name: "scratch", ttl: "1s" });
            return { ports: { ...ports, ...scratch.ports } };
        },
        serve() {
            spawn(DIBS, ["-q", "run", "--all"], { cwd: tree, stdio: "ignore", detached: true }).unref();
        },
        async test({ ports, neighbour }) {
            const mine = async (name) => {
                try {
                    return await ask("assert_mine", { name });
                } catch (error) {
                    assert.match(error.message, /no process listens|no claim/);
                    return null;
                }
            };
            for (const name of ["web/http", "api/http"])
                assert.equal((await until(name, () => mine(name))).port, ports[name.replace("/", "/0/")]);
            const page = await fetch(`http://127.0.0.1:${ports["web/0/http"]}/`);
            assert.equal(await page.text(), `by way of ${tree}`);
            const listed = (await ask("list_ports")).ports;
            assert(listed.every((claim) => !claim.project && ports[claim.name] === claim.port), JSON.stringify(listed));
            // A neighbour's server is another's: seen, and left alone.
            const port = neighbour.ports["web/0/http"];
            const seen = await ask("who_uses_port", { port: String(port) });
            assert.equal(seen.claims[0].project, neighbour.tree);
            await fails(client, "release_port", { name: seen.claims[0].name }, /another project.*Next/);
            await fails(client, "claim_port", { name: "theirs", port }, /another|belongs to.*Next/);
            await fails(client, "up", { project: neighbour.tree }, /another project/);
        },
        flood() {
            (async () => {
                for (let n = 0; ; n++) await ask("claim_port", { name: `flood-${n % 8}`, ttl: "1s" });
            })();
        },
        async stop() {
            const [code] = await once(spawn(DIBS, ["-q", "stop"], { cwd: tree, stdio: "inherit" }), "exit");
            assert.equal(code, 0);
            await fails(client, "assert_mine", { name: "web/http" }, /no process listens/);
        },
        async release() {
            const { released } = await ask("release_port", { all: true });
            assert.deepEqual(await ask("list_ports"), { ports: [] });
            return { released };
        },
        async bye() {
            await client.close();
            process.disconnect();
        },
    };
    process.on("message", async ({ step, ...parameters }) => {
        try {
            process.send({ step, ...(await steps[step](parameters)) });
        } catch (error) {
            process.send({ step, error: error.stack });
        }
        if (step === "bye") process.disconnect?.();
    });
}

// ---- the coordinator ----

class Agent {
    constructor(tree) {
        this.tree = tree;
        this.process = fork(fileURLToPath(import.meta.url), ["agent", tree]);
    }
    async do(step, parameters = {}) {
        this.process.send({ step, ...parameters });
        const [answer] = await once(this.process, "message", { signal: AbortSignal.timeout(2 * SECONDS * 1000) });
        assert.equal(answer.step, step);
        assert(!answer.error, `${this.tree}: ${answer.error}`);
        return answer;
    }
    async up() {
        this.ports = (await this.do("up")).ports;
    }
}

const isGone = (pid) => !existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));

async function session(trees) {
    const agents = trees.map((tree) => new Agent(tree));
    const all = (step) => Promise.all(agents.map(step));
    const servers = (await all((a) => a.do("hello"))).map((answer) => answer.server);
    await all((a) => a.up());
    const ports = agents.flatMap((a) => Object.values(a.ports));
    assert.equal(new Set(ports).size, ports.length, `a port is shared: ${ports}`);
    await all((a) => a.do("serve"));
    await all((a, i) => a.do("test", { ports: a.ports, neighbour: { tree: trees[(i + 1) % 3], ports: agents[(i + 1) % 3].ports } }));
    // One dies in the middle of its calls; its server ends with it. The others do not notice.
    const dead = agents.pop();
    await dead.do("flood");
    await sleep(50);
    dead.process.kill("SIGKILL");
    await once(dead.process, "exit");
    await until("the dead agent's server ends", () => isGone(servers[2]));
    await all((a, i) => a.do("test", { ports: a.ports, neighbour: { tree: trees[1 - i], ports: agents[1 - i].ports } }));
    // A successor finds the ports, and the servers that were started there.
    const heir = new Agent(trees[2]);
    await heir.do("hello");
    const { scratch, ...kept } = dead.ports;
    await heir.up();
    assert.deepEqual({ ...heir.ports, scratch }, { ...kept, scratch });
    agents.push(heir);
    await all((a) => a.do("stop"));
    const released = await Promise.all([agents[0], heir].map((a) => a.do("release")));
    assert(released.every((answer) => answer.released >= 3), JSON.stringify(released));
    const ends = agents.map((a) => once(a.process, "exit"));
    agents.forEach((a) => a.process.send({ step: "bye" }));
    await Promise.all(ends);
    await until("every server ends", () => servers.every(isGone));
    return { kept: agents[1].ports, ports };
}

// ---- one client, everything ----

async function client(tree) {
    const c = await connect(tree);
    assert.equal(c.getServerVersion().name, "dibs");
    assert.match(c.getInstructions(), /get_port/);
    assert.deepEqual(await c.ping(), {});
    const { tools } = await c.listTools();
    const calls = {
        up: { move: true }, get_port: { name: "api" }, claim_port: { name: "x", count: 2 }, list_ports: {}, role_env: {},
        who_uses_port: { port: "api" }, explain_port: { port: "8080" }, release_port: { name: "x" }, assert_mine: { name: "api" },
    };
    assert.deepEqual(tools.map((tool) => tool.name).sort(), Object.keys(calls).sort());
    for (const [tool, parameters] of Object.entries(calls)) {
        if (tool === "assert_mine") await fails(c, tool, parameters, /no process listens on port \d+\. Next: /);
        else await give(c, tool, parameters);
    }
    await assert.rejects(c.callTool({ name: "no_such" }), { code: -32602 });
    await assert.rejects(c.callTool({ name: "get_port", arguments: {} }), { code: -32602 });
    await assert.rejects(c.listResources(), /resources/);
    // Many at once, answered each by its id; one of them is given up.
    const names = Array.from({ length: 20 }, (_, n) => `many-${n}`);
    const gone = assert.rejects(c.callTool({ name: "get_port", arguments: { name: "gone", create: true } }, undefined,
        { signal: AbortSignal.abort("no more") }));
    const got = await Promise.all(names.map((name) => give(c, "get_port", { name, create: true })));
    await gone;
    assert.equal(new Set(got.map((answer) => answer.port)).size, 20);
    assert.deepEqual((await give(c, "get_port", { name: "many-7" })).port, got[7].port);
    // The daemon, if there is one, ends between two calls and starts again.
    if (process.env.RESTART) {
        const restart = async (word) => once(spawn("sh", ["-c", process.env.RESTART, "-", word], { stdio: "inherit" }), "exit");
        await restart("stop");
        await fails(c, "get_port", { name: "many-7" }, /daemon.*Next/s);
        await restart("start");
        await until("the daemon answers", async () => {
            const result = await c.callTool({ name: "get_port", arguments: { name: "many-7" } });
            return result.structuredContent?.port === got[7].port;
        });
    }
    await give(c, "release_port", { all: true });
    await c.close();
    // A client that tells its roots, in a directory that is no project.
    const r = await connect("/", { capabilities: { roots: { at: tree } } });
    assert.deepEqual(Object.keys((await give(r, "up")).ports).sort(), ["api/0/http", "web/-/live", "web/0/http"]);
    assert.equal((await give(r, "release_port", { all: true })).released, 3);
    await r.close();
    return { tools: tools.length };
}

const [role, ...trees] = process.argv.slice(2);
if (role === "agent") await agent(trees[0]);
else console.log(JSON.stringify(await (role === "session" ? session(trees) : client(trees[0]))));
