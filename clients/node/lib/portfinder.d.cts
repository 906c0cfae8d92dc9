export interface PortFinderOptions {
    /** The host to be bound. */
    host?: string | undefined;
    /** The lowest port; basePort by default. */
    port?: number | undefined;
    startPort?: number | undefined;
    /** The highest port; highestPort by default. */
    stopPort?: number | undefined;
}
export interface SocketFinderOptions {
    /** Of a folder that is made. */
    mod?: number | undefined;
    path?: string | undefined;
}
type Callback<T> = (error: Error | null, result: T) => void;

export let basePort: number;
export let highestPort: number;
export let basePath: string;
export function setBasePort(port: number): void;
export function setHighestPort(port: number): void;
export function setBasePath(path: string): void;
export function nextPort(port: number): number;
export function nextSocket(path: string): string;

/** Claim the lowest port that can be had. */
export function getPort(options?: PortFinderOptions): Promise<number>;
export function getPort(callback: Callback<number>): void;
export function getPort(options: PortFinderOptions, callback: Callback<number>): void;
export function getPortPromise(options?: PortFinderOptions): Promise<number>;
/** Claim several ports. */
export function getPorts(count: number, options?: PortFinderOptions): Promise<number[]>;
export function getPorts(count: number, callback: Callback<number[]>): void;
export function getPorts(count: number, options: PortFinderOptions, callback: Callback<number[]>): void;
export function getPortsPromise(count: number, options?: PortFinderOptions): Promise<number[]>;
/** Return the path of a socket that does not exist. */
export function getSocket(options?: SocketFinderOptions): Promise<string>;
export function getSocket(callback: Callback<string>): void;
export function getSocket(options: SocketFinderOptions, callback: Callback<string>): void;
export function getSocketPromise(options?: SocketFinderOptions): Promise<string>;
