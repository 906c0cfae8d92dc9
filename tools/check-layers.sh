#!/usr/bin/env bash
# Fail when a module includes a header of a module it may not use, when a library is used outside of its
# module, or when a file lacks base/banned.h. The table is that of docs/ARCHITECTURE.md.
set -eu
cd "$(dirname "$0")/.."
status=0

# module: the modules it may use. Public headers (dibs/...) are open to all.
declare -A may_use=(
    [base]=""
    [net]="base"
    [codec]="base net"
    [http]="base net codec"
    [host]="base net"
    [hold]="base net host"
    [runs]="base net host"
    [store]="base net codec http"
    [ledger]="base net store"
    [core]="base net host ledger"
    [lib]="base net codec host hold ledger core"
    [workload]="base net codec host"
    [server]="base net codec http host ledger core lib"
    [daemon]="base net codec http host hold ledger core lib server"
    [kube]="base net codec http host workload ledger core lib server"
    [cli]="base net codec hold runs workload kube daemon"
)

complain() { # complain REASON LINES
    [ -z "$2" ] || { printf 'layers: %s\n%s\n' "$1" "$2" >&2; status=1; }
}

for dir in src/*/; do
    module=$(basename "$dir")
    if [ -z "${may_use[$module]+set}" ]; then
        complain "src/$module is in no row of tools/check-layers.sh" "$dir"
        continue
    fi
    allowed="dibs/[^\"]*|$module/[^\"]*"
    for other in ${may_use[$module]}; do allowed+="|$other/[^\"]*"; done
    complain "$module may use only: $module ${may_use[$module]} dibs" \
        "$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$dir" --include='*.[ch]' |
            grep -vE "include[[:space:]]*\"($allowed)\"" || true)"
done

only_in() { # only_in FOLDER HEADER
    complain "only src/$1 may include <$2>" \
        "$(grep -rnE "include[[:space:]]*<$2>" src include --include='*.[ch]' | grep -v "^src/$1/" || true)"
}
only_in codec 'jansson\.h'
only_in codec 'libfyaml\.h'
only_in http 'curl/curl\.h'
only_in http 'microhttpd\.h'
only_in '\(kube/install\|server\)' 'gnutls/[a-z0-9]*\.h'
only_in store/sqlite 'sqlite3\.h'
only_in hold/bpf 'bpf/[a-z_]*\.h'
only_in hold/as 'seccomp\.h'

complain "only lib and server look inside of a handle" \
    "$(grep -rn '"lib/connection\.h"' src --include='*.[ch]' | grep -vE '^src/(lib|server)/' || true)"
complain "only cli prints" \
    "$(grep -rnE '\b(printf|puts|putchar|perror|v?fprintf[[:space:]]*\([[:space:]]*std(out|err))\b' src --include='*.[ch]' |
        grep -vE '^src/cli/|^src/hold/bpf/main.c:|^[^:]*:[0-9]+:[[:space:]]*(/?\*|//)|format\(printf' || true)"
complain "time is passed in; these modules never ask a clock" \
    "$(grep -rnE '\b(clock_now|clock_gettime|gettimeofday)[[:space:]]*\(|\btime[[:space:]]*\(NULL' \
        src/net src/core --include='*.c' 2>/dev/null || true)"

while read -r dir n; do
    [ "$n" -le 25 ] || complain "a folder has at most 25 .c files" "$dir: $n"
done < <(find src -name '*.c' -printf '%h\n' | sort | uniq -c | awk '{print $2, $1}')

while read -r file; do
    [ "$(grep -E '^#include' "$file" | tail -n 1)" = '#include "base/banned.h"' ] ||
        complain "base/banned.h must be the last include" "$file"
done < <(find src -name '*.c' ! -name '*.bpf.c') # not what runs in the kernel, which has no libc
exit $status
