// Stage plan of an export: what is selected, which files there will be, and
// who writes what.
#include "safetensors/export_stages.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/restore_planner.h"
#include "plan/stored_arrays.h"
#include "restore/array_reading.h"

namespace belay {
namespace {

// Read and written at a time; more does not make it faster.
constexpr int64_t kMostWindowBytes = int64_t{16} << 20;

Status OfExport(const OpenedExport& opened, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("export \"%s\": %s", opened.path,
                                               status.message()));
}

void DescribeResult(const safetensors::FilePlan& plan, const ExportFiles& files,
                    ExportResult& result) {
  for (const safetensors::PlannedFile& file : plan.files) {
    const int64_t num_tensors = std::ssize(file.tensors);
    result.files.push_back({.path = files.FinalPath(file.name),
                            .num_tensors = num_tensors,
                            .bytes = file.bytes});
    result.num_tensors += num_tensors;
    result.bytes += file.bytes - std::ssize(file.head);
  }
  if (!plan.index_name.empty()) {
    result.index = files.FinalPath(plan.index_name);
  }
}

// Plans the files, and who reads and writes what; returns the part of each
// rank. Rank 0 only.
StatusOr<std::vector<safetensors::RankExport>> PlanOnRoot(
    const ExportFrame& frame, const OpenedExport& opened,
    const ExportFiles& files, PlannedExport& planned) {
  StatusOr<ExportSelection> selection =
      SelectForExport(opened.path, opened.saved, frame.options);
  if (!selection.ok()) return OfExport(opened, selection.status());
  planned.result.left_out = std::move(selection->left_out);
  StatusOr<safetensors::FilePlan> plan =
      safetensors::PlanFiles(std::move(selection->tensors), selection->metadata,
                             files.place.stem, frame.options.max_file_bytes);
  if (!plan.ok()) return OfExport(opened, plan.status());
  planned.plan = *std::move(plan);
  StatusOr<std::vector<safetensors::RankExport>> parts =
      safetensors::PlanExport(
          planned.plan, frame.context.size(),
          std::min(frame.options.max_bytes_in_flight, kMostWindowBytes));
  if (!parts.ok()) return OfExport(opened, parts.status());
  std::vector<RankShards> wanted;
  for (const safetensors::RankExport& part : *parts) {
    wanted.push_back({.node = 0, .shards = part.shards});
  }
  StatusOr<RestorePlan> reading = PlanRestore(opened.saved, wanted);
  if (!reading.ok()) return OfExport(opened, reading.status());
  planned.reading = *std::move(reading);
  planned.result.path = opened.path;
  planned.result.step = opened.saved.step;
  DescribeResult(planned.plan, files, planned.result);
  return parts;
}

// What rank 0 tells all ranks.
std::string EncodeCommon(const ExportFrame& frame, const SavedCheckpoint& saved,
                         const ExportFiles& files,
                         const PlannedExport& planned) {
  const ExportResult& result = planned.result;
  WireWriter out;
  out.PutText(result.path);
  out.Put(result.step);
  out.PutText(result.index);
  out.Put(result.num_tensors);
  out.Put(result.bytes);
  out.Put<uint64_t>(result.files.size());
  for (size_t i = 0; i < result.files.size(); ++i) {
    out.PutText(result.files[i].path);
    out.Put(result.files[i].num_tensors);
    out.Put(result.files[i].bytes);
    out.PutText(files.TemporaryPath(planned.plan.files[i].name));
  }
  out.Put<uint64_t>(result.left_out.size());
  for (const LeftOut& one : result.left_out) {
    out.PutText(one.name);
    out.PutText(one.reason);
  }
  out.Put(saved.has_checksums && frame.options.checksums);
  out.Put(planned.reading.num_blocks);
  out.Put<uint64_t>(saved.files.size());
  for (const StoredFile& file : saved.files) out.PutText(file.name);
  PutFiltered(out, planned.reading.filtered);
  return out.Take();
}

void DecodeCommon(std::string_view bytes, PlannedExport& planned) {
  WireReader in(bytes);
  ExportResult& result = planned.result;
  result = {};
  result.path = in.GetText();
  result.step = in.Get<int64_t>();
  result.index = in.GetText();
  result.num_tensors = in.Get<int64_t>();
  result.bytes = in.Get<int64_t>();
  result.files = in.GetAll<SafetensorsInfo>([&] {
    SafetensorsInfo file{.path = std::string(in.GetText())};
    file.num_tensors = in.Get<int64_t>();
    file.bytes = in.Get<int64_t>();
    planned.temporary_paths.emplace_back(in.GetText());
    return file;
  });
  result.left_out = in.GetAll<LeftOut>([&] {
    LeftOut one{.name = std::string(in.GetText())};
    one.reason = in.GetText();
    return one;
  });
  planned.checks = in.Get<bool>();
  planned.num_blocks = in.Get<int64_t>();
  planned.file_names = in.GetTexts();
  planned.filtered = GetFiltered(in);
}

// What rank 0 tells each rank.
std::vector<std::string> EncodeParts(
    const RestorePlan& reading,
    const std::vector<safetensors::RankExport>& parts) {
  std::vector<std::string> all;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    WireWriter out;
    safetensors::PutRankExport(out, parts[rank]);
    all.push_back(out.Take() + EncodeRankReads(reading.ranks[rank]));
  }
  return all;
}

}  // namespace

