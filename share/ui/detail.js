// One port: its claims, its sockets, why it can be claimed or not, its history, and what its owner can do.
import { $, count, el, foreign, shown, span, stamp, textOf, tile, when } from "./text.js";
import { get, send } from "./session.js";
import { changed, claimsAt, host, isOwn, isStrange, model, now, title, userName, userOf, view } from "./model.js";
import { describe, S, states } from "./cells.js";

const UNDO_MS = 1000;
const HISTORY = 30; // events that are shown at first
const RELATIONS = { holder: "of this process", descendant: "of a process above this one", project: "of this project",
  "same-user": "of another process of the user", foreign: "of another user", unclaimed: "none" };

let report = null; // of the daemon, about the port
let asked = ""; // what was known of the port when the daemon was asked about it
let isWhole = false; // all of the history is shown
let timer = 0;
let before = "";

/** The cursor is on another port: show what is known, and ask the daemon. */
export function move() {
  report = null;
  asked = "";
  isWhole = false;
  update();
}

/** Ask the daemon about the port. */
async function ask() {
  const { cursor } = view;
  const { proto } = model;
  const answer = await get(`/v1/ports/${proto}/${cursor}`).catch(() => null); // the page shows the connection's state
  if (cursor !== view.cursor || proto !== model.proto)
    return;
  report = answer;
  if (!answer)
    asked = ""; // again with the next update
  else
    update();
}

/** Ask again when the port's claims, sockets or state are others than those of the last report. */
function refresh() {
  const port = view.cursor;
  const known = JSON.stringify([states[port], claimsAt(port).map(claim => [claim.id, claim.changed_ms]),
    (host().sockets.get(port) ?? []).map(socket => [socket.pid, socket.address, socket.state])]);
  if (view.moment || known === asked)
    return;
  asked = known;
  clearTimeout(timer);
  timer = setTimeout(ask, 150);
}

/** A row of facts for each pair with a value. */
const facts = pairs => el("dl", null, ...pairs.filter(([, value]) => value).flatMap(([name, ...values]) =>
  [el("dt", null, name), el("dd", null, ...values)]));
const text = (object, member) => textOf(object, member) && foreign(textOf(object, member));
const pid = n => n ? ` (pid ${n})` : "";

export function update() {
  const port = view.cursor;
  refresh();
  const made = el("div", null,
    el("h2", null, `Port ${port} `, el("small", null, model.proto.toUpperCase())),
    el("p", null, tile(states[port]), describe(port)),
    view.moment && el("p", { class: "note" }, `At ${stamp(view.moment)}, as the log has it.`),
    ...claimsAt(port).map(claimOf), ...(view.moment ? [] : [...sockets(port), ...rules(port), reasons()]), history(port));
  if (made.innerHTML === before)
    return; // also what the user has selected stays
  before = made.innerHTML;
  const held = $("detail").contains(document.activeElement) && document.activeElement.dataset.act;
  $("detail").replaceChildren(made);
  if (held)
    $("detail").querySelector(`[data-act="${held}"]`)?.focus();
}

// ---- claims ----

function claimOf(claim) {
  const isMine = isOwn(claim);
  return el("section", { class: isMine && "own" },
    el("h3", null, el("bdi", null, title(claim)), " ", isMine && el("span", { class: "chip" }, "yours")),
    facts([
      ["user", foreign(userOf(claim))],
      ["project", text(claim, "project")],
      ["holder", ...holder(claim)],
      ["kind", `${claim.kind}${claim.kept ? ", kept" : ""}${claim.exclusive === false ? ", not exclusive" : ""}`],
      ["since", Number.isFinite(claim.created_ms) ? when(claim.created_ms, now()) : "before the log begins"],
      ["pool", text(claim, "pool")],
      ["number", claim.as && claim.as !== claim.port && `${claim.as} inside of its run, ${claim.port} outside`],
      ["addresses", claim.bindings.length > 0 && foreign(claim.bindings.map(one => `${one.proto} ${one.address}`).join(", "))],
      ["hold level", text(claim, "hold"), claim.hold_note && foreign(` (${claim.hold_note})`)],
      ["variables", text(claim, "env")],
      ["kept for", text(claim, "keeper")],
      ["host", text(claim, "node")],
      ["note", claim.orphan && "the holder is dead, its socket is open"],
    ]),
    isMine && !view.moment && actions(claim));
}

function holder({ holder: one, ...claim }) {
  if (one?.kind === "process")
    return [text(claim, "command") || "process", pid(one.pid)];
  if (one?.kind === "lease") {
    const left = one.until_boot_ms - model.boot - now();
    return [`lease of ${span(one.ttl_ms)}, ${left > 0 ? `${span(left)} left` : "ended"}`];
  }
  return [claim.kept && "none: kept until released"];
}

function actions(claim) {
  const act = (name, does, place = name) => el("button", { "data-act": `${place}${claim.id}`, onclick: does }, name);
  return el("div", { class: "actions" },
    claim.protos.includes("tcp") && el("a", { href: `http://localhost:${claim.port}`, target: "_blank", rel: "noopener noreferrer",
      "data-act": `open${claim.id}`, title: `http://localhost:${claim.port}` }, "Open"),
    act("Copy", () => copy(claim.port)),
    claim.holder?.kind === "lease" && act("Renew", () => renew(claim)),
    view.leaving.has(claim.id) ? act("Undo", undo, "Release") : act("Release", () => release(claim)));
}

