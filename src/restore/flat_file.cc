#include "restore/flat_file.h"

#include <limits>

#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "hdf5/guarded_file.h"
#include "storage/conversion_buffer.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

// Large, because a chunk that is split between tiles is read once per tile.
constexpr int64_t kTileBytes = int64_t{16} << 20;
// The rest of the deadline is for the agreement on the result.
constexpr double kPartOfDeadline = 0.8;

// Most bytes for which memory is allocated: this many per stored byte, plus a
// constant. Deflate cannot compress more than that, and datasets that were
// never written are small.
constexpr int64_t kSaidPerByte = 2080;
constexpr int64_t kSaidAnyway = int64_t{64} << 20;

int64_t MostSaid(int64_t stored_bytes) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return stored_bytes > (kMax - kSaidAnyway) / kSaidPerByte
             ? kMax
             : kSaidAnyway + kSaidPerByte * stored_bytes;
}

// Returns the reason why no memory is allocated for so many bytes.
std::string TooMuchSaid(int64_t bytes, int64_t stored_bytes, int64_t most) {
  return absl::StrFormat(
      "is said to have more bytes than its file can hold; if you trust the "
      "file, set %s to 1 (need at most %d for %d stored bytes, found %d)",
      h5::kTrustHdf5, most, stored_bytes, bytes);
}

StoredForm GetForm(const FormedShards& formed, int32_t index) {
  if (!formed.forms.empty()) return formed.forms[index];
  const Shard& shard = formed.shards[index];
  return {.dtype = shard.dtype, .shape = shard.global_shape};
}

Status CheckFits(const Shard& shard, const StoredForm& form,
                 const h5::NativeArray& found) {
  const std::string start = Cat("dataset \"", shard.key, "\"");
  const int64_t most = MostSaid(found.stored_bytes);
  std::string cause;
  if (!found.problem.empty()) {
    cause = found.problem;
  } else if (shard.dtype == DType::kString && found.bytes > most &&
             !h5::IsHdf5Trusted()) {
    // Memory for a string is allocated with the stored length. The program
    // provides the memory of other arrays.
    cause = TooMuchSaid(found.bytes, found.stored_bytes, most);
  } else if (form.dtype != found.dtype || form.shape != found.shape) {
    cause = Cat("has the wrong dtype or shape (need ", FormText(form),
                ", found ", FormText({found.dtype, found.shape}), ")");
  }
  if (!cause.empty()) {
    return absl::FailedPreconditionError(Cat(start, " ", cause));
  }
  return AddPrefix(CheckBox(shard.box, shard.global_shape), start);
}

// Reads the stored part of a shard tile by tile, and converts each tile.
Status ReadConverted(h5::GuardedFile& file, const FormedShards& formed,
                     int32_t index, ConversionBuffer& buffer) {
  const StoredForm form = GetForm(formed, index);
  const Shard& shard = formed.shards[index];
  const auto read_tile = [&](const Box& tile) -> Status {
    // HDF5 needs dense memory even if only the shape differs.
    BELAY_RETURN_IF_ERROR(
        buffer.Start(StoredBytes(formed, index, tile), shard.key));
    const ShardMemory staged = RoomFor(formed, index, tile, buffer);
    BELAY_RETURN_IF_ERROR(file.Read(shard.key, form.dtype, tile, staged.data));
    HandOver(formed, index, tile, staged);
    return absl::OkStatus();
  };
  return TryForEachTile(StoredPart(shard.box, form.shape),
                        kTileBytes / DTypeSize(form.dtype), read_tile);
}

Status ReadShard(h5::GuardedFile& file, const FormedShards& formed,
                 int32_t index, ConversionBuffer& buffer) {
  const Shard& shard = formed.shards[index];
  if (shard.dtype == DType::kString) {
    BELAY_ASSIGN_OR_RETURN(*shard.text, file.ReadText(shard.key));
    return absl::OkStatus();
  }
  if (IsStaged(formed, index) ||
      GetForm(formed, index) != StoredForm{shard.dtype, shard.global_shape}) {
    return ReadConverted(file, formed, index, buffer);
  }
  return file.Read(shard.key, shard.dtype, shard.box, shard.data);
}

