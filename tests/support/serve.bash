# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# A daemon for bats files:   load ../support/dibs; load ../support/serve

# serve_start [OPTION]...: a daemon on the ledger of the test, ready on return. $SOCKET is its public socket,
# $ADMIN that of administrators, $DAEMON its pid; its log is $T/serve.log. SOCKET_DIR (default $T) may be set
# before to a place that others can reach.
serve_start() {
    SOCKET=${SOCKET_DIR:-$T}/dibs.sock ADMIN=${SOCKET_DIR:-$T}/admin.sock
    DIBS_SOCKET=none start "$DIBS" serve --socket "$SOCKET" --admin-socket "$ADMIN" "$@" 2>>"$T/serve.log"
    DAEMON=$STARTED
    wait_until 10 serve_answers || { cat "$T/serve.log" >&2; return 1; }
}
serve_answers() {
    kill -0 "$DAEMON" && curl -sf --unix-socket "$SOCKET" http://dibs/readyz
}

# serve_stop [SIGNAL]: and wait for its end; $status is how it ended.
serve_stop() {
    kill -"${1:-TERM}" "$DAEMON"
    status=0
    wait "$DAEMON" || status=$?
}

# ask [CURL OPTION]... PATH: over $SOCKET (or $ASK_SOCKET), as the user that ASK_BY selects (as_user UID);
# the answer is $output, its HTTP code $code.
ASK_BY=()
ask() {
    local words=("$@") path
    path=${words[-1]}
    unset 'words[-1]'
    output=$("${ASK_BY[@]}" curl -sS --max-time 20 --unix-socket "${ASK_SOCKET:-$SOCKET}" -w '\n%{http_code}' "${words[@]}" "http://dibs$path")
    code=${output##*$'\n'}
    output=${output%$'\n'*}
}

# assert_code CODE: of the last `ask`.
assert_code() {
    [ "$code" = "$1" ] || { printf 'HTTP %s, wanted %s\n%s\n' "$code" "$1" "$output" >&2; return 1; }
}

# member KEY: of the last answer, which is a JSON object; KEY may be a path such as claims.0.port.
member() {
    python3 -c 'import json, sys
v = json.loads(sys.argv[1])
for k in sys.argv[2].split("."):
    v = v[int(k)] if isinstance(v, list) else v[k]
print(json.dumps(v) if isinstance(v, (dict, list, bool)) or v is None else v)' "$output" "$1"
}
