#!/usr/bin/env bash
# Fails when a room includes a header of a room it may not know, when a library is seen outside of its
# room, or when a file forgets base/banned.h. The table is that of docs/ARCHITECTURE.md.
set -eu
cd "$(dirname "$0")/.."
status=0

# room: the rooms it may use. Public headers (dibs/...) are open to all.
declare -A may_use=(
    [base]=""
    [net]="base"
    [index]="base net"
    [owner]="base net"
    [kernel]="base net"
    [json]="base"
    [yaml]="base"
    [web]="base"
    [tls]="base"
    [wire]="base net json"
    [etcd]="base net json web"
    [ledger]="base net json etcd"
    [core]="base net index owner kernel"
    [lib]="base net index owner kernel json yaml wire ledger core"
    [workload]="base net owner json yaml"
    [kube]="base net json yaml workload"
    [kubeapi]="base net json yaml web"
    [operator]="base net json yaml web http workload kube kubeapi core lib ledger"
    [http]="base net json"
    [daemon]="base net index owner kernel json yaml wire http ledger core lib portserver"
    [portserver]="base net owner wire core lib daemon"
    [cli]="base json yaml wire workload kube"
)
# Single headers beside that: core knows the front of the ledger, not its backends; cli reads the words that
# manifests have, too.
declare -A may_include=(
    [core]="ledger/ledger.h ledger/mru.h"
    [cli]="net/bindings.h daemon/serve.h operator/controller.h operator/webhook.h operator/pool.h tls/certificate.h"
    [operator]="daemon/log.h daemon/sockets.h owner/owner.h"
)

complain() { # complain REASON LINES
    [ -z "$2" ] || { printf 'layers: %s\n%s\n' "$1" "$2" >&2; status=1; }
}

for dir in src/*/; do
    room=$(basename "$dir")
    if [ -z "${may_use[$room]+set}" ]; then
        complain "src/$room is in no row of tools/check-layers.sh" "$dir"
        continue
    fi
    allowed="dibs/[^\"]*|$room/[^\"]*"
    for other in ${may_use[$room]}; do allowed+="|$other/[^\"]*"; done
    for header in ${may_include[$room]:-}; do allowed+="|${header//./\\.}"; done
    complain "$room may use only: $room ${may_use[$room]} ${may_include[$room]:-} dibs" \
        "$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$dir" --include='*.[ch]' |
            grep -vE "include[[:space:]]*\"($allowed)\"" || true)"
done

only_in() { # only_in ROOM HEADER
    complain "only src/$1 may include <$2>" \
        "$(grep -rnE "include[[:space:]]*<$2>" src include --include='*.[ch]' | grep -v "^src/$1/" || true)"
}
only_in json 'jansson\.h'
only_in web 'curl/curl\.h'
only_in http 'microhttpd\.h'
only_in tls 'gnutls/[a-z0-9]*\.h'
only_in ledger 'sqlite3\.h'
only_in yaml 'libfyaml\.h'

complain "only doors print" \
    "$(grep -rnE '\b(printf|puts|putchar|perror|v?fprintf[[:space:]]*\([[:space:]]*std(out|err))\b' src --include='*.[ch]' |
        grep -vE '^src/cli/|^[^:]*:[0-9]+:[[:space:]]*(/?\*|//)|format\(printf' || true)"
complain "time is passed in; these rooms never ask a clock" \
    "$(grep -rnE '\b(clock_now|clock_gettime|gettimeofday)[[:space:]]*\(|\btime[[:space:]]*\(NULL' \
        src/net src/index src/core --include='*.c' 2>/dev/null || true)"

for file in src/*/*.c; do
    [ "$(grep -E '^#include' "$file" | tail -n 1)" = '#include "base/banned.h"' ] ||
        complain "base/banned.h must be the last include" "$file"
done
exit $status