Agreed<PlannedExport> PlanExported(const ExportFrame& frame,
                                   const OpenedExport& opened,
                                   const ExportFiles& files) {
  frame.stages.Enter("plan");
  PlannedExport planned;
  const auto plan = [&]() -> StatusOr<RootMessages> {
    BELAY_ASSIGN_OR_RETURN(const std::vector<safetensors::RankExport> parts,
                           PlanOnRoot(frame, opened, files, planned));
    return RootMessages{
        .common = EncodeCommon(frame, opened.saved, files, planned),
        .parts = EncodeParts(planned.reading, parts)};
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message, FromRootInParts(frame.context, [&] {
        return CatchBadAlloc("the plan of the export", plan);
      }));
  DecodeCommon(message.common, planned);
  WireReader in(message.part);
  planned.part = safetensors::GetRankExport(in);
  planned.reads = DecodeRankReads(in.Rest());
  return planned;
}

// What of a checkpoint goes into an export.

namespace {

bool IsMetadata(const StoredArray& array) {
  return array.dtype == DType::kString &&
         std::string_view(array.key).starts_with(kSafetensorsMetadata);
}

// Reads a string of the checkpoint.
StatusOr<std::string> ReadStoredText(const std::string& path,
                                     const SavedCheckpoint& saved,
                                     const ArrayEntry& entry, size_t number,
                                     bool checksums) {
  const StoredArray& array = saved.arrays[number];
  return CatchBadAlloc(
      absl::StrFormat("the text \"%s\"", array.key),
      [&]() -> StatusOr<std::string> {
        std::string text(array.string_bytes, '\0');
        ArrayReading reading(IndexOfArray(saved, static_cast<int32_t>(number),
                                          entry, WholeBox(IoShape(array))),
                             path);
        BELAY_RETURN_IF_ERROR(reading.Read(
            {.key = array.key, .dtype = DType::kString, .text = &text}));
        if (checksums) BELAY_RETURN_IF_ERROR(reading.CheckBlocks());
        return text;
      });
}

// Why an array cannot be exported; "": it can.
std::string ReasonAgainst(const StoredArray& array) {
  if (safetensors::FormatName(array.dtype)) return "";
  return absl::StrFormat("safetensors has no form for %s",
                         DTypeName(array.dtype));
}

// The arrays that the expressions choose, but for metadata.
StatusOr<std::vector<const StoredArray*>> Chosen(const SavedCheckpoint& saved,
                                                 const ExportOptions& options) {
  BELAY_ASSIGN_OR_RETURN(const KeyPatterns patterns,
                         KeyPatterns::Compile(options.keys));
  std::vector<std::string_view> keys;
  std::vector<const StoredArray*> chosen;
  for (const StoredArray& array : saved.arrays) {
    if (IsMetadata(array)) continue;
    keys.push_back(array.key);
    if (options.keys.empty() || patterns.Find(array.key) >= 0) {
      chosen.push_back(&array);
    }
  }
  BELAY_RETURN_IF_ERROR(patterns.CheckAllMatch(keys));
  return chosen;
}

Status CheckLeftOut(const std::vector<LeftOut>& left_out) {
  if (left_out.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "key \"%s\": %s; choose others with keys, or leave such values out with "
      "leave_out_others (%d of them)",
      left_out[0].name, left_out[0].reason, left_out.size()));
}

}  // namespace

StatusOr<ExportSelection> SelectForExport(const std::string& path,
                                          const SavedCheckpoint& saved,
                                          const ExportOptions& options) {
  ExportSelection selection{.metadata = options.metadata};
  BELAY_ASSIGN_OR_RETURN(const std::vector<const StoredArray*> chosen,
                         Chosen(saved, options));
  for (const StoredArray* array : chosen) {
    const std::string reason = ReasonAgainst(*array);
    if (!reason.empty()) {
      selection.left_out.push_back({array->key, reason});
      continue;
    }
    selection.tensors.push_back({.name = array->key,
                                 .dtype = array->dtype,
                                 .shape = array->shape,
                                 .begin = 0,
                                 .end = ArrayBytes(*array)});
  }
  if (!options.leave_out_others) {
    BELAY_RETURN_IF_ERROR(CheckLeftOut(selection.left_out));
  }
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    const std::string name =
        IsMetadata(array) ? array.key.substr(kSafetensorsMetadata.size()) : "";
    if (!IsMetadata(array) || selection.metadata.contains(name)) continue;
    BELAY_ASSIGN_OR_RETURN(
        selection.metadata[name],
        ReadStoredText(path, saved, entries[i], i, options.checksums));
  }
  return selection;
}

}  // namespace belay
