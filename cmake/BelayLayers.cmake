# belay_layer(NAME targets...)
# One folder of src/ as an object library that sees Abseil and the targets it
# names: base, geometry, model and types cannot include <mpi.h> or <hdf5.h>.
set(BELAY_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Woverloaded-virtual -Wcast-align -Wunused -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 with -O3 takes moved-from absl::InlinedVector for uninitialized.
  list(APPEND BELAY_WARNINGS -Wno-maybe-uninitialized
       -Wno-restrict)
endif()
if(BELAY_WERROR)
  list(APPEND BELAY_WARNINGS -Werror)
endif()

function(belay_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cc)
  add_library(belay_${name} OBJECT ${sources})
  target_include_directories(belay_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_BINARY_DIR}/include)
  target_compile_options(belay_${name} PRIVATE ${BELAY_WARNINGS})
  target_link_libraries(belay_${name} PUBLIC absl::status absl::statusor
    absl::strings absl::inlined_vector absl::function_ref absl::time
    absl::flat_hash_map absl::hash ${ARGN})
endfunction()
