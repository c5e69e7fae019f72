#include "belay/checkpoint_reader.h"

#include <new>

#include "belay/reader/copy_checkpoint.h"
#include "belay/reader/step_pin.h"
#include "belay/values/restore_preview.h"
#include "core/layout.h"
#include "core/strided_copy.h"
#include "format/paths.h"
#include "graph/object_graph.h"
#include "restore/array_reading.h"
#include "restore/restore_stages.h"
#include "state/conversion_rules.h"
#include "storage/commit.h"
#include "storage/file_lock.h"
#include "storage/filtered_reader.h"
#include "storage/index_file.h"
#include "storage/metadata_file.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

std::string CutText(const ArrayEntry& entry) {
  if (entry.datasets.empty()) return "empty";
  const StoredDataset& first = entry.datasets[0];
  const std::string filters =
      first.filters.empty() ? "" : Cat(", ", DescribeFilters(first.filters));
  if (entry.datasets.size() > 1) {
    return absl::StrFormat("%d pieces%s", entry.datasets.size(), filters);
  }
  if (first.chunk.empty()) return "contiguous";
  return Cat(CountText(NumElements(ChunkGrid(first)), "chunk"), " of ",
             ShapeText(first.chunk), filters);
}

// Lists the datasets for the user.
std::vector<StoredPiece> ListPieces(const SavedCheckpoint& saved) {
  std::vector<const StoredDataset*> datasets;
  datasets.reserve(saved.datasets.size());
  for (const StoredDataset& dataset : saved.datasets) {
    datasets.push_back(&dataset);
  }
  const auto is_before = [](const StoredDataset* a, const StoredDataset* b) {
    return a->file < b->file;
  };
  if (!std::is_sorted(datasets.begin(), datasets.end(), is_before)) {
    std::stable_sort(datasets.begin(), datasets.end(), is_before);
  }
  std::vector<StoredPiece> pieces;
  pieces.reserve(datasets.size());
  for (const StoredDataset* dataset : datasets) {
    pieces.push_back(
        {.file = saved.files[dataset->file].name,
         .group = dataset->group,
         .key = saved.arrays[dataset->array].key,
         .box = dataset->box,
         .task = dataset->task < 0 ? std::optional<int64_t>() : dataset->task});
  }
  return pieces;
}

// Needs much memory if there are many arrays, or long keys.
std::vector<ArrayInfo> DescribeArrays(const SavedCheckpoint& saved) {
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  const std::vector<std::string> layouts = FindLayouts(saved);
  std::vector<ArrayInfo> arrays;
  arrays.reserve(saved.arrays.size());
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    arrays.push_back({.key = array.key,
                      .dtype = array.dtype,
                      .shape = array.shape,
                      .bytes = ArrayBytes(array),
                      .cut = CutText(entries[i]),
                      .args = array.args,
                      .layout = layouts[i],
                      .fields = array.fields});
  }
  return arrays;
}

// Errors: DataLoss - the graph is impossible; ResourceExhausted - the paths of
//   its objects take too much memory.
StatusOr<ObjectGraph> ReadObjectGraph(const SavedCheckpoint& saved) {
  return CatchBadAlloc("its graph", [&]() -> StatusOr<ObjectGraph> {
    BELAY_ASSIGN_OR_RETURN(
        ObjectGraph graph,
        FromStoredGraph(saved.graph, saved.arrays, saved.values));
    BELAY_RETURN_IF_ERROR(CheckPathBytes(graph));
    return graph;
  });
}

// --- Checkpoint reader ---

// Reports a lack of memory as an error: keys and names may be long.
template <typename Describe>
auto IfItFits(const std::string& path, Describe describe)
    -> StatusOr<decltype(describe())> {
  return CatchBadAlloc(
      PrintableLine(Cat("what \"", path, "\" holds")),
      [&]() -> StatusOr<decltype(describe())> { return describe(); });
}

