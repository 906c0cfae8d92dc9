// SPDX-License-Identifier: MIT
import dibs from "./vite.cjs";

export { dibs };
export default dibs;
