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

// Does what FindHdf5Damage says, in this process. Returns the encoded lines.
// Errors: what the system says; those of ReadIndex.
StatusOr<std::string> FindDamageHere(const std::string& directory);

// Looks for every dataset of the data files and every array of the index as
// other programs do, by HDF5 in a process of its own, which reads the index
// again. An array of it must show the datasets that belay reads. Returns a line
// for each file in which one is not what the index says; the index is looked at
// where all data files are good.
// Errors: those of opening and reading files, and of starting a process;
//   FailedPrecondition - its program is not installed; DeadlineExceeded.
StatusOr<std::vector<std::string>> FindHdf5Damage(const std::string& directory,
                                                  const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_VERIFY_H_
