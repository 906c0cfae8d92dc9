// The dashboard: connects the model, the map, the list, the details, the time and the plots.
import { $, clock, count, el, foreign, put, span, stamp } from "./text.js";
import { me, open } from "./session.js";
import { choose as chooseProto, isOwn, model, past, run, search, view } from "./model.js";
import { recolor } from "./cells.js";
import * as map from "./map.js";
import * as list from "./list.js";
import * as detail from "./detail.js";
import * as plots from "./plots.js";

const WORDS = { connecting: "connecting …", live: "live", reconnecting: "reconnecting …", ended: "session ended", past: "the past" };
const THEMES = ["auto", "light", "dark"];
let found = null; // by the search

// ---- messages ----

let sayTimer = 0;
/** Show a message for some seconds, also to screen readers. */
view.say = (text, undo) => {
  put("said-text", text);
  put("live", text);
  $("said").hidden = false;
  $("undo").hidden = !undo;
  $("undo").onclick = undo ?? null;
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => $("said").hidden = true, 5000);
};

function tellState() {
  const state = view.moment && model.state === "live" ? "past" : model.state;
  $("state").className = state;
  put("state", WORDS[state]);
  if (state === "ended")
    tellEnd("The session has ended");
}

function tellEnd(why, how) {
  put("ended-title", why);
  if (how)
    put("ended-text", how);
  $("ended").hidden = false;
  document.body.classList.add("over");
  document.querySelector("main").inert = true;
}

// ---- light and dark ----

function theme(chosen) {
  document.documentElement.dataset.theme = chosen;
  $("theme").title = $("theme").ariaLabel = `Theme: ${chosen}`;
  recolor();
  map.repaint();
}
$("theme").onclick = () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  theme(next);
};
matchMedia("(prefers-color-scheme: dark)").onchange = () => theme(document.documentElement.dataset.theme);
theme(localStorage.getItem("theme") ?? "auto");

// ---- the model changes ----

let isStarted = false;
let isLogNew = false;
let busyUntil = 0;
let late = 0;

model.onchange = changes => {
  if (changes.has("state"))
    tellState();
  isLogNew ||= changes.has("log");
  if (changes.has("pools"))
    tellPools();
  if (!isStarted && !model.isLoading)
    begin();
  if (!view.moment && !late)
    late = setTimeout(updateParts, Math.max(0, busyUntil - performance.now()));
};

/** Update one part in each frame, and not again at once if that takes long. */
async function updateParts() {
  const began = performance.now();
  late = 0;
  for (const part of [map, list, detail]) {
    part.update();
    await new Promise(requestAnimationFrame);
  }
  busyUntil = performance.now() + 5 * (performance.now() - began);
}

/** The first port to look at: of an own claim, else of any, else of a pool. */
function begin() {
  isStarted = true;
  const here = [...model.claims.byId.values()].filter(claim => claim.protos.includes(model.proto)).sort((a, b) => a.port - b.port);
  map.update();
  map.move((here.find(isOwn) ?? here[0])?.port ?? model.pools[0]?.list[0][0] ?? 20000);
  plots.update();
}

function tellPools() {
  $("jumps").replaceChildren(...model.pools.slice(0, 4).map(pool => el("button", { title: pool.ranges,
    onclick: () => map.zoomTo(pool.list[0][0], pool.list.at(-1)[1]) }, "Pool ", foreign(pool.name))));
}

setInterval(() => {
  if (document.hidden || model.state === "ended" || !isStarted)
    return;
  tellMoment();
  detail.update();
  if (isLogNew || Number($("plot-time").value) > 0)
    plots.update();
  isLogNew = false;
}, 1000);

// ---- choosing ----

function setProto(proto) {
  document.querySelector(`[value=${proto}]`).checked = true;
  chooseProto(proto);
  map.update();
  detail.move();
}
document.querySelectorAll("[name=proto]").forEach(radio => radio.onchange = () => setProto(radio.value));

