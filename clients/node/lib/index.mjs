// SPDX-License-Identifier: MIT
import dibs from "./index.cjs";

export const {
    Client, Claim, Listener, Token, DibsError, Failed, Usage, Taken, Exhausted, NotFound, Unavailable, Denied, Missed,
    version,
} = dibs;
export default dibs;
