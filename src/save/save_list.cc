#include "save/save_list.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "pipeline/save_options.h"
#include "save/save_stages.h"
#include "state/array_access.h"

namespace belay {
namespace {

size_t TextBytes(const Shard& shard) {
  return shard.text == nullptr ? 0 : shard.text->size();
}

}  // namespace

std::optional<std::vector<MovingShard>> FindMoving(
    const HandlerListing& listing, const std::vector<Shard>& shards) {
  if (!listing.is_fixed) return std::nullopt;
  std::vector<MovingShard> moving;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].access == nullptr && shards[i].text == nullptr) continue;
    moving.push_back({.shard = i, .text_bytes = TextBytes(shards[i])});
  }
  return moving;
}

bool FindMovedElements(KeptListing& kept) {
  for (const MovingShard& moving : kept.moving) {
    Shard& shard = kept.shards[moving.shard];
    if (TextBytes(shard) != moving.text_bytes) return false;
    if (shard.access == nullptr) continue;
    const DType dtype = shard.dtype;
    const Shape shape = shard.global_shape;
    if (!FindElements(shard).ok()) return false;
    if (shard.dtype != dtype || shard.global_shape != shape) return false;
  }
  return true;
}

// Stage list of a save: its values, its arguments, and whether the plan of the
// last save holds.

namespace {

// A name that would be taken for something else.
Status CheckPath(const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "save \"\": the path is empty; the current directory is \".\"");
  }
  const std::string name = NameOf(path);
  if (!name.empty() && name != "." && name != ".." && !IsInProgress(name) &&
      !IsReplaced(name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("save \"%s\": a checkpoint cannot have this name", path));
}

Status CheckLayoutsOf(const SaveJob& job, const std::vector<Shard>& shards,
                      int num_ranks) {
  return job.keeps_layouts ? absl::OkStatus() : CheckLayouts(shards, num_ranks);
}

Status CheckArguments(const SaveFrame& frame, const SaveJob& job) {
  if (!job.state.status().ok()) {
    // The cause, where memory fits the box of another mesh.
    BELAY_RETURN_IF_ERROR(
        CheckLayoutsOf(job, job.state.shards(), frame.context.size()));
    return job.state.status();
  }
  const std::string& path = frame.target.path;
  if (frame.target.step < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": step is out of range (need 0 to %d, found %d)",
        ParentOf(path), INT64_MAX, frame.target.step));
  }
  BELAY_RETURN_IF_ERROR(CheckPath(path));
  const std::string start = absl::StrFormat("save \"%s\"", ParentOf(path));
  BELAY_RETURN_IF_ERROR(CheckSaveOptions(start, frame.options));
  // One rank asks for all.
  if (frame.context.rank() != 0) return absl::OkStatus();
  return CheckFiltersCanBeRead(start, frame.options);
}

std::string EncodeOptions(const SaveOptions& options) {
  WireWriter out;
  for (const CommonOption& option : CommonSaveOptions(options)) {
    out.PutText(option.bytes);
  }
  return out.Take();
}

// Says what it is that ranks disagree on. Collective.
Agreed<> FindDifference(const SaveFrame& frame) {
  const SaveTarget& target = frame.target;
  BELAY_RETURN_IF_AGREED(AgreeSameText(frame.context, "save: the directory",
                                       ParentOf(target.path)));
  BELAY_RETURN_IF_AGREED(
      AgreeSameNumber(frame.context, "save: the step", target.step));
  BELAY_RETURN_IF_AGREED(
      AgreeSameText(frame.context, "save: the name", target.path));
  for (const CommonOption& option : CommonSaveOptions(frame.options)) {
    BELAY_RETURN_IF_AGREED(AgreeSame(frame.context,
                                     Cat("save: the option ", option.name),
                                     Fingerprint(option.bytes)));
  }
  return {};
}

// Asks the handlers what the values consist of.
Status ListValues(const SaveFrame& frame, const SaveJob& job,
                  ListedSave& listed) {
  BELAY_ASSIGN_OR_RETURN(
      listed.listing, CatchExceptions([&] {
        const HandlerTable& table = *listed.origin.handlers;
        return job.spent != nullptr ? ListForSave(std::move(*job.spent), table)
                                    : ListForSave(job.state, table);
      }));
  // Ranks may have different objects, and a copy divides all among them.
  if (job.graph_fingerprint == 0 && !job.keeps_layouts) {
    listed.on_all_ranks = FindOnAllRanks(listed.listing.shards);
  }
  listed.shards =
      ListShards(std::move(listed.listing.shards), frame.context.rank());
  listed.moving = FindMoving(listed.listing, listed.shards);
  return MapToDevices(listed.shards, {.job_name = JobName()},
                      frame.context.rank());
}

// Which function a policy calls: another one may have the same description.
uint64_t FunctionOf(const ShardingPolicy& policy) {
  return policy.group.target_type().hash_code();
}

