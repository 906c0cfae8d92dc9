// SPDX-License-Identifier: MIT
// A server in cluster mode with hard-coded numbers: its own is 3000, its database's 5432, its cache's 6379. It answers
// with what these say, and with the numbers that it sees.
'use strict';
const cluster = require('cluster');
const http = require('http');
const net = require('net');

if (cluster.isPrimary) {
    cluster.fork();
    cluster.fork();
    cluster.on('exit', () => process.exit(1));
    return;
}

// A connection that answers one question at a time; `parse` returns [answer, bytes used], or null for more input.
class Connection {
    constructor(port, hello, parse) {
        Object.assign(this, { port, hello, parse, waiting: [] });
        this.connect();
    }

    connect() {
        this.socket = net.connect(this.port, 'localhost', () => this.hello && this.socket.write(this.hello));
        this.socket.setNoDelay(true);
        this.input = Buffer.alloc(0);
        this.socket.on('error', () => {});
        this.socket.on('close', () => { // not up yet, or still starting
            for (const answer of this.waiting.splice(0)) answer(null);
            setTimeout(() => this.connect(), 50);
        });
        this.socket.on('data', (data) => {
            this.input = Buffer.concat([this.input, data]);
            for (let found; (found = this.parse(this.input)); this.input = this.input.subarray(found[1]))
                if (found[0] !== undefined) this.waiting.shift()(found[0]);
        });
    }

    ask(question) {
        return new Promise((answer) => {
            this.waiting.push(answer);
            this.socket.write(question);
        });
    }
}

const text = Buffer.from('user\0stack\0database\0postgres\0\0');
const start = Buffer.alloc(8);
start.writeInt32BE(8 + text.length, 0);
start.writeInt32BE(196608, 4);
const database = new Connection(5432, Buffer.concat([start, text]), (input) => {
    if (input.length < 5 || input.length < 1 + input.readInt32BE(1)) return null;
    const size = 1 + input.readInt32BE(1);
    if (input[0] === 0x5a) database.isReady = true; // Z
    return [input[0] === 0x44 ? input.toString('utf8', 11, size) : undefined, size]; // D: one row, one column
});
const sql = Buffer.from("SELECT current_setting('cluster_name')\0");
const query = Buffer.concat([Buffer.from([0x51, 0, 0, 0, 4 + sql.length]), sql]);
const cache = new Connection(6379, null, (input) => {
    const end = input.indexOf('\r\n');
    if (input.toString('utf8', 0, end) === '$-1') return [null, end + 2]; // not set yet
    const last = end < 0 ? -1 : input.indexOf('\r\n', end + 2);
    return last < 0 ? null : [input.toString('utf8', end + 2, last), last + 2];
});

const server = http.createServer(async (request, response) => {
    if (!database.isReady || cache.socket.connecting || !cache.socket.writable) {
        response.writeHead(503).end();
        return;
    }
    const answers = [await database.ask(query), await cache.ask('GET me\r\n')];
    if (answers.includes(null)) {
        response.writeHead(503).end();
        return;
    }
    response.end(JSON.stringify({
        database: answers[0],
        cache: answers[1],
        listens: server.address().port,
        accepted: request.socket.localPort,
        connected: [database.socket.remotePort, cache.socket.remotePort],
        whose: process.env.COPY,
    }));
});
server.keepAliveTimeout = 60000;
server.listen(3000);
