import getPort from "./get-port.cjs";

export type Options = getPort.Options;
export const portNumbers: typeof getPort.portNumbers;
export const clearLockedPorts: typeof getPort.clearLockedPorts;
export default getPort;
