#!/usr/bin/env bash
# Manual pages and completions are complete and well formed. They are made from the command table, the schema of manifests
# and the public headers.
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
pages() { find "$made" -maxdepth 1 -name '*.[135]' -exec grep -L '^\.so ' {} + | sort; }
man_formats() {
    local page
    for page in $(pages); do MANWIDTH=80 silent man --warnings=all -E UTF-8 -l "$page" || return 1; done
}
mandoc_likes() {
    local page
    for page in $(pages); do mandoc -T lint -W warning "$page" || return 1; done
}
is_shown() { # is_shown PAGE PATTERN...: the formatted page has a line for each
    local shown pattern
    shown=$(MANWIDTH=80 MANPAGER=cat man --nj --nh -E UTF-8 -l "$made/$1" | col -b) || return 1
    for pattern in "${@:2}"; do
        grep -qE "$pattern" <<<"$shown" || { echo "$1 does not show $pattern"; return 1; }
    done
}
has_commands() { # each has its page, which shows each of its options
    local command commands options
    mapfile -t commands < <("$DIBS" --list-commands)
    is_shown dibs.1 "${commands[@]/#/^ +dibs-}" || return 1
    for command in "${commands[@]}"; do
        mapfile -t options < <("$DIBS" help "$command" | sed -n '/^Options:/,/^$/p' | grep -oE '^ +(-., )?--[a-z-]+' | sed 's/.*--/^ +(-., )?--/; s/$/\\b/')
        is_shown "dibs-$command.1" "dibs-$command - " "dibs $command( |$)" "${options[@]}" || return 1
    done
}
has_functions() { # each is declared in dibs(3), and a page leads there
    local name names
    mapfile -t names < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$SOURCE/libdibs.sym")
    [ "${#names[@]}" -gt 50 ] && is_shown dibs.3 "${names[@]/#/^ +[a-z].*[ *]}" || return 1
    for name in "${names[@]}"; do
        [ "$(cat "$made/$name.3")" = ".so man3/dibs.3" ] || { echo "no page $name(3)"; return 1; }
    done
}
has_keys() { # every key of a manifest and every setting
    local keys
    # shellcheck disable=SC2016 # for Python
    mapfile -t keys < <(python3 -c 'import json, sys
schema = json.load(open(sys.argv[1]))
print("\n".join(sorted({key for part in [schema, *schema["$defs"].values()] for key in part.get("properties", ())})))' "$SOURCE/share/dibs.schema.json"
        "$DIBS" --help | sed -n '/^Settings/,/^$/s/^ *--\([a-z-]*\).*/\1/p')
    [ "${#keys[@]}" -gt 30 ] && is_shown dibs.yaml.5 "${keys[@]/#/^ +}"
}
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
    man)
        check "man formats every page without a warning" man_formats
        check "every command has its page, with all of its options" has_commands
        check "dibs(3) declares every public function, and has a page by the name of each" has_functions
        check "dibs.yaml(5) has every key of a manifest and every setting" has_keys
        ;;
    mandoc) check "mandoc finds no warning in any page" mandoc_likes ;;
    zsh) check "zsh parses its completion" zsh -n "$made/_dibs" ;;
    fish) check "fish parses its completion" fish --no-execute "$made/dibs.fish" ;;
    *) check "$tool is a tool of this script" false ;;
    esac
done
done_testing
