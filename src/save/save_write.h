// What a transfer is told of a data file.

#ifndef BELAY_SAVE_SAVE_WRITE_H_
#define BELAY_SAVE_SAVE_WRITE_H_

#include <cstdint>
#include <vector>

#include "save/save_stages.h"
#include "storage/transfer.h"

namespace belay {

// Which datasets of a file: those with filters are written apart, when the
// others are there.
enum class DatasetPart : uint8_t { kPlain, kFiltered };

// Returns the job of writing or reading back this rank's part of a file.
// Borrows all arguments.
WriteJob DataFileJob(const SaveFrame& frame, const std::vector<Shard>& shards,
                     const ReusablePlan& plan, const PlannedFile& file,
                     DatasetPart part);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_WRITE_H_
