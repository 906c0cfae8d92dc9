#!/bin/sh
# Prints a C file with the bytes of files, one behind the other: embed.sh NAME FILE... gives NAME[] and NAME_size.
set -eu
name=$1
shift
echo '#include <stddef.h>'
echo "extern const char ${name}[];"
echo "extern const size_t ${name}_size;"
echo "const char ${name}[] = {"
cat -- "$@" | od -An -v -t d1 | sed 's/  *\(-*[0-9][0-9]*\)/\1,/g'
echo '};'
echo "const size_t ${name}_size = sizeof $name;"
