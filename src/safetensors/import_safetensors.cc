#include "safetensors/import_safetensors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/arrays/flat_buffer.h"
#include "belay/extend/state.h"
#include "belay/safetensors.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "pipeline/stages.h"
#include "save/save.h"
#include "storage/mapped_file.h"

namespace belay::safetensors {
std::vector<RankImport> PlanImport(std::vector<SourceTensors> files,
                                   int num_ranks) {
  std::vector<FileTensor> tensors;
  std::vector<FilePlace> places;
  for (size_t i = 0; i < files.size(); ++i) {
    for (FileTensor& tensor : files[i].tensors) {
      places.push_back({.file = static_cast<int32_t>(i),
                        .offset = files[i].data_offset + tensor.begin});
      tensors.push_back(std::move(tensor));
    }
    std::exchange(files[i].tensors, {});  // also frees its memory
  }
  std::vector<RankImport> ranks(num_ranks);
  const std::vector<std::vector<TensorRange>> shares =
      EvenShares(tensors, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (const TensorRange& range : shares[rank]) {
      const FileTensor& tensor = tensors[range.tensor];
      const int64_t size = DTypeSize(tensor.dtype);
      FilePlace place = places[range.tensor];
      place.offset += range.begin * size;
      std::vector<Box> boxes =
          BoxesOfRange(WholeBox(tensor.shape), range.begin, range.end);
      // Tensors without elements are also listed.
      if (range.begin == range.end) boxes = {WholeBox(tensor.shape)};
      for (Box& box : boxes) {
        const int64_t bytes = NumElements(box.shape) * size;
        ranks[rank].shards.push_back({.key = tensor.name,
                                      .dtype = tensor.dtype,
                                      .global_shape = tensor.shape,
                                      .box = std::move(box)});
        ranks[rank].places.push_back(place);
        place.offset += bytes;
      }
    }
  }
  return ranks;
}

}  // namespace belay::safetensors

// --- Import safetensors ---

namespace belay {
namespace {

using safetensors::FileTensor;

// One import on one rank. Must not be copied or moved.
struct ImportRun {
  const std::vector<std::string>& in;
  const ImportOptions& options;
  // Rank 0 only.
  std::vector<SafetensorsFile> opened = {};
  safetensors::Metadata metadata = {};
  // This rank's part.
  int64_t part_bytes = 0;                 // without metadata
  std::vector<int64_t> modified_ns = {};  // per file, as seen by rank 0
  safetensors::RankImport part = {};
  std::vector<MappedFile> files = {};  // open if this rank reads them
  State state = {};                    // the state to save
  ImportResult result = {};
  // Costs before the save.
  int64_t messages = 0;
  std::vector<StageTime> stages = {};

  std::string Name() const { return in.empty() ? "" : in[0]; }
};
// Rank 0's message to all ranks.
template <typename Archive>
void Fields(Archive& archive, ImportRun& run) {
  archive(run.result.files, run.modified_ns, run.result.num_tensors,
          run.result.num_texts, run.result.bytes, run.result.left_out);
}

// The list stage. Collective.
Agreed<> Begin(CommContext& context, const ImportRun& run) {
  Status status = CheckSaveOptions(absl::StrFormat("import \"%s\"", run.Name()),
                                   run.options.save);
  if (status.ok() && run.in.empty()) {
    status = absl::InvalidArgumentError("import: there is nothing to import");
  }
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  return AgreeOnArguments(context, "import",
                          {{"the files", Encode(run.in)},
                           {"the option keys", Encode(run.options.keys)},
                           {"the options metadata and leave_out_others",
                            Encode(std::pair(run.options.metadata,
                                             run.options.leave_out_others))}});
}

// Merges the metadata of all files.
Status MergeMetadata(ImportRun& run) {
  if (!run.options.metadata) return absl::OkStatus();
  std::map<std::string_view, std::string_view> path_of;
  for (const SafetensorsFile& file : run.opened) {
    for (const auto& [name, text] : file.header.metadata) {
      const auto [at, is_new] = run.metadata.emplace(name, text);
      if (is_new) path_of[at->first] = file.path;
      if (at->second == text) continue;
      return absl::InvalidArgumentError(
          Cat("import \"", file.path, "\": metadata \"", name,
              "\" is another in \"", path_of[at->first],
              "\"; leave metadata out with the option metadata "
              "(need \"",
              at->second, "\", found \"", text, "\")"));
    }
  }
  return absl::OkStatus();
}

Status NameImport(const ImportRun& run, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("import \"%s\": %s", run.Name(),
                                               status.message()));
}

// Removes the tensors that the options do not choose. Rank 0 only.
Status SelectForImport(ImportRun& run) {
  const StatusOr<KeyPatterns> patterns = KeyPatterns::Compile(run.options.keys);
  if (!patterns.ok()) return NameImport(run, patterns.status());
  std::vector<std::string_view> names;
  std::vector<std::vector<bool>> is_chosen;
  for (const SafetensorsFile& file : run.opened) {
    is_chosen.emplace_back();
    for (const FileTensor& tensor : file.header.tensors) {
      names.push_back(tensor.name);
      is_chosen.back().push_back(false);
      if (!run.options.keys.empty() && patterns->Find(tensor.name) < 0)
        continue;
      if (tensor.foreign_dtype.empty()) {
        is_chosen.back().back() = true;
        ++run.result.num_tensors;
        run.result.bytes += tensor.end - tensor.begin;
        continue;
      }
      run.result.left_out.push_back(
          {tensor.name, Cat("belay has no dtype ", tensor.foreign_dtype)});
      if (run.options.leave_out_others) continue;
      return absl::UnimplementedError(absl::StrFormat(
          "import \"%s\": tensor \"%s\": %s; leave such tensors out with "
          "leave_out_others",
          file.path, tensor.name, run.result.left_out.back().reason));
    }
  }
  BELAY_RETURN_IF_ERROR(NameImport(run, patterns->CheckAllMatch(names)));
  for (size_t i = 0; i < run.opened.size(); ++i) {
    std::vector<FileTensor>& tensors = run.opened[i].header.tensors;
    size_t number = 0;
    std::erase_if(tensors,
                  [&](const FileTensor&) { return !is_chosen[i][number++]; });
  }
  return absl::OkStatus();
}

// Opens the files, and plans each rank's part. Rank 0 only.
StatusOr<RootMessages> OpenOnRoot(ImportRun& run, int num_ranks) {
  BELAY_ASSIGN_OR_RETURN(run.opened, OpenSafetensors(run.in));
  BELAY_RETURN_IF_ERROR(MergeMetadata(run));
  BELAY_RETURN_IF_ERROR(SelectForImport(run));
  for (const SafetensorsFile& file : run.opened) {
    run.result.files.push_back({.path = file.path,
                                .num_tensors = std::ssize(file.header.tensors),
                                .bytes = file.bytes});
    run.modified_ns.push_back(file.modified_ns);
  }
  run.result.num_texts = std::ssize(run.metadata);
  RootMessages messages{.common = Encode(run)};
  // There may be very many tensors, so they are moved instead of copied.
  std::vector<safetensors::SourceTensors> sources;
  for (SafetensorsFile& file : run.opened) {
    sources.push_back({file.data_offset, std::move(file.header.tensors)});
  }
  run.opened.clear();
  for (auto& part : safetensors::PlanImport(std::move(sources), num_ranks)) {
    messages.parts.push_back(Encode(part));
    part = {};
  }
  return messages;
}

// Maps the files that this rank reads.
Status MapMine(ImportRun& run) {
  std::vector<bool> is_read(run.result.files.size());
  for (const safetensors::FilePlace& place : run.part.places) {
    is_read[place.file] = true;
  }
  run.files.resize(run.result.files.size());
  for (size_t i = 0; i < is_read.size(); ++i) {
    if (!is_read[i]) continue;
    const auto& [path, num_tensors, bytes] = run.result.files[i];
    const bool is_named =
        std::find(run.in.begin(), run.in.end(), path) != run.in.end();
    BELAY_ASSIGN_OR_RETURN(
        run.files[i],
        MappedFile::Open(path, is_named ? Links::kFollowed : Links::kRefused));
    const bool is_same = run.files[i].size() == bytes &&
                         run.files[i].modified_ns() == run.modified_ns[i];
    if (is_same) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "import \"%s\": this rank sees another file than rank 0, or it was "
        "replaced (need %d bytes, written at %d ns since 1970, found %d and "
        "%d)",
        path, bytes, run.modified_ns[i], run.files[i].size(),
        run.files[i].modified_ns()));
  }
  return absl::OkStatus();
}

