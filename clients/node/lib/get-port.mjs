// SPDX-License-Identifier: MIT
import getPort from "./get-port.cjs";

export const { portNumbers, clearLockedPorts } = getPort;
export default getPort;
