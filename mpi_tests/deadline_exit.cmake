# A deadline ends the job, so what it prints is judged from outside.
add_executable(mpi_deadline_exit deadline_exit.cc)
target_compile_options(mpi_deadline_exit PRIVATE ${BELAY_WARNINGS})
target_link_libraries(mpi_deadline_exit PRIVATE belay_internal)

# belay_deadline_exit(CASE RANKS MESSAGE) expects exit code 75 and a line with
# MESSAGE and the end that all have in common.
function(belay_deadline_exit case ranks message)
  set(test mpi.deadline_exit.${case}.${ranks}ranks)
  add_test(NAME ${test}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/deadline_exit.sh "${message}"
                   ${MPI_TEST_LAUNCHER} ${ranks}
                   $<TARGET_FILE:mpi_deadline_exit> ${case})
  set_tests_properties(${test} PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)  # it mostly waits
endfunction()

set(start "belay: deadline: save \"run/step_00000007\", stage write: ")
set(other_calls "; ranks may be in different calls")
foreach(ranks 2 4)
  math(EXPR last "${ranks} - 1")
  belay_deadline_exit(last_rank_sleeps ${ranks}
    "${start}waited 1 s for rank ${last} of ${ranks}${other_calls}")
endforeach()
belay_deadline_exit(first_rank_sleeps 3
  "${start}waited 1 s for rank 0 of 3${other_calls}")
belay_deadline_exit(writers_sleep 3 "${start}waited 1 s for ranks 1, 2 of 3; \
rank 1 writes \"b\" and 2 more datasets; rank 2 writes nothing")
belay_deadline_exit(odd_ranks_sleep 6
  "${start}waited 1 s for ranks 1, 3, 5 of 6${other_calls}")
belay_deadline_exit(referees_sleep 5
  "${start}waited 1 s on rank 4 and heard nothing from ranks 0, 1, 2, 3 of 5\
${other_calls}")
belay_deadline_exit(reads_alone 3
  "belay: deadline: read \"v\", stage start: waited 1 s for ranks 1, 2 of 3\
${other_calls}")
belay_deadline_exit(waits_elsewhere 3 "${start}waited 2 s for ranks 1, 2 of 3; \
rank 1 is in restore \"run\"; rank 2 is in restore \"run\"")
belay_deadline_exit(closes_alone 3
  "belay: deadline: close communicator, stage start: waited 1 s for rank 2 of 3\
${other_calls}")
belay_deadline_exit(splits_alone 3
  "belay: deadline: split communicator, stage start: waited 1 s for rank 2 of 3\
${other_calls}")
belay_deadline_exit(exchanges_twice 2
  "belay: deadline: step, stage exchange: waited 1 s for rank 1 of 2\
${other_calls}")
belay_deadline_exit(duplicates_alone 2
  "belay: deadline: duplicate communicator, stage start: waited 1 s on rank 0 \
of 2 for other ranks: every rank of the communicator must make this call")
belay_deadline_exit(without_threads 2 "${start}waited 4 s for rank 1 of 2${other_calls}")
belay_deadline_exit(call_blocks 1
  "${start}a call did not return within 1 s on rank 0")

set(of_flush_stalls "save")
set(of_flush_stops "poll or wait for save")
set(flush_stalls "flush: nothing was written for 1 s on rank 0")
set(flush_stops "exchange: waited 1 s for rank 1 of 2${other_calls}")
foreach(case flush_stalls flush_stops)
  set(test mpi.deadline_exit.${case}.2ranks)
  add_test(NAME ${test}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/deadline_exit.sh
                   "belay: deadline: ${of_${case}} \"${case}/step_00000001\", stage ${${case}}"
                   ${MPI_TEST_LAUNCHER} 2 $<TARGET_FILE:mpi_deadline_exit> ${case}
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(${test} PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)  # it mostly waits
endforeach()

# The same of C and Fortran, where it is an option.
add_executable(mpi_deadline_in_c deadline_in_c.c)
target_compile_options(mpi_deadline_in_c PRIVATE -Wall -Wextra -Werror)
target_link_libraries(mpi_deadline_in_c PRIVATE belay::belay)
set(duplicates "duplicate communicator, stage start: waited 1 s on rank 0 of 2 \
for other ranks: every rank of the communicator must make this call")
set(of_create "${duplicates}")
set(of_free "close communicator, stage start: waited 1 s for rank 1 of 2${other_calls}")
set(of_count "count rows \"run\", stage count rows: waited 1 s for rank 1 of 2${other_calls}")
set(programs "create=mpi_deadline_in_c" "free=mpi_deadline_in_c"
             "count=mpi_deadline_in_c")
if(TARGET belay_fortran)
  add_executable(mpi_fortran_deadline fortran/deadline.f90)
  target_link_libraries(mpi_fortran_deadline PRIVATE belay_fortran)
  set(of_fortran "${duplicates}")
  list(APPEND programs "fortran=mpi_fortran_deadline")
endif()
foreach(program IN LISTS programs)
  string(REPLACE "=" ";" program "${program}")
  list(GET program 0 case)
  list(GET program 1 target)
  set(test mpi.deadline_exit.in_c_${case}.2ranks)
  add_test(NAME ${test}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/deadline_exit.sh
                   "belay: deadline: ${of_${case}}" ${MPI_TEST_LAUNCHER} 2
                   $<TARGET_FILE:${target}> ${case})
  set_tests_properties(${test} PROPERTIES
    TIMEOUT 60 PROCESSORS 1 LABELS mpi)  # it mostly waits
endforeach()
