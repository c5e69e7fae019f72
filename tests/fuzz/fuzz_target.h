// Functions that read bytes of strangers, each with what must hold of any
// input.

#ifndef BELAY_TESTS_FUZZ_FUZZ_TARGET_H_
#define BELAY_TESTS_FUZZ_FUZZ_TARGET_H_

#include <string>
#include <string_view>
#include <vector>

namespace belay {

struct FuzzTarget {
  const char* name;
  // Returns for every input, soon, and with little memory.
  void (*run)(std::string_view input);
  // Makes checksums and lengths fit an input, so that a mutated one is not
  // refused before it is read; null: nothing guards the input.
  void (*repair)(std::string& input) = nullptr;
};

// All targets of this program, by name.
const std::vector<FuzzTarget>& FuzzTargets();

// At namespace scope, adds a target.
class RegisterFuzzTarget {
 public:
  explicit RegisterFuzzTarget(const FuzzTarget& target);
};

// Ends the process with a message, which the fuzzer counts as a crash, unless
// the property holds.
void Require(bool holds, const char* property);

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_FUZZ_TARGET_H_
