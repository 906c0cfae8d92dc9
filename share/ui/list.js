// The claims as a tree: project, worktree, role, instance. Only the rows in sight are elements.
import { $, count, el, foreign, number, put, shown, tile } from "./text.js";
import { isOwn, model, userOf, view } from "./model.js";
import { nameOf, S, STATES, states } from "./cells.js";

const ROW = 26; // CSS pixels, as in ui.css
const OPEN_UP_TO = 400; // claims: a larger tree is closed at first
const NO_NAME = "claims without a name";
const NO_PROJECT = "without a project";

/** The way to a claim: "shop@main/web/0/-/http" is below shop, main, web. */
function pathOf(claim) {
  if (!claim.name)
    return [NO_NAME, userOf(claim), `port ${claim.port}`];
  const [group, ...rest] = claim.name.split("/");
  if (rest.length === 0)
    return [NO_PROJECT, group];
  const [, project, tree] = /^(.+?)@(.+)$/.exec(group) ?? [null, group];
  const role = rest.shift();
  const instance = rest.filter(part => part !== "-").join("/");
  return [project, tree, role, instance].filter(Boolean);
}

/** A node has children by key, and the claims of exactly this name: several users can have it. */
const node = (key, parent) => ({ key, parent, level: parent ? parent.level + 1 : -1, total: 0, children: new Map(), claims: [] });

const collator = new Intl.Collator("en", { numeric: true });

class Tree {
  root = node("", null);

  add(claim) {
    let at = this.root;
    at.total++;
    claim.path ??= pathOf(claim);
    for (const key of claim.path) {
      if (!at.children.has(key)) {
        at.children.set(key, node(key, at));
        at.sorted = null;
      }
      at = at.children.get(key);
      at.total++;
    }
    at.claims.push(claim);
    claim.leaf = at;
  }

  drop({ id, leaf }) {
    leaf.claims = leaf.claims.filter(other => other.id !== id);
    for (let at = leaf; at; at = at.parent)
      if (--at.total === 0 && at.parent) {
        at.parent.children.delete(at.key);
        at.parent.sorted = null;
      }
  }

  /** The rows that are open, from the top. */
  rows() {
    const rows = [];
    const { root } = this;
    const visit = parent => {
      parent.sorted ??= [...parent.children.values()].sort((a, b) => collator.compare(a.key, b.key));
      parent.sorted.forEach((one, i) => {
        const isGroup = one.children.size > 0 || one.claims.length > 1;
        const isOpen = isGroup && (one.open ?? (root.total <= OPEN_UP_TO || (one.level === 0 && root.children.size === 1)));
        const place = { at: i + 1, of: parent.sorted.length };
        if (isGroup)
          rows.push({ ...place, level: one.level, node: one, isOpen });
        if (!isGroup || isOpen)
          for (const claim of one.claims)
            rows.push({ ...place, level: one.level + isGroup, label: one.key, claim, port: claim.port });
        if (isOpen)
          visit(one);
      });
    };
    visit(root);
    return rows;
  }
}

const box = $("list");
const space = $("list-space");
const live = new Tree();
let tree = live;
let found = null; // rows of a search
let rows = [];
let active = 0; // row of the keyboard
let isAsked = false;
const made = [];

model.onclaim = (now, before) => {
  if (before)
    live.drop(before);
  if (now)
    live.add(now);
};

/** Other claims are shown: the live ones, or those of the past. */
export function show() {
  tree = live;
  if (view.moment) {
    tree = new Tree();
    view.claims.byId.forEach(claim => tree.add(claim));
  }
  update();
}

/** Show what a search found instead of the tree; null: the tree. */
export function find(items) {
  found = items?.map((item, i) => ({ ...item, level: 0, at: i + 1, of: items.length,
    label: item.claim ? item.claim.name ?? NO_NAME : item.socket?.command ?? "no claim" }));
  active = box.scrollTop = 0;
  update();
}

