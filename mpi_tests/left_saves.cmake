# Programs that end while a save in the background is under way.
add_executable(mpi_async_left async_left.cc)
target_compile_options(mpi_async_left PRIVATE ${BELAY_WARNINGS})
target_link_libraries(mpi_async_left PRIVATE belay_internal)
foreach(case destroys manages finalizes leaks exits races replaced removed other handles)
  add_test(NAME mpi.async_left.${case}.3ranks
           COMMAND ${MPI_TEST_LAUNCHER} 3 $<TARGET_FILE:mpi_async_left>
                   ${scratch}/async_left_${case} ${case})
  set_tests_properties(mpi.async_left.${case}.3ranks PROPERTIES
    TIMEOUT 60 LABELS mpi ${ONE_CORE})
endforeach()

set(lazy "is lost: nobody has called Close or Wait before, and WaitForSnapshot was not called")
set(asks "and it has to call functions of the program, which may be gone")
set(closes "and its communicator was closed before")
set(handler "${asks}")
foreach(case lazy asks closes handler)
  add_test(NAME mpi.async_left.${case}.3ranks
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/check_exit.sh "${${case}}"
                   ${MPI_TEST_LAUNCHER} 3 $<TARGET_FILE:mpi_async_left>
                   ${scratch}/async_left_${case} ${case})
endforeach()
add_test(NAME mpi.async_left.stuck.1ranks
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/deadline_exit.sh
                 "belay: deadline: finish save \"async_left_stuck/step_00000002\", stage MPI_Finalize: a call did not return within 1 s on rank 0"
                 sh -c "rm -rf async_left_stuck && exec \"$@\"" sh
                 ${MPI_TEST_LAUNCHER} 1 $<TARGET_FILE:mpi_async_left>
                 async_left_stuck stuck
         WORKING_DIRECTORY ${scratch})
set_tests_properties(mpi.async_left.lazy.3ranks mpi.async_left.asks.3ranks
  mpi.async_left.closes.3ranks mpi.async_left.handler.3ranks
  mpi.async_left.stuck.1ranks PROPERTIES TIMEOUT 60 LABELS mpi ${ONE_CORE})

add_executable(mpi_left_in_c left_in_c.c)
set_target_properties(mpi_left_in_c PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(mpi_left_in_c PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_link_libraries(mpi_left_in_c PRIVATE belay::belay)
add_test(NAME mpi.left_in_c.3ranks
         COMMAND sh -c "rm -rf left_in_c && \"$@\" && ls left_in_c/step_00000001"
                 sh ${MPI_TEST_LAUNCHER} 3 $<TARGET_FILE:mpi_left_in_c>
                 left_in_c
         WORKING_DIRECTORY ${scratch})
set_tests_properties(mpi.left_in_c.3ranks PROPERTIES
  TIMEOUT 60 LABELS mpi ${ONE_CORE}
  PASS_REGULAR_EXPRESSION "nobody has called belay_saver_close, belay_saver_wait or belay_manager_wait before.*index.h5")