template <typename T>
StatusOr<T> Printable(StatusOr<T> result) {
  if (!result.ok()) return PrintableStatus(result.status());
  return result;
}

// Opens the step to which a path refers.
template <typename Open>
auto OpenAt(const std::string& path, const Open& open) {
  return OpenResolved([&] { return ResolveStep(path); }, open);
}

StatusOr<CheckpointInfo> DescribeCheckpoint(const std::string& path,
                                            const SavedCheckpoint& saved) {
  return IfItFits(path, [&] {
    CheckpointInfo info{.path = path,
                        .step = saved.step,
                        .time = saved.time,
                        .format_major = saved.format_major,
                        .format_minor = saved.format_minor,
                        .file_layout = saved.file_layout,
                        .num_files = std::ssize(saved.files),
                        .has_checksums = saved.has_checksums,
                        .has_graph = !saved.graph.node_parent.empty(),
                        .arrays = DescribeArrays(saved),
                        .pieces = ListPieces(saved)};
    for (const ArrayInfo& array : info.arrays) info.bytes += array.bytes;
    for (const StoredFile& file : saved.files) info.file_bytes += file.bytes;
    return info;
  });
}

StatusOr<Tensor> NewTensor(DType dtype, const Shape& shape) {
  try {
    return Tensor(dtype, shape);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "not enough memory; read it in smaller boxes (need %d bytes)",
        NumElements(shape) * DTypeSize(dtype)));
  }
}

// Returns the key itself and the keys of all arrays that could have it as a
// field; nothing if there are too many.
std::vector<std::string> ArraysWith(std::string_view key) {
  constexpr int64_t kMaxFields = 16;
  if (std::ranges::count(key, '.') > kMaxFields) return {};
  std::vector<std::string> keys = {std::string(key)};
  for (size_t dot = key.find('.'); dot != key.npos;
       dot = key.find('.', dot + 1)) {
    keys.emplace_back(key.substr(0, dot));
  }
  return keys;
}

Status WrongDType(std::string_view need, DType found, std::string_view use) {
  return absl::FailedPreconditionError(Cat("the stored dtype differs; use ",
                                           use, " (need ", need, ", found ",
                                           DTypeName(found), ")"));
}

}  // namespace

// The index of a step.
struct ReaderContents {
  SavedCheckpoint saved;
  std::vector<ArrayEntry> entries;  // borrow from `saved`
  CheckpointInfo info;
  uint64_t identity = 0;  // of the save that wrote `saved`
  // True once the files are known to be large enough for the arrays.
  mutable std::atomic<bool> files_hold = false;
};

struct CheckpointReader::Impl {
  std::shared_ptr<const ReaderContents> contents;
  std::unique_ptr<OpenFiles> kept = nullptr;  // null: files do not stay open

  // Opens a step. With keys, reads only these arrays if that is less work.
  static StatusOr<std::shared_ptr<const Impl>> Open(
      const std::string& step, const std::vector<std::string>& keys) {
    auto contents = std::make_shared<ReaderContents>();
    const StatusOr<uint64_t> identity = IndexIdentity(step);  // before reading
    BELAY_ASSIGN_OR_RETURN(contents->saved, Printable(ReadIndex(step, keys)));
    BELAY_ASSIGN_OR_RETURN(contents->identity, Printable(identity));
    contents->entries = ArrayEntries(contents->saved);
    BELAY_ASSIGN_OR_RETURN(contents->info,
                           DescribeCheckpoint(step, contents->saved));
    return std::make_shared<const Impl>(Impl{.contents = std::move(contents)});
  }

  const std::string& path() const { return contents->info.path; }
  const StoredArray& ArrayIn(const ArrayView& view) const {
    return contents->saved.arrays[view.number];
  }

  Status Hint(const Status& status) const {
    return WithEarlierStep(status, path());
  }

