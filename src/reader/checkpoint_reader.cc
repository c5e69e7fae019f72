#include "reader/checkpoint_reader.h"

#include <new>

#include "belay/reader/copy_checkpoint.h"
#include "belay/reader/step_pin.h"
#include "belay/save_restore.h"
#include "core/catch_exceptions.h"
#include "core/keys.h"
#include "core/strided_copy.h"
#include "plan/chunks.h"
#include "restore/array_reading.h"
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

// The datasets as a user sees them.
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

}  // namespace

std::vector<ArrayInfo> ArraysOf(const SavedCheckpoint& saved,
                                const std::vector<ArrayEntry>& entries) {
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

CheckpointInfo InfoOf(const std::string& path, const SavedCheckpoint& saved,
                      const std::vector<ArrayEntry>& entries) {
  CheckpointInfo info{.path = path,
                      .step = saved.step,
                      .time = saved.time,
                      .format_major = saved.format_major,
                      .format_minor = saved.format_minor,
                      .file_layout = saved.file_layout,
                      .num_files = static_cast<int64_t>(saved.files.size()),
                      .bytes = TotalBytes(saved),
                      .has_checksums = saved.has_checksums,
                      .has_graph = !saved.graph.node_parent.empty(),
                      .arrays = ArraysOf(saved, entries),
                      .pieces = ListPieces(saved)};
  for (const StoredFile& file : saved.files) info.file_bytes += file.bytes;
  return info;
}

// --- Checkpoint reader ---

namespace {

// Calls `describe`. Fails if there is no memory for its result: keys and names
// may be long.
template <typename Describe>
auto IfItFits(const std::string& path, Describe describe)
    -> StatusOr<decltype(describe())> {
  return CatchBadAlloc(
      PrintableText(Cat("what \"", path, "\" holds")),
      [&]() -> StatusOr<decltype(describe())> { return describe(); });
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

// Returns the arrays with this name, or that can have a field with it; nothing
// if there are too many.
std::vector<std::string> ArraysWith(std::string_view key) {
  constexpr int64_t kMostFields = 16;
  if (std::ranges::count(key, '.') > kMostFields) return {};
  std::vector<std::string> keys = {std::string(key)};
  for (size_t dot = key.find('.'); dot != key.npos;
       dot = key.find('.', dot + 1)) {
    keys.emplace_back(key.substr(0, dot));
  }
  return keys;
}

Status WrongDType(std::string_view need, DType found, std::string_view use) {
  return absl::FailedPreconditionError(
      absl::StrFormat("the stored dtype differs; use %s (need %s, found %s)",
                      AbslView(use), AbslView(need), DTypeName(found)));
}

}  // namespace

// A step, as its index says.
struct ReaderContents {
  SavedCheckpoint saved;
  std::vector<ArrayEntry> entries;  // borrow from `saved`
  CheckpointInfo info;
  uint64_t identity = 0;  // of the save that `saved` is of
  mutable std::atomic<bool> files_hold = false;  // what it says

  // Opens a step; with keys, only these arrays of it if that is less work.
  static StatusOr<std::shared_ptr<const ReaderContents>> Open(
      const std::string& step, const std::vector<std::string>& keys) {
    auto impl = std::make_shared<ReaderContents>();
    const StatusOr<uint64_t> identity = IndexIdentity(step);  // first
    StatusOr<SavedCheckpoint> saved = ReadIndex(step, keys);
    if (!saved.ok()) return PrintableStatus(saved.status());
    if (!identity.ok()) return PrintableStatus(identity.status());
    impl->identity = *identity;
    impl->saved = *std::move(saved);
    impl->entries = ArrayEntries(impl->saved);
    BELAY_ASSIGN_OR_RETURN(impl->info, IfItFits(step, [&] {
                             return InfoOf(step, impl->saved, impl->entries);
                           }));
    return impl;
  }

  // Says which key of which step a failure is about, and what to use in place
  // of a damaged step.
  Status Explain(std::string_view key, const Status& status) const {
    if (status.ok()) return status;
    const Status told = WithEarlierStep(status, info.path);
    return Status(told.code(), PrintableText(absl::StrFormat(
                                   "read \"%s\": key \"%s\": %s", info.path,
                                   AbslView(key), told.message())));
  }

  // Returns the status of a read, or an error if it may have read another save.
  // Files that were open are of this one.
  Status OfThisSave(const Status& status, OpenFiles* kept) const {
    if (kept != nullptr && status.ok() && !kept->TakeOpened()) return status;
    const Status same =
        PrintableStatus(CheckSameStep("read", info.path, identity));
    if (!same.ok() && kept != nullptr) kept->Forget();
    BELAY_RETURN_IF_ERROR(same);
    return status;
  }

  Status CheckBlocks(const ArrayReading& reading) const {
    return WithEarlierStep(reading.CheckBlocks(), info.path);
  }

  // The position of the key, or nothing.
  std::optional<size_t> Position(std::string_view key) const {
    const auto found =
        std::lower_bound(saved.arrays.begin(), saved.arrays.end(), key,
                         [](const StoredArray& array, std::string_view wanted) {
                           return array.key < wanted;
                         });
    if (found == saved.arrays.end() || found->key != key) return std::nullopt;
    return found - saved.arrays.begin();
  }

  // The array or the field of that key, or nothing.
  std::optional<ArrayView> Look(std::string_view key) const {
    if (const auto position = Position(key)) {
      const StoredArray& array = saved.arrays[*position];
      return ArrayView{*position, array.dtype, array.shape};
    }
    return FindField(saved, key);
  }

  StatusOr<ArrayView> Find(std::string_view key) const {
    if (auto found = Look(key)) return *std::move(found);
    CloseKeys close(key);
    for (const StoredArray& array : saved.arrays) close.Offer(array.key);
    return absl::NotFoundError(PrintableText(absl::StrFormat(
        "read \"%s\": \"%s\": %s", info.path, AbslView(key),
        close.AbsentText(Cat("need one of ", saved.arrays.size())))));
  }

  // The array of that key, if it has numbers and holds the box.
  StatusOr<ArrayView> FindBox(std::string_view key, const Box& box) const {
    BELAY_ASSIGN_OR_RETURN(ArrayView view, Find(key));
    Status status = view.dtype == DType::kString
                        ? WrongDType("a numeric type", view.dtype,
                                     "CheckpointReader::ReadText")
                        : CheckBox(box, view.shape);
    BELAY_RETURN_IF_ERROR(Explain(key, status));
    return view;
  }

  // Checks that the files can hold the arrays of the index, until they can.
  Status CheckFilesHold() const {
    if (files_hold.load(std::memory_order_relaxed)) return absl::OkStatus();
    BELAY_RETURN_IF_ERROR(PrintableStatus(
        WithEarlierStep(CheckStoredChunks(info.path, saved), info.path)));
    files_hold.store(true, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  // Plans to read a box of an array, before memory is taken for it.
  StatusOr<ArrayReading> Reading(size_t number, const Box& box,
                                 OpenFiles* kept) const {
    if (const Status status = CheckFilesHold(); !status.ok()) {
      return OfThisSave(status, kept);
    }
    return ArrayReading(
        IndexOfArray(saved, static_cast<int32_t>(number), entries[number], box),
        info.path, kept);
  }
  StatusOr<ArrayReading> PlanViewReading(const ArrayView& view, const Box& box,
                                         OpenFiles* kept) const {
    return Reading(view.number, ArrayBox(view, saved.arrays[view.number], box),
                   kept);
  }

  // Fills `tensor`, whose shape is that of the box.
  Status ReadInto(const ArrayView& view, const Box& box, ArrayReading& reading,
                  Tensor& tensor) const {
    return ReadView(view, saved.arrays[view.number], box, reading,
                    tensor.data());
  }
};

struct CheckpointReader::Impl {
  // Opens a step, as ReaderContents::Open.
  static StatusOr<std::shared_ptr<const Impl>> Open(
      const std::string& step, const std::vector<std::string>& keys) {
    BELAY_ASSIGN_OR_RETURN(std::shared_ptr<const ReaderContents> contents,
                           ReaderContents::Open(step, keys));
    return std::make_shared<const Impl>(Impl{.contents = std::move(contents)});
  }

  std::shared_ptr<const ReaderContents> contents;
  std::unique_ptr<OpenFiles> kept = nullptr;  // null: no file stays open
};

CheckpointReader::CheckpointReader(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}

CheckpointReader CheckpointReader::KeepingFilesOpen() const {
  return CheckpointReader(std::make_shared<Impl>(Impl{
      .contents = impl_->contents, .kept = std::make_unique<OpenFiles>()}));
}

StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(std::shared_ptr<const Impl> impl,
                         OpenResolved([&] { return ResolveStep(path); },
                                      [](const std::string& step) {
                                        return Impl::Open(step, {});
                                      }));
  return CheckpointReader(std::move(impl));
}

const CheckpointInfo& CheckpointReader::info() const {
  return impl_->contents->info;
}

bool CheckpointReader::Has(std::string_view key) const {
  return impl_->contents->Look(key).has_value();
}

StatusOr<ArrayInfo> CheckpointReader::Find(std::string_view key) const {
  const ReaderContents& contents = *impl_->contents;
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, contents.Find(key));
  const ArrayInfo& array = contents.info.arrays[view.number];
  if (!view.field) return array;
  return ArrayInfo{
      .key = std::string(key),
      .dtype = view.dtype,
      .shape = view.shape,
      .bytes = NumElements(view.shape) * DTypeSize(view.dtype),
      .cut = Cat("field of \"", PrintableText(array.key), "\", ", array.cut)};
}

std::vector<ValueInfo> CheckpointReader::Values() const {
  const ReaderContents& contents = *impl_->contents;
  std::vector<ValueInfo> values;
  for (StoredValue& value : AllValues(contents.saved)) {
    const auto array = contents.Position(value.key);
    ValueInfo& info = values.emplace_back();
    if (array) info.layout = contents.info.arrays[*array].layout;
    info.key = std::move(value.key);
    info.typestr = std::move(value.typestr);
    info.parts = std::move(value.parts);
  }
  return values;
}

StatusOr<ObjectGraph> ReadObjectGraph(const SavedCheckpoint& saved) {
  return CatchBadAlloc("its graph", [&]() -> StatusOr<ObjectGraph> {
    BELAY_ASSIGN_OR_RETURN(
        ObjectGraph graph,
        FromStoredGraph(saved.graph, saved.arrays, saved.values));
    BELAY_RETURN_IF_ERROR(CheckPathBytes(graph));
    return graph;
  });
}

StatusOr<std::vector<ObjectInfo>> CheckpointReader::Objects() const {
  const ReaderContents& contents = *impl_->contents;
  if (!contents.info.has_graph) return std::vector<ObjectInfo>();
  const StatusOr<ObjectGraph> graph = ReadObjectGraph(contents.saved);
  if (!graph.ok()) {
    return Status(graph.status().code(),
                  PrintableText(Cat("read \"", contents.info.path, "\": ",
                                    std::string(graph.status().message()))));
  }
  return CatchBadAlloc(
      PrintableText(Cat("the objects of \"", contents.info.path, "\"")),
      [&]() -> StatusOr<std::vector<ObjectInfo>> {
        return ListObjects(*graph);
      });
}

StatusOr<std::vector<int64_t>> CheckpointReader::RowCounts(
    std::string_view key, int num_ranks) const {
  const ReaderContents& contents = *impl_->contents;
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, contents.Find(key));
  if (view.shape.empty()) {
    return contents.Explain(key,
                            absl::FailedPreconditionError(
                                "the array has no axes, so it has no rows"));
  }
  if (num_ranks <= 0) {
    return contents.Explain(
        key, absl::InvalidArgumentError(absl::StrFormat(
                 "no ranks (need at least 1, found %d)", num_ranks)));
  }
  const auto rows = std::find_if(
      contents.saved.rows.begin(), contents.saved.rows.end(),
      [&](const StoredRows& stored) { return stored.array == view.number; });
  const bool is_own =
      rows != contents.saved.rows.end() && rows->ranks.ranks == num_ranks;
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
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, impl_->contents->Find(key));
  return ReadTensor(key, WholeBox(view.shape));
}