// Lists the values that this rank saves. Borrows the files and, on rank 0, the
// metadata.
void ListMine(ImportRun& run) {
  const safetensors::RankImport part = std::exchange(run.part, {});
  for (size_t i = 0; i < part.shards.size(); ++i) {
    const ShardInfo& info = part.shards[i];
    const safetensors::FilePlace& place = part.places[i];
    run.part_bytes += NumElements(info.box.shape) * DTypeSize(info.dtype);
    AddShard(run.state, {.key = info.key,
                         .dtype = info.dtype,
                         .global_shape = info.global_shape,
                         .box = info.box,
                         .data = run.files[place.file].data() + place.offset});
  }
  for (auto& [name, text] : run.metadata) {
    AddShard(run.state, {.key = Cat(kSafetensorsMetadata, name),
                         .dtype = DType::kString,
                         .text = &text});
  }
}

// The open stage: rank 0 reads the headers, and each rank gets its part.
// Collective.
Agreed<> Open(CommContext& context, ImportRun& run) {
  const auto open = [&] {
    return CatchBadAlloc("the headers of all files",
                         [&] { return OpenOnRoot(run, context.size()); });
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(const RootMessage message,
                                FromRootInParts(context, open));
  return Agree(context, CatchBadAlloc("the list of tensors", [&] {
                 WireReader(message.common)(run);
                 WireReader(message.part)(run.part);
                 const Status status = MapMine(run);
                 if (status.ok()) ListMine(run);
                 return status;
               }));
}

// Runs the stages before the save. The save has a separate deadline.
// Collective.
Agreed<> Prepare(const Comm& comm, ImportRun& run) {
  CommContext context{comm,
                      Deadline(comm, run.options.save.deadline_seconds,
                               absl::StrFormat("import \"%s\"", run.Name()))};
  Stages stages(context);
  stages.Enter("list");
  BELAY_RETURN_IF_AGREED(Begin(context, run));
  stages.Enter("open");
  BELAY_RETURN_IF_AGREED(Open(context, run));
  run.stages = stages.Finish();
  run.messages = context.messages;
  return {};
}

}  // namespace

StatusOr<ImportResult> ImportSafetensors(const Comm& comm,
                                         const std::vector<std::string>& in,
                                         const std::string& dir, int64_t step,
                                         const ImportOptions& options) {
  ImportRun run{.in = in, .options = options};
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "import", run.Name()));
  BELAY_RETURN_IF_AGREED(Prepare(comm, run));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      run.result.saved,
      SaveAt(comm,
             {.path = dir.empty() ? "" : StepPath(dir, step),
              .step = step,
              .state = run.state,
              .spent = &run.state,
              .before = {.messages = run.messages, .stages = run.stages},
              .progress = ProgressUpTo(run.part_bytes, options.progress)},
             options.save));
  return std::move(run.result);
}

}  // namespace belay
