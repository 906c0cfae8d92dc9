declare namespace detectPort {
    type DetectPortCallback = (error: Error | null, port?: number) => void;
    interface PortConfig {
        port?: number | string | undefined;
        hostname?: string | undefined;
        callback?: DetectPortCallback | undefined;
    }
    interface WaitPortOptions {
        /** Milliseconds between two attempts. */
        retryInterval?: number;
        retries?: number;
    }
    class IPAddressNotAvailableError extends Error {}
    class WaitPortRetryError extends Error {
        retries: number;
        count: number;
    }
    /** Wait until somebody has bound the port. */
    function waitPort(port: number, options?: WaitPortOptions): Promise<boolean>;
    export { detectPort, detectPort as detect, detectPort as default };
}
/** Claim the port if it can be had, else one of the next ten, else any. */
declare function detectPort(port?: number | detectPort.PortConfig | string): Promise<number>;
declare function detectPort(callback: detectPort.DetectPortCallback): void;
declare function detectPort(port: number | detectPort.PortConfig | string | undefined, callback: detectPort.DetectPortCallback): void;
export = detectPort;
