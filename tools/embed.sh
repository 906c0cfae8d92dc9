#!/bin/sh
# Prints a C file with the bytes of a file: embed.sh NAME FILE gives NAME[] and NAME_size.
set -eu
echo '#include <stddef.h>'
echo "extern const char $1[];"
echo "extern const size_t $1_size;"
echo "const char $1[] = {"
od -An -v -t d1 "$2" | sed 's/  *\(-*[0-9][0-9]*\)/\1,/g'
echo '};'
echo "const size_t $1_size = sizeof $1;"
