// Gives a clear error if the compiler is not set to C++20. Every other header
// includes this one first, directly or through another.

#ifndef BELAY_CXX20_H_
#define BELAY_CXX20_H_

#if __cplusplus < 202002L
#error \
    "belay needs C++20: compile with -std=c++20, or in CMake set(CMAKE_CXX_STANDARD 20)"
#endif

#endif  // BELAY_CXX20_H_