  // Adds the step and the key, and for a damaged step an earlier one to use.
  Status Explain(std::string_view key, const Status& status) const {
    if (status.ok()) return status;
    const Status hinted = Hint(status);
    return Status(hinted.code(), PrintableLine(absl::StrFormat(
                                     "read \"%s\": key \"%s\": %s", path(),
                                     AbslView(key), hinted.message())));
  }

  // Returns the status of a read, or an error if it may have read another save.
  // Files that were already open belong to the right save.
  Status CheckSave(const Status& status) const {
    if (kept != nullptr && status.ok() && !kept->TakeOpened()) return status;
    const Status same =
        PrintableStatus(CheckSameStep("read", path(), contents->identity));
    if (!same.ok() && kept != nullptr) kept->Forget();
    BELAY_RETURN_IF_ERROR(same);
    return status;
  }

  // Returns the array or the field with that key, or nothing.
  std::optional<ArrayView> Look(std::string_view key) const {
    const SavedCheckpoint& saved = contents->saved;
    if (const StoredArray* const array = FindArray(saved, key)) {
      return ArrayView{static_cast<size_t>(array - saved.arrays.data()),
                       array->dtype, array->shape};
    }
    return FindField(saved, key);
  }

  StatusOr<ArrayView> Find(std::string_view key) const {
    if (auto found = Look(key)) return *std::move(found);
    const std::vector<StoredArray>& arrays = contents->saved.arrays;
    CloseKeys close(key);
    for (const StoredArray& array : arrays) close.Offer(array.key);
    return absl::NotFoundError(PrintableLine(
        absl::StrFormat("read \"%s\": \"%s\": %s", path(), AbslView(key),
                        close.AbsentText(Cat("need one of ", arrays.size())))));
  }

  // Returns the array with that key, if it is numeric and contains the box.
  StatusOr<ArrayView> FindBox(std::string_view key, const Box& box) const {
    BELAY_ASSIGN_OR_RETURN(ArrayView view, Find(key));
    BELAY_RETURN_IF_ERROR(
        Explain(key, view.dtype == DType::kString
                         ? WrongDType("a numeric type", view.dtype,
                                      "CheckpointReader::ReadText")
                         : CheckBox(box, view.shape)));
    return view;
  }

  // Plans to read a box, before memory is allocated for it. Checks that the
  // files can hold the arrays of the index, until the check succeeds.
  StatusOr<ArrayReading> PlanReading(const ArrayView& view,
                                     const Box& box) const {
    const SavedCheckpoint& saved = contents->saved;
    if (!contents->files_hold.load(std::memory_order_relaxed)) {
      const Status status =
          PrintableStatus(Hint(CheckStoredChunks(path(), saved)));
      if (!status.ok()) return CheckSave(status);
      contents->files_hold.store(true, std::memory_order_relaxed);
    }
    return ArrayReading(IndexOfArray(saved, static_cast<int32_t>(view.number),
                                     contents->entries[view.number],
                                     ArrayBox(view, ArrayIn(view), box)),
                        path(), kept.get());
  }

  // Ends a reading with this status.
  Status Finish(const ArrayReading& reading, Status status) const {
    if (status.ok()) status = Hint(reading.CheckBlocks());
    return CheckSave(status);
  }
};

CheckpointReader::CheckpointReader(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}

CheckpointReader CheckpointReader::KeepingFilesOpen() const {
  return CheckpointReader(std::make_shared<Impl>(Impl{
      .contents = impl_->contents, .kept = std::make_unique<OpenFiles>()}));
}

StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(std::shared_ptr<const Impl> impl,
                         OpenAt(path, [](const std::string& step) {
                           return Impl::Open(step, {});
                         }));
  return CheckpointReader(std::move(impl));
}

const CheckpointInfo& CheckpointReader::info() const {
  return impl_->contents->info;
}

bool CheckpointReader::Has(std::string_view key) const {
  return impl_->Look(key).has_value();
}