function choose(port, claim) {
  if (claim && !claim.protos.includes(model.proto) && claim.protos[0] in model.host)
    setProto(claim.protos[0]);
  map.move(port);
  if ($("tabs").offsetParent !== null)
    turn("port");
}
view.onchoose = choose;
view.onmove = () => {
  detail.move();
  list.draw();
};

/** On a narrow screen one part is shown. */
function turn(name) {
  document.querySelector("main").className = name;
  for (const tab of $("tabs").children)
    tab.setAttribute("aria-pressed", tab.dataset.view === name);
  plots.update();
}
for (const tab of $("tabs").children)
  tab.onclick = () => turn(tab.dataset.view);

let typing = 0;
function find() {
  const text = $("query").value.trim();
  clearTimeout(typing);
  found = text ? search(text) : null;
  list.find(found);
  map.highlight(found?.map(item => item.port) ?? null);
  if (found)
    put("live", count(found.length, "result"));
}
$("query").oninput = () => {
  clearTimeout(typing);
  typing = setTimeout(find, 120);
};
$("search").onsubmit = event => {
  event.preventDefault();
  find();
  if (found?.length > 0) {
    choose(found[0].port, found[0].claim);
    $("list").focus();
  }
};
$("query").onkeydown = event => {
  if (event.key !== "Escape")
    return;
  $("query").value = "";
  find();
  $("map").focus();
};

$("help").onclick = () => $("keys").showModal();
document.addEventListener("keydown", event => {
  const isTyping = event.target.matches("[type=search], select");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    $("query").focus();
  } else if (event.key === "z" && event.ctrlKey && !isTyping)
    detail.undo();
});

// ---- time ----

let moving = 0;
/** Show that time (null: now): the map in the next frame, the list when the slider rests. */
function setMoment(time) {
  view.moment = time;
  cancelAnimationFrame(moving);
  moving = requestAnimationFrame(() => {
    view.claims = time ? past(time) : model.claims;
    map.update();
    detail.update();
    tellState();
    tellMoment();
    clearTimeout(resting);
    resting = setTimeout(showList, 100);
  });
}

let resting = 0;
function showList() {
  list.show();
  if (found)
    find();
}

function tellMoment() {
  const [from, to] = plots.period();
  const slider = $("moment");
  const first = model.log[0]?.time_ms;
  const text = view.moment ? `${stamp(view.moment)}, ${count(view.claims.byId.size, "claim")}` : "now";
  if (document.activeElement !== slider || !view.moment)
    slider.value = view.moment ? slider.max * (view.moment - from) / (to - from) : slider.max;
  slider.setAttribute("aria-valuetext", text);
  put("moment-text", text);
  $("now").disabled = !view.moment;
  put("moment-note", !first ? "The log has no events yet." :
    `The log goes back to ${stamp(first)} (${span(to - first)}, ${count(model.log.length, "event")})` +
    `${model.isLogWhole ? "" : "; the older part is being read"}.` + (from > first ? ` The slider begins at ${clock(from)}.` : ""));
}

/** To the event before (-1) or after (1) the moment. */
function step(direction) {
  const times = model.log.map(event => event.time_ms);
  const at = view.moment ?? Infinity;
  const next = direction < 0 ? times.findLast(time => time < at) : times.find(time => time > at);
  setMoment(next ?? (direction < 0 ? view.moment : null));
}

$("moment").oninput = ({ target }) => {
  const [from, to] = plots.period();
  setMoment(target.value === target.max ? null : from + (to - from) * target.value / target.max);
};
$("now").onclick = () => setMoment(null);
$("earlier").onclick = () => step(-1);
$("later").onclick = () => step(1);

// ---- begin ----

addEventListener("hashchange", () => location.reload()); // the address of another `dibs ui`
try {
  if (await open()) {
    document.title = `dibs ${me.host}`;
    $("where").append(foreign(me.host), " · ", foreign(me.user ?? me.principal), me.kind === "daemon" ? "" : " · without a daemon");
    tellState();
    void run();
  } else
    tellEnd("There is no session here");
} catch (error) {
  tellEnd("The session cannot begin", error.message);
}
