// A browser for bats files (browser.bash): starts Chromium once, and runs the JavaScript that it is sent over a Unix
// socket.   usage: browser.mjs SOCKET
//
// The body of POST /run?NAME=VALUE&... is an async function's; it sees `given` (the values) and the functions of `words`.
// What it returns is the answer; what it throws is one with 500.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { argv, env, exit } from "node:process";

const { chromium } = createRequire(`${env.DIBS_TEST_NPM}/`)("playwright-core");
const LIMIT_MS = 20000; // for one step on a busy machine
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP rebind.example 127.0.0.2"];
const LAUNCH = { executablePath: env.DIBS_TEST_CHROMIUM, headless: true, args: FLAGS };

const browser = await chromium.launch(LAUNCH);
let contexts = [];
let watched = []; // pages of the dashboard
let others = []; // browsers

function watch(page) {
  const seen = { page, urls: [], bytes: 0, complaints: [] };
  watched.push(seen);
  page.on("request", request => seen.urls.push(request.url()));
  page.on("pageerror", error => seen.complaints.push(String(error)));
  page.on("console", message => {
    if (["error", "warning"].includes(message.type()))
      seen.complaints.push(message.text());
  });
  page.on("crash", () => seen.complaints.push("the page has crashed"));
}

/** Wait until `look` returns something; its last error otherwise. */
async function until(look, what = look) {
  const end = Date.now() + LIMIT_MS;
  for (let reason = "";;) {
    try {
      const seen = await look();
      if (seen)
        return seen;
    } catch (error) {
      reason = `: ${error.message}`;
    }
    if (Date.now() > end)
      throw new Error(`not within the time: ${what}${reason}`);
    await new Promise(done => setTimeout(done, 25));
  }
}

const state = { page: null };
const words = {
  browser,
  until,
  /** Open an address in a new context (options are Playwright's), and wait for the dashboard to be live. */
  async open(url, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "no-preference", ...options });
    contexts.push(context);
    context.setDefaultTimeout(LIMIT_MS);
    state.page = await context.newPage();
    watch(state.page);
    await state.page.goto(url);
    if (options.wait !== false)
      await words.shows("#state", "live");
    return state.page;
  },
  /** A page that is not watched, in the context of the dashboard. */
  async other(url) {
    const page = await state.page.context().newPage();
    await page.goto(url);
    return page;
  },
  /** Another Chromium, started by a program, with a profile of its own. */
  async browserOf(executablePath, profile) {
    const context = await chromium.launchPersistentContext(profile, { ...LAUNCH, executablePath });
    others.push(context);
    context.setDefaultTimeout(LIMIT_MS);
    return context.pages()[0] ?? context.newPage();
  },
  text: async selector => (await state.page.locator(selector).innerText()).replace(/\s+/g, " ").trim(),
  /** Wait until the element's text has this. */
  shows: (selector, text) => until(async () => {
    const seen = await words.text(selector);
    if (!seen.includes(text))
      throw new Error(`it shows "${seen}"`);
    return true;
  }, `${selector} shows "${text}"`),
  lacks: (selector, text) => until(async () => !(await words.text(selector)).includes(text), `${selector} lacks "${text}"`),
  button: name => state.page.getByRole("button", { name, exact: true }),
  claim: name => state.page.getByRole("treeitem", { name }),
  /** On a busy machine a second is short: let the page wait a minute instead, or a second again. */
  secondTakes: ms => state.page.evaluate(ms => {
    globalThis.wait_ ??= setTimeout;
    globalThis.setTimeout = (what, time, ...more) => wait_(what, time === 1000 ? ms : time, ...more);
  }, ms),
  urls: () => watched.flatMap(one => one.urls),
  same(seen, wanted) {
    if (JSON.stringify(seen) !== JSON.stringify(wanted))
      throw new Error(`it is ${JSON.stringify(seen)}, wanted ${JSON.stringify(wanted)}`);
  },
  is(claim, what = "that is not so") {
    if (!claim)
      throw new Error(what);
  },
  /** Close all pages. Throws what their consoles had to say, unless it was of a kind that `given.but` allows. */
  async end(but) {
    const said = watched.flatMap(one => one.complaints).filter(text => !but || !new RegExp(but).test(text));
    for (const context of [...contexts, ...others])
      await context.close();
    contexts = [];
    watched = [];
    others = [];
    state.page = null;
    words.same(said, []);
  },
};
const names = Object.keys(words);
const AsyncFunction = (async () => {}).constructor;

async function answer(request) {
  const given = Object.fromEntries(new URL(request.url, "http://browser").searchParams);
  let body = "";
  for await (const part of request)
    body += part;
  return new AsyncFunction("given", "page", ...names, body)(given, state.page, ...names.map(name => words[name]));
}

const server = createServer((request, response) => answer(request).then(
  value => response.end(value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value)),
  error => {
    response.statusCode = 500;
    response.end(String(error.stack));
  }));
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"])
  process.on(signal, () => browser.close().finally(() => exit(0)));
server.listen(argv[2]);
