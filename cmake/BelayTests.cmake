# How many seconds a test may take. Sanitizers make it several times as long.
set(unit_timeout 300)
set(mpi_timeout 180)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(unit_timeout 3600)
  set(mpi_timeout 3600)
endif()

# belay_test_options(TARGET)
# How every test is compiled: quickly. The headers that most tests begin with
# are parsed once for all of them, and a test is not worth optimising fully.
if(NOT TARGET belay_test_headers)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cc
       CONTENT "int main() {}\n" @ONLY)
  add_executable(belay_test_headers ${PROJECT_BINARY_DIR}/test_headers.cc)
  target_link_libraries(belay_test_headers PRIVATE belay_internal GTest::gmock)
  target_compile_options(belay_test_headers PRIVATE ${BELAY_WARNINGS}
                                                    $<$<CONFIG:Release>:-Og>)
  target_precompile_headers(belay_test_headers PRIVATE
    <gmock/gmock.h> <gtest/gtest.h>
    <algorithm> <cmath> <complex> <cstdint> <filesystem> <fstream> <functional>
    <limits> <map> <memory> <numeric> <optional> <random> <set> <span> <string>
    <string_view> <utility> <vector>
    <absl/container/flat_hash_map.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/strings/str_join.h>)
endif()

function(belay_test_options target)
  target_compile_options(${target} PRIVATE ${BELAY_WARNINGS}
                                           $<$<CONFIG:Release>:-Og>)
  target_precompile_headers(${target} REUSE_FROM belay_test_headers)
endfunction()
