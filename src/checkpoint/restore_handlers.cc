// The handlers' part in a restore.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/wire.h"
#include "checkpoint/listing.h"
#include "checkpoint/restore_run.h"
#include "model/stored_values.h"

namespace belay {
namespace {

// What all ranks together want to know, as bytes for them. Rank 0 only.
StatusOr<std::string> AnswerOnRoot(const std::vector<std::string>& gathered,
                                   const RestoreRun& run) {
  StatusOr<std::vector<StoredValue>> values =
      FindValues(run.saved, DistinctTexts(gathered));
  if (values.ok()) return EncodeValues(*values);
  return Status(values.status().code(),
                absl::StrFormat("restore \"%s\": %s", run.source.path,
                                values.status().message()));
}

// Arguments are for arrays, and a handler may count on all that it has listed.
Status CheckNoArguments(const RestoreRun& run, Listing listed) {
  const bool has_arguments = !run.options.args.empty() || run.options.selects;
  if (listed == Listing::kChosen || !has_arguments) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("restore \"%s\": values with type handlers take no "
                      "arguments here; restore "
                      "them as values of objects, by a Checkpoint",
                      run.source.path));
}

// What is stored of the values with these keys, and with those of other ranks.
// Collective; agreed.
StatusOr<std::vector<StoredValue>> AskTogether(
    RestoreRun& run, const std::vector<std::string>& keys) {
  WireWriter out;
  out.PutTexts(keys);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(run.team, out.bytes()));
  std::string bytes;
  BELAY_RETURN_IF_AGREED(OnRoot(run.team, [&] {
    StatusOr<std::string> answer = AnswerOnRoot(gathered, run);
    if (answer.ok()) bytes = *std::move(answer);
    return answer.status();
  }));
  BELAY_RETURN_IF_AGREED(Broadcast(run.team, bytes));
  return DecodeValues(bytes);
}

}  // namespace

Status ListTogether(RestoreRun& run, const State& state, Listing listed) {
  const StatusOr<std::vector<std::string>> keys =
      HandledKeys(state, *run.handlers);
  // One that fails here takes part, so that all learn of it.
  std::vector<int64_t> any = {!keys.ok() || !keys->empty() ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, any));
  run.any_handlers = any[0] != 0;
  if (!run.any_handlers) {
    run.listing = {};
    run.listing.shards = state.shards();
    return absl::OkStatus();
  }
  run.stations.Enter("handlers");
  BELAY_RETURN_IF_AGREED(Agree(
      run.team, keys.ok() ? CheckNoArguments(run, listed) : keys.status()));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<StoredValue> stored,
                                AskTogether(run, *keys));
  StatusOr<HandlerListing> listing =
      ListForRestore(state, *run.handlers, stored);
  BELAY_RETURN_IF_AGREED(Agree(run.team, listing.status()));
  run.listing = *std::move(listing);
  return absl::OkStatus();
}

StatusOr<bool> ReceiveTogether(RestoreRun& run) {
  if (!run.any_handlers) return false;
  run.stations.Enter("handlers");
  StatusOr<HandlerListing> more = ListMore(run.listing, *run.handlers);
  BELAY_RETURN_IF_AGREED(Agree(run.team, more.status()));
  // What the last listing keeps may be borrowed by what comes now.
  more->kept.insert(more->kept.end(), run.listing.kept.begin(),
                    run.listing.kept.end());
  run.listing = *std::move(more);
  std::vector<int64_t> any = {run.listing.handled.empty() ? 0 : 1};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, any));
  return any[0] != 0;
}

}  // namespace belay