async function copy(port) {
  await navigator.clipboard.writeText(port).then(() => view.say(`Copied ${port}.`),
    () => view.say("The browser does not let this page copy."));
}

/** The claim, among the user's own, in the query of a request. */
const which = claim => claim.name ? `name=${encodeURIComponent(claim.name)}` : `port=${claim.port}&proto=${claim.protos[0]}`;

async function renew(claim) {
  const { ttl_ms } = claim.holder;
  await send("POST", `/v1/claims/-/renew?${which(claim)}`, { ttl: `${ttl_ms}ms` }).then(
    () => view.say(`Renewed ${title(claim)} for ${span(ttl_ms)}.`), error => view.say(error.message));
}

let leaving = null; // { claim, timer }

function tellLeaving() {
  update();
  changed("claims");
}

/** End a claim, unless `undo` is called within a second. */
function release(claim) {
  if (leaving)
    void end();
  view.leaving.add(claim.id);
  leaving = { claim, timer: setTimeout(end, UNDO_MS) };
  view.say(`Releasing ${title(claim)} (${claim.port}) …`, undo);
  tellLeaving();
}

async function end() {
  const { claim } = leaving;
  clearTimeout(leaving.timer);
  leaving = null;
  try {
    const isThere = model.claims.byId.has(claim.id); // its name may be another claim's now
    const { released } = isThere ? await send("DELETE", `/v1/claims/-?${which(claim)}`) : { released: 0 };
    view.say(released > 0 ? `Released ${title(claim)}.` : `${title(claim)} had ended already.`);
  } catch (error) {
    view.leaving.delete(claim.id);
    view.say(error.message);
  }
  tellLeaving();
}

// A page that is closed or loaded again within the second can undo nothing any more.
addEventListener("pagehide", () => leaving && void end());

export function undo() {
  if (!leaving)
    return;
  clearTimeout(leaving.timer);
  view.leaving.delete(leaving.claim.id);
  view.say(`${title(leaving.claim)} stays yours.`);
  leaving = null;
  tellLeaving();
}

// ---- what is really there ----

function sockets(port) {
  const seen = host().sockets.get(port) ?? [];
  const all = Map.groupBy(report?.sockets.filter(socket => socket.proto === model.proto) ?? seen, socket => socket.pid);
  return [...all.values()].map(([socket, ...more]) => {
    const other = seen.find(one => one.pid === socket.pid) ?? seen[0] ?? {};
    return el("section", { class: states[port] === S.squatter && isStrange(other) && "strange" },
      el("h3", null, "Socket ", el("span", { class: "chip" }, other.state ?? (socket.serves ? "listening" : "bound"))),
      facts([
        ["process", text(socket, "command") || "unknown", pid(socket.pid)],
        ["user", foreign(userName(socket.uid))],
        ["unit", text(socket, "unit") || text(other, "container")],
        ["since", other.since_ms && when(other.since_ms, now())],
        ["address", foreign([socket, ...more].map(one => one.address).join(", "))],
        ["command", text(socket, "arguments")],
        ["directory", text(socket, "directory")],
        ["claim", RELATIONS[other.relation]],
      ]));
  });
}

const rules = at => host().nat.filter(({ port, last = port }) => port <= at && at <= last).map(({ address, rule }) =>
  el("section", null, el("h3", null, "NAT rule"), el("p", null, foreign(`${address}: ${rule}`))));

function reasons() {
  const all = report?.reasons.filter(reason => reason.kind !== "claimed") ?? [];
  return report && (all.length > 0 || claimsAt(view.cursor).length === 0) && el("section", null, el("h3", null, report.verdict.replace(/^./, c => c.toUpperCase())),
    el("ul", null, ...all.map(({ text: why, advice }) => el("li", null, foreign(why),
      !/^nothing/.test(advice) && el("small", null, foreign(` → ${advice}`))))));
}

// ---- history ----

function history(port) {
  const events = model.log.filter(event => event.port === port && event.protos.includes(model.proto) &&
    !(view.moment && event.time_ms > view.moment)).reverse();
  const more = isWhole ? 0 : Math.max(0, events.length - HISTORY);
  const rows = events.slice(0, events.length - more).map(event => el("li", null,
    el("time", { datetime: event.time }, stamp(event.time_ms)), " ", el("b", null, event.what), " ",
    foreign(event.name ?? ""), el("small", null, ` by ${shown(userName(event.actor_uid))}${event.actor_pid ? `, pid ${event.actor_pid}` : ""}`)));
  const all = () => {
    isWhole = true;
    update();
  };
  return el("section", null, el("h3", null, "History"), el("ol", null, ...rows),
    more > 0 && el("button", { "data-act": "history", onclick: all }, count(more, "older event")),
    el("p", { class: "note" }, !model.isLogWhole ? "The older part of the log is being read." :
      model.log.length > 0 ? `The log goes back to ${stamp(model.log[0].time_ms)}.` : "The log is empty."));
}