Status ReadShards(const std::string& path, const FormedShards& formed,
                  double deadline_seconds, ConversionBuffer& buffer) {
  BELAY_ASSIGN_OR_RETURN(
      h5::GuardedFile file,
      h5::GuardedFile::Open(path, kPartOfDeadline * deadline_seconds));
  const auto count = static_cast<int32_t>(formed.shards.size());
  for (int32_t i = 0; i < count; ++i) {
    const Shard& shard = formed.shards[i];
    BELAY_ASSIGN_OR_RETURN(const h5::NativeArray found,
                           file.Describe(shard.key, /*checks_sources=*/true));
    BELAY_RETURN_IF_ERROR(CheckFits(shard, GetForm(formed, i), found));
  }
  for (int32_t i = 0; i < count; ++i) {
    BELAY_RETURN_IF_ERROR(ReadShard(file, formed, i, buffer));
  }
  return absl::OkStatus();
}

// Marks arrays that claim to be larger than the file can hold. Arrays may share
// stored bytes, so their sum is also limited, by the size of the file.
Status MarkTooLarge(const std::string& path,
                    const std::vector<h5::ListedDataset>& listed,
                    std::vector<FlatArray>& arrays) {
  if (h5::IsHdf5Trusted()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kReadLinked));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_RETURN_IF_ERROR(file.Close());
  int64_t left = MostSaid(stat.size);
  for (size_t i = 0; i < listed.size(); ++i) {
    const h5::NativeArray& array = listed[i].array;
    if (!array.problem.empty()) continue;
    const int64_t most = MostSaid(array.stored_bytes);
    // If false, external files may hold the bytes.
    const bool is_here = array.stored_bytes <= stat.size;
    if (array.bytes > most) {
      arrays[i].too_large = TooMuchSaid(array.bytes, array.stored_bytes, most);
    } else if (is_here && array.bytes > left) {
      arrays[i].too_large = TooMuchSaid(array.bytes, stat.size, left);
    } else if (is_here) {
      left -= array.bytes;
    }
  }
  return absl::OkStatus();
}

StatusOr<std::vector<FlatArray>> ListFile(const std::string& path,
                                          double deadline_seconds) {
  BELAY_ASSIGN_OR_RETURN(
      h5::GuardedFile file,
      h5::GuardedFile::Open(path, kPartOfDeadline * deadline_seconds));
  BELAY_ASSIGN_OR_RETURN(const std::vector<h5::ListedDataset> listed,
                         file.List());
  std::vector<FlatArray> arrays;
  arrays.reserve(listed.size());
  for (const h5::ListedDataset& dataset : listed) {
    arrays.push_back({.key = dataset.path,
                      .dtype = dataset.array.dtype,
                      .shape = dataset.array.shape,
                      .problem = dataset.array.problem});
  }
  BELAY_RETURN_IF_ERROR(MarkTooLarge(path, listed, arrays));
  return arrays;
}

}  // namespace

StatusOr<std::vector<FlatArray>> ListFlatFile(const std::string& path,
                                              double deadline_seconds) {
  StatusOr<std::vector<FlatArray>> arrays = ListFile(path, deadline_seconds);
  BELAY_RETURN_IF_ERROR(AddPrefix(arrays.status(), "list \"", path, "\""));
  return arrays;
}

Status ReadFlatFile(const std::string& path, const std::vector<Shard>& shards,
                    const std::vector<StoredForm>& forms, int64_t* staged_bytes,
                    double deadline_seconds,
                    std::span<ConversionLosses> losses) {
  ConversionBuffer buffer;
  const Status status =
      ReadShards(path, {shards, forms, losses}, deadline_seconds, buffer);
  if (staged_bytes != nullptr) *staged_bytes = buffer.most_bytes();
  return AddPrefix(status, "restore \"", path, "\"");
}

}  // namespace belay
