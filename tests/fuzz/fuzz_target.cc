#include "fuzz_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace belay {
namespace {

std::vector<FuzzTarget>& RegisteredTargets() {
  static std::vector<FuzzTarget> targets;
  return targets;
}

}  // namespace

const std::vector<FuzzTarget>& FuzzTargets() { return RegisteredTargets(); }

RegisterFuzzTarget::RegisterFuzzTarget(const FuzzTarget& target) {
  std::vector<FuzzTarget>& targets = RegisteredTargets();
  const auto place = std::find_if(
      targets.begin(), targets.end(), [&](const FuzzTarget& other) {
        return std::string_view(target.name) < other.name;
      });
  targets.insert(place, target);
}

void Require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", property);
  std::abort();
}

}  // namespace belay
