// Fed: the file of a lease. A lease that can be read is written and read back
// as it was, and what names its owner prints.
#include <optional>

#include "core/text.h"
#include "fuzz_target.h"
#include "storage/lease.h"

namespace belay::fuzz_lease {
namespace {

void Run(std::string_view input) {
  const StatusOr<std::optional<LeaseOwner>> owner = ParseLease(input, "take");
  if (!owner.ok() || !owner->has_value()) return;
  const StatusOr<std::optional<LeaseOwner>> again =
      ParseLease(LeaseText(**owner), "take");
  Require(again.ok() && again->has_value(), "a lease that was written is read");
  Require(**again == **owner, "a lease comes back as it was");
  Require(IsUtf8(QuotedText(OwnerText(**owner))), "an owner prints");
}

const RegisterFuzzTarget kTarget({"lease", Run});

}  // namespace
}  // namespace belay::fuzz_lease
