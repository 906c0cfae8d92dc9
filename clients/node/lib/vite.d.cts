import type { Plugin } from "vite" with { "resolution-mode": "import" };

declare namespace dibs {
    export interface Options {
        /** The name of the server's port in the project, or of a port of the manifest; "web" by default. */
        name?: string;
        /** The name of the preview's port; by default NAME-preview. */
        preview?: string;
        /** The name of the port for hot reload in middleware mode; by default NAME-hmr. */
        hmr?: string;
    }
    export { dibs, dibs as default };
}
/** Claim the ports of the development server, of its hot reload and of the preview. */
declare function dibs(options?: dibs.Options): Plugin;
export = dibs;
