// The ports of one protocol as cells on a canvas, from all of them to one.
import { $, clock, count, el, foreign, number, put, shown, tile } from "./text.js";
import { claimsAt, host, model, title, view } from "./model.js";
import { classify, colors, counts, describe, drawTile, makeLegend, nameOf, pixelsOf, PORTS, S, states, STATES } from "./cells.js";

const COLUMNS = [500, 400, 320, 250, 200, 160, 125, 100, 80, 64, 50, 40, 32, 25, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1];
const ALL = -1; // the level that shows all ports at once
const PLAIN_BELOW = 6; // device pixels: smaller cells have no pattern
const EDGE = 14; // CSS pixels on the right, where the pools are
const DIM = .18;
const WORDS_MAX = 300; // rows of the map in words

const canvas = $("map");
const frame = $("map-frame");
const context = canvas.getContext("2d", { alpha: false });
const bitmap = el("canvas");
const chosen = new Set(); // states of the legend; none: all
let matches = null; // ports that a search found; null: all
let level = ALL; // index of COLUMNS
let top = 0; // first line that is shown, in device pixels
let hover = 0;
let isStale = true; // the bitmap
let isAsked = false; // the next frame draws
let isHidden = true;
let ratio = 1;
let gutter = 0;
let patterns = new Map();

// ---- geometry, in device pixels ----

const inner = () => canvas.width - gutter - EDGE * ratio;

function columns() {
  if (level !== ALL)
    return COLUMNS[level];
  const wanted = Math.sqrt(PORTS * Math.max(1, inner()) / canvas.height);
  return COLUMNS.findLast(n => n >= wanted) ?? COLUMNS[0];
}

/** Width and height of a cell. */
function cell() {
  const n = columns();
  const width = inner() / n;
  if (level === ALL)
    return [width, canvas.height / Math.ceil(PORTS / n)];
  if (width < PLAIN_BELOW)
    return [width, width];
  return [Math.floor(width), n === 1 ? canvas.height : Math.floor(Math.min(width, canvas.height / 2))];
}

const rowOf = port => Math.floor(port / columns());
const clamp = (x, least, most) => Math.max(least, Math.min(x, most));

function settle() {
  const height = Math.ceil(PORTS / columns()) * cell()[1];
  top = level === ALL ? 0 : clamp(top, 0, Math.max(0, height - canvas.height));
  draw();
}

function portAt(event) {
  const box = canvas.getBoundingClientRect();
  const [width, height] = cell();
  const column = Math.floor(((event.clientX - box.left) * ratio - gutter) / width);
  const port = Math.floor(((event.clientY - box.top) * ratio + top) / height) * columns() + column;
  return column >= 0 && column < columns() && port < PORTS ? port : 0;
}

// ---- zoom and cursor ----

function setLevel(wanted) {
  level = wanted;
  isStale = true;
  const rows = Math.ceil(canvas.height / cell()[1]);
  put("zoom-text", level === ALL ? "all ports" : count(Math.min(PORTS - 1, rows * columns()), "port"));
}

/** Zoom in (1) or out (-1); the port stays where it is on the screen. */
function zoom(direction, port = view.cursor, y = null) {
  const before = cell()[1];
  const at = clamp(y ?? (rowOf(port) + .5) * before - top, 0, canvas.height);
  const next = Math.min(COLUMNS.length - 1, COLUMNS.indexOf(columns()) + direction);
  setLevel(next < 0 || PORTS / COLUMNS[next] * inner() / COLUMNS[next] <= canvas.height ? ALL : next);
  top = (rowOf(port) + .5) * cell()[1] - at;
  settle();
}

function zoomAll() {
  setLevel(ALL);
  settle();
}

/** Show these ports as large as possible. */
export function zoomTo(first, last) {
  setLevel(Math.max(0, COLUMNS.findLastIndex(n => (last - first) / n * inner() / n <= canvas.height - inner() / n * 2)));
  top = rowOf(first) * cell()[1];
  settle();
}

function scroll(pixels) {
  top += pixels;
  settle();
}

/** Put the cursor on a port and bring it in sight. */
export function move(port) {
  view.cursor = clamp(port, 1, PORTS - 1);
  const height = cell()[1];
  const y = rowOf(view.cursor) * height;
  if (y < top || y + height > top + canvas.height)
    top = y + height / 2 - canvas.height / 2;
  tellCursor();
  settle();
  view.onmove();
}

