#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/save_restore.h"
#include "contenders.h"
#include "saver.h"

namespace belay::bench {
namespace {

std::string CountersText(const TransferCounters& counters) {
  return absl::StrFormat(
      "%.1f MB, %d file%s, %d calls, %d collective I/O, %d messages",
      1e-6 * static_cast<double>(counters.bytes), counters.files,
      counters.files == 1 ? "" : "s", counters.io_calls, counters.collective_io,
      counters.messages);
}

// Returns text such as " | plan 1.2 ms | write 20.3 ms".
std::string StagesText(const TransferCounters& counters) {
  std::string text;
  for (const StageTime& time : counters.stages) {
    absl::StrAppendFormat(&text, " | %s %.1f ms", time.stage,
                          1e3 * time.seconds);
  }
  return text;
}

Status SaveOnce(Saver& saver) {
  StatusOr<SaveResult> result =
      Save(*saver.comm, saver.dir, saver.step, saver.state, saver.options);
  if (!result.ok()) return result.status();
  saver.last = *std::move(result);
  ++saver.step;
  return absl::OkStatus();
}

struct Restorer {
  const Comm* comm = nullptr;
  bool stages = false;
  std::shared_ptr<Arrays> arrays;
  State state;
  std::string dir;
  RestoreOptions options;
  RestoreResult last;
};

Status RestoreOnce(Restorer& restorer) {
  StatusOr<RestoreResult> result =
      Restore(*restorer.comm, restorer.dir, kLatestStep, restorer.state,
              restorer.options);
  if (!result.ok()) return result.status();
  restorer.last = *std::move(result);
  return absl::OkStatus();
}

Status RestoreIntoWiped(Restorer& restorer) {
  std::fill(restorer.arrays->buffer.begin(), restorer.arrays->buffer.end(), 0);
  Status status = RestoreOnce(restorer);
  if (!status.ok()) return status;
  return CheckContents(*restorer.arrays, restorer.arrays->buffer);
}

std::string RestoreText(const Restorer& restorer) {
  std::string text = CountersText(restorer.last.counters);
  if (restorer.stages) text += StagesText(restorer.last.counters);
  return text;
}

}  // namespace

Status RemoveLastStep(const Saver& saver) {
  MPI_Barrier(saver.comm->raw());
  if (saver.comm->rank() != 0) return absl::OkStatus();
  std::error_code error;
  std::filesystem::remove_all(saver.last.path, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("remove \"", saver.last.path, "\": ", error.message()));
}

Status RestoreElsewhere(const Saver& saver) {
  std::vector<char> buffer(saver.arrays->buffer.size());
  const State state = MakeState(*saver.arrays, buffer);
  StatusOr<RestoreResult> result =
      Restore(*saver.comm, saver.dir, saver.last.step, state,
              {.allow_dtype_cast = true});
  if (!result.ok()) return result.status();
  for (const Piece& piece : saver.arrays->pieces) {
    const char* got = buffer.data() + piece.offset;
    const char* want = saver.arrays->buffer.data() + piece.offset;
    if (!std::equal(got, got + piece.num_bytes, want)) {
      return CheckContents(*saver.arrays, buffer);
    }
  }
  return absl::OkStatus();
}

std::string SaveText(const Saver& saver) {
  std::string text = CountersText(saver.last.counters);
  if (saver.last.plan_reused) absl::StrAppend(&text, ", plan reused");
  if (!saver.last.transfer_note.empty()) {
    absl::StrAppend(&text, ", ", saver.last.transfer_note);
  }
  if (saver.stages) text += StagesText(saver.last.counters);
  return text;
}

Contender BelaySave(const std::string& name, const Context& context,
                    const Medium& medium, std::shared_ptr<Arrays> arrays,
                    SaveOptions options, bool cached) {
  auto saver = std::make_shared<Saver>();
  saver->comm = context.comm;
  saver->stages = context.stages;
  saver->state = MakeState(*arrays, arrays->buffer);
  saver->arrays = std::move(arrays);
  saver->dir = absl::StrCat(medium.dir, "/", name);
  saver->options = std::move(options);
  saver->options.durable = medium.durable;
  if (cached) saver->options.cache = &saver->cache;
  return {.name = name,
          .run = [saver] { return SaveOnce(*saver); },
          .check = [saver] { return RestoreElsewhere(*saver); },
          .clean = [saver] { return RemoveLastStep(*saver); },
          .detail = [saver] { return SaveText(*saver); },
          .planning_bytes =
              [saver] { return saver->last.counters.agreement_bytes; }};
}

StatusOr<std::string> SaveForRestore(const Context& context,
                                     const Medium& medium,
                                     std::shared_ptr<Arrays> arrays,
                                     const std::string& name) {
  Saver saver{.comm = context.comm,
              .arrays = arrays,
              .state = MakeState(*arrays, arrays->buffer),
              .dir = medium.dir + "/" + name};
  saver.options.durable = medium.durable;
  Status status = SaveOnce(saver);
  if (!status.ok()) return status;
  return saver.dir;
}

Contender BelayRestore(const std::string& name, const Context& context,
                       const std::string& dir, std::shared_ptr<Arrays> arrays,
                       RestoreOptions options) {
  auto restorer = std::make_shared<Restorer>();
  restorer->comm = context.comm;
  restorer->stages = context.stages;
  restorer->state = MakeState(*arrays, arrays->buffer);
  restorer->arrays = std::move(arrays);
  restorer->dir = dir;
  restorer->options = options;
  return {.name = name,
          .run = [restorer] { return RestoreOnce(*restorer); },
          .check = [restorer] { return RestoreIntoWiped(*restorer); },
          .detail = [restorer] { return RestoreText(*restorer); }};
}

}  // namespace belay::bench
