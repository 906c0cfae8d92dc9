export * from "./index.cjs";
import * as dibs from "./index.cjs";
export default dibs;
