// What the daemon knows, kept up to date: claims by the stream of events, sockets and pools by asking again.
import { ranges, shown, textOf } from "./text.js";
import { follow, get, me, prove } from "./session.js";

const PAGE = 1000; // claims and events in one answer
const LOG_MAX = 200000; // events kept here; the daemon keeps 100,000
const POOLS_MAX = 32;
const BEGINS = ["claimed", "repaired"];
const ENDS = ["released", "reaped", "leaked"];
const NONE = [];
const pause = ms => new Promise(done => setTimeout(done, ms));

/** Claims by id and by port. */
export class Claims {
  byId = new Map();
  ports = { tcp: [], udp: [], sctp: [] };

  at = (proto, port) => this.ports[proto][port] ?? NONE;

  put(claim) {
    this.drop(claim.id);
    claim.protos ??= [...new Set(claim.bindings.map(binding => binding.proto))];
    this.byId.set(claim.id, claim);
    for (const proto of claim.protos)
      (this.ports[proto][claim.port] ??= []).push(claim);
  }

  drop(id) {
    const claim = this.byId.get(id);
    this.byId.delete(id);
    for (const proto of claim?.protos ?? NONE)
      this.ports[proto][claim.port] = this.at(proto, claim.port).filter(other => other !== claim);
    return claim;
  }
}

/** What is on the ports of a protocol, as of `time_ms`: sockets and others by port. */
const hostOf = (answer = { time_ms: 0, sees: {}, sockets: NONE, nat: NONE, cooling: NONE }) => {
  const host = { ...answer, ephemeral: ranges(answer.ephemeral), reserved: ranges(answer.reserved) };
  for (const key of ["sockets", "cooling"])
    host[key] = Map.groupBy(answer[key], item => item.port);
  return host;
};

export const model = {
  state: "connecting", // live, reconnecting, ended
  isLoading: true,
  claims: new Claims(),
  proto: "tcp", // that is shown
  host: { tcp: hostOf(), udp: hostOf() },
  trouble: "", // why the sockets are not known
  pools: [],
  log: [], // events, ascending
  isLogWhole: false, // it begins where the daemon's log does
  ahead: 0, // of the daemon's clock, in ms
  boot: 0, // the daemon's boot clock minus its wall clock
  onchange(_what) {}, // once per frame: a set of claims, host, pools, log, state
  onclaim(_now, _before) {}, // each claim that came, changed (both) or went (`now` is null)
};

/** What the page shows of it. */
export const view = {
  moment: null, // a time of the past; null: now
  claims: model.claims, // of that time
  cursor: 20000, // a port
  leaving: new Set(), // ids of claims that the user has released
  onmove() {}, // of the cursor
  onchoose(_port, _claim) {},
  say(_text, _undo) {},
};

export const claimsAt = port => view.claims.at(model.proto, port);
export const host = () => model.host[model.proto];

const users = new Map(); // names by uid
let changes = null;
let wanted = new Set(); // ids of claims to ask for
let queue = Promise.resolve();
let lives = null;

export const now = () => Date.now() + model.ahead;
export const isOwn = claim => claim.principal === me.principal;
export const title = claim => claim?.name ? shown(claim.name) : claim ? "without a name" : "";
export const userName = uid => users.get(uid) ?? `uid ${uid}`;
export const userOf = claim =>
  claim.principal.replace(/^uid:(\d+)$/, (_, uid) => userName(Number(uid)));

/** No claim covers the socket, or another user than the claim's has it. */
export const isStrange = ({ relation }) => relation === "unclaimed" || relation === "foreign";

export function changed(what) {
  if (!changes) {
    changes = new Set();
    requestAnimationFrame(() => {
      const all = changes;
      changes = null;
      model.onchange(all);
    });
  }
  changes.add(what);
}

function become(state) {
  if (model.state !== "ended" && model.state !== state) {
    model.state = state;
    changed("state");
  }
}

/** Large answers one after the other: the daemon makes only four at once for one user. */
function ask(path, signal) {
  const answer = queue.then(() => get(path, signal));
  queue = answer.catch(() => {});
  return answer;
}

// ---- connection ----

const seqOf = () => model.log.at(-1)?.seq ?? 0;

