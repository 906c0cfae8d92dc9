#!/bin/sh
# Print a C file with the concatenated bytes of files: embed.sh [--page] NAME FILE... defines NAME[] and NAME_size.
# --page leaves out what a browser does not need: indentation and the text of lines that are comments. Every line
# keeps its number.
set -eu
text() { cat -- "$@"; }
if [ "$1" = --page ]; then
    text() { sed -E 's/^ +//; s#^//.*##; s#^/\*\*.*\*/$##' -- "$@"; }
    shift
fi
name=$1
shift
echo '#include <stddef.h>'
echo "extern const char ${name}[];"
echo "extern const size_t ${name}_size;"
echo "const char ${name}[] = {"
text "$@" | od -An -v -t d1 | sed 's/  *\(-*[0-9][0-9]*\)/\1,/g'
echo '};'
echo "const size_t ${name}_size = sizeof $name;"
