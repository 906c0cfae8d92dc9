#!/usr/bin/env bash
# Run the checks that a change must pass: the named steps, or all of them:
#   tools/check.sh [format layers words architecture requirements shell unused cppcheck gcc clang tidy generated clients large ndebug asan tsan package]...
# Every step runs, even after a failure; a summary ends the output.
set -u
cd "$(dirname "$0")/.." || exit 1
all=(format layers words architecture requirements shell unused cppcheck gcc clang tidy generated clients large ndebug asan tsan package)
jobs=${JOBS:-2}
export JOBS=$jobs
at=${CHECK_DIR:-.} # parent of the build folders
# A shadow of every address is slow to set up; several of these tests measure or race.
slower=(--timeout-multiplier 4)

sources() { find include src tests examples -name '*.[ch]' | LC_ALL=C sort; }
scripts() { find tools tests .ci/run .githooks -type f ! -name '*.bats' -exec grep -lE '^#!.*(ba)?sh$|^# shellcheck shell=' {} + | sort; }

step_format() { sources | xargs clang-format --dry-run --Werror; }
step_layers() { tools/check-layers.sh; }
step_words() { tools/check-words.sh; }
step_architecture() { tools/check-architecture.py; }
step_requirements() { tools/check-requirements.sh; }
step_shell() {
    local status=0
    # SC2317: shellcheck takes functions that are passed to check() or called by name for unreachable.
    scripts | xargs shellcheck --external-sources --exclude=SC2317 || status=1
    find tests -name '*.bats' | sort | xargs -r shellcheck --shell=bats --external-sources --exclude=SC2317 || status=1
    return $status
}
step_unused() { CC=gcc tools/check-unused.sh "$at/build-unused"; } # functions that no program uses
step_cppcheck() {
    cppcheck --quiet --std=c11 --language=c -D_GNU_SOURCE -D__linux__ -I include -I src -j "$jobs" \
        --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
        --suppressions-list=tools/cppcheck-suppressions.txt src examples
}
step_gcc() { CC=gcc tools/build.sh "$at/build-gcc" --werror -Dtests=enabled; }
step_clang() { CC=clang tools/build.sh "$at/build-clang" --werror -Dtests=enabled; }
step_tidy() {
    [ -f "$at/build-clang/compile_commands.json" ] || CC=clang tools/build.sh "$at/build-clang" --werror -Dtests=enabled || return 1
    # Not what runs in the kernel: it is compiled for another machine.
    find src -name '*.c' ! -name '*.bpf.c' | sort | xargs -P "$jobs" -n 4 clang-tidy --quiet -p "$at/build-clang" 2>/dev/null
}
step_generated() {
    CC=gcc tools/build.sh "$at/build-gcc" --werror -Dtests=enabled || return 1
    SOURCE=$PWD BUILD=$(realpath "$at/build-gcc") DIBS=$(realpath "$at/build-gcc/dibs") \
        tests/api/generated.sh bash man mandoc zsh fish
}
step_clients() { # as packages of their languages
    CC=gcc tools/build.sh "$at/build-gcc" --werror -Dtests=enabled &&
        tools/check-python-client.sh "$at/build-gcc/dibs" &&
        BUILD=$(realpath "$at/build-gcc") tests/support/with-npm tools/check-node-client.sh "$at/build-gcc/dibs"
}
step_large() { # 50,000 claims in a browser; 8 workers with 200 tests each
    CC=gcc tools/build.sh "$at/build-gcc" --werror -Dtests=enabled &&
        DIBS_TEST_LONG=1 tools/run-tests.sh "$at/build-gcc" --timeout-multiplier 20 \
            e2e-storm_ui e2e-storm_client_go e2e-storm_client_node e2e-storm_client_python
}
step_ndebug() { # an assert with a side effect would change the tests' results
    CC=gcc tools/build.sh "$at/build-ndebug" -Db_ndebug=true -Dtests=enabled &&
        tools/run-tests.sh "$at/build-ndebug" --suite unit --suite contract --suite fuzz
}
step_asan() {
    export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1
    export UBSAN_OPTIONS=print_stacktrace=1
    CC=clang tools/build.sh "$at/build-asan" --werror -Db_sanitize=address,undefined -Dtests=enabled &&
        tools/run-tests.sh "$at/build-asan" "${slower[@]}"
}
step_tsan() {
    CC=clang tools/build.sh "$at/build-tsan" --werror -Db_sanitize=thread -Dtests=enabled &&
        tools/run-tests.sh "$at/build-tsan" --suite unit --suite contract "${slower[@]}"
}
step_package() { # from the source archive, and installed in a system of their own
    tools/dist.sh "$at/build-dist" && tools/deb.sh "$at/build-deb" && tests/package/install.sh "$at/build-deb"
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")
for step in "${steps[@]}"; do
    declare -F "step_$step" >/dev/null || { echo "check: no step '$step'; there are: ${all[*]}" >&2; exit 2; }
done
passed=()
failed=()
for step in "${steps[@]}"; do
    printf '\n== check: %s\n' "$step"
    if ("step_$step"); then passed+=("$step"); else failed+=("$step"); fi
done
printf '\n== check: passed: %s\n' "${passed[*]:-none}"
[ ${#failed[@]} -eq 0 ] || { printf '== check: FAILED: %s\n' "${failed[*]}"; exit 1; }
