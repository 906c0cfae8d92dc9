// The session with the daemon. The one-time token of the address becomes a session token; requests have it as a header,
// for a cookie of localhost would go to every other port, too.
import { shown } from "./text.js";

const KEPT = "dibs-session";
const SILENCE_MS = 60000; // the daemon's stream says something every 15 s

// What the daemon says: session, id, principal, user, version, host, kind. `onend` is called when it no longer knows
// the session.
export const me = { onend() {} };
let isProven = false; // the program that answers is the daemon

/** A refusal by the daemon (`status`), or no answer (status 0). */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function call(path, options) {
  const answer = await fetch(path, { ...options, cache: "no-store" }).catch(() => {
    isProven = false;
    throw new Refused(0, "The daemon does not answer.");
  });
  if (answer.ok)
    return answer;
  const { detail } = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, shown(detail ?? `The daemon answers ${answer.status}.`));
}

const withBody = (method, body) => ({ method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

/** Exchange the token of the address, or go on with the session of this tab. False: neither is there. */
export async function open() {
  const token = /^#t=(.+)/.exec(location.hash)?.[1];
  if (location.hash)
    history.replaceState(null, "", location.pathname); // neither the history nor a copied address keeps it
  const fresh = token && await call("/v1/session", withBody("POST", { token })).catch(error => {
    if (error.status !== 401)
      throw error;
  });
  if (fresh)
    sessionStorage.setItem(KEPT, await fresh.text());
  Object.assign(me, JSON.parse(sessionStorage.getItem(KEPT)));
  return me.session !== undefined;
}

function end() {
  sessionStorage.removeItem(KEPT);
  me.onend();
}

const bytes = text => new TextEncoder().encode(text);
const base64url = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer)))
  .replace(/[+/=]/g, c => ({ "+": "-", "/": "_" })[c] ?? "");

// Let the server prove that it knows the session before it gets it: while the daemon is down, another program can take
// its port.
export async function prove() {
  isProven = !me.id; // an older daemon
  if (isProven)
    return;
  const nonce = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const answer = await call("/v1/session/proof", withBody("POST", { id: me.id, nonce })).catch(error => {
    if (error.status === 404)
      end();
    throw error;
  });
  const secret = await crypto.subtle.digest("SHA-256", bytes(me.session));
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const proof = base64url(await crypto.subtle.sign("HMAC", key, bytes(nonce)));
  isProven = (await answer.json()).proof === proof;
  if (!isProven)
    throw new Refused(0, "Another program answers on this port: run `dibs ui` again.");
}

async function ask(path, options) {
  if (!isProven)
    throw new Refused(0, "The daemon does not answer.");
  const headers = { ...options.headers, Authorization: `Bearer ${me.session}` };
  return call(path, { ...options, headers }).catch(error => {
    if (error.status === 401)
      end();
    throw error;
  });
}

export const get = async (path, signal) => (await ask(path, { signal })).json();

/** A change: POST or DELETE. It is made even if the page is left meanwhile. */
export const send = async (method, path, body) =>
  (await ask(path, { ...(body ? withBody(method, body) : { method }), keepalive: true })).json();

/** Read the stream of events after number `since` until it ends; `take` gets those that arrived together. */
export async function follow(since, take) {
  const silence = new AbortController();
  const answer = await ask(`/v1/events?since=${since}`,
    { headers: { Accept: "text/event-stream" }, signal: silence.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; isProven;) {
    const timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const { value } = await reader.read().catch(() => ({}));
    clearTimeout(timer);
    isProven = value !== undefined;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    const events = lines.filter(line => line.startsWith("data:")).map(line => JSON.parse(line.slice(5)));
    if (events.length > 0)
      take(events);
  }
}
