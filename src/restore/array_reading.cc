#include "restore/array_reading.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "bytes/checksum.h"
#include "io/index/verify.h"
#include "io/transfer/reader.h"
#include "pipeline/listing.h"
#include "plan/restore/restore_planner.h"
#include "plan/stored/single_array.h"

namespace belay {

ArrayReading::ArrayReading(SavedCheckpoint index, std::string directory)
    : index_(std::move(index)), directory_(std::move(directory)) {
  if (!index_.has_checksums) return;
  registers_.resize(index_.checksums.size());
  covered_.resize(index_.checksums.size());
}

Status ArrayReading::Read(const Shard& shard) {
  const std::vector<Shard> shards = {shard};
  const RankShards wanted{.node = 0, .shards = DescribeShards(shards)};
  const bool is_text = shard.dtype == DType::kString;
  const Box box = is_text ? WholeBox(IoShape(index_.arrays[0])) : shard.box;
  const SavedCheckpoint index = IndexOfArray(
      index_, 0, {.datasets = index_.datasets, .first_block = 0}, box);
  BELAY_ASSIGN_OR_RETURN(const RestorePlan plan, PlanRestore(index, {wanted}));
  std::vector<std::string> file_names;
  for (const StoredFile& file : index.files) file_names.push_back(file.name);
  ReadCounts counts;
  return ReadAll({.shards = shards,
                  .reads = plan.ranks[0],
                  .directory = directory_,
                  .file_names = file_names,
                  .filtered = plan.filtered,
                  .registers = registers_,
                  .covered = covered_},
                 counts);
}

Status ArrayReading::CheckBlocks() const {
  if (registers_.empty()) return absl::OkStatus();
  // The numbering of every plan above: this array alone, from block 0 on.
  RestorePlan plan;
  plan.arrays = {0};
  plan.first_blocks = {0};
  BlockCounts counts;
  return PrintableStatus(
      CompareChecksums(index_, plan, absl::StrFormat("read \"%s\"", directory_),
                       registers_, covered_, counts));
}

}  // namespace belay
