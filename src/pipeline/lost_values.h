// Values that a save or a restore has changed by more than rounding, because
// they are stored with another dtype: counted, told, or refused.

#ifndef BELAY_PIPELINE_LOST_VALUES_H_
#define BELAY_PIPELINE_LOST_VALUES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/element_conversion.h"
#include "mpi/collective.h"
#include "storage/staging.h"

namespace belay {

// What conversions of one value have done, on one rank or on all.
struct LostValues {
  std::string key;
  DType from = DType::kU8;
  DType to = DType::kU8;
  ConversionLosses losses;
};

// Returns whether anything was lost on this rank.
bool AnyLost(std::span<const ConversionLosses> losses);

// Which dtype the program has: the one that is converted, or the other.
enum class ConversionWay : uint8_t { kToStored, kFromStored };

// Returns one entry for each key and pair of dtypes, ascending.
std::vector<LostValues> Merged(std::vector<LostValues> all);

// Returns one entry for each key and pair of dtypes that this rank has
// converted, whether it has lost anything or not, ascending. Requires
// that `formed` counts.
std::vector<LostValues> ListLost(const FormedShards& formed, ConversionWay way);

// Returns a warning for each key of which any rank has lost values, with the
// sums over the ranks, the same on all; `what` begins it, such as
// "save \"/run/step_3\"". Collective; agreed. Requires `mine` ascending. Only
// called where some rank has lost values: it takes several messages.
// Errors: FailedPrecondition - with `strict`, the first of these warnings.
Agreed<std::vector<std::string>> TellLost(CommContext& context,
                                          std::string_view what,
                                          const std::vector<LostValues>& mine,
                                          bool strict);

}  // namespace belay

#endif  // BELAY_PIPELINE_LOST_VALUES_H_
