// What a test cannot do under a sanitizer.

#ifndef BELAY_TESTS_SANITIZERS_H_
#define BELAY_TESTS_SANITIZERS_H_

namespace belay::testing {

// GCC says it by macros, Clang by features.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif

// Where `new` would throw, both end the process.
inline constexpr bool kCanRunOutOfMemory =
    !kHasAddressSanitizer && !kHasThreadSanitizer;
inline constexpr char kEndsWithoutMemory[] =
    "the sanitizer ends a process that runs out of memory";

}  // namespace belay::testing

#endif  // BELAY_TESTS_SANITIZERS_H_
