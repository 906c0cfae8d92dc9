import dibs from "./vite.cjs";

export type Options = dibs.Options;
export { dibs };
export default dibs;
