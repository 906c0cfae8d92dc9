import detectPort from "./detect-port.cjs";

export type DetectPortCallback = detectPort.DetectPortCallback;
export type PortConfig = detectPort.PortConfig;
export type WaitPortOptions = detectPort.WaitPortOptions;
export const detect: typeof detectPort;
export const waitPort: typeof detectPort.waitPort;
export const IPAddressNotAvailableError: typeof detectPort.IPAddressNotAvailableError;
export const WaitPortRetryError: typeof detectPort.WaitPortRetryError;
export { detectPort };
export default detectPort;
