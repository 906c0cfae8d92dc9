#!/usr/bin/env bash
# The man page and completions that the command table prints are well formed.
# usage: generated.sh [bash|man|zsh|fish|mandoc]...      (default: bash man)
set -u
# shellcheck source=tests/support/tap.sh
. "$SOURCE/tests/support/tap.sh"
made=$BUILD/tools
[ $# -gt 0 ] || set -- bash man

silent() { # silent COMMAND...: succeeds and says nothing
    local said
    if ! said=$("$@" 2>&1 >/dev/null) || [ -n "$said" ]; then
        echo "$said"
        return 1
    fi
}
man_formats() { MANWIDTH=80 silent man --warnings=all -E UTF-8 -l "$made/dibs.1"; }
bash_completes() { # bash must offer the commands, as the installed file lists them
    # shellcheck disable=SC2016
    bash --norc -c '
        . "$1" || exit 1
        spec=$(complete -p dibs) || exit 1
        [[ $spec =~ -F\ ([^ ]+) ]] || { echo "no function: $spec"; exit 1; }
        PATH=$(dirname "$2"):$PATH
        COMP_WORDS=(dibs cla) COMP_CWORD=1 COMP_LINE="dibs cla" COMP_POINT=8 COMPREPLY=()
        "${BASH_REMATCH[1]}" dibs cla dibs
        case " ${COMPREPLY[*]} " in *" claim "*) ;; *) echo "offered: ${COMPREPLY[*]}"; exit 1 ;; esac
    ' bash "$made/dibs" "$DIBS"
}

for tool; do
    if ! command -v "$tool" >/dev/null; then
        skip_case "the output for $tool is well formed" "$tool is not installed"
        continue
    fi
    case $tool in
    bash)
        check "bash parses its completion" bash -n "$made/dibs"
        check "bash completes 'cla' to 'claim'" bash_completes
        ;;
    man) check "man formats the page without a warning" man_formats ;;
    mandoc) check "mandoc finds no warning in the page" mandoc -T lint -W warning "$made/dibs.1" ;;
    zsh) check "zsh parses its completion" zsh -n "$made/_dibs" ;;
    fish) check "fish parses its completion" fish --no-execute "$made/dibs.fish" ;;
    *) check "$tool is a tool of this script" false ;;
    esac
done
done_testing
