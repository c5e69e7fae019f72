#!/usr/bin/env bash
# module_test.sh BUILD PYTHON: loads and unloads the module of an installed copy.
# PYTHON is 1 if the copy has the Python package. Exits with 77 where there are
# no Environment Modules.
set -euo pipefail
build=$1 python=$2
init=/usr/share/modules/init/bash
[[ -f $init ]] || { echo "skipped: no environment-modules"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/installed" >/dev/null
prefix=$scratch/moved  # wherever it lies
mv "$scratch/installed" "$prefix"

# expect WHAT NEED COMMAND...
expect() {
  local what=$1 need=$2 found
  shift 2
  found=$("$@" 2>&1) || true
  [[ $found == "$need" ]] || { echo "$what: need $need, found $found"; exit 1; }
}

set +u  # the functions of modules read what is not set
# shellcheck source=/dev/null
source "$init"
unset LD_LIBRARY_PATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH MANPATH PYTHONPATH
path=$PATH
module use "$prefix/share/modulefiles"
module load belay
expect "the command" "$prefix/bin/belay" command -v belay
version=$(belay --version)
expect "pkg-config" "$version" pkg-config --modversion belay
expect "the manual" "$prefix/share/man/man1/belay.1.gz" man -w belay
man -w ls >/dev/null || { echo "the manuals of the system are hidden"; exit 1; }
expect "CMAKE_PREFIX_PATH" "$prefix" printenv CMAKE_PREFIX_PATH
libraries=$(printenv LD_LIBRARY_PATH)
[[ -f $libraries/libbelay.so ]] || { echo "no library: $libraries"; exit 1; }
if [[ $python == 1 ]]; then
  expect "the Python package" "$version" \
    /usr/bin/python3 -c 'import belay; print(belay.__version__)'
fi
module unload belay
expect "PATH after unloading" "$path" printenv PATH
expect "PYTHONPATH after unloading" "" printenv PYTHONPATH
echo "loaded and unloaded belay/$version"