StatusOr<ArrayInfo> CheckpointReader::Find(std::string_view key) const {
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->Find(key));
  const ArrayInfo& array = info().arrays[view.number];
  if (!view.field) return array;
  return ArrayInfo{
      .key = std::string(key),
      .dtype = view.dtype,
      .shape = view.shape,
      .bytes = NumElements(view.shape) * DTypeSize(view.dtype),
      .cut = Cat("field of ", QuotedText(array.key), ", ", array.cut)};
}

std::vector<ValueInfo> CheckpointReader::Values() const {
  const SavedCheckpoint& saved = impl_->contents->saved;
  std::vector<ValueInfo> values;
  for (StoredValue& value : AllValues(saved)) {
    ValueInfo& one = values.emplace_back();
    if (const StoredArray* const array = FindArray(saved, value.key)) {
      one.layout = info().arrays[array - saved.arrays.data()].layout;
    }
    one.key = std::move(value.key);
    one.typestr = std::move(value.typestr);
    one.parts = std::move(value.parts);
  }
  return values;
}

StatusOr<std::vector<ObjectInfo>> CheckpointReader::Objects() const {
  if (!info().has_graph) return std::vector<ObjectInfo>();
  const StatusOr<ObjectGraph> graph = ReadObjectGraph(impl_->contents->saved);
  if (!graph.ok()) {
    return Status(graph.status().code(),
                  PrintableLine(Cat("read \"", info().path, "\": ",
                                    std::string(graph.status().message()))));
  }
  return CatchBadAlloc(
      PrintableLine(Cat("the objects of \"", info().path, "\"")),
      [&]() -> StatusOr<std::vector<ObjectInfo>> {
        return ListObjects(*graph);
      });
}

StatusOr<std::vector<int64_t>> CheckpointReader::RowCounts(
    std::string_view key, int num_ranks) const {
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->Find(key));
  if (view.shape.empty()) {
    return impl_->Explain(key, absl::FailedPreconditionError(
                                   "the array has no axes, so it has no rows"));
  }
  if (num_ranks <= 0) {
    return impl_->Explain(
        key, absl::InvalidArgumentError(absl::StrFormat(
                 "no ranks (need at least 1, found %d)", num_ranks)));
  }
  const std::vector<StoredRows>& stored = impl_->contents->saved.rows;
  const auto rows = std::ranges::find(stored, view.number, &StoredRows::array);
  const bool is_own = rows != stored.end() && rows->ranks.ranks == num_ranks;
  const auto first = [&](int64_t rank) {
    return is_own ? rows->ranks.FirstOf(rank)
                  : FirstOfEven(view.shape[0], rank, num_ranks);
  };
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    counts.push_back(first(rank + 1) - first(rank));
  }
  return counts;
}

StatusOr<Tensor> CheckpointReader::ReadTensor(std::string_view key) const {
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->Find(key));
  return ReadTensor(key, WholeBox(view.shape));
}

StatusOr<Tensor> CheckpointReader::ReadTensor(std::string_view key,
                                              const Box& box) const {
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->FindBox(key, box));
  BELAY_ASSIGN_OR_RETURN(ArrayReading reading, impl_->PlanReading(view, box));
  StatusOr<Tensor> tensor = NewTensor(view.dtype, box.shape);
  BELAY_RETURN_IF_ERROR(impl_->Explain(key, tensor.status()));
  const Status status =
      ReadView(view, impl_->ArrayIn(view), box, reading, tensor->data());
  BELAY_RETURN_IF_ERROR(impl_->Finish(reading, impl_->Explain(key, status)));
  return tensor;
}

StatusOr<std::string> CheckpointReader::ReadText(std::string_view key) const {
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->Find(key));
  const StoredArray& array = impl_->ArrayIn(view);
  if (view.dtype != DType::kString) {
    return impl_->Explain(key, WrongDType("string", view.dtype, "ReadTensor"));
  }
  BELAY_ASSIGN_OR_RETURN(ArrayReading reading,
                         impl_->PlanReading(view, WholeBox(IoShape(array))));
  std::string text;
  BELAY_RETURN_IF_ERROR(impl_->Explain(
      key, CatchBadAlloc(Cat(array.string_bytes, " bytes of text"), [&] {
        text.resize(static_cast<size_t>(array.string_bytes));
        return absl::OkStatus();
      })));
  const Status status =
      reading.Read({.key = array.key, .dtype = DType::kString, .text = &text});
  BELAY_RETURN_IF_ERROR(impl_->Finish(reading, impl_->Explain(key, status)));
  return text;
}

