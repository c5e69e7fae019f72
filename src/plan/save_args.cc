#include "plan/save_args.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/element_conversion.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "plan/chunks.h"

namespace belay {
namespace {

Status CheckNumbers(const SaveArgsFor& one) {
  const auto dtype = static_cast<uint8_t>(one.args.dtype.value_or(DType::kU8));
  if (!IsKnownDType(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arguments for \"%s\": unknown dtype (found number %d)",
                        one.keys, static_cast<int>(dtype)));
  }
  if (one.args.chooser > ChunkChooser::kGreedy) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "arguments for \"%s\": the chooser is out of range (need 0 to %d, "
        "found %d)",
        one.keys, static_cast<int>(ChunkChooser::kGreedy),
        static_cast<int>(one.args.chooser)));
  }
  const Status filters = CheckFilters(one.args.filters);
  if (filters.ok()) return filters;
  return absl::InvalidArgumentError(
      absl::StrFormat("arguments for \"%s\": %s", one.keys, filters.message()));
}

// Returns whether the expression is the key itself, escaped or not.
bool NamesKey(std::string_view key, std::string_view expression) {
  size_t at = 0;
  for (const char c : key) {
    const bool is_escaped = expression.substr(at).starts_with('\\') &&
                            expression.substr(at + 1).starts_with(c) &&
                            !absl::ascii_isalnum(static_cast<uint8_t>(c));
    if (is_escaped) ++at;
    if (!expression.substr(at).starts_with(c)) return false;
    ++at;
  }
  return at == expression.size();
}

// Returns the shape of the cells if the shards form a grid, else that of the
// array.
Shape ShardShape(const StoredArray& array, const ArrayBoxes& boxes) {
  Shape cell = CellShape(array.shape, BoxesOf(boxes.boxes));
  return cell.empty() ? array.shape : cell;
}

Shape Smaller(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = std::min(a[i], b[i]);
  return shape;
}

// Filters need all of a chunk to return any of it.
int64_t ChunkBytes(const SaveArgs& args) {
  SaveArgs others = args;
  others.filters.clear();
  return AskForChunks(others) ? args.chunk_byte_size : kFilteredChunkBytes;
}

struct Asked {
  const SaveArgs& args;
  ChunkRequest request;
};

bool IsGiven(const SaveArgs& args) {
  return args.write_chunk_shape.has_value() ||
         args.read_chunk_shape.has_value();
}

// Returns the chunk of a whole shard.
StatusOr<Shape> ChooseChunk(const Asked& asked) {
  const SaveArgs& args = asked.args;
  if (IsGiven(args)) {
    BELAY_ASSIGN_OR_RETURN(
        ChunkShapes shapes,
        GivenChunkShapes(asked.request, args.write_chunk_shape,
                         args.read_chunk_shape));
    return std::move(shapes.read);
  }
  return args.chooser == ChunkChooser::kGreedy ? GreedyChunkShape(asked.request)
                                               : ExactChunkShape(asked.request);
}

// Returns the chunk of a dataset that may hold less than a shard: a given chunk
// is cut to its size, another one is chosen for it.
StatusOr<Shape> ChooseChunk(const Asked& asked, const Shape& chunk,
                            const Shape& dataset) {
  if (IsGiven(asked.args)) return Smaller(chunk, dataset);
  Asked smaller = asked;
  smaller.request.shard_shape = Smaller(asked.request.shard_shape, dataset);
  if (smaller.request.shard_shape == asked.request.shard_shape) return chunk;
  return ChooseChunk(smaller);
}

// Structs are elements, which chunks do not cut.
void TakeStructs(const SaveArgs& args, ChunkRequest& request) {
  request.element_size = request.global_shape.back();
  // A default gives way.
  if (args.chunk_byte_size == 0 && request.chunk_byte_size > 0) {
    request.chunk_byte_size =
        std::max(request.chunk_byte_size, request.element_size);
  }
  request.global_shape.pop_back();
  request.shard_shape.pop_back();
}

Status CheckLayout(ArrayLayout layout, const std::string& key) {
  if (layout != ArrayLayout::kCanonical) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("choose chunks \"", key,
          "\": ", OptionSetting(&SaveOptions::array_layout, layout),
          " stores every array contiguously: use ",
          ValueInProgram(ArrayLayout::kAuto)));
}

}  // namespace

StatusOr<ArgsByKey> CompileArgs(const std::vector<SaveArgsFor>& args) {
  ArgsByKey by_key;
  for (const SaveArgsFor& one : args) {
    BELAY_RETURN_IF_ERROR(CheckNumbers(one));
    by_key.args.push_back(one.args);
    by_key.keys.push_back(one.keys);
  }
  BELAY_ASSIGN_OR_RETURN(by_key.patterns, KeyPatterns::CompileKeys(args));
  return by_key;
}

const SaveArgs& ArgsOf(const ArgsByKey& args, std::string_view key) {
  static const SaveArgs kDefaults;
  const int place = args.patterns.Find(key);
  return place < 0 ? kDefaults : args.args[static_cast<size_t>(place)];
}

