/// <reference types="node" />
import type { ListenOptions } from "node:net";

declare namespace getPort {
    export type Options = {
        /** A wished port, or several, the first that can be had. */
        readonly port?: number | Iterable<number>;
        /** Ports that are not returned. */
        readonly exclude?: Iterable<number>;
        /** Keep the port claimed until the process ends, also while nobody listens on it. */
        readonly reserve?: boolean;
        /** The host to be bound. */
        readonly host?: string;
    } & Omit<ListenOptions, "port">;
    /** Iterate over the numbers from `from` to `to`. */
    export function portNumbers(from: number, to: number): Iterable<number>;
    /** End the claims of all ports that were returned. */
    export function clearLockedPorts(): void;
    export { getPort as default, getPort };
}
/** Claim a port for this process. */
declare function getPort(options?: getPort.Options): Promise<number>;
export = getPort;