StatusOr<Tensor> CheckpointReader::ReadTensor(std::string_view key,
                                              const Box& box) const {
  const ReaderContents& contents = *impl_->contents;
  OpenFiles* const kept = impl_->kept.get();
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, contents.FindBox(key, box));
  BELAY_ASSIGN_OR_RETURN(ArrayReading reading,
                         contents.PlanViewReading(view, box, kept));
  StatusOr<Tensor> tensor = NewTensor(view.dtype, box.shape);
  BELAY_RETURN_IF_ERROR(contents.Explain(key, tensor.status()));
  Status status =
      contents.Explain(key, contents.ReadInto(view, box, reading, *tensor));
  if (status.ok()) status = contents.CheckBlocks(reading);
  BELAY_RETURN_IF_ERROR(contents.OfThisSave(status, kept));
  return tensor;
}

StatusOr<std::string> CheckpointReader::ReadText(std::string_view key) const {
  const ReaderContents& contents = *impl_->contents;
  OpenFiles* const kept = impl_->kept.get();
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, contents.Find(key));
  const StoredArray& array = contents.saved.arrays[view.number];
  if (view.dtype != DType::kString) {
    return contents.Explain(key,
                            WrongDType("string", view.dtype, "ReadTensor"));
  }
  BELAY_ASSIGN_OR_RETURN(
      ArrayReading reading,
      contents.Reading(view.number, WholeBox(IoShape(array)), kept));
  std::string text;
  BELAY_RETURN_IF_ERROR(contents.Explain(
      key, CatchBadAlloc(Cat(array.string_bytes, " bytes of text"), [&] {
        text.resize(static_cast<size_t>(array.string_bytes));
        return absl::OkStatus();
      })));
  Status status = contents.Explain(
      key,
      reading.Read({.key = array.key, .dtype = DType::kString, .text = &text}));
  if (status.ok()) status = contents.CheckBlocks(reading);
  BELAY_RETURN_IF_ERROR(contents.OfThisSave(status, kept));
  return text;
}

