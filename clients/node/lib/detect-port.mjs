// SPDX-License-Identifier: MIT
import detectPort from "./detect-port.cjs";

export const { detect, waitPort, IPAddressNotAvailableError, WaitPortRetryError } = detectPort;
export { detectPort };
export default detectPort;
