// Stage plan of an export: which files there will be, and who writes what.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "bytes/wire.h"
#include "plan/restore/restore_planner.h"
#include "safetensors/export_run.h"

namespace belay {
namespace {

// Read and written at a time; more does not make it faster.
constexpr int64_t kMostWindowBytes = int64_t{16} << 20;

Status OfExport(const ExportRun& run, const Status& status) {
  if (status.ok()) return status;
  return Status(
      status.code(),
      absl::StrFormat("export \"%s\": %s", run.result.path, status.message()));
}

void DescribeResult(ExportRun& run) {
  ExportResult& result = run.result;
  for (const safetensors::PlannedFile& file : run.plan.files) {
    const int64_t num_tensors = std::ssize(file.tensors);
    result.files.push_back({.path = run.files.FinalPath(file.name),
                            .num_tensors = num_tensors,
                            .bytes = file.bytes});
    result.num_tensors += num_tensors;
    result.bytes += file.bytes - std::ssize(file.head);
  }
  if (!run.plan.index_name.empty()) {
    result.index = run.files.FinalPath(run.plan.index_name);
  }
}

// Plans the files, and who reads and writes what. Rank 0 only.
Status PlanOnRoot(ExportRun& run, std::vector<safetensors::RankExport>& parts) {
  StatusOr<ExportSelection> selection =
      SelectForExport(run.result.path, run.saved, run.options);
  if (!selection.ok()) return OfExport(run, selection.status());
  run.result.left_out = std::move(selection->left_out);
  StatusOr<safetensors::FilePlan> plan =
      safetensors::PlanFiles(std::move(selection->tensors), selection->metadata,
                             run.files.place.stem, run.options.max_file_bytes);
  if (!plan.ok()) return OfExport(run, plan.status());
  run.plan = *std::move(plan);
  StatusOr<std::vector<safetensors::RankExport>> planned =
      safetensors::PlanExport(
          run.plan, run.team.size(),
          std::min(run.options.max_bytes_in_flight, kMostWindowBytes));
  if (!planned.ok()) return OfExport(run, planned.status());
  parts = *std::move(planned);
  std::vector<RankShards> wanted;
  for (const safetensors::RankExport& part : parts) {
    wanted.push_back({.node = 0, .shards = part.shards});
  }
  StatusOr<RestorePlan> reading = PlanRestore(run.saved, wanted);
  if (!reading.ok()) return OfExport(run, reading.status());
  run.reading = *std::move(reading);
  DescribeResult(run);
  return absl::OkStatus();
}

// What rank 0 tells all ranks.
std::string EncodeCommon(const ExportRun& run) {
  const ExportResult& result = run.result;
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
    out.PutText(run.files.TemporaryPath(run.plan.files[i].name));
  }
  out.Put<uint64_t>(result.left_out.size());
  for (const LeftOut& one : result.left_out) {
    out.PutText(one.name);
    out.PutText(one.reason);
  }
  out.Put(run.saved.has_checksums && run.options.checksums);
  out.Put(run.reading.num_blocks);
  out.Put<uint64_t>(run.saved.files.size());
  for (const StoredFile& file : run.saved.files) out.PutText(file.name);
  PutFiltered(out, run.reading.filtered);
  return out.Take();
}

void DecodeCommon(std::string_view bytes, ExportRun& run) {
  WireReader in(bytes);
  ExportResult& result = run.result;
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
    run.temporary_paths.emplace_back(in.GetText());
    return file;
  });
  result.left_out = in.GetAll<LeftOut>([&] {
    LeftOut one{.name = std::string(in.GetText())};
    one.reason = in.GetText();
    return one;
  });
  run.checks = in.Get<bool>();
  const auto num_blocks = in.Get<int64_t>();
  run.registers.assign(run.checks ? num_blocks : 0, 0);
  run.covered.assign(run.checks ? num_blocks : 0, 0);
  run.file_names = in.GetTexts();
  run.filtered = GetFiltered(in);
}

// What rank 0 tells each rank.
std::vector<std::string> EncodeParts(
    const ExportRun& run, const std::vector<safetensors::RankExport>& parts) {
  std::vector<std::string> all;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    WireWriter out;
    safetensors::PutRankExport(out, parts[rank]);
    all.push_back(out.Take() + EncodeRankReads(run.reading.ranks[rank]));
  }
  return all;
}

}  // namespace

Status PlanExportStage(ExportRun& run) {
  run.stages.Enter("plan");
  const auto plan = [&]() -> StatusOr<Briefing> {
    std::vector<safetensors::RankExport> planned;
    BELAY_RETURN_IF_ERROR(PlanOnRoot(run, planned));
    return Briefing{.common = EncodeCommon(run),
                    .parts = EncodeParts(run, planned)};
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const Briefed briefed, FromRootInParts(run.team, [&] {
        return CatchBadAlloc("the plan of the export", plan);
      }));
  DecodeCommon(briefed.common, run);
  WireReader in(briefed.part);
  run.part = safetensors::GetRankExport(in);
  run.reads = DecodeRankReads(in.Rest());
  return absl::OkStatus();
}

}  // namespace belay