/** Follow the daemon until the session ends. */
export async function run() {
  me.onend = () => become("ended");
  users.set(Number(me.principal.split(/[:@]/)[1]), me.user ?? me.principal);
  for (let wait = 250; model.state !== "ended"; wait = Math.min(5000, wait * 2)) {
    const stop = new AbortController();
    try {
      await prove();
      await connect(stop.signal);
      become("live");
      watch(stop.signal).catch(() => {}); // the stream ends, too, when the daemon does
      readLog(stop.signal).catch(() => {}); // goes on with the next connection
      await follow(seqOf(), take);
      wait = 50;
    } catch (error) {
      model.trouble = error.message;
      become("reconnecting");
      changed("host");
    }
    stop.abort();
    await pause(wait);
  }
}

/** Read everything, unless the daemon's log still has all that was missed. */
async function connect(signal) {
  if (!model.isLoading) {
    const { seq, oldest } = await ask("/v1/events?newest=true&limit=1", signal);
    if (seq >= seqOf() && oldest <= seqOf() + 1)
      return;
  }
  const { events, oldest } = await ask(`/v1/events?newest=true&limit=${PAGE}`, signal);
  model.log = events;
  model.isLogWhole = events.length === 0 || events[0].seq <= oldest;
  lives = null;
  await Promise.all([readPools(signal), readHost(signal), readClaims(signal)]);
  model.isLoading = false;
  changed("log");
  changed("claims");
}

async function readClaims(signal) {
  const gone = new Set(model.claims.byId.keys());
  for (let after = 0; after !== null;) {
    const { claims, next } = await ask(`/v1/claims?limit=${PAGE}&after=${after}`, signal);
    for (const claim of claims) {
      put(claim);
      gone.delete(claim.id);
    }
    after = next;
  }
  gone.forEach(drop);
}

function put(claim) {
  const before = model.claims.byId.get(claim.id);
  if (before && before.changed_ms === claim.changed_ms && before.generation === claim.generation)
    return;
  model.claims.put(claim);
  model.onclaim(claim, before);
  changed("claims");
}

function drop(id) {
  const before = model.claims.drop(id);
  if (before)
    model.onclaim(null, before);
  changed("claims");
}

// ---- events ----

function take(events) {
  for (const event of events.filter(one => one.seq > seqOf())) {
    model.log.push(event);
    if (event.what === "pool")
      readPools().catch(() => {});
    else if (ENDS.includes(event.what))
      drop(event.claim);
    else if (event.claim > 0)
      hear(event);
  }
  if (model.log.length > LOG_MAX && model.isLogWhole)
    model.log.splice(0, LOG_MAX / 4);
  lives = null;
  changed("log");
}

/** A claim is new or changed: show at once what the event says, and ask for the rest. */
function hear(event) {
  if (BEGINS.includes(event.what) && !model.claims.byId.has(event.claim) && event.port > 0)
    put({ ...event, id: event.claim, uid: event.actor_uid, created_ms: event.time_ms, isEvent: true, bindings: NONE });
  if (wanted.size === 0)
    setTimeout(readWanted, 100);
  wanted.add(event.claim);
}

async function readWanted() {
  const ids = [...wanted].sort((a, b) => a - b);
  wanted = new Set();
  try {
    while (ids.length > 0) {
      const near = ids.filter(id => id < ids[0] + 2 * PAGE).length;
      const page = await ask(`/v1/claims?after=${ids[0] - 1}&limit=${Math.min(near, PAGE)}`);
      page.claims.filter(claim => model.claims.byId.has(claim.id)).forEach(put);
      const end = page.claims.at(-1)?.id ?? Infinity;
      while (ids[0] <= end)
        ids.shift();
    }
  } catch {
    if (wanted.size === 0)
      setTimeout(readWanted, 2000);
    ids.forEach(id => wanted.add(id));
  }
}

/** Read the log before what is known, from its beginning, with pauses. */
async function readLog(signal) {
  const until = model.log[0]?.seq;
  const older = [];
  let since = 0;
  while (!model.isLogWhole) {
    const { events } = await ask(`/v1/events?since=${since}&limit=${PAGE}`, signal);
    older.push(...events.filter(event => event.seq < until));
    since = events.at(-1).seq;
    if (since >= until) {
      model.log = older.concat(model.log);
      model.isLogWhole = true;
      lives = null;
    }
    changed("log");
    await pause(30);
  }
}