Status CheckpointReader::ReadPieces(
    std::string_view key, const Box& box, int64_t max_bytes,
    const std::function<Status(const Box&, const Tensor&)>& visit) const {
  const ReaderContents& contents = *impl_->contents;
  OpenFiles* const kept = impl_->kept.get();
  BELAY_ASSIGN_OR_RETURN(const ArrayView view, contents.FindBox(key, box));
  const int64_t max_elements =
      std::max<int64_t>(1, max_bytes / DTypeSize(view.dtype));
  BELAY_ASSIGN_OR_RETURN(ArrayReading reading,
                         contents.PlanViewReading(view, box, kept));
  StatusOr<Tensor> tensor = NewTensor(view.dtype, {0});
  const auto read = [&](const Box& tile) -> Status {
    // Most pieces have the same shape, and the memory is used again.
    if (tensor->shape() != tile.shape) {
      tensor = NewTensor(view.dtype, tile.shape);
    }
    Status status = tensor.status();
    if (status.ok()) status = contents.ReadInto(view, tile, reading, *tensor);
    BELAY_RETURN_IF_ERROR(
        contents.OfThisSave(contents.Explain(key, status), kept));
    return visit(tile, *tensor);
  };
  BELAY_RETURN_IF_ERROR(TryForEachTile(box, max_elements, read));
  return contents.OfThisSave(contents.CheckBlocks(reading), kept);
}

StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  const StatusOr<SavedCheckpoint> saved = ReadIndex(path);
  if (!saved.ok()) return PrintableStatus(saved.status());
  return IfItFits(path,
                  [&] { return InfoOf(path, *saved, ArrayEntries(*saved)); });
}

StatusOr<std::vector<ArrayInfo>> ListVariables(const std::string& path) {
  const StatusOr<SavedCheckpoint> saved =
      OpenResolved([&] { return ResolveStep(path); },
                   [](const std::string& step) { return ReadIndex(step); });
  if (!saved.ok()) return PrintableStatus(saved.status());
  return IfItFits(path, [&] { return ArraysOf(*saved, ArrayEntries(*saved)); });
}

StatusOr<Tensor> LoadVariable(const std::string& path, std::string_view key) {
  using Impl = CheckpointReader::Impl;
  const std::vector<std::string> keys = ArraysWith(key);
  const auto open = [&](const std::string& step) {
    StatusOr<std::shared_ptr<const Impl>> impl = Impl::Open(step, keys);
    // A reader of all keys makes the better error.
    if (!keys.empty() && (!impl.ok() || !(*impl)->contents->Look(key))) {
      impl = Impl::Open(step, {});
    }
    return impl;
  };
  const StatusOr<std::shared_ptr<const Impl>> impl =
      OpenResolved([&] { return ResolveStep(path); }, open);
  if (!impl.ok()) return impl.status();
  return CheckpointReader(*impl).ReadTensor(key);
}

