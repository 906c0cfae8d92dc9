"use strict";
// SPDX-License-Identifier: MIT
/** Claim network ports that stay yours: the client of dibs for Node. */

const errors = require("./errors.cjs");
const { Listener, Listening } = require("./listen.cjs");
const { Claim, Token } = require("./records.cjs");
const { version } = require("../package.json");

/** Claims ports, through the daemon or the program. Every verb of the program is a method. */
class Client extends Listening {
    /** Return the socket of the daemon that is asked; null: there is none, and the program is run. */
    async daemon() {
        return (await this._place()).socket;
    }
}

if (Symbol.asyncDispose) {
    Client.prototype[Symbol.asyncDispose] = function dispose() {
        return this.close();
    };
}

exports.Client = Client;
exports.Claim = Claim;
exports.Listener = Listener;
exports.Token = Token;
exports.DibsError = errors.DibsError;
exports.Failed = errors.Failed;
exports.Usage = errors.Usage;
exports.Taken = errors.Taken;
exports.Exhausted = errors.Exhausted;
exports.NotFound = errors.NotFound;
exports.Unavailable = errors.Unavailable;
exports.Denied = errors.Denied;
exports.Missed = errors.Missed;
exports.version = version;
