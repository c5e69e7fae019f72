#include "manager/managed_values.h"

#include <utility>

#include "core/agreed.h"
#include "core/status_macros.h"
#include "objects/tracked_objects.h"
#include "restore/restore_stages.h"
#include "save/save.h"

namespace belay {
namespace {

// Applies the manager's match to options that a restore leaves at their
// defaults.
RestoreOptions WithMatch(const RestoreOptions& options, RestoreMatch match) {
  const RestoreOptions usual;
  RestoreOptions chosen = options;
  if (match < RestoreMatch::kExistingObjects &&
      options.missing == usual.missing) {
    chosen.missing = MismatchPolicy::kCollect;
  }
  if (match == RestoreMatch::kConsumed &&
      options.unexpected == usual.unexpected) {
    chosen.unexpected = MismatchPolicy::kError;
  }
  return chosen;
}

Status MatchOf(const LoadStatus& loaded, RestoreMatch wanted) {
  switch (wanted) {
    case RestoreMatch::kAnything:
      return absl::OkStatus();
    case RestoreMatch::kNontrivial:
      return loaded.AssertNontrivialMatch();
    case RestoreMatch::kExistingObjects:
      return loaded.AssertExistingObjectsMatched();
    case RestoreMatch::kConsumed:
      return loaded.AssertConsumed();
  }
  return absl::OkStatus();
}

}  // namespace

const Comm& ManagedValues::comm() const {
  return checkpoint_ != nullptr ? checkpoint_->comm() : *comm_;
}

int64_t ManagedValues::save_counter() const {
  return checkpoint_ != nullptr ? checkpoint_->save_counter() : last_step_;
}

Agreed<SaveResult> ManagedValues::Save(const std::string& path, int64_t step,
                                       const SaveOptions& options,
                                       bool& at_files) {
  if (checkpoint_ != nullptr) {
    return SaveStep(*checkpoint_->objects_, path, options, at_files);
  }
  SaveOptions with_cache = options;
  if (options.cache == nullptr) with_cache.cache = &plan_cache_;
  Agreed<SaveResult> saved = SaveAt(
      *comm_,
      {.path = path, .step = step, .state = *state_, .at_files = &at_files},
      with_cache);
  if (saved.ok()) last_step_ = step;
  return saved;
}

Agreed<PendingSave> ManagedValues::Begin(BackgroundSaver& saver,
                                         const std::string& path, int64_t step,
                                         const SaveOptions& options,
                                         bool& at_files) {
  if (checkpoint_ != nullptr) {
    TrackedObjects& objects = *checkpoint_->objects_;
    return SaveStepBy(objects, path, options, &at_files,
                      [&](const SaveJob& job, const SaveOptions& with_cache) {
                        const NextStep next{.restored = objects.counter - 1};
                        return saver.Begin(job, with_cache,
                                           EndOfStep(objects, next));
                      });
  }
  SaveOptions with_cache = options;
  if (options.cache == nullptr) with_cache.cache = &plan_cache_;
  return saver.Begin(
      {.path = path, .step = step, .state = *state_, .at_files = &at_files},
      with_cache, [this, step](bool ok) {
        if (ok) last_step_ = step;
      });
}

Agreed<ManagedRestore> ManagedValues::Restore(const std::string& path,
                                              int64_t step, RestoreMatch match,
                                              const RestoreOptions& options) {
  if (checkpoint_ == nullptr) return RestoreState(path, step, match, options);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      LoadStatus loaded, SameOnAllRanks(checkpoint_->Restore(path, options)));
  return ManagedRestore{.step = step, .load_status = std::move(loaded)};
}

// Collective; agreed.
Agreed<ManagedRestore> ManagedValues::RestoreState(
    const std::string& path, int64_t step, RestoreMatch match,
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(*comm_, "restore", path));
  const RestoreSource source = {.path = path, .step = step};
  const RestoreOptions chosen = WithMatch(options, match);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      RestoreResult result,
      belay::RestoreState(*comm_, source, *state_, chosen));
  if (match == RestoreMatch::kNontrivial && result.num_arrays == 0 &&
      !result.missing.empty()) {
    // Nothing matches. The error of a strict restore names the closest stored
    // keys.
    RestoreOptions strict = chosen;
    strict.missing = MismatchPolicy::kError;
    BELAY_ASSIGN_OR_RETURN_AGREED(
        result, belay::RestoreState(*comm_, source, *state_, strict));
  }
  last_step_ = step;
  return ManagedRestore{.step = step, .result = std::move(result)};
}

Status ManagedValues::CheckMatch(const ManagedRestore& restored,
                                 RestoreMatch match) const {
  if (checkpoint_ == nullptr) return absl::OkStatus();
  return MatchOf(restored.load_status, match);
}

}  // namespace belay
