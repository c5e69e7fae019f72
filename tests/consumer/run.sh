#!/bin/sh
# run.sh BUILD SOURCE CXX: installs BUILD into a new prefix, builds the program
# in SOURCE against it in all ways that README names, and runs it on two ranks.
set -eu
build=$1 source=$2 cxx=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
for file in include/belay/save_restore.h include/belay/version.h \
  share/doc/belay/errors.md share/doc/belay/design/0004-transfers.md; do
  test -f "$scratch/prefix/$file" || { echo "not installed: $file"; exit 1; }
done
# Each link of a page leads to a file that is installed.
(cd "$scratch/prefix/share/doc/belay"
 grep -roE '\]\([A-Za-z0-9_./-]+[)#]' --include='*.md' . |
   sed 's/:](/ /; s/[)#]$//' |
   while read -r page link; do
     test -e "${page%/*}/$link" || echo "dead link: $page: $link"
   done) >"$scratch/links"
test ! -s "$scratch/links" || { cat "$scratch/links"; exit 1; }
if grep -rlF "$source" "$scratch/prefix" --include='*.cmake'; then
  echo "the installed files above name the source tree"
  exit 1
fi

# The installed command finds the models that are installed with it.
if [ -x "$scratch/prefix/bin/belay" ]; then
  models=$scratch/prefix/share/belay/models
  cp "$models/gpt2-small.hf.tsv" "$models/copy.tsv"
  "$scratch/prefix/bin/belay" simulate --model copy --from dp=2 >/dev/null
  for file in man/man1/belay.1.gz man/man1/belay-ls.1.gz \
    bash-completion/completions/belay; do
    test -f "$scratch/prefix/share/$file" ||
      { echo "not installed: $file"; exit 1; }
  done
fi

run() {
  mpirun --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 \
    --mca btl self,vader --mca io romio321 -n 2 "$@"
}

# CMake, also in projects that ask for an older one and its policies.
for version in 3.25 3.0 2.8.12; do
  project=$scratch/cmake-$version
  mkdir "$project"
  cp "$source/tests/consumer/main.cc" "$project"
  sed "s/VERSION 3.25/VERSION $version/" \
    "$source/tests/consumer/CMakeLists.txt" >"$project/CMakeLists.txt"
  cmake -S "$project" -B "$project/build" -G Ninja -Wno-dev -Wno-deprecated \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$project/configure.log" 2>&1 ||
    { cat "$project/configure.log"; exit 1; }
  cmake --build "$project/build"
  run "$project/build/consumer" "$scratch/run-$version"
done

# pkg-config, wherever the installed copy has been moved to.
mv "$scratch/prefix" "$scratch/moved"
pc=$(find "$scratch/moved" -name belay.pc)
test -n "$pc" || { echo "not installed: belay.pc"; exit 1; }
export PKG_CONFIG_PATH="${pc%/*}"
export OMPI_CXX="$cxx"
# Not quoted: it is several words.
# shellcheck disable=SC2046
mpicxx -std=c++20 "$source/tests/consumer/main.cc" -o "$scratch/consumer" \
  $(pkg-config --cflags --libs belay)
run "$scratch/consumer" "$scratch/run-pkg-config"

# The installed command starts the program that lies beside the library.
if [ -x "$scratch/moved/bin/belay" ]; then
  "$scratch/moved/bin/belay" verify "$source/tests/golden/format_1_0"
  program=$(find "$scratch/moved" -name read-hdf5)
  mv "$program" "$program.gone"
  if "$scratch/moved/bin/belay" verify "$source/tests/golden/format_1_0" \
    2>"$scratch/missing"; then
    echo "belay verify does not need $program"
    exit 1
  fi
  grep -qF "$program" "$scratch/missing" || { cat "$scratch/missing"; exit 1; }
  mv "$program.gone" "$program"
fi

# The static library, where it was installed, with all that it needs.
if [ -f "${pc%/*/*}/libbelay.a" ]; then
  # shellcheck disable=SC2046
  mpicxx -std=c++20 "$source/tests/consumer/main.cc" -o "$scratch/static" \
    $(pkg-config --static --define-variable=belay=-l:libbelay.a --cflags \
      --libs belay)
  project=$scratch/cmake-static
  mkdir "$project"
  cp "$source/tests/consumer/main.cc" "$project"
  sed "s/REQUIRED/REQUIRED COMPONENTS static/; s/belay::belay/&_static/" \
    "$source/tests/consumer/CMakeLists.txt" >"$project/CMakeLists.txt"
  cmake -S "$project" -B "$project/build" -G Ninja \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$scratch/moved" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$project/configure.log" 2>&1 ||
    { cat "$project/configure.log"; exit 1; }
  cmake --build "$project/build"
  for program in "$scratch/static" "$project/build/consumer"; do
    if ldd "$program" | grep -q libbelay; then
      echo "$program: linked with the shared library"
      exit 1
    fi
    run "$program" "$program.run"
  done
fi

# The same in C and, where its module was installed, in Fortran.
# shellcheck disable=SC2046
mpicc -std=c99 "$source/examples/c/heat.c" -o "$scratch/c_heat" \
  $(pkg-config --cflags --libs belay)
run "$scratch/c_heat" "$scratch/run-c" 100
if [ -f "$PKG_CONFIG_PATH/belay-fortran.pc" ]; then
  # shellcheck disable=SC2046
  mpifort "$source/examples/fortran/heat.f90" -o "$scratch/fortran_heat" \
    $(pkg-config --cflags --libs belay-fortran)
  run "$scratch/fortran_heat" "$scratch/run-fortran" 100
  project=$scratch/fortran
  mkdir "$project"
  cp "$source/examples/fortran/heat.f90" "$project"
  cat >"$project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(heat LANGUAGES C CXX Fortran)
find_package(belay 0.1 REQUIRED)
add_executable(heat heat.f90)
target_link_libraries(heat PRIVATE belay::belay_fortran)
END
  cmake -S "$project" -B "$project/build" -G Ninja \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$scratch/moved" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$project/configure.log" 2>&1 ||
    { cat "$project/configure.log"; exit 1; }
  cmake --build "$project/build"
  run "$project/build/heat" "$scratch/run-fortran" 200
fi
