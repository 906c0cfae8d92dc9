// SPDX-License-Identifier: MIT
/** Claim network ports that stay yours: the client of dibs for Node. */

/// <reference types="node" />
import type { Server as HttpServer } from "node:http";
import type { Server } from "node:net";
import type { Socket as UdpSocket } from "node:dgram";

/** A text such as "10m" or "500ms", or a number of milliseconds. */
export type Duration = string | number;

/** Options of every call. */
export interface CallOptions {
    /** How long the call may take; the client's by default. */
    timeoutMs?: number | undefined;
    /** Aborts the call: it rejects with the signal's reason, and leaves no claim behind. */
    signal?: AbortSignal | undefined;
}

export interface ClientOptions {
    /** The socket of the daemon; "none": no daemon. */
    socket?: string | undefined;
    /** The group of names. */
    group?: string | undefined;
    /** The directory of the project; that of the process by default. */
    directory?: string | undefined;
    /** How long a call may take. */
    timeoutMs?: number | undefined;
}

/** What a port shall be. */
export interface PortOptions {
    /** This port or an error. */
    port?: number | undefined;
    /** This port if it can be had. */
    prefer?: number | undefined;
    /** Choose from these ports: "8000-8099,9000". */
    range?: string | undefined;
    /** Choose from this pool. */
    pool?: string | undefined;
    /** tcp (the default), udp, sctp; one number for several: "tcp,udp". */
    proto?: string | undefined;
    /** The addresses to be bound; * by default. */
    address?: string | readonly string[] | undefined;
    /** How the kernel holds the port. */
    hold?: "auto" | "none" | "guard" | "fd" | "enforce" | undefined;
}

/** Who holds a claim; without an option the calling process, until it ends. */
export interface HolderOptions {
    /** This process, until it ends. */
    pid?: number | undefined;
    /** A lease of this length. */
    ttl?: Duration | undefined;
    /** Nobody; the claim stays until it is released. */
    keep?: boolean | undefined;
}

export interface ClaimOptions extends PortOptions, HolderOptions, CallOptions {
    /** Record that you use this port yourself. */
    declare?: number | undefined;
    /** Wait so long for a port that is held. */
    wait?: Duration | undefined;
    /** A repeated call with the same key gets the same claims. */
    key?: string | undefined;
}

export interface ClaimManyOptions extends ClaimOptions {
    /** So many ports; with a name NAME/0, NAME/1, ... */
    count?: number | undefined;
    /** The ports follow each other. */
    contiguous?: boolean | undefined;
    /** The first of them is a multiple of this. */
    align?: number | undefined;
    /** Show what would be claimed, and reserve nothing. */
    dryRun?: boolean | undefined;
}

export interface GetOptions extends PortOptions, CallOptions {
    /** Also a name that the manifest does not have. */
    create?: boolean | undefined;
}

export interface ListenOptions extends ClaimOptions {
    /** The server that shall listen: of net, http, https, http2 or tls. By default a new one of net. */
    server?: Server | HttpServer | undefined;
    backlog?: number | undefined;
}

/** A protocol and an address that a claim covers; the address * is all of both families. */
export interface Binding {
    proto: string;
    address: string;
    port: number;
    v6only?: boolean;
}

/** The process or lease that uses a claim. */
export interface Holder {
    kind: "process" | "lease";
    bootId: string;
    pid: number | null;
    startTicks: number | null;
    pidNamespace: number | null;
    ttlMs: number | null;
    untilBootMs: number | null;
}

