#include "values/rows/id_holders.h"

#include <algorithm>
#include <cstddef>

namespace belay {
namespace {

// Divides by a number that stays the same, faster than the processor does:
// every id is divided. For numbers below 2^52.
class Divisor {
 public:
  explicit Divisor(int64_t divisor)
      : divisor_(divisor), inverse_(1.0 / static_cast<double>(divisor)) {}

  int64_t Quotient(int64_t number) const {
    auto quotient =
        static_cast<int64_t>(static_cast<double>(number) * inverse_);
    const int64_t rest = number - quotient * divisor_;
    if (rest < 0) return quotient - 1;
    return rest >= divisor_ ? quotient + 1 : quotient;
  }

 private:
  int64_t divisor_;
  double inverse_;
};

}  // namespace

int64_t NumHolders(const IdBlock& block, int num_ranks) {
  return block.holders.empty() ? num_ranks : std::ssize(block.holders);
}

std::vector<int32_t> HoldersOf(const IdBlock& block,
                               std::span<const int64_t> ids, int num_ranks) {
  const int64_t holders = NumHolders(block, num_ranks);
  const int64_t each = block.total / holders, more = block.total % holders;
  const int64_t longer = more * (each + 1);
  const Divisor long_part(each + 1), short_part(std::max<int64_t>(1, each));
  std::vector<int32_t> ranks(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t place = ids[i] < longer
                              ? long_part.Quotient(ids[i])
                              : more + short_part.Quotient(ids[i] - longer);
    ranks[i] = block.holders.empty()
                   ? static_cast<int32_t>(place)
                   : block.holders[static_cast<size_t>(place)];
  }
  return ranks;
}

}  // namespace belay
