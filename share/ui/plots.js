// How full the pools are, and claims per second, as SVG.
import { $, clock, count, el, foreign, number, stamp } from "./text.js";
import { allLives, model, now } from "./model.js";

const WIDTH = 240;
const HEIGHT = 40;
const PARTS = 60;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes)
    made.setAttribute(name, attributes[name]);
  made.append(...children);
  return made;
}

/** A plot of values as bars. */
function plot(values, most, label) {
  const step = WIDTH / values.length;
  const bars = values.map((value, i) => value > 0 && `M${(i * step).toFixed(1)} ${HEIGHT}v-${(Math.max(1, (HEIGHT - 2) * value / most))
    .toFixed(1)}h${(step * .85).toFixed(1)}V${HEIGHT}z`).filter(Boolean);
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "plot" },
    svg("path", { d: bars.join("") }));
}

/** The time that slider and plots show: [from, to]. */
export function period() {
  const to = now();
  const length = Number($("plot-time").value) || Math.max(60000, to - (model.log[0]?.time_ms ?? to));
  return [to - length, to];
}

/** In each part of the time: claims made, and for each pool the ports that had a claim. */
function series(from, to) {
  const step = (to - from) / PARTS;
  const claims = new Array(PARTS).fill(0);
  const used = model.pools.map(() => new Array(PARTS).fill(0));
  const part = time => Math.max(0, Math.min(PARTS, Math.floor((time - from) / step)));
  for (const life of allLives().filter(one => one.to >= from && one.created_ms <= to)) {
    if (life.created_ms >= from)
      claims[Math.min(PARTS - 1, part(life.created_ms))]++;
    const values = used[model.pools.findIndex(pool => pool.list.some(([first, last]) => first <= life.port && life.port <= last))];
    if (values) {
      values[Math.min(PARTS - 1, part(life.created_ms))]++;
      if (part(life.to) + 1 < PARTS)
        values[part(life.to) + 1]--;
    }
  }
  for (const values of used)
    values.forEach((_, i) => values[i] += values[i - 1] ?? 0);
  return [claims, used, step];
}

export function update() {
  if ($("usage").offsetParent === null)
    return; // another view of the narrow page
  const [from, to] = period();
  const [claims, used, step] = series(from, to);
  const most = Math.max(...claims);
  const rate = most * 1000 / step;
  const label = most > 0 ? `at most ${rate < 10 ? Number(rate.toPrecision(2)) : number(Math.round(rate))} per second` : "none in this time";
  $("rate").replaceChildren(el("h3", null, "Claims per second"), el("p", null, label),
    plot(claims, most, `Claims from ${stamp(from)} to ${stamp(to)}: ${label}`),
    el("p", { class: "axis" }, el("span", null, clock(from)), el("span", null, clock(to))));
  $("pools").replaceChildren(...model.pools.map((pool, i) => card(pool, used[i])));
}

function card(pool, values) {
  const { size, available, withheld, ...usage } = pool.usage;
  const bar = svg("svg", { viewBox: `0 0 ${size} 1`, preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" });
  let x = 0;
  for (const [part, n] of [["static", usage.static], ["dynamic", usage.dynamic], ["withheld", withheld]]) {
    bar.append(svg("rect", { x, y: 0, width: n && Math.max(n, size / 200), height: 1, class: part }));
    x += n;
  }
  const text = `${number(usage.static)} static, ${number(usage.dynamic)} dynamic, ${number(available)} of ${number(size)} available` +
    (withheld > 0 ? `, ${number(withheld)} withheld` : "");
  const most = Math.max(1, ...values);
  return el("section", { class: "card" }, el("h3", null, "Pool ", foreign(pool.name)),
    el("p", null, `${pool.ranges}, band of ${count(usage.band, "port")}`), bar, el("p", null, text),
    plot(values, most, `Ports of the pool with a claim over that time, at most ${most}`));
}
$("plot-time").onchange = update;