/** To the next port (step 1), or the one before (-1), that is claimed or in use. */
function moveOn(step) {
  let port = view.cursor + step;
  while (port in states && (states[port] < S.nat || isDimmed(port)))
    port += step;
  if (port in states)
    move(port);
}

// ---- drawing ----

const isDimmed = port => (matches && !matches.has(port)) || (chosen.size > 0 && !chosen.has(states[port]));

function draw() {
  if (isAsked || isHidden)
    return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    paint();
  });
}

function redraw() {
  isStale = true;
  draw();
}

/** Colours have changed. */
export function repaint() {
  patterns = new Map();
  redraw();
}

function paint() {
  const [width, height] = cell();
  const c = context;
  c.fillStyle = colors.paper;
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.save();
  c.translate(gutter, -Math.round(top));
  if (width < PLAIN_BELOW)
    paintPixels(width, height);
  else
    paintCells(width, height);
  ring(view.cursor, width, height, colors.ink);
  if (hover > 0)
    ring(hover, width, height, colors.accent);
  paintNumbers(height);
  paintPools(height);
  c.restore();
}

/** One pixel for each port, enlarged; the few that are in use a little more. */
function paintPixels(width, height) {
  const n = columns();
  const rows = Math.ceil(PORTS / n);
  if (isStale) {
    isStale = false;
    bitmap.width = n;
    bitmap.height = rows;
    const c = bitmap.getContext("2d");
    const image = c.createImageData(n, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const plain = pixelsOf(1);
    const dim = pixelsOf(DIM);
    for (let port = 1; port < PORTS; port++)
      pixels[port] = (isDimmed(port) ? dim : plain)[states[port]];
    c.putImageData(image, 0, 0);
  }
  context.imageSmoothingEnabled = false;
  context.drawImage(bitmap, 0, 0, n * width, rows * height);
  const some = 4 * ratio;
  if (width >= some || counts.slice(S["dynamic-idle"]).reduce((sum, x) => sum + x, 0) > 2000)
    return;
  for (let port = 1; port < PORTS; port++)
    if (states[port] >= S["dynamic-idle"] && !isDimmed(port)) {
      const x = (port % n + .5) * width - some / 2;
      const y = (rowOf(port) + .5) * height - some / 2;
      context.fillStyle = colors.states[states[port]].mark;
      context.fillRect(x - ratio, y - ratio, some + 2 * ratio, some + 2 * ratio);
      context.fillStyle = colors.states[states[port]].fill;
      context.fillRect(x, y, some, some);
    }
}

/** Cells with their pattern; neighbours of one kind are filled together. */
function paintCells(width, height) {
  const c = context;
  const n = columns();
  const gap = height >= 12 ? Math.round(ratio) : 0;
  const isLarge = width > 40 * ratio;
  const end = Math.min(PORTS, (Math.floor((top + canvas.height) / height) + 1) * n);
  for (let port = Math.floor(top / height) * n; port < end;) {
    const state = states[port];
    const dim = isDimmed(port);
    const y = rowOf(port) * height;
    const x = port % n * width;
    let next = port + 1;
    while (!isLarge && next % n > 0 && next < end && states[next] === state && isDimmed(next) === dim)
      next++;
    c.globalAlpha = dim ? DIM : 1;
    if (isLarge) {
      c.fillStyle = colors.states[state].fill;
      c.fillRect(x, y, width - 2, height - 2);
      c.drawImage(made(`mark${state}`, () => drawTile(state, 12 * ratio)), x + 4 * ratio, y + 4 * ratio);
    } else {
      c.fillStyle = made(`${state}/${height}`, () =>
        c.createPattern(drawTile(state, height - gap, gap), "repeat"));
      c.fillRect(x, y, (next - port) * width, height);
    }
    if (isLarge && port > 0)
      paintText(port, x + width / 2, y + height / 2, width, height);
    port = next;
  }
  c.globalAlpha = 1;
}

function made(key, make) {
  if (patterns.size > 300)
    patterns = new Map();
  return patterns.get(key) ?? patterns.set(key, make()).get(key);
}

/** The number, and in large cells the name. */
function paintText(port, x, y, width, height) {
  const c = context;
  const size = Math.min(width / 5, height / 2, 40 * ratio);
  const [claim] = claimsAt(port);
  const socket = view.moment ? null : host().sockets.get(port)?.[0];
  const text = height < 60 * ratio ? "" : (claim ? title(claim) : shown(socket?.command ?? "")).slice(0, 60);
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.font = `600 ${size}px system-ui, sans-serif`;
  c.fillStyle = colors.states[states[port]].mark;
  c.fillText(port, x, text ? y - size * .3 : y);
  c.font = `${Math.max(11 * ratio, size * .42)}px system-ui, sans-serif`;
  c.fillText(text, x, y + size * .6, width - 10 * ratio);
}

/** The first port of a row, at some rows. */
function paintNumbers(height) {
  const c = context;
  const least = 16 * ratio / height;
  const every = [1, 2, 4, 5, 10, 20, 25, 50, 100].find(n => n >= least) ?? 200;
  c.fillStyle = colors.paper;
  c.fillRect(-gutter, top, gutter - 2, canvas.height);
  c.fillStyle = colors.soft;
  c.font = `${10.5 * ratio}px system-ui, sans-serif`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  for (let row = Math.floor(top / height / every) * every; row * height < top + canvas.height; row += every)
    if (row * columns() < PORTS)
      c.fillText(row * columns(), -6 * ratio, Math.max(row * height + Math.min(height / 2, 20 * ratio), top + 7 * ratio));
}

/** A line along the rows of each pool, thicker along its static band. */
function paintPools(height) {
  const right = inner() + EDGE * ratio - 5 * ratio;
  const bar = (first, last, width) => {
    const y = rowOf(first) * height;
    context.fillRect(right - width * ratio, y, width * ratio, Math.max(2 * ratio, (rowOf(last) + 1) * height - y));
  };
  context.fillStyle = colors.accent;
  for (const pool of model.pools) {
    let band = pool.usage.band;
    for (const [first, last] of pool.list) {
      bar(first, last, 2);
      if (band > 0)
        bar(first, Math.min(last, first + band - 1), 6);
      band -= last - first + 1;
    }
  }
}

function ring(port, width, height, color) {
  const c = context;
  const w = Math.max(width, 10 * ratio);
  const h = Math.max(height, 10 * ratio);
  for (const [line, style] of [[4, colors.paper], [2, color]]) {
    c.lineWidth = line * ratio;
    c.strokeStyle = style;
    c.strokeRect((port % columns() + .5) * width - w / 2, (rowOf(port) + .5) * height - h / 2, w, h);
  }
}

// ---- mouse, fingers and keys ----

const pointers = new Map();
let isDrag = false;
let pinch = 0;
let wheel = 0;

const distance = () => {
  const [a, b] = pointers.values();
  return b ? Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) : 0;
};

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  if (event.shiftKey)
    return scroll((event.deltaY || event.deltaX) * ratio);
  wheel += event.deltaY * (event.deltaMode === 1 ? 30 : 1);
  if (Math.abs(wheel) < 40)
    return;
  zoom(wheel < 0 ? 1 : -1, portAt(event) || view.cursor, (event.clientY - canvas.getBoundingClientRect().top) * ratio);
  wheel = 0;
}, { passive: false });

