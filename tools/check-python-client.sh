#!/usr/bin/env bash
# Check the Python client as a package: types, and a wheel and a source archive that are built without a
# network and work where they are installed.
# usage: tools/check-python-client.sh PATH-OF-DIBS
set -eu
DIBS=$(realpath "$1")
cd "$(dirname "$0")/../clients/python"
python=/usr/bin/python3 # Debian's, which has the packages of tools/debian-packages.txt
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
export DIBS PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=$T/mypy

mypy src tests

cp -rL . "$T/source" # a build writes beside what it reads
(cd "$T/source" && "$python" -m build --no-isolation . >"$T/build.log" 2>&1) || { cat "$T/build.log"; exit 1; }
wheel=("$T"/source/dist/dibs-*-py3-none-any.whl)
archive=("$T"/source/dist/dibs-*.tar.gz)
"$python" -m zipfile -l "${wheel[0]}" >"$T/wheel"
for file in dibs/py.typed dibs/pytest_plugin.py LICENSE entry_points.txt; do
    grep -q "$file" "$T/wheel" || { echo "the wheel has no $file" >&2; exit 1; }
done
tar -tzf "${archive[0]}" >"$T/archive"
for file in pyproject.toml README.md LICENSE tests/conftest.py src/dibs/py.typed; do
    grep -q "/$file\$" "$T/archive" || { echo "the source archive has no $file" >&2; exit 1; }
done

# Debian's pytest is visible in the new environment, the source is not.
"$python" -m venv --system-site-packages "$T/venv"
"$T/venv/bin/pip" install -q --no-index --no-deps "${wheel[0]}"
mkdir "$T/user"
cd "$T/user"
export DIBS_LEDGER=sqlite:$T/ledger.db DIBS_SOCKET=none HOME=$T
cat >test_installed.py <<'END'
import dibs


def test_the_plugin_is_loaded(dibs_port: int, dibs_client: dibs.Client) -> None:
    claim = dibs_client.list(port=dibs_port)[0]
    assert claim.holder is not None and claim.holder.pid is not None
END
"$T/venv/bin/python" -m pytest -q -p no:cacheprovider
"$T/venv/bin/python" -m dibs.portpicker
# The types of the package count for its users.
mypy --strict --python-executable "$T/venv/bin/python" test_installed.py
cat >wrong.py <<'END'
import dibs

port: str = dibs.Client().claim().port
END
if mypy --python-executable "$T/venv/bin/python" wrong.py >"$T/wrong"; then
    echo "mypy does not see the types of the package" >&2
    exit 1
fi
grep -q 'expression has type "int", variable has type "str"' "$T/wrong"
"$T/venv/bin/pip" uninstall -q -y dibs
