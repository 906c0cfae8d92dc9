#!/usr/bin/env bash
# Check the Node client as a package: what npm packs, its types, and that it works where it is installed, for ES modules
# and CommonJS. Run it by tests/support/with-npm, which fetches TypeScript; without that the types are not checked.
# usage: tools/check-node-client.sh PATH-OF-DIBS
set -eu
DIBS=$(realpath "$1")
cd "$(dirname "$0")/../clients/node"
command -v npm >/dev/null || { echo "npm is not installed" >&2; exit 1; }
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
export DIBS DIBS_LEDGER=sqlite:$T/ledger.db DIBS_SOCKET=none HOME=$T npm_config_cache=$T/cache
unset NODE_PATH

npm pack --silent --pack-destination "$T" >/dev/null
archive=("$T"/dibs-*.tgz)
tar -tzf "${archive[0]}" | sed 's,^package/,,' | LC_ALL=C sort >"$T/packed"
git ls-files package.json README.md LICENSE lib | LC_ALL=C sort >"$T/wanted"
diff "$T/wanted" "$T/packed" || { echo "npm packs other files than those of the repository" >&2; exit 1; }
cmp LICENSE ../../LICENSE

mkdir "$T/user"
cd "$T/user"
echo '{ "name": "user", "version": "1.0.0" }' >package.json
npm install --silent --offline --no-audit --no-fund "${archive[0]}"
[ "$(find node_modules -mindepth 1 -maxdepth 1 ! -name '.*')" = node_modules/dibs ] || { echo "it brings other packages" >&2; exit 1; }

# Every entry has the same names in both systems of modules.
cat >entries.mjs <<'END'
import assert from "node:assert/strict";
import { createRequire } from "node:module";
const require = createRequire(import.meta.url);
for (const entry of Object.keys(require("dibs/package.json").exports).filter((name) => name !== "./package.json")) {
    const name = entry.replace(/^\./, "dibs");
    const [module, common] = [await import(name), require(name)];
    for (const member of Object.keys(module)) if (member !== "default") assert.equal(module[member], common[member], `${name}: ${member}`);
    for (const member of Object.keys(common)) assert.ok(member in module || ["default", "getPort"].includes(member), `${name}: ${member}`);
}
const { Client } = await import("dibs");
const client = new Client();
const claim = await client.claim("web");
assert.equal((await new (require("dibs").Client)().find("web")).id, claim.id);
assert.equal(await client.release("web"), 1);
END
node entries.mjs

types=${DIBS_TEST_NPM:-/nowhere}/node_modules
[ -f "$types/typescript/bin/tsc" ] || { echo "check-node-client: npm could not fetch TypeScript; its types are not checked" >&2; exit 1; }
for package in @types undici-types vite vitest @playwright playwright playwright-core rollup @vitest esbuild; do
    [ ! -e "$types/$package" ] || ln -s "$types/$package" "node_modules/$package"
done
cp "$OLDPWD"/test/types/*.*ts .
tsc() { node "$types/typescript/bin/tsc" --strict --noEmit --module nodenext --target es2022 --lib es2022,esnext.disposable,dom --types node "$@"; }
tsc ./*.mts ./*.cts
tsc --skipLibCheck false --moduleResolution bundler --module esnext use.mts
echo 'import { Client } from "dibs"; export const port: string = (await new Client().claim()).port;' >wrong.mts
if tsc wrong.mts >"$T/wrong"; then
    echo "TypeScript does not see the types of the package" >&2
    exit 1
fi
grep -q "Type 'number' is not assignable to type 'string'" "$T/wrong"