canvas.onpointerdown = event => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, event);
  isDrag = pointers.size > 1;
  pinch = distance();
};
canvas.onpointermove = event => {
  const before = pointers.get(event.pointerId);
  if (!before)
    return point(event);
  if (pointers.size > 1) {
    pointers.set(event.pointerId, event);
    const change = distance() / pinch;
    if (change > 1.25 || change < .8) {
      pinch = distance();
      zoom(change > 1 ? 1 : -1, portAt(event) || view.cursor);
    }
  } else if (isDrag || Math.abs(event.clientY - before.clientY) > 4) {
    isDrag = true;
    pointers.set(event.pointerId, event);
    scroll((before.clientY - event.clientY) * ratio);
  }
};
canvas.onpointerup = canvas.onpointercancel = event => {
  const port = portAt(event);
  pointers.delete(event.pointerId);
  if (event.type === "pointerup" && !isDrag && port > 0)
    move(port);
};
canvas.onpointerleave = () => {
  hover = 0;
  $("map-tip").hidden = true;
  draw();
};

/** Say what the port below the mouse is. */
function point(event) {
  const port = portAt(event);
  const tip = $("map-tip");
  if (port === hover)
    return;
  hover = port;
  tip.hidden = port === 0;
  if (port > 0) {
    const [claim] = claimsAt(port);
    const box = frame.getBoundingClientRect();
    tip.replaceChildren(tile(states[port]), el("b", null, port), ` ${describe(port)} `, foreign(title(claim)));
    tip.style.left = `${clamp(event.clientX - box.left + 14, 4, box.width - tip.offsetWidth - 4)}px`;
    tip.style.top = `${clamp(event.clientY - box.top + 16, 4, box.height - tip.offsetHeight - 4)}px`;
  }
  draw();
}