/** A port that is claimed. */
export class Claim {
    private constructor();
    readonly id: number;
    readonly generation: number;
    readonly port: number;
    readonly kind: string;
    readonly exclusive: boolean;
    readonly kept: boolean;
    readonly holder: Holder | null;
    readonly principal: string;
    readonly uid: number;
    readonly name: string | null;
    readonly pool: string | null;
    readonly project: string | null;
    readonly command: string | null;
    readonly netns: number;
    readonly bindings: readonly Binding[];
    readonly createdMs: number;
    readonly changedMs: number;
    readonly life: string;
    readonly orphan: boolean;
    readonly wasThere: boolean;
    readonly wasKept: boolean;
    /** It was made without a ledger: others may get the port. */
    readonly degraded: boolean;
    readonly narrowed: boolean;
    readonly damaged: boolean;
    readonly hold: string;
    readonly holdNote: string | null;
    readonly node: string | null;
    readonly env: string | null;
    readonly keeper: string | null;
    readonly asPort: number | null;
    readonly run: number | null;
    readonly token: string | null;
    /** End the claim, as the end of a block does: one that the name had before stays. */
    leave(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}

/** A claim, or the copy of one that another thread or process has sent. */
export type ClaimLike = Pick<Claim, "id" | "generation" | "port" | "bindings" | "name" | "project" | "token" | "degraded" | "wasThere" | "wasKept" | "holder">;

/** The token of a claim, for the process that received it from another one. */
export class Token {
    constructor(text: string);
    readonly text: string;
    toString(): string;
}

/** What names an existing claim: the claim itself, its token, a name, or a port of this project. */
export type Which = ClaimLike | Token | string | number;

/** A socket that really exists on a port, with its process as far as the caller may see it. */
export interface Socket {
    proto: string;
    address: string;
    port: number;
    uid: number;
    pid: number | null;
    inode: number;
    command: string | null;
    arguments?: string | null;
    unit?: string | null;
    directory?: string | null;
    holders?: boolean;
    below?: boolean;
    serves?: boolean;
    v6only?: boolean;
}

/** A NAT rule that sends the packets of a port elsewhere. */
export interface NatRule {
    proto: string;
    address: string;
    port: number;
    text: string;
    v6only?: boolean;
}

/** Why a port cannot be claimed by number (`blocksStatic`) or chosen (`blocksDynamic`). */
export interface Reason {
    kind: string;
    blocksStatic: boolean;
    blocksDynamic: boolean;
    text: string;
    advice: string;
}

/** The claims, sockets and NAT rules of a port, and whether it can be claimed. */
export interface Report {
    port: number;
    claims: Claim[];
    sockets: Socket[];
    nat: NatRule[];
    cut: boolean;
    canClaim: boolean | null;
    canChoose: boolean | null;
    verdict: string | null;
    reasons: Reason[];
}

/** One change of the ledger. */
export interface LedgerEvent {
    seq: number;
    timeMs: number;
    what: string;
    claim: number;
    generation: number;
    port: number;
    protos: string[];
    kind: string;
    principal: string;
    name: string | null;
    actorUid: number;
    actorPid: number;
}

export interface EventOptions extends CallOptions {
    /** Begin with the event after this number; by default with the next one. */
    since?: number | undefined;
    /** End when there was no event for so long. */
    idleMs?: number | undefined;
}

/** Ends by `break`, `return()` or its signal. */
export interface Events extends AsyncIterableIterator<LedgerEvent> {
    return(): Promise<IteratorResult<LedgerEvent>>;
}

/** A named range of ports with its policy, and how full it is. */
export interface Pool {
    name: string;
    ranges: string;
    scope: string;
    band: string;
    order: string;
    cooldownMs: number;
    usage: { size: number; band: number; static: number; dynamic: number; available: number; withheld: number };
}

/** What `up`, `down` or `plan` does with one port of the manifest. */
export interface Change {
    change: string | null;
    claim: Claim;
    was: number | null;
    needsRestart: boolean;
    pod: string | null;
}

/** A claim with its sockets, one for each binding. */
export class Listener {
    private constructor();
    readonly claim: Claim;
    readonly port: number;
    /** The server that gets the connections of every TCP binding; null: there is none. */
    readonly server: Server | null;
    readonly servers: readonly Server[];
    /** The sockets of UDP. */
    readonly sockets: readonly UdpSocket[];
    /** Stop listening, and close the sockets of UDP. Connections and the claim stay. */
    close(): void;
    /** Close, and end the claim as the end of a block does. */
    leave(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}

/** Claims ports, through the daemon or the program. Every verb of the program is a method. */
export class Client {
    constructor(options?: ClientOptions);
    /** Close the connections. Claims stay with their holders. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
    /** Return the socket of the daemon that is asked; null: there is none, and the program is run. */
    daemon(): Promise<string | null>;