Status CheckpointReader::ReadPieces(
    std::string_view key, const Box& box, int64_t max_bytes,
    const std::function<Status(const Box&, const Tensor&)>& visit) const {
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->FindBox(key, box));
  const int64_t max_elements =
      std::max<int64_t>(1, max_bytes / DTypeSize(view.dtype));
  BELAY_ASSIGN_OR_RETURN(ArrayReading reading, impl_->PlanReading(view, box));
  StatusOr<Tensor> tensor = NewTensor(view.dtype, {0});
  const auto read = [&](const Box& tile) -> Status {
    // Most pieces have the same shape, so their memory is reused.
    if (tensor->shape() != tile.shape) {
      tensor = NewTensor(view.dtype, tile.shape);
    }
    Status status = tensor.status();
    if (status.ok()) {
      status =
          ReadView(view, impl_->ArrayIn(view), tile, reading, tensor->data());
    }
    BELAY_RETURN_IF_ERROR(impl_->CheckSave(impl_->Explain(key, status)));
    return visit(tile, *tensor);
  };
  BELAY_RETURN_IF_ERROR(TryForEachTile(box, max_elements, read));
  return impl_->Finish(reading, absl::OkStatus());
}

StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                         Printable(ReadIndex(path)));
  return DescribeCheckpoint(path, saved);
}

StatusOr<std::vector<ArrayInfo>> ListVariables(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                         Printable(OpenAt(path, [](const std::string& step) {
                           return ReadIndex(step);
                         })));
  return IfItFits(path, [&] { return DescribeArrays(saved); });
}

StatusOr<Tensor> LoadVariable(const std::string& path, std::string_view key) {
  using Impl = CheckpointReader::Impl;
  const std::vector<std::string> keys = ArraysWith(key);
  BELAY_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Impl> impl,
      OpenAt(path, [&](const std::string& step) {
        StatusOr<std::shared_ptr<const Impl>> some = Impl::Open(step, keys);
        // A reader of all keys gives the better error.
        if (!keys.empty() && (!some.ok() || !(*some)->Look(key))) {
          some = Impl::Open(step, {});
        }
        return some;
      }));
  return CheckpointReader(impl).ReadTensor(key);
}

StatusOr<Metadata> ReadMetadata(const std::string& path) {
  return Printable(OpenAt(
      path, [](const std::string& step) { return ReadMetadataFile(step); }));
}

StatusOr<std::vector<ConversionRule>> ReadConversionRules(
    const std::string& file, const std::string& path,
    std::optional<int64_t> step) {
  // Rules are written by hand or by a script, so their file is small.
  constexpr int64_t kMaxRuleBytes = int64_t{64} << 20;
  BELAY_ASSIGN_OR_RETURN(const std::string text,
                         Printable(ReadWhole(file, kMaxRuleBytes)));
  BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayInfo> arrays,
                         ListVariables(step ? StepPath(path, *step) : path));
  std::vector<std::string> keys;
  for (const ArrayInfo& array : arrays) keys.push_back(array.key);
  StatusOr<std::vector<ConversionRule>> rules = ParseRules(text, keys);
  if (rules.ok()) return rules;
  return PrintableStatus(AddPrefix(rules.status(), "convert \"", file, "\""));
}

// --- Step pin ---

