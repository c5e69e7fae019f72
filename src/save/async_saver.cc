#include "belay/async_saver.h"

#include <mpi.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "mpi/leaving.h"
#include "mpi/mpi_error.h"
#include "save/background_save.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

struct GivenUp {
  std::string path;
  Status why;
};

struct LeftSaves {
  std::mutex mutex;                      // guards all of this
  std::vector<BackgroundSaver*> savers;  // in the order of their first saves
  std::vector<std::unique_ptr<BackgroundSaver>> kept;  // of these
  std::vector<GivenUp> given_up;                       // rank 0's
  bool is_watching = false;
};

// Never destroyed: MPI_Finalize may come after all other statics have ended.
LeftSaves& All() {
  static auto* const all = new LeftSaves;
  return *all;
}

// Returns true if a step no longer needs to be saved: that step or a later one
// exists, or its run was deleted.
bool IsNeedless(const std::string& path) {
  const std::string run = GetParent(path);
  const StatusOr<bool> has_run = Exists(run);
  if (has_run.ok() && !*has_run) return true;
  const StatusOr<bool> is_there = Exists(path);
  if (is_there.ok() && *is_there) return true;
  const std::optional<StepLabel> label =
      ParseStepName(std::string_view(path).substr(path.find_last_of('/') + 1));
  if (!label) return false;
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(run, label->prefix);
  return steps.ok() && !steps->empty() && steps->back() >= label->step;
}

// Finishes all saves under way, in the same order on all ranks, and returns the
// first error that this rank must report. Collective.
Status FinishLeftSaves() {
  LeftSaves& all = All();
  Status status;
  // No new save can begin.
  const std::vector<BackgroundSaver*> savers = all.savers;
  for (BackgroundSaver* saver : savers) {
    if (!saver->is_pending() || !saver->is_own()) continue;
    const std::string path = saver->target().path;
    const Status finished = saver->FinishLeft();
    if (finished.ok() || !saver->is_root() || IsNeedless(path)) continue;
    status.Update(finished);
  }
  for (const GivenUp& save : all.given_up) {
    if (!IsNeedless(save.path)) status.Update(save.why);
  }
  return status;
}

// Requires the mutex.
void NoteGivenUp(const BackgroundSaver& saver, const Status& why,
                 LeftSaves& all) {
  if (saver.is_root()) all.given_up.push_back({saver.target().path, why});
}

// Returns true if FinishLeftSaves communicates over `comm`.
bool HasPending(MPI_Comm comm) {
  const std::vector<BackgroundSaver*>& savers = All().savers;
  return std::any_of(savers.begin(), savers.end(), [&](BackgroundSaver* saver) {
    return saver->is_pending() && saver->is_own() && saver->is_comm_open() &&
           saver->comm().raw() == comm;
  });
}

int OnFinalize(MPI_Comm, int, void*, void*) {
  TellLeaving(&HasPending);
  const Status status = CatchExceptions(&FinishLeftSaves);
  if (!status.ok()) EndOnError("belay", status);
  return MPI_SUCCESS;
}

int OnCommFree(MPI_Comm, int, void* attribute, void*) {
  const std::unique_ptr<std::shared_ptr<bool>> is_open(
      static_cast<std::shared_ptr<bool>*>(attribute));
  **is_open = false;
  return MPI_SUCCESS;
}

// Registers a function that is called before `comm` is freed.
void OnFree(MPI_Comm comm, MPI_Comm_delete_attr_function* on_free,
            void* attribute) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &key, nullptr);
  MPI_Comm_set_attr(comm, key, attribute);
  MPI_Comm_free_keyval(&key);  // freed with the attribute
}

}  // namespace

std::shared_ptr<bool> RegisterSaver(BackgroundSaver& saver) {
  LeftSaves& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!std::exchange(all.is_watching, true)) {
    OnFree(MPI_COMM_SELF, &OnFinalize, nullptr);
  }
  all.savers.push_back(&saver);
  auto is_open = std::make_shared<bool>(true);
  OnFree(saver.comm().raw(), &OnCommFree, new std::shared_ptr<bool>(is_open));
  return is_open;
}

