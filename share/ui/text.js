// Text that others wrote, elements that show it, and times for people.
//
// Names, commands and units come from any user of the host. They enter the page as text only, and characters
// that change how the text around them looks are shown by their numbers.

export const $ = id => document.getElementById(id);
export const put = (id, text) => $(id).textContent = text;

/** Controls, bidi overrides, lone surrogates and other invisible characters as [U+202E]. */
export const shown = text => String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
  c => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

/** A member that is text, also when its bytes are no UTF-8: then it is in base64. */
export function textOf(object, member) {
  const coded = object[member + "_base64"];
  return coded === undefined ? object[member] ?? "" :
    atob(coded).replace(/[^ -~]/g, c => `[${c.charCodeAt(0).toString(16).padStart(2, "0")}]`);
}

/** Make an element. A function is a listener (onclick); null and false are left out. */
export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (typeof value === "function")
      made[name] = value;
    else if (value !== null && value !== false)
      made.setAttribute(name, value);
  made.append(...children.filter(child => child || child === 0));
  return made;
}

/** Foreign text, isolated from the direction of the text around it. */
export const foreign = (text, css = "") => el("bdi", { class: css }, shown(text));

/** The small square of a state. */
export function tile(state) {
  const made = el("i", { class: "tile", "aria-hidden": "true" });
  made.style.backgroundImage = `var(--tile-${state})`;
  return made;
}

export const number = n => n.toLocaleString("en");
export const count = (n, one) => `${number(n)} ${one}${n === 1 ? "" : "s"}`;

const two = n => String(n).padStart(2, "0");
/** 17:46:34, in the browser's time zone. */
export function clock(ms) {
  const t = new Date(ms);
  return [t.getHours(), t.getMinutes(), t.getSeconds()].map(two).join(":");
}
/** 2026-11-19 17:46:34 */
export function stamp(ms) {
  const t = new Date(ms);
  return `${[t.getFullYear(), t.getMonth() + 1, t.getDate()].map(two).join("-")} ${clock(ms)}`;
}

/** A duration in its largest unit: 8 min. */
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const [unit, seconds] = [["day", 86400], ["h", 3600], ["min", 60]].find(one => s >= 2 * one[1]) ?? ["s", 1];
  return unit === "day" ? count(Math.round(s / seconds), unit) : `${Math.round(s / seconds)} ${unit}`;
}

/** A moment, and how long ago it was. */
export const when = (ms, now) =>
  el("time", { datetime: new Date(ms).toISOString() }, `${stamp(ms)} (${span(now - ms)} ago)`);

/** [[first, last], ...] of "20000-20999,30000" */
export const ranges = text => (text || "").split(",").filter(Boolean).map(part => {
  const [first, last] = part.split("-").map(Number);
  return [first, last ?? first];
});