StepPin::StepPin(std::string path, std::unique_ptr<HeldFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

StepPin::StepPin(StepPin&& other) noexcept = default;
StepPin& StepPin::operator=(StepPin&& other) noexcept = default;
StepPin::~StepPin() = default;

StatusOr<StepPin> StepPin::Take(const std::string& path) {
  // If this step is gone, the newest step may now be another one.
  constexpr int kTries = 10;
  std::string step;
  for (int i = 0; i < kTries; ++i) {
    BELAY_ASSIGN_OR_RETURN(step, ResolveStep(path));
    BELAY_ASSIGN_OR_RETURN(HeldFile file, Printable(PinStep(step)));
    if (file.fd() >= 0) {
      return StepPin(std::move(step),
                     std::make_unique<HeldFile>(std::move(file)));
    }
  }
  return absl::NotFoundError(PrintableLine(
      Cat("pin \"", step, "\": it is being deleted or replaced")));
}

// --- Verify ---

namespace {

// Bytes to read at a time: a few blocks, to save memory.
constexpr int64_t kReadBytes = 4 * kBlockBytes;

// Adds a loss of data to `damage`; returns other errors.
Status NoteDamage(std::string_view prefix, const Status& status,
                  std::vector<std::string>& damage) {
  if (!absl::IsDataLoss(status)) return status;
  damage.push_back(Cat(prefix, std::string(status.message())));
  return absl::OkStatus();
}

// Reads one array block by block, however it is stored.
class ArrayVerifier {
 public:
  ArrayVerifier(const SavedCheckpoint& saved, const std::string& directory,
                const std::function<void(int64_t)>& progress)
      : saved_(saved), directory_(directory), progress_(progress) {}

  // Reads one array, and compares its checksums if it has any.
  Status Verify(int32_t array, const ArrayEntry& entry, VerifyResult& result) {
    const StoredArray& stored = saved_.arrays[array];
    const int64_t bytes = ArrayBytes(stored);
    std::vector<uint32_t> registers(saved_.has_checksums ? NumBlocks(bytes) : 0,
                                    0);
    Checksummer sum(registers);
    Status summed;
    for (const StoredDataset& dataset : entry.datasets) {
      if (summed.ok()) summed = SumDataset(stored, dataset, sum);
    }
    sum.Flush();
    // Chunks whose filters cannot be undone have no bytes to compare.
    if (absl::IsDataLoss(summed)) {
      return NoteDamage(Cat("key \"", stored.key, "\": "), summed,
                        result.damage);
    }
    // Without checksums, a missing plugin only leaves this array unverified.
    const bool lacks_plugin =
        absl::IsUnimplemented(summed) || absl::IsFailedPrecondition(summed);
    if (!saved_.has_checksums && lacks_plugin) return absl::OkStatus();
    BELAY_RETURN_IF_ERROR(summed);
    if (!saved_.has_checksums) return absl::OkStatus();
    for (size_t i = 0; i < registers.size(); ++i) {
      const auto block = static_cast<int64_t>(i);
      const int64_t block_bytes =
          std::min(kBlockBytes, bytes - block * kBlockBytes);
      const uint32_t found = StandardCrc(registers[i], block_bytes);
      const uint32_t need = saved_.checksums[entry.first_block + block];
      ++result.blocks;
      if (found == need) continue;
      result.damage.push_back(
          DescribeDamage(saved_, array, block, need, found));
    }
    result.bytes += bytes;
    return absl::OkStatus();
  }

 private:
  Status SumDataset(const StoredArray& stored, const StoredDataset& dataset,
                    Checksummer& sum) {
    const bool is_filtered = !dataset.filters.empty();
    const std::string path =
        JoinPath(directory_, saved_.files[dataset.file].name);
    const FilteredDataset filtered{.path = dataset.path,
                                   .dtype = stored.dtype,
                                   .box = dataset.box,
                                   .filters = dataset.filters,
                                   .fields = stored.fields};
    std::optional<PosixFile> file;
    if (!is_filtered) {
      BELAY_ASSIGN_OR_RETURN(file,
                             PosixFile::Open(path, PosixFile::Mode::kRead));
    }
    const auto sum_extent = [&](Extent& extent) {
      if (!is_filtered) extent.offset += dataset.offset;
      const auto read = [&](const ShardMemory& memory, const Box& tile) {
        if (is_filtered) {
          return filtered_.Read(path, filtered, extent, tile, memory);
        }
        Status status;
        ForEachSegment(memory, tile, extent,
                       [&](char* data, int64_t offset, int64_t length) {
                         if (!status.ok()) return;
                         status = file->PreadAll(offset, data, length);
                       });
        return status;
      };
      return SumExtent(stored, *Intersect(extent.box, dataset.box), extent,
                       read, sum);
    };
    BELAY_RETURN_IF_ERROR(TryForEachExtent(
        dataset, dataset.box, IoElementSize(stored.dtype), sum_extent));
    return is_filtered ? absl::OkStatus() : file->Close();
  }

  Status SumExtent(
      const StoredArray& stored, const Box& box, const Extent& extent,
      absl::FunctionRef<Status(const ShardMemory&, const Box&)> read,
      Checksummer& sum) {
    const int64_t size = IoElementSize(stored.dtype);
    ShardMemory memory{.data = nullptr,
                       .element_size = size,
                       .box = {},
                       .array = IoShape(stored)};
    return TryForEachTile(
        box, kReadBytes / size, [&](const Box& tile) -> Status {
          const int64_t bytes = NumElements(tile.shape) * size;
          BELAY_RETURN_IF_ERROR(
              buffer_.Start(bytes, stored.key, FileOffset(tile, extent, size)));
          memory.data = buffer_.Take(bytes);
          memory.box = tile;
          BELAY_RETURN_IF_ERROR(read(memory, tile));
          sum.Add(memory, tile, 0);
          if (progress_) progress_(bytes);
          return absl::OkStatus();
        });
  }

  const SavedCheckpoint& saved_;
  const std::string& directory_;
  const std::function<void(int64_t)>& progress_;
  ConversionBuffer buffer_;
  FilteredReader filtered_;
};

StatusOr<VerifyResult> Verify(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(path));
  VerifyResult result;
  BELAY_RETURN_IF_ERROR(
      NoteDamage("", ReadMetadataFile(path).status(), result.damage));
  if (!saved.graph.node_parent.empty()) {
    BELAY_RETURN_IF_ERROR(NoteDamage(Cat("read \"", path, "\": "),
                                     ReadObjectGraph(saved).status(),
                                     result.damage));
  }
  Status files = CheckDataFiles(path, saved);
  if (files.ok()) files = CheckAllStoredChunks(path, saved);
  BELAY_RETURN_IF_ERROR(NoteDamage("", files, result.damage));
  if (!files.ok()) return result;
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> damage,
                         FindHdf5Damage(path, saved));
  result.damage.insert(result.damage.end(), damage.begin(), damage.end());
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  // Without checksums, only filters can reveal damage.
  const auto is_read = [&](size_t array) {
    return saved.has_checksums || HasFilters(entries[array].datasets);
  };
  int64_t total = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (is_read(i)) total += ArrayBytes(saved.arrays[i]);
  }
  int64_t done = 0;
  const std::function<void(int64_t)> advance = [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  if (total == 0) advance(0);  // having nothing to do is progress as well
  ArrayVerifier verifier(saved, path, advance);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!is_read(i)) continue;
    BELAY_RETURN_IF_ERROR(
        verifier.Verify(static_cast<int32_t>(i), entries[i], result));
  }
  return result;
}

}  // namespace

