// belay_saver: saves in the background.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/program_words.h"
#include "belay/async_saver.h"
#include "belay/belay_c.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/option_reader.h"
#include "c/prepare.h"

namespace {

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::NullArgument;
using belay::c::PrepareTogether;

// Notes the step of a save that has ended.
void Note(belay_saver& saver, const std::optional<belay::SaveResult>& ended) {
  if (ended) saver.committed_step = ended->step;
}

}  // namespace

int belay_saver_create(belay_comm* comm, const belay_options* options,
                       belay_saver** result) {
  return Call([&]() -> Status {
    belay::UseWordsOfC();
    if (result != nullptr) *result = nullptr;
    if (comm == nullptr) return NullArgument("comm");
    std::unique_ptr<belay_saver> handle;
    Status status = PrepareTogether(
        comm->comm, comm->deadline_seconds, "create a saver", [&]() -> Status {
          if (result == nullptr) return NullArgument("result");
          belay::AsyncOptions async;
          Status mine = belay::c::ReadAsyncOptions(options, async);
          if (!mine.ok()) return mine;
          handle.reset(
              new belay_saver{comm, belay::AsyncSaver(comm->comm, async)});
          return absl::OkStatus();
        });
    if (status.ok()) *result = handle.release();
    return status;
  });
}

int belay_saver_save(belay_saver* saver, const char* dir, int64_t step,
                     belay_state* state, const belay_options* options) {
  return Call([&]() -> Status {
    if (saver == nullptr) return NullArgument("saver");
    std::string path;
    belay::SaveOptions save;
    Status status =
        PrepareTogether(saver->comm->comm, belay::c::DeadlineOf(options),
                        belay::c::OperationOn("save", dir), [&]() -> Status {
                          Status mine = belay::c::TakeText("dir", dir, path);
                          mine.Update(belay::c::TakeValues(state));
                          mine.Update(belay::c::ReadSaveOptions(options, save));
                          return mine;
                        });
    if (!status.ok()) return status;
    const StatusOr<belay::PendingSave> pending =
        saver->saver.Save(path, step, state->state, save);
    if (!pending.ok()) return pending.status();
    Note(*saver, pending->finished);
    Note(*saver, pending->saved);
    return absl::OkStatus();
  });
}

int belay_saver_poll(belay_saver* saver, int* is_pending) {
  return Call([&]() -> Status {
    if (saver == nullptr) return NullArgument("saver");
    const auto ended = saver->saver.Poll();
    belay::c::Give(is_pending, saver->saver.is_pending());
    if (ended.ok()) Note(*saver, *ended);
    return ended.status();
  });
}

int belay_saver_wait(belay_saver* saver) {
  return Call([&]() -> Status {
    if (saver == nullptr) return NullArgument("saver");
    const auto ended = saver->saver.Wait();
    if (ended.ok()) Note(*saver, *ended);
    return ended.status();
  });
}

int belay_saver_committed_step(const belay_saver* saver, int64_t* step) {
  return Call([&]() -> Status {
    if (saver == nullptr) return NullArgument("saver");
    belay::c::Give(step, saver->committed_step);
    return absl::OkStatus();
  });
}

int belay_saver_close(belay_saver** saver) {
  return Call([&]() -> Status {
    if (saver == nullptr || *saver == nullptr) return absl::OkStatus();
    const std::unique_ptr<belay_saver> handle(std::exchange(*saver, nullptr));
    return handle->saver.Close();
  });
}
