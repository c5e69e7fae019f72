// The list stage of a save. It lists values, checks arguments, and finds out
// whether the plan of the last save is still valid.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
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

namespace belay {
namespace {

// Refuses empty paths and names that are reserved.
Status CheckPath(const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "save \"\": the path is empty; the current directory is \".\"");
  }
  const std::string name = GetLastName(path);
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
    // If memory does not fit, the cause may be a layout for another mesh.
    BELAY_RETURN_IF_ERROR(
        CheckLayoutsOf(job, job.state.shards(), frame.context.size()));
    return job.state.status();
  }
  const std::string& path = frame.target.path;
  if (frame.target.step < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": step is out of range (need 0 to %d, found %d)",
        GetParent(path), INT64_MAX, frame.target.step));
  }
  BELAY_RETURN_IF_ERROR(CheckPath(path));
  const std::string start = absl::StrFormat("save \"%s\"", GetParent(path));
  BELAY_RETURN_IF_ERROR(CheckSaveOptions(start, frame.options));
  // Rank 0 checks on behalf of all ranks.
  if (frame.context.rank() != 0) return absl::OkStatus();
  return CheckFiltersCanBeRead(start, frame.options);
}

std::string EncodeOptions(const SaveOptions& options) {
  WireWriter out;
  for (const CommonOption& option : CommonOptions(options)) {
    out.PutText(option.bytes);
  }
  return out.Take();
}

// Returns an error that names the argument on which ranks disagree. Collective.
Agreed<> FindDifference(SaveFrame& frame) {
  const SaveTarget& target = frame.target;
  BELAY_RETURN_IF_AGREED(AgreeSameText(frame.context, "save: the directory",
                                       GetParent(target.path)));
  BELAY_RETURN_IF_AGREED(
      AgreeSameNumber(frame.context, "save: the step", target.step));
  BELAY_RETURN_IF_AGREED(
      AgreeSameText(frame.context, "save: the name", target.path));
  for (const CommonOption& option : CommonOptions(frame.options)) {
    BELAY_RETURN_IF_AGREED(AgreeSame(frame.context,
                                     Cat("save: the option ", option.name),
                                     Fingerprint(option.bytes)));
  }
  return {};
}

// Asks the handlers what the values consist of.
Status ListValues(const SaveFrame& frame, const SaveJob& job,
                  PreparedSave& save) {
  ListedShards& listed = save.listed;
  BELAY_ASSIGN_OR_RETURN(
      save.listing, CatchExceptions([&] {
        const HandlerTable& table = *listed.origin.handlers;
        return job.spent != nullptr ? ListForSave(std::move(*job.spent), table)
                                    : ListForSave(job.state, table);
      }));
  // With a graph, ranks may have different objects. In a copy, all values are
  // divided among ranks.
  if (job.graph_fingerprint == 0 && !job.keeps_layouts) {
    listed.on_all_ranks = FindOnAllRanks(save.listing.shards);
  }
  listed.shards =
      ListShards(std::move(save.listing.shards), frame.context.rank());
  listed.values = std::move(save.listing.values);
  listed.moving = FindMoving(save.listing, listed.shards);
  return MapToDevices(listed.shards, {.job_name = JobName()},
                      frame.context.rank());
}

// Identifies the function of a policy, because two policies may have the same
// description.
uint64_t HashFunction(const ShardingPolicy& policy) {
  return policy.group.target_type().hash_code();
}

ListingOrigin FindOrigin(const SaveFrame& frame, const SaveJob& job,
                         const std::string& options) {
  WireWriter setting;
  setting.Put(frame.context.size());
  setting.Put(frame.context.rank());
  setting.PutText(options);
  setting.Put(HashFunction(frame.options.sharding_policy));
  setting.PutText(JobName());
  setting.Put(job.graph_fingerprint);
  return {.state = StateVersion::Of(job.state),
          .handlers = GetHandlers(frame.options.handlers),
          .setting = Fingerprint(setting.bytes())};
}

// Reuses the shards of the last save if this save would list the same ones.
bool TakeListing(std::optional<RankPlan>& last, PreparedSave& save) {
  if (!last || !last->listing || last->listing->origin != save.listed.origin) {
    return false;
  }
  ListedShards listed = *std::exchange(last->listing, std::nullopt);
  if (!FindMovedElements(listed)) return false;
  save.listed = std::move(listed);
  save.plan.fingerprint = last->fingerprint;
  return true;
}

// Returns the fingerprint of everything that shapes the plan.
uint64_t FingerprintStructure(const SaveFrame& frame, const SaveJob& job,
                              const ListedShards& listed,
                              const std::string& options) {
  WireWriter structure;
  structure.Put(frame.context.size());
  PutStructure(listed.shards, structure);
  structure(listed.values);
  structure.PutText(options);
  structure.Put(HashFunction(frame.options.sharding_policy));
  structure.Put(job.graph_fingerprint);
  structure.Put(frame.context.rank());  // rank 0's plan has more fields
  return Fingerprint(structure.bytes());
}

// Lists the values of this rank. If the plan of the last save is still valid on
// this rank, sets `fits` to true, and `replicas` to this rank's part of the sum
// of replicas.
Status ListLocally(const SaveFrame& frame, const SaveJob& job,
                   const std::string& options, std::optional<RankPlan>& last,
                   PreparedSave& save, bool& fits, uint64_t& replicas) {
  BELAY_RETURN_IF_ERROR(CheckArguments(frame, job));
  const ListedShards& listed = save.listed;
  if (!TakeListing(last, save)) {
    BELAY_RETURN_IF_ERROR(ListValues(frame, job, save));
    save.plan.fingerprint = FingerprintStructure(frame, job, listed, options);
  }
  fits = last && last->fingerprint == save.plan.fingerprint;
  if (fits) {
    // The sum needs no message: it travels with the agreement on the structure.
    return CatchBadAlloc("the bytes of replicas", [&] {
      replicas = SumReplicas(frame.options, *last, listed.shards);
      return absl::OkStatus();
    });
  }
  BELAY_RETURN_IF_ERROR(
      CheckLayoutsOf(job, listed.shards, frame.context.size()));
  BELAY_ASSIGN_OR_RETURN(save.plan.forms,
                         FormsToStore(listed.shards, frame.options));
  return CheckHandledForms(listed.values, listed.shards, save.plan.forms);
}

}  // namespace

Agreed<PreparedSave> ListSave(SaveFrame& frame, const SaveJob& job,
                              CachedPlan& cache) {
  frame.stages.Enter("list");
  const std::string options = EncodeOptions(frame.options);
  PreparedSave save{.listed = {.origin = FindOrigin(frame, job, options)}};
  std::optional<RankPlan>& last = cache.plan;
  bool fits = false;
  uint64_t replicas = 0;
  const Status status = CatchBadAlloc("the list of values", [&] {
    return ListLocally(frame, job, options, last, save, fits, replicas);
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
  save.reuse = fits && is_same[1];
  if (save.reuse) {
    save.plan = *std::move(last);
  } else if (fits) {  // but not on other ranks
    save.plan.forms = std::move(last->forms);
  }
  last.reset();
  if (save.reuse && replicas != 0)
    return NameDifferentReplicas(frame, save).error();
  return save;
}

}  // namespace belay