StatusOr<DType> DTypeToStore(const ArgsByKey& args, DType f32_dtype,
                             std::string_view key, DType dtype) {
  DType to = dtype == DType::kF32 ? f32_dtype : dtype;
  const int place = args.patterns.Find(key);
  if (place >= 0) {
    const auto i = static_cast<size_t>(place);
    const std::optional<DType> named = args.args[i].dtype;
    // A pattern means the weights, not the counters, ids and flags beside them.
    const bool is_meant = named && (NamesKey(key, args.keys[i]) ||
                                    FindKind(*named) == FindKind(dtype));
    if (is_meant) to = *named;
  }
  if (IsConvertible(dtype, to)) return to;
  return absl::InvalidArgumentError(
      Cat("store \"", key, "\": ", DTypeName(dtype),
          " does not convert to the dtype that its arguments name (found ",
          DTypeName(to), ")"));
}

std::string ArgsText(const SaveArgs& args) {
  std::vector<std::string> parts;
  if (args.dtype) parts.push_back(Cat("dtype=", DTypeName(*args.dtype)));
  if (args.write_chunk_shape) {
    parts.push_back(
        Cat("write_chunk_shape=", ShapeText(*args.write_chunk_shape)));
  }
  if (args.read_chunk_shape) {
    parts.push_back(
        Cat("read_chunk_shape=", ShapeText(*args.read_chunk_shape)));
  }
  if (args.chunk_byte_size != 0) {
    parts.push_back(Cat("chunk_byte_size=", args.chunk_byte_size));
  }
  if (args.chooser == ChunkChooser::kGreedy) parts.push_back("chooser=greedy");
  if (!args.shard_axes.empty()) {
    parts.push_back(
        Cat("shard_axes=[", absl::StrJoin(args.shard_axes, ", "), "]"));
  }
  if (!args.filters.empty()) {
    parts.push_back(Cat("filters=[", DescribeFilters(args.filters), "]"));
  }
  if (args.primary_replica) {
    parts.push_back(Cat("primary_replica=", *args.primary_replica));
  }
  return absl::StrJoin(parts, " ");
}

bool AskForChunks(const SaveArgs& args) {
  return IsGiven(args) || args.chunk_byte_size != 0 ||
         !args.shard_axes.empty() || !args.filters.empty();
}

Status ChunkAsAsked(const std::vector<SaveArgsFor>& args, ArrayLayout layout,
                    const std::vector<ArrayBoxes>& arrays, SavePlan& plan) {
  if (args.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey by_key, CompileArgs(args));
  std::vector<std::string_view> keys;
  for (const StoredArray& array : plan.arrays) keys.push_back(array.key);
  BELAY_RETURN_IF_ERROR(by_key.patterns.CheckAllMatch(
      keys, Cat("plan the save: ", OptionName(&SaveOptions::args))));
  std::vector<std::vector<StoredDataset*>> datasets(plan.arrays.size());
  for (StoredDataset& dataset : plan.datasets) {
    datasets[dataset.array].push_back(&dataset);
  }
  for (const ArrayBoxes& boxes : arrays) {
    StoredArray& array = plan.arrays[boxes.array];
    const SaveArgs& own = ArgsOf(by_key, array.key);
    array.args = ArgsText(own);
    if (!AskForChunks(own) || array.dtype == DType::kString) continue;
    BELAY_RETURN_IF_ERROR(CheckLayout(layout, array.key));
    Asked asked{.args = own,
                .request = {.key = array.key,
                            .global_shape = array.shape,
                            .shard_shape = ShardShape(array, boxes),
                            .element_size = boxes.element_size,
                            .chunk_byte_size = ChunkBytes(own),
                            .shard_axes = own.shard_axes}};
    const bool has_structs = !array.fields.empty();
    if (has_structs) TakeStructs(own, asked.request);
    BELAY_ASSIGN_OR_RETURN(const Shape chunk, ChooseChunk(asked));
    for (StoredDataset* dataset : datasets[boxes.array]) {
      BELAY_ASSIGN_OR_RETURN(dataset->chunk,
                             ChooseChunk(asked, chunk, dataset->box.shape));
      const bool is_chunked = !dataset->chunk.empty();
      if (has_structs && is_chunked)
        dataset->chunk.push_back(array.shape.back());
      if (!dataset->chunk.empty()) dataset->filters = own.filters;
    }
  }
  return absl::OkStatus();
}

template <typename Archive>
void Fields(Archive& archive, SaveArgs& args) {
  archive(args.dtype, args.write_chunk_shape, args.read_chunk_shape,
          args.chunk_byte_size, args.chooser, args.shard_axes, args.filters,
          args.primary_replica);
}
template <typename Archive>
void Fields(Archive& archive, SaveArgsFor& one) {
  archive(one.keys, one.args);
}

std::string EncodeArgs(const std::vector<SaveArgsFor>& args) {
  return Encode(args);
}

}  // namespace belay
