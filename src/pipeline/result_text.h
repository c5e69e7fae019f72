// Results of saves and restores as text and in the log, and warnings about
// values that a dtype conversion has changed by more than rounding.

#ifndef BELAY_PIPELINE_RESULT_TEXT_H_
#define BELAY_PIPELINE_RESULT_TEXT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/element_conversion.h"
#include "mpi/collective.h"
#include "storage/conversion_buffer.h"

namespace belay {

// Logs a result, or the error of all ranks. Local; rank 0 logs.
void LogResult(const CommContext& context, const Agreed<SaveResult>& result);
void LogResult(const CommContext& context, const Agreed<RestoreResult>& result);

// Warns that a restore of the newest step in `dir` has found no step: the path
// may be wrong. Local; rank 0 logs.
void LogNoStep(const CommContext& context, const std::string& dir);

// Logs an error. Local; rank 0 logs.
void LogError(const CommContext& context, const Status& status);

// --- Lost values ---

// Losses in conversions of one value, on one rank or on all ranks.
struct LostValues {
  std::string key;
  DType from = DType::kU8;
  DType to = DType::kU8;
  ConversionLosses losses;
};

// Returns whether anything was lost on this rank.
bool AnyLost(std::span<const ConversionLosses> losses);

// Direction of a conversion.
enum class ConversionWay : uint8_t { kToStored, kFromStored };

// Merges the entries for each key and pair of dtypes. Returns them ascending.
std::vector<LostValues> Merged(std::vector<LostValues> all);

// Returns one entry for each key and pair of dtypes that this rank has
// converted, even without losses, ascending. Requires that `formed` counts
// losses.
std::vector<LostValues> ListLost(const FormedShards& formed, ConversionWay way);

// Returns warnings about the keys for which any rank has lost values, with sums
// over all ranks. The warnings are equal on all ranks. Each begins with `what`,
// such as "save \"/run/step_3\"". Requires `mine` ascending. Takes several
// messages, so call it only if some rank has lost values. Collective; agreed.
// Errors: FailedPrecondition - with `strict`, the first of these warnings.
Agreed<std::vector<std::string>> TellLost(CommContext& context,
                                          std::string_view what,
                                          const std::vector<LostValues>& mine,
                                          bool strict);

}  // namespace belay

#endif  // BELAY_PIPELINE_RESULT_TEXT_H_
