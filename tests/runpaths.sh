#!/bin/sh
# runpaths.sh DIRECTORY: no program or library below it may look for libraries in
# the current directory, as it does for an empty or relative element of a RUNPATH.
set -u
directory=$1
bad=$(find "$directory" -type f \( -perm -100 -o -name '*.so*' \) \
  ! -path '*/CMakeFiles/*' -exec readelf -d {} + 2>/dev/null |
  awk '/^File: / { file = $2 }
       /\((RPATH|RUNPATH)\)/ {
         path = $0
         sub(/^[^[]*\[/, "", path)
         sub(/\]$/, "", path)
         count++
         parts = split(path, part, ":")
         if (parts == 0) print file ": empty"
         for (i = 1; i <= parts; i++)
           if (part[i] !~ /^(\/|\$ORIGIN(\/|$))/)
             print file ": \"" part[i] "\" in \"" path "\""
       }
       END { if (count == 0) print "no file has a RUNPATH" }')
[ -z "$bad" ] && exit 0
echo "libraries are looked for in the current directory:"
echo "$bad"
exit 1
