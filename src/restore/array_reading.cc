#include "restore/array_reading.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/ceil_divide.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "bytes/checksum.h"
#include "format/paths.h"
#include "geometry/runs.h"
#include "io/index/index_file.h"
#include "io/index/verify.h"
#include "io/transfer/reader.h"
#include "pipeline/listing.h"
#include "plan/restore/restore_planner.h"
#include "plan/stored/single_array.h"

namespace belay {

ArrayReading::ArrayReading(SavedCheckpoint index, std::string directory,
                           OpenFiles* kept)
    : index_(std::move(index)), directory_(std::move(directory)), kept_(kept) {
  if (!index_.has_checksums) return;
  registers_.resize(index_.checksums.size());
  covered_.resize(index_.checksums.size());
}

int64_t ArrayReading::NumParts(int64_t chunks) {
  // A plan has some 200 bytes for each, and a file of a few bytes may claim
  // many.
  return CeilDivide(chunks, int64_t{1} << 17);
}

int64_t ArrayReading::ChunksIn(const Box& box) const {
  int64_t chunks = 0;
  for (const StoredDataset& dataset : index_.datasets) {
    if (dataset.chunk.empty() || !dataset.filters.empty()) continue;
    const std::optional<Box> part = Intersect(dataset.box, box);
    if (part) chunks += NumElements(ChunksOf(dataset, *part).shape);
  }
  return chunks;
}

Status ArrayReading::Read(const Shard& shard) {
  // Tiles lie one behind the other in dense memory.
  const bool is_dense = shard.dtype != DType::kString &&
                        shard.structs == nullptr && shard.strides.empty();
  const int64_t parts = is_dense ? NumParts(ChunksIn(shard.box)) : 1;
  if (parts <= 1) return ReadPart(shard);
  Shard part = shard;
  auto* data = static_cast<std::byte*>(shard.data);
  return TryForEachTile(
      shard.box, CeilDivide(NumElements(shard.box.shape), parts),
      [&](const Box& tile) {
        part.box = tile;
        part.data = data;
        data += NumElements(tile.shape) * DTypeSize(shard.dtype);
        return ReadPart(part);
      });
}

Status ArrayReading::ReadPart(const Shard& shard) {
  const std::vector<Shard> shards = {shard};
  const RankShards wanted{.node = 0, .shards = DescribeShards(shards)};
  const bool is_text = shard.dtype == DType::kString;
  const Box box = is_text ? WholeBox(IoShape(index_.arrays[0])) : shard.box;
  const SavedCheckpoint index = IndexOfArray(
      index_, 0, {.datasets = index_.datasets, .first_block = 0}, box);
  // A part of a block that is read has no checksum to tell.
  BELAY_RETURN_IF_ERROR(CheckFiles(index));
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
                  .covered = covered_,
                  .kept_chunks = kept_ == nullptr ? nullptr : &kept_->chunks(),
                  .open_files = kept_},
                 counts);
}

Status ArrayReading::CheckFiles(const SavedCheckpoint& index) {
  if (kept_ == nullptr) return CheckDataFiles(directory_, index);
  const auto path_of = [&](const StoredFile& file) {
    return JoinPath(directory_, file.name);
  };
  // Those with filters are opened by their path again and again.
  if (std::ranges::any_of(index.datasets, [](const StoredDataset& dataset) {
        return !dataset.filters.empty();
      })) {
    kept_->NoteOpened();
  }
  if (std::ranges::all_of(index.files, [&](const StoredFile& file) {
        return kept_->IsChecked(path_of(file));
      })) {
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(CheckDataFiles(directory_, index));
  for (const StoredFile& file : index.files) kept_->Check(path_of(file));
  return absl::OkStatus();
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
