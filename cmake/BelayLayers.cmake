# belay_layer(NAME DEPENDS layers... LINK targets...)
# One folder of src/ as an object library. A layer can include only what it
# links: base, geometry, model and types never see <mpi.h> or <hdf5.h>.
set(BELAY_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Woverloaded-virtual -Wcast-align -Wunused -Wno-missing-field-initializers)
if(BELAY_WERROR)
  list(APPEND BELAY_WARNINGS -Werror)
endif()

function(belay_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cc)
  add_library(belay_${name} OBJECT ${sources})
  target_include_directories(belay_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_BINARY_DIR}/include)
  target_compile_options(belay_${name} PRIVATE ${BELAY_WARNINGS})
  target_link_libraries(belay_${name} PUBLIC absl::status absl::statusor
    absl::strings absl::inlined_vector absl::function_ref absl::time
    absl::flat_hash_map absl::hash ${ARG_LINK})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(belay_${name} PUBLIC
      $<COMPILE_ONLY:belay_${dependency}>)
  endforeach()
endfunction()
