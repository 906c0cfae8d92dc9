# shellcheck shell=bash
# TAP from a shell script: source this, then
#   check "a sentence" COMMAND...     one case; what the command prints is shown when it fails
#   skip_case "a sentence" REASON
#   done_testing                      the plan, and the exit code
tap_number=0
tap_failed=0

check() {
    local name=$1 output
    shift
    tap_number=$((tap_number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $tap_number - $name"
    else
        tap_failed=1
        echo "not ok $tap_number - $name"
        [ -z "$output" ] || printf '%s\n' "$output" | sed 's/^/#   /'
    fi
}

skip_case() {
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - $1 # SKIP $2"
}

done_testing() {
    echo "1..$tap_number"
    exit $tap_failed
}
