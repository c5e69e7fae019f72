// What a transfer is told of a data file.

#ifndef BELAY_SAVE_DATA_FILE_JOB_H_
#define BELAY_SAVE_DATA_FILE_JOB_H_

#include <cstdint>
#include <vector>

#include "io/transfer/transfer.h"
#include "save/save_stages.h"

namespace belay {

// Which datasets of a file: those with filters are written apart, when the
// others are there.
enum class DatasetPart : uint8_t { kPlain, kFiltered };

// Returns the job of writing or reading back this rank's part of a file.
// Borrows all arguments. Local.
WriteJob DataFileJob(const SaveFrame& frame, const std::vector<Shard>& shards,
                     const ReusablePlan& plan, const PlannedFile& file,
                     DatasetPart part);

}  // namespace belay

#endif  // BELAY_SAVE_DATA_FILE_JOB_H_
