// How many rows a rank gets, for programs that make room before a restore.

#include <cstdint>
#include <string>
#include <vector>

#include "base/text.h"
#include "belay/belay_c.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "belay/status.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/prepare.h"
#include "mpi/agree_same.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"

namespace {

using belay::CommContext;
using belay::RootMessages;
using belay::Status;
using belay::StatusOr;
using belay::c::NullArgument;

struct Wanted {
  std::string dir;
  std::string key;
  int64_t step = 0;
};

uint64_t FingerprintOf(const Wanted& wanted) {
  belay::WireWriter out;
  out.PutText(wanted.dir);
  out.PutText(wanted.key);
  out.Put(wanted.step);
  return belay::Fingerprint(out.bytes());
}

// The number of rows of each rank, as messages to them. Rank 0 only.
StatusOr<RootMessages> CountsOfRanks(const Wanted& wanted, int num_ranks) {
  const std::string path = wanted.step == BELAY_LATEST_STEP
                               ? wanted.dir
                               : belay::StepPath(wanted.dir, wanted.step);
  const StatusOr<belay::CheckpointReader> reader =
      belay::CheckpointReader::Open(path);
  if (!reader.ok()) return reader.status();
  const StatusOr<std::vector<int64_t>> counts =
      reader->RowCounts(wanted.key, num_ranks);
  if (!counts.ok()) return counts.status();
  RootMessages messages;
  for (const int64_t count : *counts) {
    belay::WireWriter out;
    out.Put(count);
    messages.parts.push_back(out.Take());
  }
  return messages;
}

// Collective.
StatusOr<int64_t> CountTogether(const belay_comm& handle, const Wanted& wanted,
                                const Status& mine) {
  const belay::Comm& comm = handle.comm;
  CommContext context{
      comm,
      belay::Deadline(comm, handle.deadline_seconds,
                      belay::c::OperationOn("count rows", wanted.dir.c_str()),
                      /*watchdog=*/false)};
  context.deadline.Enter("count rows");
  Status status = belay::AgreeSame(context, "directory, step or key",
                                   FingerprintOf(wanted), mine);
  if (!status.ok()) return status;
  const StatusOr<belay::RootMessage> message = belay::FromRootInParts(
      context, [&] { return CountsOfRanks(wanted, comm.size()); });
  if (!message.ok()) return message.status();
  return belay::WireReader(message->part).Get<int64_t>();
}

}  // namespace

int belay_count_rows(belay_comm* comm, const char* dir, int64_t step,
                     const char* key, int64_t* count) {
  return belay::c::Call([&]() -> Status {
    if (comm == nullptr) return NullArgument("comm");
    Wanted wanted{.step = step};
    Status mine = belay::c::TakeText("dir", dir, wanted.dir);
    mine.Update(belay::c::TakeText("key", key, wanted.key));
    if (step < 0 && step != BELAY_LATEST_STEP) {
      mine.Update(absl::InvalidArgumentError(
          belay::Cat("count rows \"", wanted.dir, "\": a negative step (found ",
                     step, ")")));
    }
    const StatusOr<int64_t> found = CountTogether(*comm, wanted, mine);
    if (!found.ok()) return found.status();
    belay::c::Give(count, *found);
    return absl::OkStatus();
  });
}
