// Checks that the disk holds the bytes that were written.

#ifndef BELAY_STORAGE_VERIFY_H_
#define BELAY_STORAGE_VERIFY_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// Turns the block registers of a whole checkpoint, already xored over the
// ranks, into checksums.
std::vector<uint32_t> FinishChecksums(const std::vector<StoredArray>& arrays,
                                      std::span<const uint32_t> registers);

// Returns the size of a file.
StatusOr<int64_t> FileBytes(const std::string& path);

// Checks a data file after writing.
// Errors: DataLoss - another size than planned. Sets `has_holes` if fewer bytes
// are allocated than the file is long: a loss, or a file system that
// compresses; only reading back can tell.
Status CheckWrittenFile(const std::string& path, int64_t bytes,
                        bool& has_holes);

struct BlockCounts {
  int64_t verified = 0;
  int64_t partial = 0;
};

// Compares the registers of a restore, already xored over the ranks, with the
// index; blocks that were not covered whole only count. Messages begin
// with `operation`, such as `restore "run/step_00000042"`.
// Errors: DataLoss - names key, block, box and file of the first damaged block
//   and the number of them.
Status CompareChecksums(const SavedCheckpoint& saved, const RestorePlan& plan,
                        const std::string& operation,
                        std::span<const uint32_t> registers,
                        std::span<const int64_t> covered, BlockCounts& counts);

// Describes a damaged block: `checksum of key "k", block 3 (box "...") in file
// "data...h5" does not match (need 0x..., found 0x...)`.
std::string DescribeDamage(const SavedCheckpoint& saved, int32_t array,
                           int64_t block, uint32_t need, uint32_t found);

}  // namespace belay

#endif  // BELAY_STORAGE_VERIFY_H_
