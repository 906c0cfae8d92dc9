// What a cell of the map can be, which one each port is, and how it looks.
import { $, el, tile } from "./text.js";
import { host, isStrange, model, now, view } from "./model.js";

export const PORTS = 65536;

/** [key of the colour, in words, more words, pattern]. Where several hold, the later one is shown. */
export const STATES = [
  ["outside", "outside of the pools"],
  ["free", "free"],
  ["band", "free, static band", "", c => triangle(c, [0, .45], [0, 1], [.55, 1])],
  ["ephemeral", "ephemeral", "the kernel's for outgoing connections", c => lines(c, [0, 1, 1, 0], [0, .5, .5, 0], [.5, 1, 1, .5])],
  ["reserved", "reserved", "ip_local_reserved_ports", c => lines(c, [.5, 0, .5, 1], [0, .5, 1, .5])],
  ["cooling", "cooling", "released a moment ago, chosen last",
    c => [.25, .75].forEach(y => [.25, .75].forEach(x => c.fillRect(x - .09, y - .09, .18, .18)))],
  ["nat", "NAT rule", "published without a socket", c => triangle(c, [.25, .2], [.8, .5], [.25, .8])],
  ["used", "in use, no claim", "outside of the pools", c => c.fillRect(.2, .4, .6, .2)],
  ["dynamic-idle", "dynamic, idle", "claimed, nothing listens", c => c.strokeRect(.08, .08, .84, .84)],
  ["dynamic", "dynamic, listening"],
  ["static-idle", "static, idle", "claimed, nothing listens",
    c => [c.strokeRect(.08, .08, .84, .84), c.fillRect(.36, .36, .28, .28)]],
  ["static", "static, listening", "", c => c.fillRect(.35, .35, .3, .3)],
  ["squatter", "squatter", "in use without a claim", c => lines(c, [.22, .22, .78, .78], [.22, .78, .78, .22])],
].map(([key, text, more, mark]) => ({ key, text, more, mark }));
export const S = Object.fromEntries(STATES.map((state, i) => [state.key, i]));

/** Of each port of the shown protocol: its state, and whether it is in a static band. */
export const states = new Uint8Array(PORTS);
export const bands = new Uint8Array(PORTS);
export let counts = [];

/** Find the states. Of the past the log knows the claims only. */
export function classify() {
  const { sockets, cooling, nat, ...areas } = host();
  const isPast = view.moment;
  states.fill(S.outside);
  bands.fill(0);
  for (const pool of model.pools) {
    let band = pool.usage.band;
    for (const [first, last] of pool.list) {
      const end = Math.min(last + 1, first + band);
      states.fill(S.free, first, last + 1).fill(S.band, first, end);
      bands.fill(1, first, end);
      band -= end - first;
    }
  }
  const squatters = isPast ? [] : [...sockets].filter(([port, list]) => states[port] !== S.outside &&
    list.some(socket => socket.state === "listening" && isStrange(socket)));
  for (const key of ["ephemeral", "reserved"])
    areas[key].forEach(([first, last]) => states.fill(S[key], first, last + 1));
  if (!isPast) {
    for (const [port, [one]] of cooling)
      if (one.until_boot_ms > now() + model.boot)
        states[port] = S.cooling;
    for (const { port, last = port } of nat)
      states.fill(S.nat, port, last + 1);
    for (const port of sockets.keys())
      states[port] = S.used;
  }
  view.claims.ports[model.proto].forEach((list, port) => list.forEach(claim => {
    const isBusy = isPast || sockets.has(port);
    states[port] = Math.max(states[port], S[isBusy ? claim.kind : `${claim.kind}-idle`]);
  }));
  for (const [port] of squatters)
    states[port] = S.squatter;
  counts = new Array(STATES.length).fill(0);
  for (let port = 1; port < PORTS; port++)
    counts[states[port]]++;
}

/** The name of a state; of the past no sockets are known. */
export const nameOf = ({ text }) => view.moment ? text.replace(", listening", "") : text;

/** The state of a port in words. */
export function describe(port) {
  const { more } = STATES[states[port]];
  return nameOf(STATES[states[port]]) + (more ? `: ${more}` : "") + (bands[port] && states[port] !== S.band ? ", in the static band" : "");
}

// ---- looks ----

const lines = (c, ...all) => {
  c.beginPath();
  for (const [x1, y1, x2, y2] of all) {
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
  }
  c.stroke();
};
const triangle = (c, ...corners) => {
  c.beginPath();
  corners.forEach(([x, y]) => c.lineTo(x, y));
  c.fill();
};

/** Of the style sheet: `fill` and `mark` of each state, and some of the page. */
export const colors = { states: [] };

/** Read the colours, of light or dark, and draw the small squares of legend and list. */
export function recolor() {
  const probe = el("i", { hidden: "" });
  const color = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  document.body.append(probe);
  colors.states = STATES.map(({ key }) => ({ fill: color(`s-${key}`), mark: color(`m-${key}`) }));
  Object.assign(colors, { ink: color("ink"), soft: color("soft"), accent: color("accent"), paper: color("s-outside") });
  probe.remove();
  STATES.forEach((_, i) => document.documentElement.style.setProperty(`--tile-${i}`,
    `url(${drawTile(i, Math.round(14 * devicePixelRatio)).toDataURL()})`));
}

/** A cell of that state, with a gap after it. */
export function drawTile(state, size, gap = 0) {
  const made = el("canvas", { width: size + gap, height: size + gap });
  const c = made.getContext("2d");
  const { fill, mark } = colors.states[state];
  c.scale(size, size);
  c.fillStyle = fill;
  c.fillRect(0, 0, 1, 1);
  c.fillStyle = c.strokeStyle = mark;
  c.lineWidth = Math.max(1 / size, .14);
  STATES[state].mark?.(c);
  return made;
}

/** The fills as pixels, so much of them over the ground. */
export function pixelsOf(part) {
  const rgb = colors.states.map(({ fill }) => fill.match(/\d+/g).map(Number));
  return rgb.map(color => color.reduce((sum, x, i) =>
    sum + (Math.round(x * part + rgb[S.outside][i] * (1 - part)) << 8 * i), 0xff000000));
}

/** Pressed entries of the legend dim the other states. */
export function makeLegend(chosen, draw) {
  $("legend").append(...STATES.map(({ text, more }, i) => {
    const button = el("button", { "aria-pressed": "false", title: more ?? "", onclick() {
      if (!chosen.delete(i))
        chosen.add(i);
      button.setAttribute("aria-pressed", chosen.has(i));
      draw();
    } }, tile(i), el("span", null, text), " ", el("b"));
    return el("li", null, button);
  }));
}