    /** Claim one port. The same name gets the same port again. */
    claim(name?: string | null, options?: ClaimOptions): Promise<Claim>;
    claim(options: ClaimOptions): Promise<Claim>;
    /** Claim a port for each name, or `count` ports, all or nothing. */
    claimMany(names: string | readonly string[], options?: ClaimManyOptions): Promise<Claim[]>;
    claimMany(options: ClaimManyOptions): Promise<Claim[]>;
    /** Claim a port, bind it and listen. */
    listen(name?: string | null, options?: ListenOptions): Promise<Listener>;
    listen(options: ListenOptions): Promise<Listener>;
    /** Return the kept claim of a name of this project, and make it if there is none. */
    get(name: string, options?: GetOptions): Promise<Claim>;
    /** Return a claim as it is now. NotFound: it has ended. */
    find(which: Which, options?: CallOptions): Promise<Claim>;
    /** Return the socket with which the holder of the claim listens. Taken: somebody else does, or nobody. */
    assertListening(which: Which, options?: CallOptions): Promise<Socket>;
    /** End a claim and return how many ended: a name also ends NAME/0, NAME/1, ... `force`: also of another project, or with a holder that may live. */
    release(which: Which, options?: CallOptions & { force?: boolean | undefined }): Promise<number>;
    /** End all claims of this project, or of all projects of this user. */
    releaseAll(options?: CallOptions & { everyProject?: boolean | undefined; force?: boolean | undefined }): Promise<number>;
    /** Extend a lease: it ends `ttl` from now, or as long from now as it was. */
    renew(which: Which, options?: CallOptions & { ttl?: Duration | undefined }): Promise<Claim>;
    /** Give a claim to another holder: a process (by default the calling one), a lease, or nobody. The old token is invalid. */
    transfer(which: Which, options?: CallOptions & HolderOptions): Promise<Claim>;
    /** End a claim as the end of its block does: one that the name had before stays. */
    leave(claim: ClaimLike, options?: CallOptions): Promise<void>;

    /** List the claims of all projects and users that the caller may see. */
    list(prefix?: string | null, options?: CallOptions & { pool?: string; port?: number; proto?: string }): Promise<Claim[]>;
    list(options: CallOptions & { pool?: string; port?: number; proto?: string }): Promise<Claim[]>;
    /** Return who claims a port, and who really has it. NotFound: nobody. */
    who(which: number | string, options?: CallOptions): Promise<Report>;
    /** Return why a port, or that of a claim's name, can or cannot be claimed, with what to do. */
    explain(which: number | string, options?: CallOptions & { proto?: string; address?: string; pool?: string }): Promise<Report>;
    /** Return the newest events, or those with a number above `since`, the oldest first. */
    log(options?: CallOptions & { since?: number; limit?: number }): Promise<LedgerEvent[]>;
    /** Follow the changes of the ledger, also when the daemon is restarted. Missed: events are gone. */
    events(options?: EventOptions): Events;
    /** List the pools, each with its usage. */
    pools(options?: CallOptions): Promise<Pool[]>;
    pool(name: string, options?: CallOptions): Promise<Pool>;

    /** Return the variables of a role of the manifest (ROLE/INSTANCE), or of all roles. */
    env(role?: string | null, options?: CallOptions & { pid?: number; group?: string }): Promise<Record<string, string>>;
    env(options: CallOptions & { pid?: number; group?: string }): Promise<Record<string, string>>;
    /** Claim every port of the manifest, all or nothing; release what it does not have any more. */
    up(options?: CallOptions & { move?: boolean }): Promise<Change[]>;
    /** Release every port of the manifest. */
    down(options?: CallOptions): Promise<Change[]>;
    /** Return what `up` would change. */
    plan(options?: CallOptions): Promise<Change[]>;
}

/** The claim, process or NAT rule that has the port. */
export interface Blocker {
    relation: string;
    port: number;
    uid: number;
    proto?: string | null;
    address?: string | null;
    name?: string | null;
    pid?: number | null;
    command?: string | null;
    sinceMs?: number | null;
    /** The name has a claim with another port, protocol or address. */
    differs: boolean;
}

/** A refusal or failure of dibs. Its message is that of dibs. */
export class DibsError extends Error {
    readonly code: string;
    /** The exit code of the command line. */
    readonly exitCode: number;
    readonly blocker: Blocker | null;
    readonly trouble: string | null;
    /** Of a claim whose answer was lost: call again with this key to get the same claim. */
    readonly key: string | null;
}
/** Any failure that no other class describes. */
export class Failed extends DibsError {}
/** The request is malformed. */
export class Usage extends DibsError {}
/** Another claim or process has the port or the name; `blocker` describes it. */
export class Taken extends DibsError {}
/** No port is left in the pool, or the user's quota is used up. */
export class Exhausted extends DibsError {}
/** There is no such claim, pool or manifest. */
export class NotFound extends DibsError {}
/** The ledger, the daemon or the program cannot be reached in time. */
export class Unavailable extends DibsError {}
/** The caller has no right to do this. */
export class Denied extends DibsError {}
/** Events are gone that the reader has not seen: list the claims again, then follow from now. */
export class Missed extends DibsError {}

export const version: string;
