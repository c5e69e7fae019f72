# One rank fails in code of its own: all of them end, and soon.
add_executable(mpi_one_rank_ends one_rank_ends.cc)
target_compile_options(mpi_one_rank_ends PRIVATE ${BELAY_WARNINGS})
target_link_libraries(mpi_one_rank_ends PRIVATE belay::belay)
set(programs "throws=mpi_one_rank_ends;checks=mpi_one_rank_ends"
             "exits=mpi_one_rank_ends")
if(TARGET belay_fortran)
  add_executable(mpi_fortran_one_rank_ends fortran/one_rank_ends.f90)
  target_link_libraries(mpi_fortran_one_rank_ends PRIVATE belay_fortran)
  list(APPEND programs "error_stop=mpi_fortran_one_rank_ends"
                       "stop=mpi_fortran_one_rank_ends")
endif()
foreach(program IN LISTS programs)
  string(REPLACE "=" ";" program "${program}")
  list(GET program 0 case)
  list(GET program 1 target)
  add_test(NAME mpi.one_rank_ends.${case}.3ranks
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/one_rank_ends.sh
                   "the mesh is inside out" ${MPI_TEST_LAUNCHER} 3
                   $<TARGET_FILE:${target}>
                   ${CMAKE_CURRENT_BINARY_DIR}/scratch/ends_${case} ${case})
  set_tests_properties(mpi.one_rank_ends.${case}.3ranks PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)  # it mostly waits
endforeach()
