# One rank fails in code of its own: all of them end, and soon.
add_executable(mpi_one_rank_ends one_rank_ends.cc)
target_compile_options(mpi_one_rank_ends PRIVATE ${BELAY_WARNINGS})
target_link_libraries(mpi_one_rank_ends PRIVATE belay::belay)
set(programs "throws=mpi_one_rank_ends;checks=mpi_one_rank_ends"
             "exits=mpi_one_rank_ends" "finalizes=mpi_one_rank_ends"
             "no_deadline=mpi_one_rank_ends")
if(TARGET belay_fortran)
  add_executable(mpi_fortran_one_rank_ends fortran/one_rank_ends.f90)
  target_link_libraries(mpi_fortran_one_rank_ends PRIVATE belay_fortran)
  list(APPEND programs "error_stop=mpi_fortran_one_rank_ends"
                       "stop=mpi_fortran_one_rank_ends"
                       "finalize_stop=mpi_fortran_one_rank_ends")
endif()
foreach(program IN LISTS programs)
  string(REPLACE "=" ";" program "${program}")
  list(GET program 0 case)
  list(GET program 1 target)
  set(text "the mesh is inside out")
  if(case MATCHES "finalize|no_deadline")
    set(text "rank 1 of 3 has called MPI_Finalize and will not make this call")
  endif()
  add_test(NAME mpi.one_rank_ends.${case}.3ranks
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/one_rank_ends.sh
                   ${text} ${MPI_TEST_LAUNCHER} 3
                   $<TARGET_FILE:${target}>
                   ${CMAKE_CURRENT_BINARY_DIR}/scratch/ends_${case} ${case})
  set_tests_properties(mpi.one_rank_ends.${case}.3ranks PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)  # it mostly waits
endforeach()
# Nobody fails, though some ranks end while others wait for what is on its way.
foreach(ranks 3 5)
  add_test(NAME mpi.orderly_end.${ranks}ranks
           COMMAND timeout 40 ${MPI_TEST_LAUNCHER} ${ranks}
                   $<TARGET_FILE:mpi_one_rank_ends>
                   ${CMAKE_CURRENT_BINARY_DIR}/scratch/ends_orderly orderly)
  set_tests_properties(mpi.orderly_end.${ranks}ranks PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)
endforeach()
