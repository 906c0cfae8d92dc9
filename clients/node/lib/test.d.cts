/// <reference types="node" />
import type { Server } from "node:net";
import type { CallOptions, ClaimManyOptions, ClaimOptions, Client, Listener, ListenOptions } from "./index.cjs";

/** A test: `t` of node:test, the context of Vitest, or an object that calls functions after the test. */
export type Test = { after(call: () => Promise<void>): unknown } | { onTestFinished(call: () => Promise<void>): unknown };

type Ports = {
    (count: number, options?: ClaimManyOptions): Promise<number[]>;
    <const Name extends string>(names: readonly Name[], options?: ClaimManyOptions): Promise<Record<Name, number>>;
};
type Listen = (server?: Server, options?: ListenOptions) => Promise<Listener>;
type Env = (role?: string, options?: CallOptions) => Promise<Record<string, string>>;
type Use<T> = (value: T) => Promise<void>;

/** The client of this process, for all its tests. */
export function client(): Client;
/** Claim a port for this test. */
export function port(t: Test, name?: string, options?: ClaimOptions): Promise<number>;
/** Claim so many ports, or one for each name, for this test. */
export function ports(t: Test, count: number, options?: ClaimManyOptions): Promise<number[]>;
export function ports<const Name extends string>(t: Test, names: readonly Name[], options?: ClaimManyOptions): Promise<Record<Name, number>>;
/** Claim a port and let the server listen on it until the test is over. */
export function listen(t: Test, server?: Server, options?: ListenOptions): Promise<Listener>;
/** Return the variables of a role of the manifest, with ports that this test has alone. */
export function env(t: Test, role?: string, options?: CallOptions): Promise<Record<string, string>>;

/** What a test gets from the fixtures. */
export interface TestFixtures {
    dibsPort: number;
    dibsPorts: Ports;
    dibsListen: Listen;
    dibsEnv: Env;
}
/** What a worker of Playwright gets. */
export interface WorkerFixtures {
    /** A port that belongs to the worker. */
    dibsWorkerPort: number;
}
type Fixture<T> = ({}: {}, use: Use<T>) => Promise<void>;
/** For `test.extend` of Vitest and Playwright. */
export const fixtures: { [Name in keyof TestFixtures]: Fixture<TestFixtures[Name]> };
/** For `test.extend<TestFixtures, WorkerFixtures>` of Playwright. */
export const playwrightFixtures: typeof fixtures & { dibsWorkerPort: [Fixture<number>, { scope: "worker" }] };

export interface WebServerOptions {
    /** The name of the port in the project; "web" by default. */
    name?: string;
    /** The command of the server; {port} becomes its port, which is also in PORT. */
    command: string;
    /** Where it answers when it is ready; "http://localhost:{port}" by default. */
    url?: string;
    env?: Record<string, string>;
    timeout?: number;
    cwd?: string;
    stdout?: "pipe" | "ignore";
    stderr?: "pipe" | "ignore";
}
/** Make `webServer` and `use` of a Playwright configuration. */
export function webServer(options: WebServerOptions): {
    webServer: Omit<WebServerOptions, "name"> & { url: string; reuseExistingServer: boolean; env: Record<string, string> };
    use: { baseURL: string };
};
