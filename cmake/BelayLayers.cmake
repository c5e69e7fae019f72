# belay_sources(NAME DIRECTORY targets...)
# The sources of a folder as an object library that sees Abseil and the targets
# it names: the others cannot include <mpi.h> or <hdf5.h>.
set(BELAY_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Woverloaded-virtual -Wcast-align -Wunused -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 with -O3 takes moved-from absl::InlinedVector for uninitialized.
  list(APPEND BELAY_WARNINGS -Wno-maybe-uninitialized -Wno-stringop-overflow
       -Wno-restrict)
endif()
if(BELAY_WERROR)
  list(APPEND BELAY_WARNINGS -Werror)
endif()

# What most sources of the library begin with, parsed once for all of them: the
# standard library and Abseil, never a header of MPI, HDF5 or belay. Each source
# still includes all it uses: `./dev tidy` reads it without this. GCC 12 then
# warns of its own std::string in `"text" + std::string()`: say Cat("text", ...).
set(BELAY_COMMON_HEADERS
  <algorithm> <chrono> <cmath> <cstddef> <cstdint> <cstring> <functional>
  <iterator> <limits> <map> <memory> <numeric> <optional> <set> <span> <string>
  <string_view> <tuple> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/container/inlined_vector.h> <absl/functional/function_ref.h>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
  <absl/strings/str_format.h> <absl/strings/str_join.h>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/common_headers.cc CONTENT "" @ONLY)
add_library(belay_common_headers OBJECT ${PROJECT_BINARY_DIR}/common_headers.cc)
target_compile_options(belay_common_headers PRIVATE ${BELAY_WARNINGS}
                                            PUBLIC -pthread)  # as RE2 asks
target_link_libraries(belay_common_headers PUBLIC absl::status absl::statusor
  absl::strings absl::inlined_vector absl::function_ref absl::time
  absl::flat_hash_map absl::hash)
target_precompile_headers(belay_common_headers PRIVATE ${BELAY_COMMON_HEADERS})

function(belay_sources name directory)
  file(GLOB sources CONFIGURE_DEPENDS ${directory}/*.cc)
  add_library(belay_in_${name} OBJECT ${sources})
  target_include_directories(belay_in_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_BINARY_DIR}/include)
  target_compile_options(belay_in_${name} PRIVATE ${BELAY_WARNINGS})
  target_link_libraries(belay_in_${name} PUBLIC belay_common_headers ${ARGN})
  target_precompile_headers(belay_in_${name} REUSE_FROM belay_common_headers)
endfunction()

# belay_folder(NAME targets...): one folder of src/.
macro(belay_folder name)
  belay_sources(${name} ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${ARGN})
endmacro()
