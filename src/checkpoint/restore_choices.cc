// The part of a restore that looks at the arguments of single values.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/guarded.h"
#include "base/status_macros.h"
#include "base/wire.h"
#include "checkpoint/listing.h"
#include "checkpoint/restore_run.h"

namespace belay {
namespace {

// Keys that may be absent from the checkpoint.
using Keys = std::vector<std::string>;

std::string EncodeKeys(const Keys& keys) {
  WireWriter out;
  out.PutTexts(keys);
  return out.Take();
}

Keys DecodeKeys(std::string_view bytes) { return WireReader(bytes).GetTexts(); }

// Those of all ranks that are not stored, ascending. Rank 0 only.
Keys AbsentKeys(const RestoreRun& run,
                const std::vector<std::string>& gathered) {
  absl::flat_hash_set<std::string_view> stored;
  for (const StoredArray& array : run.saved.arrays) stored.insert(array.key);
  Keys absent = DistinctTexts(gathered);
  std::erase_if(absent,
                [&](const std::string& key) { return stored.contains(key); });
  return absent;
}

// Drops the shards of `optional` keys that are not stored. Collective; agreed.
Status DropAbsent(RestoreRun& run, const Keys& optional) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(run.team, EncodeKeys(optional)));
  std::string bytes;
  if (run.team.is_root()) bytes = EncodeKeys(AbsentKeys(run, gathered));
  BELAY_RETURN_IF_AGREED(Broadcast(run.team, bytes));
  run.result.missing = DecodeKeys(bytes);
  const absl::flat_hash_set<std::string_view> absent(run.result.missing.begin(),
                                                     run.result.missing.end());
  std::vector<Shard> shards;
  std::vector<Tolerance> tolerances;
  const absl::flat_hash_set<std::string_view> mine(optional.begin(),
                                                   optional.end());
  for (size_t i = 0; i < run.shards.size(); ++i) {
    const std::string& key = run.shards[i].key;
    if (absent.contains(key) && mine.contains(key)) continue;
    tolerances.push_back(run.tolerances[i]);
    shards.push_back(std::move(run.shards[i]));
  }
  run.shards = std::move(shards);
  run.tolerances = std::move(tolerances);
  return absl::OkStatus();
}

// Lists what is left of the shards. Local. Returns the keys that may be absent.
Keys Choose(const RestoreChooser& chooser, RestoreRun& run) {
  Keys optional;
  std::vector<Shard> shards;
  for (Shard& shard : run.shards) {
    RestoreChoice choice = chooser.Choose(shard.key);
    if (choice.skip) continue;
    if (!choice.stored_key.empty()) shard.key = std::move(choice.stored_key);
    if (choice.may_be_absent) optional.push_back(shard.key);
    run.tolerances.push_back(choice.tolerance);
    shards.push_back(std::move(shard));
  }
  run.shards = std::move(shards);
  return optional;
}

bool MayBeAbsent(const RestoreOptions& options) {
  return std::any_of(
      options.args.begin(), options.args.end(),
      [](const auto& entry) { return entry.args.allow_missing; });
}

}  // namespace

Status CheckEntriesMatch(Team& team, const KeyPatterns& patterns,
                         const std::vector<std::string_view>& keys) {
  std::vector<int64_t> unmatched = patterns.Unmatched(keys);
  if (unmatched.empty()) return absl::OkStatus();
  BELAY_RETURN_IF_AGREED(MinAll(team, unmatched));
  const auto first = std::find(unmatched.begin(), unmatched.end(), 1);
  if (first == unmatched.end()) return absl::OkStatus();
  return OnRoot(team, [&] {
    return patterns.NoMatchError(static_cast<size_t>(first - unmatched.begin()),
                                 keys);
  });
}

Status ChooseValues(RestoreRun& run) {
  const RestoreOptions& options = run.options;
  if (options.args.empty() && !options.selects) return absl::OkStatus();
  const StatusOr<RestoreChooser> chooser = RestoreChooser::Create(options);
  BELAY_RETURN_IF_AGREED(Agree(run.team, chooser.status()));
  std::vector<std::string_view> keys;
  for (const Shard& shard : run.shards) keys.push_back(shard.key);
  BELAY_RETURN_IF_AGREED(
      CheckEntriesMatch(run.team, chooser->patterns(), keys));
  Keys optional;
  BELAY_RETURN_IF_AGREED(Agree(run.team, Guarded([&] {
                                 optional = Choose(*chooser, run);
                                 return absl::OkStatus();
                               })));
  if (!MayBeAbsent(options)) return absl::OkStatus();
  return DropAbsent(run, optional);
}

}  // namespace belay