StatusOr<VerifyResult> VerifyCheckpoint(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress) {
  StatusOr<VerifyResult> result = Verify(path, progress);
  if (!result.ok()) return PrintableStatus(result.status());
  for (std::string& line : result->damage) line = PrintableLine(line);
  return result;
}

// --- Preview of a restore ---

namespace {

// Adds each rank's piece of one array to what the rank wants.
Status AddWants(const StoredArray& array, const Layout& layout,
                std::vector<RankShards>& wanted) {
  const auto num_ranks = static_cast<int>(wanted.size());
  BELAY_RETURN_IF_ERROR(
      CheckMeshSize(Cat("plan \"", array.key, "\""), layout, num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    StatusOr<Box> box = layout.LocalBox(array.shape, rank);
    if (!box.ok()) {
      return AddPrefix(box.status(), "plan \"", array.key, "\"");
    }
    wanted[rank].shards.push_back({.key = array.key,
                                   .dtype = array.dtype,
                                   .global_shape = array.shape,
                                   .box = *std::move(box),
                                   .replica = layout.Replica(rank),
                                   .string_bytes = array.string_bytes});
  }
  return absl::OkStatus();
}

StatusOr<std::vector<RankShards>> WantAll(
    const SavedCheckpoint& saved, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of) {
  const std::vector<ArrayInfo> infos = DescribeArrays(saved);
  std::vector<RankShards> wanted(num_ranks);
  for (RankShards& rank : wanted) rank.shards.reserve(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    if (array.dtype != DType::kString) {
      BELAY_RETURN_IF_ERROR(AddWants(array, layout_of(infos[i]), wanted));
      continue;
    }
    for (int rank = 0; rank < num_ranks; ++rank) {
      wanted[rank].shards.push_back({.key = array.key,
                                     .dtype = array.dtype,
                                     .replica = rank,
                                     .string_bytes = array.string_bytes});
    }
  }
  return wanted;
}

// Sums up the plan of one rank.
RankPreview Preview(const std::vector<ShardInfo>& shards,
                    const RankReads& reads, int32_t rank) {
  RankPreview preview;
  for (const ShardInfo& shard : shards) {
    preview.wanted_bytes +=
        NumElements(IoBox(shard).shape) * IoElementSize(shard.dtype);
  }
  for (const ReadOrder& order : reads.orders) {
    preview.read_bytes +=
        NumElements(order.box.shape) * IoElementSize(shards[order.shard].dtype);
    ++preview.num_reads;
  }
  for (const Delivery& delivery : reads.deliveries) {
    if (delivery.reader == rank) continue;
    const ShardInfo& shard = shards[delivery.shard];
    const auto part = Intersect(delivery.box, IoBox(shard));
    preview.delivered_bytes +=
        NumElements(part->shape) * IoElementSize(shard.dtype);
  }
  return preview;
}

// Needs memory for all pieces; even a small index may list very many.
StatusOr<RestorePreview> Plan(
    const std::string& path, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of,
    const RestoreOptions& options) {
  BELAY_ASSIGN_OR_RETURN(const std::string step, ResolveStep(path));
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(step));
  BELAY_RETURN_IF_ERROR(CheckChunksFit("plan", step, saved));
  BELAY_ASSIGN_OR_RETURN(const std::vector<RankShards> wanted,
                         WantAll(saved, num_ranks, layout_of));
  BELAY_ASSIGN_OR_RETURN(const RestorePlan plan,
                         PlanRestore(saved, wanted, MakeReadRules(options)));
  RestorePreview preview{.path = step,
                         .step = saved.step,
                         .num_arrays = std::ssize(saved.arrays),
                         .read_sharing = plan.sharing,
                         .sharing_note = plan.note};
  for (int rank = 0; rank < num_ranks; ++rank) {
    preview.ranks.push_back(
        Preview(wanted[rank].shards, plan.ranks[rank], rank));
  }
  return preview;
}

}  // namespace

StatusOr<RestorePreview> PreviewRestore(
    const std::string& path, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of,
    const RestoreOptions& options) {
  if (num_ranks < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": too few ranks (need at least 1, found %d)", path,
        num_ranks));
  }
  BELAY_RETURN_IF_ERROR(CheckReading("plan", path, options));
  return CatchBadAlloc(Cat("the plan of \"", path, "\""), [&] {
    return Plan(path, num_ranks, layout_of, options);
  });
}

}  // namespace belay
