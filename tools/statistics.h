// Statistics of all elements of a box.

#ifndef BELAY_TOOLS_STATISTICS_H_
#define BELAY_TOOLS_STATISTICS_H_

#include <cstdint>
#include <string_view>

#include "belay/checkpoint_reader.h"

namespace belay::tools {

// `min`, `max`, `mean` and `zeros` ignore NaNs and infinities. For complex
// numbers, `min` and `max` refer to the magnitude.
struct Statistics {
  int64_t elements = 0;
  int64_t finite = 0;
  // One element each; if any is finite.
  Tensor min, max, mean;
  int64_t zeros = 0;
  int64_t nans = 0;
  int64_t infinities = 0;
};

// Computes the statistics of a box, which it reads piece by piece.
StatusOr<Statistics> ReadStatistics(const CheckpointReader& reader,
                                    std::string_view key, const Box& box);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_STATISTICS_H_
