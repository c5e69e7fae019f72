#include "save/transfer_choice.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/text.h"
#include "format/paths.h"
#include "pipeline/operator_options.h"
#include "storage/transfer.h"

namespace belay {

Agreed<SaveOptions> WithOperatorTransfer(const Comm& comm,
                                         const std::string& path,
                                         const SaveOptions& options) {
  SaveOptions changed = options;
  const StatusOr<OperatorOptions> wanted =
      ParseOperatorOptions([&](const char* name) -> const char* {
        const bool is_asked = std::string_view(name) == "BELAY_TRANSFER";
        return is_asked ? comm.transfer_variable().c_str() : nullptr;
      });
  if (!wanted.ok()) {
    return SameOnAllRanks(
               Status(wanted.status().code(),
                      absl::StrFormat("save \"%s\": %s", GetParent(path),
                                      wanted.status().message())))
        .error();
  }
  ApplyToSave(*wanted, changed);
  return changed;
}

// --- Transfer choice ---

namespace {

// Most stripe ranges counted for a plan, in addition to one per order.
constexpr int64_t kMaxRanges = int64_t{1} << 21;

// Gathering pays off if nodes share more than one in this many stripes. If they
// share fewer, few writes wait for a lock, while gathering would send most
// bytes to other ranks.
constexpr int64_t kSharedOneIn = 4;

// Returns a text such as "stripes of 1.0 MiB (Lustre)".
std::string StripesText(const Striping& striping) {
  return Cat("stripes of ", BytesText(striping.stripe_bytes), " (",
             striping.is_hinted ? "striping_unit"
                                : FileSystemName(striping.file_system),
             ")");
}

// Returns a text such as "37 of 40 stripes of 1.0 MiB (Lustre)".
std::string SharedText(const PlannedStripes& stripes) {
  const StripeUse& use = stripes.by_nodes;
  return Cat(stripes.is_exact ? "" : "about ",
             use.shared == 0 ? "none" : Cat(use.shared), " of ", use.stripes,
             " ", StripesText(stripes.striping));
}

TransferChoice ChooseForStripes(bool is_short, const PlannedStripes& stripes) {
  const StripeUse& use = stripes.by_nodes;
  if (is_short) {
    return {Transfer::kTwoPhase,
            Cat("two phases, as runs are short; what a rank writes fits ",
                StripesText(stripes.striping))};
  }
  if (use.shared * kSharedOneIn > use.stripes) {
    return {Transfer::kTwoPhase,
            Cat("two phases, as nodes would else share ", SharedText(stripes))};
  }
  return {Transfer::kIndependent,
          Cat("positional writes, as nodes share ",
              use.shared == 0 ? "" : "only ", SharedText(stripes))};
}

}  // namespace

PlannedStripes CountStripesOfPlan(const SavePlan& plan,
                                  std::span<const int32_t> nodes,
                                  std::span<const Striping> stripings) {
  PlannedStripes found;
  const auto striped =
      std::find_if(stripings.begin(), stripings.end(),
                   [](const Striping& one) { return one.stripe_bytes > 0; });
  if (striped != stripings.end()) {
    found.striping = *striped;
  } else if (!stripings.empty()) {
    found.striping = stripings[0];
  }
  int64_t orders = 1;
  std::set<int32_t> writers;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    orders += std::ssize(plan.ranks[rank].orders);
    if (!plan.ranks[rank].orders.empty()) writers.insert(nodes[rank]);
  }
  found.nodes = static_cast<int32_t>(writers.size());
  if (found.striping.stripe_bytes == 0) return found;
  const int64_t most = std::max<int64_t>(1, kMaxRanges / orders);
  std::vector<std::vector<StripeRange>> ranges(stripings.size());
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const WriteOrder& order : plan.ranks[rank].orders) {
      const StoredDataset& dataset = plan.datasets[order.dataset];
      const int64_t stripe_bytes = stripings[dataset.file].stripe_bytes;
      if (stripe_bytes == 0 || !dataset.filters.empty()) continue;
      const int64_t element_size =
          IoElementSize(plan.arrays[dataset.array].dtype);
      const bool is_exact =
          AddStripeRanges(order.box, order.extent, element_size, stripe_bytes,
                          most, nodes[rank], ranges[dataset.file]);
      found.is_exact = found.is_exact && is_exact;
    }
  }
  for (std::vector<StripeRange>& of_file : ranges) {
    const StripeUse use = CountStripes(std::move(of_file));
    found.by_nodes.stripes += use.stripes;
    found.by_nodes.shared += use.shared;
  }
  return found;
}

TransferChoice ChooseTransfer(Transfer asked, FileLayout layout,
                              int64_t mean_run_bytes,
                              const PlannedStripes& stripes) {
  const bool by_all =
      asked != Transfer::kIndependent && asked != Transfer::kHdf5;
  if (layout == FileLayout::kPerTask && by_all) {
    return {Transfer::kIndependent,
            asked == Transfer::kAuto
                ? ""
                : "positional writes, as each rank writes a file of its own: "
                  "there is nothing to write together"};
  }
  if (asked != Transfer::kAuto) return {asked, ""};
  const bool is_short = mean_run_bytes < kTwoPhaseRunBytes;
  if (stripes.nodes > 1 && stripes.striping.stripe_bytes > 0) {
    return ChooseForStripes(is_short, stripes);
  }
  if (is_short) return {Transfer::kTwoPhase, ""};
  // GlusterFS has no stripes: a whole file is on one server.
  if (stripes.nodes > 1 &&
      stripes.striping.file_system == FileSystem::kGlusterFs) {
    return {Transfer::kIndependent,
            "positional writes, as GlusterFS keeps a file on one server"};
  }
  return {Transfer::kIndependent, ""};
}

void PutPlannedStripes(WireWriter& out, const PlannedStripes& stripes) {
  out(stripes.striping);
  out.Put(stripes.nodes);
  out.Put(stripes.by_nodes);
  out.Put(stripes.is_exact);
}

PlannedStripes GetPlannedStripes(WireReader& in) {
  PlannedStripes stripes;
  in(stripes.striping);
  stripes.nodes = in.Get<int32_t>();
  stripes.by_nodes = in.Get<StripeUse>();
  stripes.is_exact = in.Get<bool>();
  return stripes;
}

}  // namespace belay