export function update() {
  rows = found ?? tree.rows();
  active = Math.max(0, Math.min(active, rows.length - 1));
  space.style.height = `${rows.length * ROW}px`;
  put("list-count", found ? count(rows.length, "result") : count(tree.root.total, "claim"));
  put("list-empty", rows.length > 0 ? "" : found ? "No port, name or process is like this." :
    model.isLoading ? "Reading the claims …" : "There are no claims. `dibs run -p web -- COMMAND` makes one.");
  draw();
}

export function draw() {
  if (!isAsked)
    requestAnimationFrame(paint);
  isAsked = true;
}

function paint() {
  isAsked = false;
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
  const n = Math.min(rows.length - first, Math.ceil(box.clientHeight / ROW) + 8);
  while (made.length < n)
    made.push(space.appendChild(el("div", { role: "treeitem" })));
  while (made.length > Math.max(0, n))
    made.pop().remove();
  made.forEach((row, i) => fill(row, first + i));
  if (made.some(row => row.id === `row-${active}`))
    box.setAttribute("aria-activedescendant", `row-${active}`);
  else
    box.removeAttribute("aria-activedescendant");
}

function fill(row, i) {
  const { level, at, of, node: group, isOpen, port, claim } = rows[i];
  const isCurrent = port === view.cursor;
  row.id = `row-${i}`;
  row.style.transform = `translateY(${i * ROW}px)`;
  row.style.paddingLeft = `${8 + level * 14}px`;
  row.className = ["row", group && "group", isCurrent && "current", view.leaving.has(claim?.id) && "leaving",
    i === active && document.activeElement === box && "active"].filter(Boolean).join(" ");
  for (const [name, value] of [["level", level + 1], ["setsize", of], ["posinset", at], ["selected", isCurrent], ["expanded", isOpen]])
    if (value === undefined)
      row.removeAttribute(`aria-${name}`);
    else
      row.setAttribute(`aria-${name}`, value);
  row.onclick = () => choose(i);
  row.ariaLabel = group ? `${shown(group.key)}, ${count(group.total, "claim")}` : wordsOf(rows[i]);
  row.replaceChildren(...(group ? [el("span", { class: "twist" }, isOpen ? "▾" : "▸"), foreign(group.key, "label"),
    el("span", { class: "count" }, number(group.total))] : leafOf(rows[i])));
}

/** The state of the row's port, if the map shows its protocol. */
const stateOf = ({ port, claim }) => !claim || claim.protos.includes(model.proto) ? states[port] : S.outside;

const wordsOf = row => [shown(row.label), row.claim && !isOwn(row.claim) && `of ${shown(userOf(row.claim))}`,
  stateOf(row) !== S.outside && nameOf(STATES[stateOf(row)]), `port ${row.port}`].filter(Boolean).join(", ");

function leafOf(row) {
  const { port, claim, label } = row;
  return [tile(stateOf(row)), foreign(label, "label"),
    claim && claim.protos.join() !== "tcp" ? el("small", null, claim.protos.join("+")) : "",
    claim && !isOwn(claim) ? foreign(userOf(claim), "user") : "",
    el("b", { class: "count" }, port)].filter(Boolean);
}

function choose(i) {
  const row = rows[i];
  active = i;
  if (row.node) {
    row.node.open = !row.isOpen;
    update();
  } else
    view.onchoose(row.port, row.claim);
  draw();
}

box.addEventListener("scroll", draw, { passive: true });
box.onfocus = box.onblur = draw;
new ResizeObserver(draw).observe(box);

box.onkeydown = event => {
  const row = rows[active];
  const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 1);
  const go = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || !row)
    return;
  if (go !== undefined)
    active = Math.max(0, Math.min(rows.length - 1, active + go));
  else if (event.key === "Enter" || event.key === " " || (event.key === "ArrowRight" && row.isOpen === false) ||
      (event.key === "ArrowLeft" && row.isOpen))
    choose(active);
  else if (event.key === "ArrowRight" && row.isOpen)
    active++;
  else if (event.key === "ArrowLeft")
    active = Math.max(0, rows.findLastIndex((other, i) => i < active && other.level < row.level));
  else
    return;
  event.preventDefault();
  box.scrollTop = Math.max(Math.min(box.scrollTop, active * ROW), (active + 1) * ROW - box.clientHeight);
  draw();
};
