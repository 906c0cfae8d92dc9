import * as portfinder from "./portfinder.cjs";
export * from "./portfinder.cjs";
export default portfinder;
