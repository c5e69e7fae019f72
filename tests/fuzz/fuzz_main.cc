// What libFuzzer calls, for the one target of the program.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "fuzz_target.h"

// Repairs each input, and not in a mutator: what breaks a repair is kept, too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const belay::FuzzTarget& target = belay::FuzzTargets().front();
  std::string input(reinterpret_cast<const char*>(data), size);
  if (target.repair != nullptr) target.repair(input);
  // For who wants to give the input to another program.
  static const char* const kRepaired = std::getenv("BELAY_FUZZ_REPAIRED");
  if (kRepaired != nullptr) {
    std::ofstream(kRepaired, std::ios::binary) << input;
  }
  target.run(input);
  return 0;
}