// --- Read metadata ---

StatusOr<Metadata> ReadMetadata(const std::string& path) {
  StatusOr<Metadata> metadata = OpenResolved(
      [&] { return ResolveStep(path); },
      [](const std::string& step) { return ReadMetadataFile(step); });
  if (!metadata.ok()) return PrintableStatus(metadata.status());
  return metadata;
}

// --- Read conversion rules ---

namespace {

// Rules are written by hand, or by a script.
constexpr int64_t kMostRuleBytes = int64_t{64} << 20;

}  // namespace

StatusOr<std::vector<ConversionRule>> ReadConversionRules(
    const std::string& file, const std::string& path,
    std::optional<int64_t> step) {
  const StatusOr<std::string> text = ReadWhole(file, kMostRuleBytes);
  if (!text.ok()) return PrintableStatus(text.status());
  BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayInfo> arrays,
                         ListVariables(step ? StepPath(path, *step) : path));
  std::vector<std::string> keys;
  for (const ArrayInfo& array : arrays) keys.push_back(array.key);
  StatusOr<std::vector<ConversionRule>> rules = ParseRules(*text, keys);
  if (rules.ok()) return rules;
  return PrintableStatus(Status(
      rules.status().code(),
      Cat("convert \"", file, "\": ", std::string(rules.status().message()))));
}

// --- Step pin ---

StepPin::StepPin(std::string path, std::unique_ptr<HeldFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

StepPin::StepPin(StepPin&& other) noexcept = default;
StepPin& StepPin::operator=(StepPin&& other) noexcept = default;
StepPin::~StepPin() = default;

StatusOr<StepPin> StepPin::Take(const std::string& path) {
  // The newest step may be another one once this one is gone.
  constexpr int kTries = 10;
  std::string step;
  for (int i = 0; i < kTries; ++i) {
    BELAY_ASSIGN_OR_RETURN(step, ResolveStep(path));
    StatusOr<HeldFile> file = PinStep(step);
    if (!file.ok()) return PrintableStatus(file.status());
    if (file->fd() >= 0) {
      return StepPin(std::move(step),
                     std::make_unique<HeldFile>(*std::move(file)));
    }
  }
  return absl::NotFoundError(PrintableText(
      Cat("pin \"", step, "\": it is being deleted or replaced")));
}

}  // namespace belay
