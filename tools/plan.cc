#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/values/restore_preview.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"

namespace belay::tools {
namespace {

constexpr size_t kMaxPrinted = 16;

// Returns a layout with `replicas` replicas, each partitioned by rows over its
// ranks.
StatusOr<Layout> RowsOfReplicas(const PlanOptions& options, size_t ndim) {
  const int64_t replicas = options.replicas.value_or(options.ranks);
  if (replicas < 1 || options.ranks % replicas != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan: the replicas do not divide the ranks (need a divisor of %d, "
        "found %d)",
        options.ranks, replicas));
  }
  StatusOr<Mesh> mesh =
      Mesh::Create({{"replica", replicas}, {"part", options.ranks / replicas}});
  if (!mesh.ok()) return mesh.status();
  LayoutAxes axes(ndim);
  if (ndim > 0) axes[0] = {"part"};
  return Layout::Create(*std::move(mesh), std::move(axes));
}

// Plans with the given layout for all arrays with the same number of axes;
// every rank gets all other arrays in full.
StatusOr<RestorePreview> Preview(const std::string& path,
                                 const PlanOptions& options) {
  StatusOr<ReadSharing> sharing = SharingOf("plan", options.read);
  if (!sharing.ok()) return sharing.status();
  StatusOr<Layout> given = options.layout.empty()
                               ? RowsOfReplicas(options, 0)
                               : Layout::Parse(options.layout);
  if (!given.ok()) return given.status();
  const auto layout_of = [&](const ArrayInfo& array) {
    const size_t ndim = array.shape.size();
    if (options.layout.empty()) return *RowsOfReplicas(options, ndim);
    if (given->axes().size() == ndim) return *given;
    return Layout::Replicated(given->mesh(), static_cast<int>(ndim));
  };
  return PreviewRestore(path, options.ranks, layout_of,
                        {.read_sharing = *sharing,
                         .primary_replica = options.primary_replica,
                         .max_bytes_in_flight = options.max_bytes_in_flight});
}

void PrintRank(const std::string& name, const RankPreview& rank) {
  Print("%5s  %10s  %10s  %6d  %10s\n", name, BytesText(rank.wanted_bytes),
        BytesText(rank.read_bytes), rank.num_reads,
        BytesText(rank.delivered_bytes));
}

RankPreview SumOf(const std::vector<RankPreview>& ranks) {
  RankPreview all;
  for (const RankPreview& rank : ranks) {
    all.wanted_bytes += rank.wanted_bytes;
    all.read_bytes += rank.read_bytes;
    all.num_reads += rank.num_reads;
    all.delivered_bytes += rank.delivered_bytes;
  }
  return all;
}

void PrintRanks(const RestorePreview& preview) {
  Print("%5s  %10s  %10s  %6s  %10s\n", "rank", "wants", "reads", "pieces",
        "gets");
  for (size_t i = 0; i < std::min(preview.ranks.size(), kMaxPrinted); ++i) {
    PrintRank(absl::StrFormat("%d", i), preview.ranks[i]);
  }
  if (preview.ranks.size() > kMaxPrinted) {
    Print("  ...  %d more\n", preview.ranks.size() - kMaxPrinted);
  }
  PrintRank("all", SumOf(preview.ranks));
}

Json RankJson(const RankPreview& rank) {
  return {{"wanted_bytes", rank.wanted_bytes},
          {"read_bytes", rank.read_bytes},
          {"reads", rank.num_reads},
          {"delivered_bytes", rank.delivered_bytes}};
}

void PrintAsJson(const RestorePreview& preview) {
  const bool once = preview.read_sharing == ReadSharing::kOnce;
  Json ranks = Json::array();
  for (const RankPreview& rank : preview.ranks) ranks.push_back(RankJson(rank));
  PrintJson({{"path", TextJson(preview.path)},
             {"step", preview.step},
             {"arrays", preview.num_arrays},
             {"read", once ? "once" : "each"},
             {"note", TextJson(preview.sharing_note)},
             {"all", RankJson(SumOf(preview.ranks))},
             {"ranks", std::move(ranks)}});
}

}  // namespace

StatusOr<ReadSharing> SharingOf(const std::string& command,
                                const std::string& name) {
  if (name == "auto") return ReadSharing::kAuto;
  if (name == "each") return ReadSharing::kEachRank;
  if (name == "once") return ReadSharing::kOnce;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: unknown way to read (need auto, each or once, found \"%s\")",
      command, name));
}

int Plan(const std::string& path, const PlanOptions& options) {
  const StatusOr<RestorePreview> preview = Preview(path, options);
  if (!preview.ok()) return Fail(preview.status(), options.json);
  if (options.json) {
    PrintAsJson(*preview);
    return 0;
  }
  Print("%s: step %d, %s, restored on %s\n%s\n\n", preview->path, preview->step,
        CountText(preview->num_arrays, "array"),
        CountText(options.ranks, "rank"), preview->sharing_note);
  PrintRanks(*preview);
  return 0;
}

}  // namespace belay::tools