// What decides what is listed.
ListingOrigin OriginOf(const SaveFrame& frame, const SaveJob& job,
                       const std::string& options) {
  WireWriter setting;
  setting.Put(frame.context.size());
  setting.Put(frame.context.rank());
  setting.PutText(options);
  setting.Put(FunctionOf(frame.options.sharding_policy));
  setting.PutText(JobName());
  setting.Put(job.graph_fingerprint);
  return {.state = StateVersion::Of(job.state),
          .handlers = HandlersOf(frame.options.handlers),
          .setting = Fingerprint(setting.bytes())};
}

// Takes what the last save has listed, if this one would list the same.
bool TakeListing(std::optional<ReusablePlan>& last, ListedSave& listed) {
  if (!last || !last->listing || last->listing->origin != listed.origin) {
    return false;
  }
  KeptListing kept = *std::exchange(last->listing, std::nullopt);
  if (!FindMovedElements(kept)) return false;
  listed.shards = std::move(kept.shards);
  listed.on_all_ranks = std::move(kept.on_all_ranks);
  listed.listing.values = std::move(kept.values);
  listed.moving = std::move(kept.moving);
  listed.fingerprint = last->fingerprint;
  return true;
}

// Of what shapes the plan.
uint64_t FingerprintOf(const SaveFrame& frame, const SaveJob& job,
                       const ListedSave& listed, const std::string& options) {
  WireWriter structure;
  structure.Put(frame.context.size());
  PutStructure(listed.shards, structure);
  PutListedValues(structure, listed.listing.values);
  structure.PutText(options);
  structure.Put(FunctionOf(frame.options.sharding_policy));
  structure.Put(job.graph_fingerprint);
  structure.Put(frame.context.rank());  // rank 0 keeps more than others
  return Fingerprint(structure.bytes());
}

// What each shard is stored as, if its layout is one of these ranks.
Status FindForms(const SaveFrame& frame, const SaveJob& job,
                 ListedSave& listed) {
  BELAY_RETURN_IF_ERROR(
      CheckLayoutsOf(job, listed.shards, frame.context.size()));
  BELAY_ASSIGN_OR_RETURN(listed.forms,
                         FormsToStore(listed.shards, frame.options));
  return CheckHandledForms(listed.listing.values, listed.shards, listed.forms);
}

// Lists the values of this rank. `fits`: the plan of the last save holds here,
// whose replicas add `replicas` to the sum.
Status ListLocally(const SaveFrame& frame, const SaveJob& job,
                   const std::string& options,
                   std::optional<ReusablePlan>& last, ListedSave& listed,
                   bool& fits, uint64_t& replicas) {
  BELAY_RETURN_IF_ERROR(CheckArguments(frame, job));
  const bool is_kept = TakeListing(last, listed);
  if (!is_kept) {
    BELAY_RETURN_IF_ERROR(ListValues(frame, job, listed));
    listed.fingerprint = FingerprintOf(frame, job, listed, options);
  }
  const bool holds = last && last->fingerprint == listed.fingerprint;
  if (!holds) return FindForms(frame, job, listed);
  // For nothing: the sum travels with what has to be agreed on anyway.
  BELAY_RETURN_IF_ERROR(CatchBadAlloc("the bytes of replicas", [&] {
    replicas = SumReplicas(frame.options, *last, listed.shards);
    return absl::OkStatus();
  }));
  fits = true;
  return absl::OkStatus();
}

}  // namespace

Agreed<ListedSave> ListSave(const SaveFrame& frame, const SaveJob& job,
                            std::optional<ReusablePlan>& last) {
  frame.stages.Enter("list");
  const std::string options = EncodeOptions(frame.options);
  ListedSave listed{.origin = OriginOf(frame, job, options)};
  bool fits = false;
  uint64_t replicas = 0;
  const Status status = CatchBadAlloc("the list of values", [&] {
    return ListLocally(frame, job, options, last, listed, fits, replicas);
  });
  WireWriter same;
  same.PutText(frame.target.path);
  same.Put(frame.target.step);
  same.PutText(options);
  const std::vector<uint64_t> numbers = {Fingerprint(same.bytes()),
                                         fits ? last->plan_id : 0};
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<bool> is_same,
                                AgreeOnStructure(frame.context, status, numbers,
                                                 std::span(&replicas, 1)));
  if (!is_same[0]) BELAY_RETURN_IF_AGREED(FindDifference(frame));
  listed.reuse = fits && is_same[1];
  listed.replicas_differ = listed.reuse && replicas != 0;
  return listed;
}

void KeepListing(ListedSave&& listed, ReusablePlan& plan) {
  plan.listing.reset();
  if (!listed.moving) return;
  plan.listing = {.origin = std::move(listed.origin),
                  .shards = std::move(listed.shards),
                  .on_all_ranks = std::move(listed.on_all_ranks),
                  .values = std::move(listed.listing.values),
                  .moving = *std::move(listed.moving)};
}

}  // namespace belay
