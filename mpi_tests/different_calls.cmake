# Ranks that make different calls: a few of all pairs.
add_executable(mpi_different_calls different_calls.cc)
target_compile_options(mpi_different_calls PRIVATE ${BELAY_WARNINGS})
target_link_libraries(mpi_different_calls PRIVATE belay_internal)
foreach(pair manager_save:should_save manager_save:manager_restore
        save:restore should_save:save choose:restore manager_create:reload)
  string(REPLACE ":" ";" calls ${pair})
  string(REPLACE ":" "_" name ${pair})
  set(test mpi.different_calls.${name}.3ranks)
  add_test(NAME ${test}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/different_calls.sh
                   ${MPI_TEST_LAUNCHER} 3 $<TARGET_FILE:mpi_different_calls>
                   ${CMAKE_CURRENT_BINARY_DIR}/scratch/different_${name}
                   ${calls})
  set_tests_properties(${test} PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)  # it mostly waits
endforeach()
