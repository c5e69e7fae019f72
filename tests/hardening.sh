#!/bin/sh
# hardening.sh LIBRARY: it must be built with the guards of CMakeLists.txt.
set -u
library=$1
bad=0
look() {  # look WHAT PATTERN COMMAND...
  what=$1 pattern=$2
  shift 2
  if ! "$@" | grep -q "$pattern"; then
    echo "$library: no $what"
    bad=1
  fi
}
look "full RELRO (-z now)" "BIND_NOW\|FLAGS_1.*NOW" readelf -d "$library"
look "RELRO (-z relro)" "GNU_RELRO" readelf -lW "$library"
look "stack protector" "__stack_chk_fail" nm -D --undefined-only "$library"
look "fortified calls" "__.*_chk" nm -D --undefined-only "$library"
look "assertions of the standard library" "__glibcxx_assert_fail" \
  nm -D --undefined-only "$library"
exit $bad
