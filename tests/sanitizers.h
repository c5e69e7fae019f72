// What a test cannot do under a sanitizer.

#ifndef BELAY_TESTS_SANITIZERS_H_
#define BELAY_TESTS_SANITIZERS_H_

namespace belay::testing {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

// Where `new` would throw, AddressSanitizer ends the process.
inline constexpr bool kCanRunOutOfMemory = !kHasAddressSanitizer;
inline constexpr char kEndsWithoutMemory[] =
    "the sanitizer ends a process that runs out of memory";

// A child hangs if another thread held a lock of the sanitizer's allocator when
// the process forked.
inline constexpr bool kCanForkBesideThreads = !kHasAddressSanitizer;
inline constexpr char kHangsAfterFork[] =
    "the sanitizer's locks may be held when the process forks";

}  // namespace belay::testing

#endif  // BELAY_TESTS_SANITIZERS_H_