void ForgetSaver(const BackgroundSaver& saver) {
  LeftSaves& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase(all.savers, &saver);
}

void LetGo(std::unique_ptr<BackgroundSaver> saver) {
  if (saver == nullptr || !saver->is_pending() || !saver->is_own()) return;
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized) return;
  LeftSaves& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  // Kept even if the save is lost: perhaps only rank 0 knows that, and all
  // ranks must end the save together.
  saver->Leave(saver->WhyLost());
  all.kept.push_back(std::move(saver));
}

namespace {

// Returns true if the saver saves to this run with the same ranks.
bool IsOfSameRun(const BackgroundSaver& saver, const Comm& comm,
                 const std::string& run) {
  if (GetParent(saver.target().path) != run) return false;
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(saver.comm().raw(), comm.raw(), &result);
  return result == MPI_IDENT || result == MPI_CONGRUENT;
}

}  // namespace

void GiveUpLeftSaves(const Comm& comm, const std::string& run) {
  LeftSaves& all = All();
  std::vector<std::unique_ptr<BackgroundSaver>> kept;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto others = std::partition(
        all.kept.begin(), all.kept.end(), [&](const auto& saver) {
          return !saver->is_comm_open() || !IsOfSameRun(*saver, comm, run);
        });
    std::move(others, all.kept.end(), std::back_inserter(kept));
    all.kept.erase(others, all.kept.end());
    for (const std::unique_ptr<BackgroundSaver>& saver : kept) {
      NoteGivenUp(
          *saver,
          absl::FailedPreconditionError(Cat(
              "save \"", saver->target().path,
              "\" in the background was given up, since another one has begun, "
              "and no later step is there")),
          all);
    }
  }
  kept.clear();
}

// --- Async saver ---

namespace {

Agreed<> CheckMoved(const BackgroundSaver* saver) {
  if (saver != nullptr) return {};
  return SameOnAllRanks(
      absl::FailedPreconditionError("save \"AsyncSaver\": it was moved from"));
}

}  // namespace

AsyncSaver::AsyncSaver(const Comm& comm, const AsyncOptions& options)
    : saver_(std::make_unique<BackgroundSaver>(comm, options)) {}

AsyncSaver::AsyncSaver(AsyncSaver&&) noexcept = default;
AsyncSaver& AsyncSaver::operator=(AsyncSaver&& other) noexcept {
  LetGo(std::exchange(saver_, std::move(other.saver_)));
  return *this;
}
AsyncSaver::~AsyncSaver() { LetGo(std::move(saver_)); }

StatusOr<PendingSave> AsyncSaver::Save(const std::string& dir, int64_t step,
                                       const State& state,
                                       const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveResult> finished,
                                saver_->WaitBeforeNext());
  Agreed<PendingSave> pending =
      saver_->Begin({.path = dir.empty() ? "" : StepPath(dir, step),
                     .step = step,
                     .state = state},
                    options, nullptr);
  if (pending.ok()) {
    pending->finished = std::move(finished);
  } else {
    saver_->Keep(std::move(finished));
  }
  return pending;
}

Status AsyncSaver::WaitForSnapshot() {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  return saver_->WaitForSnapshot();
}

StatusOr<std::optional<SaveResult>> AsyncSaver::Poll() {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  return saver_->Poll();
}

StatusOr<std::optional<SaveResult>> AsyncSaver::Wait() {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  return saver_->Wait();
}

Status AsyncSaver::Close() {
  const Status status = Wait().status();
  if (saver_ != nullptr) saver_->FreeMemory();
  return status;
}

bool AsyncSaver::is_pending() const {
  return saver_ != nullptr && saver_->is_pending();
}

}  // namespace belay
