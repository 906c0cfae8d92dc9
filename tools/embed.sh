#!/bin/sh
# Print a C file with the concatenated bytes of files: embed.sh NAME FILE... defines NAME[] and NAME_size.
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