// ---- sockets and pools ----

async function readPools(signal) {
  const { pools } = await ask("/v1/pools", signal);
  for (const pool of pools.slice(0, POOLS_MAX)) {
    pool.list = ranges(pool.ranges);
    pool.usage = await ask(`/v1/pools/${encodeURIComponent(pool.name)}/usage`, signal);
  }
  model.pools = pools.slice(0, POOLS_MAX);
  changed("pools");
}

async function readHost(signal) {
  try {
    const answer = await ask(`/v1/map?proto=${model.proto}`, signal);
    model.ahead = answer.time_ms - Date.now();
    model.boot = answer.boot_ms - answer.time_ms;
    answer.sockets.filter(socket => socket.user).forEach(socket => users.set(socket.uid, socket.user));
    model.host[answer.proto] = hostOf(answer);
    model.trouble = "";
  } catch (error) {
    if (!(error.status > 401))
      throw error;
    model.trouble = error.message; // the rest of the page does without
  }
  changed("host");
}

/** Show the other protocol. */
export function choose(proto) {
  model.proto = proto;
  changed("claims");
  readHost().catch(() => {});
}

/** Ask for sockets and pools again and again, for at most a tenth of the time. */
async function watch(signal) {
  for (let turn = 1, took = 0; ; turn++) {
    do
      await pause(Math.max(2000, 10 * took));
    while (document.hidden);
    const began = performance.now();
    await readHost(signal);
    took = performance.now() - began;
    if (turn % 3 === 0)
      await readPools(signal);
  }
}

// ---- the past ----

/** The claims of the log, with the end (`to`) of each; one that was transferred is several. */
export function allLives() {
  if (lives)
    return lives;
  const open = new Map();
  lives = [];
  const begin = (of, created_ms) => {
    const { port, protos, kind, principal, name } = of;
    const life = { id: of.claim ?? of.id, port, protos, kind, principal, name, created_ms, to: Infinity, bindings: NONE };
    open.set(life.id, life);
    lives.push(life);
    return life;
  };
  for (const event of model.log.filter(one => one.claim > 0 && one.port > 0)) {
    const life = open.get(event.claim) ?? begin(event, BEGINS.includes(event.what) ? event.time_ms : -Infinity);
    const isEnd = ENDS.includes(event.what);
    if (isEnd || life.principal !== event.principal) {
      life.to = event.time_ms;
      open.delete(event.claim);
      if (!isEnd)
        begin(event, event.time_ms);
    }
  }
  for (const claim of model.claims.byId.values()) {
    const life = open.get(claim.id) ?? begin(claim, claim.created_ms);
    if (life.created_ms === -Infinity)
      life.created_ms = claim.created_ms;
  }
  return lives;
}

/** The claims at that time, as far as the log says. */
export function past(time) {
  const claims = new Claims();
  for (const life of allLives())
    if (life.created_ms <= time && time < life.to)
      claims.put(life);
  return claims;
}

// ---- search ----

/** Claims and sockets whose port, name, user or process has every word of the query. */
export function search(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const wantedPort = /^\d{1,5}$/.test(words.join()) ? Number(words[0]) : 0;
  const found = new Map();
  const look = (item, ...texts) => {
    item.sought ??= texts.join(" ").toLowerCase();
    return words.every(word => item.sought.includes(word));
  };
  for (const claim of view.claims.byId.values())
    if (look(claim, claim.port, claim.name, textOf(claim, "command"), userOf(claim), claim.holder?.pid))
      found.set(claim.id, { port: claim.port, claim });
  for (const [port, sockets] of view.moment ? NONE : host().sockets) {
    const socket = sockets.find(one => look(one, port, textOf(one, "command"), one.user, textOf(one, "unit"),
      one.container, one.pid));
    const [claim] = claimsAt(port);
    if (socket && !found.has(claim?.id))
      found.set(claim?.id ?? -port, { port, socket, claim });
  }
  const rows = [...found.values()];
  if (wantedPort > 0 && wantedPort < 65536 && !rows.some(row => row.port === wantedPort))
    rows.push({ port: wantedPort });
  return rows.sort((a, b) => (b.port === wantedPort) - (a.port === wantedPort) || a.port - b.port);
}
