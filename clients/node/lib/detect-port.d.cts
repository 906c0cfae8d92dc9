declare namespace detectPort {
    export type DetectPortCallback = (error: Error | null, port?: number) => void;
    export interface PortConfig {
        port?: number | string | undefined;
        hostname?: string | undefined;
        callback?: DetectPortCallback | undefined;
    }
    export interface WaitPortOptions {
        /** Milliseconds between two attempts. */
        retryInterval?: number;
        retries?: number;
    }
    export class IPAddressNotAvailableError extends Error {}
    export class WaitPortRetryError extends Error {
        retries: number;
        count: number;
    }
    /** Wait until somebody has bound the port. */
    export function waitPort(port: number, options?: WaitPortOptions): Promise<boolean>;
    export { detectPort, detectPort as detect, detectPort as default };
}
/** Claim the port if it can be had, else one of the next ten, else any. */
declare function detectPort(port?: number | detectPort.PortConfig | string): Promise<number>;
declare function detectPort(callback: detectPort.DetectPortCallback): void;
declare function detectPort(port: number | detectPort.PortConfig | string | undefined, callback: detectPort.DetectPortCallback): void;
export = detectPort;
