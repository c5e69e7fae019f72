#include "safetensors/plan/export_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "safetensors/plan/shard_codec.h"
#include "safetensors/plan/shares.h"

namespace belay::safetensors {
namespace {

// Adds ranges of tensors to the part of one rank, window by window.
class Windows {
 public:
  Windows(RankExport& part, int64_t max_bytes)
      : part_(part), max_bytes_(max_bytes) {}

  // Adds elements of a tensor whose data begins at `offset` in its file.
  void Add(const FileTensor& tensor, int32_t file, int64_t offset,
           const TensorRange& range) {
    const int64_t size = DTypeSize(tensor.dtype);
    const int64_t unit = UnitElements(tensor);
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t room = Room(file);
      int64_t elements = std::min(range.end - begin, room / size);
      const bool ends_here = begin + elements == range.end;
      if (!ends_here && elements < unit && room < max_bytes_) {
        is_open_ = false;  // so that the next one takes whole rows
        continue;
      }
      if (!ends_here && elements >= unit) elements -= (begin + elements) % unit;
      Grow(file, offset + begin * size, elements * size);
      AddBoxes(tensor, begin, begin + elements);
      begin += elements;
    }
  }

 private:
  int64_t Room(int32_t file) const {
    const bool goes_on = is_open_ && part_.windows.back().file == file;
    return goes_on ? max_bytes_ - part_.windows.back().bytes : max_bytes_;
  }

  void Grow(int32_t file, int64_t offset, int64_t bytes) {
    if (!is_open_ || part_.windows.back().file != file) {
      const auto shard = static_cast<int32_t>(part_.shards.size());
      part_.windows.push_back({.file = file,
                               .offset = offset,
                               .begin_shard = shard,
                               .end_shard = shard});
      is_open_ = true;
    }
    part_.windows.back().bytes += bytes;
  }

  void AddBoxes(const FileTensor& tensor, int64_t begin, int64_t end) {
    ForEachBoxOfRange(tensor.shape, begin, end, [&](const Box& box) {
      part_.shards.push_back({.key = tensor.name,
                              .dtype = tensor.dtype,
                              .global_shape = tensor.shape,
                              .box = box});
    });
    part_.windows.back().end_shard = static_cast<int32_t>(part_.shards.size());
  }

  RankExport& part_;
  int64_t max_bytes_;
  bool is_open_ = false;
};

// Each file and each rank adds one window at most to those that are full.
Status CheckWindows(const FilePlan& files, int64_t max_bytes) {
  int64_t bytes = 0;
  for (const PlannedFile& file : files.files) {
    if (__builtin_add_overflow(bytes, file.bytes, &bytes)) bytes = INT64_MAX;
  }
  if (bytes / max_bytes <= kMostWindows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "max_bytes_in_flight is too small for an export of %d bytes (need at "
      "least %d, found %d)",
      bytes, bytes / kMostWindows + 1, max_bytes));
}

}  // namespace

StatusOr<std::vector<RankExport>> PlanExport(const FilePlan& files,
                                             int num_ranks, int64_t max_bytes) {
  BELAY_RETURN_IF_ERROR(CheckWindows(files, max_bytes));
  std::vector<FileTensor> tensors;
  std::vector<int32_t> file_of;
  for (size_t i = 0; i < files.files.size(); ++i) {
    for (const FileTensor& tensor : files.files[i].tensors) {
      tensors.push_back(tensor);
      file_of.push_back(static_cast<int32_t>(i));
    }
  }
  std::vector<RankExport> ranks(num_ranks);
  const std::vector<std::vector<TensorRange>> shares =
      EvenShares(tensors, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    Windows windows(ranks[rank], max_bytes);
    for (const TensorRange& range : shares[rank]) {
      const FileTensor& tensor = tensors[range.tensor];
      const int32_t file = file_of[range.tensor];
      const int64_t offset = std::ssize(files.files[file].head) + tensor.begin;
      windows.Add(tensor, file, offset, range);
    }
  }
  return ranks;
}

void PutRankExport(WireWriter& out, const RankExport& part) {
  out.Put<uint64_t>(part.windows.size());
  for (const Window& window : part.windows) out.Put(window);
  PutShards(out, part.shards);
}

RankExport GetRankExport(WireReader& in) {
  RankExport part;
  part.windows = in.GetAll<Window>([&] { return in.Get<Window>(); });
  part.shards = GetShards(in);
  return part;
}

}  // namespace belay::safetensors
