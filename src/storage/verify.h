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

// Checks a data file after writing. Sets `has_holes` if the space allocated to
// the file is less than its length: either data was lost, or the file system
// compresses. Only reading back can tell.
// Errors: DataLoss - the size is not the planned one.
Status CheckWrittenFile(const std::string& path, int64_t bytes,
                        bool& has_holes);

struct BlockCounts {
  int64_t verified = 0;
  int64_t partial = 0;
};

// Compares the registers of a restore, already xored over the ranks, with the
// index. Blocks that were only partly covered are counted but not compared.
// Messages begin with `operation`, such as `restore "run/step_00000042"`.
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

// Does the work of FindHdf5Damage in this process. Returns the encoded lines.
// Errors: those of the system; those of ReadIndex.
StatusOr<std::string> FindDamageHere(const std::string& directory);

// Checks every dataset of the data files and every array of the index in the
// way that other programs read them: through HDF5, in a separate process that
// reads the index again. Each array of the index must show the datasets that
// belay reads. Returns one line for each file in which something differs from
// the index. Checks the index only if all data files are good.
// Errors: those of opening and reading files, and of starting a process;
//   FailedPrecondition - the program for it is not installed; DeadlineExceeded.
StatusOr<std::vector<std::string>> FindHdf5Damage(const std::string& directory,
                                                  const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_VERIFY_H_
