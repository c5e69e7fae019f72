#include "restore/array_reading.h"

#include <cstring>

#include "core/catch_exceptions.h"
#include "core/checksum.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/struct_text.h"
#include "format/paths.h"
#include "pipeline/listing.h"
#include "plan/restore_planner.h"
#include "storage/index_file.h"
#include "storage/verify.h"

namespace belay {
namespace {

// Returns the layout of a shard whose memory holds only this field.
std::shared_ptr<const StructLayout> MakeFieldLayout(const StructField& field,
                                                    int64_t stored_bytes) {
  const int64_t bytes = FieldBytes(field);
  return std::make_shared<const StructLayout>(
      StructLayout{.bytes = bytes,
                   .stored_bytes = stored_bytes,
                   .parts = {{.stored = field.offset, .bytes = bytes}}});
}

// Returns the box without its first dimension.
Box Inner(const Box& box) {
  return {Shape(box.offset.begin() + 1, box.offset.end()),
          Shape(box.shape.begin() + 1, box.shape.end())};
}

// Copies the part `box` of each of `rows` whole fields, from `from` to `to`.
void CopyParts(const StructField& field, const Box& box, int64_t rows,
               const char* from, char* to) {
  const int64_t size = DTypeSize(field.dtype);
  for (int64_t i = 0; i < rows; ++i) {
    ForEachRun(box, WholeBox(field.shape), box, [&](const ElementRun& run) {
      std::memcpy(to + run.b * size, from + run.a * size,
                  static_cast<size_t>(run.length * size));
    });
    from += FieldBytes(field);
    to += NumElements(box.shape) * size;
  }
}

}  // namespace

std::optional<ArrayView> FindField(const SavedCheckpoint& saved,
                                   std::string_view key) {
  for (size_t dot = key.find('.'); dot != key.npos;
       dot = key.find('.', dot + 1)) {
    const StoredArray* const array =
        FindArray(saved, std::string(key.substr(0, dot)));
    if (array == nullptr || array->fields.empty()) continue;
    const auto fields = ParseFields(array->fields);
    if (!fields.ok()) continue;
    for (const StructField& field : *fields) {
      if (field.name != key.substr(dot + 1)) continue;
      ArrayView view{.number = static_cast<size_t>(array - saved.arrays.data()),
                     .dtype = field.dtype,
                     .shape = {array->shape[0]},
                     .field = field};
      view.shape.insert(view.shape.end(), field.shape.begin(),
                        field.shape.end());
      return view;
    }
  }
  return std::nullopt;
}

Box ArrayBox(const ArrayView& view, const StoredArray& array, const Box& box) {
  if (!view.field) return box;
  return {{box.offset[0], 0}, {box.shape[0], array.shape[1]}};
}

Status ReadView(const ArrayView& view, const StoredArray& array, const Box& box,
                ArrayReading& reading, void* data) {
  Shard shard{.key = array.key,
              .dtype = array.dtype,
              .global_shape = array.shape,
              .box = ArrayBox(view, array, box),
              .data = data};
  if (!view.field) return reading.Read(shard);
  shard.structs = MakeFieldLayout(*view.field, array.shape[1]);
  const Box inner = Inner(box);
  if (inner == WholeBox(view.field->shape)) return reading.Read(shard);
  std::vector<char> whole;
  BELAY_RETURN_IF_ERROR(CatchBadAlloc("whole fields", [&] {
    whole.resize(static_cast<size_t>(box.shape[0] * FieldBytes(*view.field)));
    return absl::OkStatus();
  }));
  shard.data = whole.data();
  BELAY_RETURN_IF_ERROR(reading.Read(shard));
  CopyParts(*view.field, inner, box.shape[0], whole.data(),
            static_cast<char*>(data));
  return absl::OkStatus();
}

// --- Array reading ---

ArrayReading::ArrayReading(SavedCheckpoint index, std::string directory,
                           OpenFiles* kept)
    : index_(std::move(index)), directory_(std::move(directory)), kept_(kept) {
  if (!index_.has_checksums) return;
  registers_.resize(index_.checksums.size());
  covered_.resize(index_.checksums.size());
}

int64_t ArrayReading::NumParts(int64_t chunks) {
  // A plan takes 200 bytes per chunk, and a small file may claim to have many
  // chunks.
  return CeilDivide(chunks, int64_t{1} << 17);
}

int64_t ArrayReading::ChunksIn(const Box& box) const {
  int64_t chunks = 0;
  for (const StoredDataset& dataset : index_.datasets) {
    if (dataset.chunk.empty() || !dataset.filters.empty()) continue;
    const std::optional<Box> part = Intersect(dataset.box, box);
    if (part) chunks += NumElements(FindChunks(dataset, *part).shape);
  }
  return chunks;
}

Status ArrayReading::Read(const Shard& shard) {
  // In dense memory, tiles are contiguous.
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
  // Checked because checksums do not cover blocks that are read in part.
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
                  .kept = kept_},
                 counts);
}

Status ArrayReading::CheckFiles(const SavedCheckpoint& index) {
  if (kept_ == nullptr) return CheckDataFiles(directory_, index);
  const auto path_of = [&](const StoredFile& file) {
    return JoinPath(directory_, file.name);
  };
  // Files with filters are opened again, by path, for each box.
  if (HasFilters(index.datasets)) kept_->NoteOpened();
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
  // As in the plans of ReadPart: one array, whose blocks start at 0.
  RestorePlan plan;
  plan.arrays = {0};
  plan.first_blocks = {0};
  BlockCounts counts;
  return PrintableStatus(
      CompareChecksums(index_, plan, absl::StrFormat("read \"%s\"", directory_),
                       registers_, covered_, counts));
}

}  // namespace belay
