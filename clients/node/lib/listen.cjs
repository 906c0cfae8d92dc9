"use strict";
// SPDX-License-Identifier: MIT
/** The sockets of a claim: claim a port, bind it and listen, in one call. */

const cluster = require("node:cluster");
const dgram = require("node:dgram");
const net = require("node:net");
const { isOptions } = require("./claims.cjs");
const { Denied, Failed, Taken, Usage } = require("./errors.cjs");
const { Project } = require("./project.cjs");
const { CLAIM, checked } = require("./request.cjs");

const TRIES = 8; // ports that other processes take between the probe of dibs and our bind
const BACKLOG = 4096;

/** A claim with its sockets, one for each binding: those of TCP listen, those of UDP are bound. */
class Listener {
    constructor(claim, server, opened) {
        this.claim = claim;
        /** The server that gets the connections of every TCP binding; null: there is none. */
        this.server = server;
        /** The sockets of UDP. */
        this.sockets = opened.filter((each) => each instanceof dgram.Socket);
        this.servers = opened.filter((each) => each instanceof net.Server);
    }

    get port() {
        return this.claim.port;
    }

    /** Stop listening, and close the sockets of UDP. Connections and the claim stay. */
    close() {
        close(this.servers);
        close(this.sockets);
    }

    /** Close, and end the claim as the end of a block does. */
    async leave() {
        this.close();
        await this.claim.leave();
    }
}

if (Symbol.asyncDispose) {
    Listener.prototype[Symbol.asyncDispose] = function dispose() {
        return this.leave();
    };
}

/** The verb that claims with sockets. */
class Listening extends Project {
    /**
     * Claim a port, bind it and listen. A port that dibs chooses and another process takes before the bind is
     * replaced. Nothing stays claimed after an error.
     */
    async listen(name, options) {
        if (isOptions(name) && options === undefined) [name, options] = [undefined, name];
        const given = checked("listen", options, [...CLAIM, "server", "backlog"]);
        const { server = null, backlog = BACKLOG, ...wanted } = given;
        if (server && server.listening) throw new Usage("listen: the server listens already");
        if (/sctp/.test(wanted.proto)) throw new Usage("listen: Node has no sockets for sctp");
        if (!wanted.ttl && !wanted.keep && !wanted.hold) wanted.hold = "fd";
        for (let tries = 1; ; tries++) {
            const claim = await this.claim(name, wanted);
            try {
                const opened = await openSockets(claim, backlog, server);
                if (wanted.signal && wanted.signal.aborted) {
                    close(opened);
                    throw wanted.signal.reason;
                }
                return handOver(claim, server, opened, backlog);
            } catch (error) {
                if (claim.wasThere) await this.leave(claim);
                else await this.release(claim, { force: true });
                const isFixed = claim.wasThere || wanted.port !== undefined || wanted.declare !== undefined;
                if (isFixed || !(error instanceof Taken) || tries === TRIES) throw error;
            }
        }
    }
}

/** Bind a socket for each binding of a claim, and let those of TCP listen. Taken: the port is in use. */
async function openSockets(claim, backlog, server) {
    const opened = [];
    for (const binding of claim.bindings) {
        try {
            opened.push(binding.proto === "udp" ? await bindUdp(binding) : await listenTcp(binding, backlog, serverFor(server, opened)));
        } catch (error) {
            close(opened);
            if (error.code === "EADDRINUSE") throw new Taken(`port ${claim.port} is in use by another process`);
            const Kind = error.code === "EACCES" ? Denied : Failed;
            throw new Kind(`cannot bind ${binding.proto} ${binding.address}:${claim.port}: ${error.message}`);
        }
    }
    return opened;
}

/** Only the wildcard is dual-stack, where the kernel has IPv6. */
function addressOf({ address, port }) {
    if (address === "*") return { port };
    return { port, host: address === "localhost" ? "127.0.0.1" : address, ipv6Only: address.includes(":") };
}

/**
 * The server that binds: one of our own, so that a lost port is no error of the user's. In a worker of a cluster it is the
 * user's at once: Node 18 asks the primary process when a worker's server takes over a socket.
 */
function serverFor(server, opened) {
    const isFirst = !opened.some((each) => each instanceof net.Server);
    if (server && isFirst && cluster.isWorker) return server;
    return net.createServer({ allowHalfOpen: Boolean(server && server.allowHalfOpen) });
}

/** Bind and listen, which libuv does at once. */
function listenTcp(binding, backlog, first) {
    return new Promise((resolve, reject) => {
        first.once("error", reject);
        first.listen({ ...addressOf(binding), backlog, exclusive: true }, () => {
            first.off("error", reject);
            resolve(first);
        });
    });
}

function bindUdp(binding) {
    return new Promise((resolve, reject) => {
        const { host, port, ipv6Only = false } = addressOf(binding);
        const isV6 = host === undefined || host.includes(":");
        const socket = dgram.createSocket({ type: isV6 ? "udp6" : "udp4", ipv6Only });
        socket.once("error", (error) => {
            socket.close();
            reject(error);
        });
        socket.bind({ port, address: host, exclusive: true }, () => {
            socket.removeAllListeners("error");
            resolve(socket);
        });
    });
}

/** Give the listening socket of the first TCP binding to the user's server, and the connections of the others. */
function handOver(claim, server, opened, backlog) {
    const [first, ...others] = opened.filter((each) => each instanceof net.Server);
    if (first === undefined) return new Listener(claim, null, opened);
    const target = server || first;
    const pass = (connection) => target.emit("connection", connection);
    if (server && first !== server) {
        first.on("connection", pass);
        server.listen(first, backlog);
        opened[opened.indexOf(first)] = server;
    }
    for (const other of others) {
        other.on("connection", pass);
        target.once("close", () => close([other]));
    }
    return new Listener(claim, target, opened.filter((each) => each !== undefined));
}

function close(opened) {
    for (const each of opened) {
        try {
            each.close();
        } catch {
            // it is closed already
        }
    }
}

module.exports = { Listener, Listening };
