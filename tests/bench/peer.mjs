// SPDX-License-Identifier: MIT
// get-port and portfinder, asked in the three ways that dibs is asked.
// usage: node peer.mjs get-port|portfinder once
//        node peer.mjs PEER serve             each line "HOST COUNT" (HOST "*": none) is answered with a JSON
//                                             array of the nanoseconds of each call
//        node peer.mjs PEER herd FIRST LAST   as taker.c, HERD_LATER_MS too
// The packages are looked up in NODE_MODULES.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { readSync, writeSync } from 'node:fs';
import net from 'node:net';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.NODE_MODULES + '/');
const [peer, mode, first, last] = process.argv.slice(2);
const load = async (name) => import(pathToFileURL(require.resolve(name)));

const askers = {
  'get-port': async () => {
    const { default: getPort, portNumbers } = await load('get-port');
    return (host, from, to) => getPort({ ...(host && { host }), ...(from && { port: portNumbers(from, to) }) });
  },
  portfinder: async () => {
    const { default: portfinder } = await load('portfinder');
    return (host, from, to) =>
      portfinder.getPortPromise({ ...(host && { host }), port: from || 20000, stopPort: to || 32767 });
  },
};
const ask = await askers[peer]();

async function serve() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [host, count] = line.split(' ');
    const samples = [];
    for (let i = 0; i < Number(count); i++) {
      const began = process.hrtime.bigint();
      await ask(host === '*' ? undefined : host);
      samples.push(Number(process.hrtime.bigint() - began));
    }
    writeSync(1, JSON.stringify(samples) + '\n');
  }
}

async function herd() {
  writeSync(1, 'ready\n');
  try {
    while (readSync(0, Buffer.alloc(1)) > 0);
  } catch (e) {
    if (e.code !== 'EOF') throw e;
  }
  let port = 0;
  try {
    port = await ask('127.0.0.1', Number(first), Number(last));
  } catch {
    writeSync(1, '0 none\n');
  }
  await new Promise((go) => setTimeout(go, Number(process.env.HERD_LATER_MS)));
  if (port) {
    net
      .createServer()
      .once('error', () => writeSync(1, `${port} taken\n`))
      .listen({ port, host: '127.0.0.1' }, () => writeSync(1, `${port} ok\n`));
  }
  setTimeout(() => process.exit(0), 120000);
}

if (mode === 'serve') await serve();
else if (mode === 'herd') await herd();
else console.log(await ask('127.0.0.1'));
