#!/usr/bin/env bash
# share/dibs.schema.json and the reader of manifests agree; the table is in schema.py.
if ! python3 -c 'import jsonschema' 2>/dev/null; then
    echo "1..0 # SKIP python3-jsonschema is not installed"
    exit 0
fi
exec python3 "$SOURCE/tests/api/schema.py" "$SOURCE/share/dibs.schema.json" "$BUILD/tests/schema"