canvas.onkeydown = event => {
  const n = columns();
  const page = n * Math.max(1, Math.floor(canvas.height / cell()[1]) - 1);
  const keys = {
    ArrowLeft: -1, ArrowRight: 1, ArrowUp: -n, ArrowDown: n, PageUp: -page, PageDown: page, Home: -PORTS, End: PORTS,
    "+": () => zoom(1), "=": () => zoom(1), "-": () => zoom(-1), 0: zoomAll,
    n: () => moveOn(1), p: () => moveOn(-1), Enter: () => $("detail").focus(),
  };
  const act = keys[event.key];
  if (act === undefined || event.ctrlKey || event.metaKey || event.altKey)
    return;
  event.preventDefault();
  if (typeof act === "function")
    act();
  else
    move(view.cursor + act);
};

// ---- in words ----

function tellCursor() {
  canvas.setAttribute("aria-valuenow", view.cursor);
  canvas.setAttribute("aria-valuetext",
    `Port ${view.cursor}: ${describe(view.cursor)} ${title(claimsAt(view.cursor)[0])}`);
}

/** The map as a table: neighbours of one state are one row. */
function tellWords() {
  const rows = [];
  for (let port = 1, end; port < PORTS; port = end) {
    const [claim] = claimsAt(port);
    for (end = port + 1; !claim && end < PORTS && states[end] === states[port]; end++)
      if (claimsAt(end).length > 0)
        break;
    rows.push([end - 1 > port ? `${port}–${end - 1}` : port, nameOf(STATES[states[port]]), foreign(title(claim))]);
  }
  $("words-rows").replaceChildren(...rows.slice(0, WORDS_MAX).map(row =>
    el("tr", null, ...row.map(value => el("td", null, value)))));
  put("words-more", rows.length > WORDS_MAX ? `${count(rows.length - WORDS_MAX, "more row")}.` : "");
}
$("words").ontoggle = () => $("words").open && tellWords();

/** Read the model again. */
export function update() {
  const { sees, time_ms, cut } = host();
  classify();
  [...$("legend").children].forEach((item, i) => {
    item.className = counts[i] > 0 ? "" : "none";
    item.querySelector("span").textContent = nameOf(STATES[i]);
    item.querySelector("b").textContent = number(counts[i]);
  });
  put("map-note", view.moment ? "The log has the claims of the past, not its sockets." : model.trouble ||
    [time_ms > 0 && `Sockets as of ${clock(time_ms)}.`, cut && "There are more than the map has.",
      sees.processes === false && "The daemon does not see other users' processes.",
      sees.nat === false && "The daemon cannot read NAT rules."].filter(Boolean).join(" "));
  if ($("words").open)
    tellWords();
  tellCursor();
  redraw();
}

/** Dim every port but these; null: none. */
export function highlight(ports) {
  matches = ports && new Set(ports);
  redraw();
}

makeLegend(chosen, redraw);
$("zoom-in").onclick = () => zoom(1);
$("zoom-out").onclick = () => zoom(-1);
$("zoom-all").onclick = zoomAll;
new ResizeObserver(() => {
  isHidden = !frame.clientWidth; // behind another view of the narrow page
  if (isHidden)
    return;
  const row = gutter > 0 ? top / cell()[1] : 0; // stays the first one
  ratio = devicePixelRatio;
  canvas.width = Math.max(1, frame.clientWidth * ratio);
  canvas.height = Math.max(1, frame.clientHeight * ratio);
  gutter = Math.round(44 * ratio);
  isStale = true;
  top = row * cell()[1];
  settle();
}).observe(frame);
