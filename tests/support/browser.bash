# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# Debian's Chromium for bats files:   load ../support/dibs; load ../support/npm; load ../support/browser
#
#   setup_file() { browser_start; }    teardown_file() { browser_stop; }
#
# One browser serves all tests of a file. tests/support/browser.mjs has the words of `page`.

browser_start() {
    [ -f "${DIBS_TEST_NPM:-/nowhere}/fetched" ] && command -v node chromium >/dev/null || return 0 # needs_browser says so
    local end=$((SECONDS + 60))
    export BROWSER=$BATS_FILE_TMPDIR/browser DIBS_TEST_CHROMIUM
    DIBS_TEST_CHROMIUM=$(command -v chromium)
    mkdir "$BROWSER"
    TMPDIR=$BROWSER HOME=$BROWSER node "$BATS_TEST_DIRNAME/../support/browser.mjs" "$BROWSER/socket" >"$BROWSER/log" 2>&1 3>&- &
    echo $! >"$BROWSER/pid"
    until [ -S "$BROWSER/socket" ]; do
        if [ $SECONDS -gt $end ] || ! kill -0 "$(cat "$BROWSER/pid")"; then cat "$BROWSER/log" >&2; return 1; fi
        sleep 0.05
    done
}

# SIGTERM lets it end Chromium.
browser_stop() {
    local pid
    [ -f "${BROWSER:-/nowhere}/pid" ] || return 0
    pid=$(cat "$BROWSER/pid")
    kill -TERM "$pid" 2>/dev/null || return 0
    wait "$pid" || true
}

needs_browser() {
    needs_npm
    needs chromium curl
}

# page JAVASCRIPT [NAME=VALUE]...: run it in node, with the browser's page; its result is $output. The values are in `given`.
page() {
    local body=$1 status=0 code url=http://browser/run value
    shift
    local words=()
    for value; do words+=(--url-query "$value"); done
    output=$(curl -sS --max-time 120 --unix-socket "$BROWSER/socket" -w '\n%{http_code}' "${words[@]}" --data-binary @- "$url" <<<"$body") || status=$?
    code=${output##*$'\n'}
    output=${output%$'\n'*}
    if [ "$status" != 0 ] || [ "$code" != 200 ]; then
        printf '%s\n' "$output" >&2
        return 1
    fi
}

# page_end [REGEX]: close the pages. Fails if their consoles had errors or warnings, but for those that match.
page_end() {
    [ -S "${BROWSER:-/nowhere}/socket" ] || return 0
    page 'await end(given.but)' "but=${1:-}"
}
