# shellcheck shell=bash
# Packages from npm for bats files:   load ../support/dibs; load ../support/npm
# tests/meson.build starts such a file by with-npm, which fetches them.

needs_npm() {
    needs node
    [ -f "${DIBS_TEST_NPM:-/nowhere}/fetched" ] || skip "npm could not fetch the packages of tests/npm/package.json"
}

# npm_install: what `npm install` leaves in a project that uses these packages: its own folder node_modules.
npm_install() {
    mkdir -p node_modules
    ln -s "$DIBS_TEST_NPM"/node_modules/{*,.bin} node_modules/
}
