// The part of a restore in which rows go to the ranks that want them.
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "mpi/all_to_all.h"
#include "restore/restore_run.h"
#include "values/rows/id_restore.h"
#include "values/rows/owned_rows.h"

namespace belay {
namespace {

constexpr std::string_view kOnTheirWay = "rows on their way";

// Gets the rows of one window after the other. Collective; agreed.
Status FetchWindows(RestoreRun& run, const WantedIds& wanted,
                    const std::vector<IdWindow>& windows) {
  Mail requests(run.team.size());
  Mail answers(run.team.size());
  BlocksByKey by_key;
  Status status = CatchExceptions([&] {
    by_key = IndexBlocks(run.id_blocks);
    return absl::OkStatus();
  });
  for (const IdWindow& window : windows) {
    RowRanksOfWindow ranks;
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(run.team, kOnTheirWay, requests, [&](Messages& to) {
          if (status.ok()) {
            ranks = RequestRows(run.id_blocks, wanted, window, to);
          }
          return status;
        }));
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(run.team, kOnTheirWay, answers, [&](Messages& to) {
          return AnswerRequests(requests.from, by_key, run.id_blocks, to);
        }));
    status = CatchExceptions([&] {
      TakeAnswers(answers.from, window, ranks, run.id_blocks);
      return absl::OkStatus();
    });
  }
  return Agree(run.team, status);
}

}  // namespace

Status HandOutRows(RestoreRun& run) {
  run.stages.Enter("rows");
  run.any_owned = false;
  Mail mail(run.team.size());
  BELAY_RETURN_IF_AGREED(
      ExchangeMail(run.team, kOnTheirWay, mail,
                   [&](Messages& to) { return PackByOwner(run.shards, to); }));
  return Agree(run.team, CatchBadAlloc("rows that this rank owns", [&] {
                 return TakeOwned(mail.from, run.shards);
               }));
}

Status FetchById(RestoreRun& run) {
  run.stages.Enter("ids");
  run.any_ids = false;
  WantedIds wanted;
  std::vector<IdWindow> windows;
  const Status asked = CatchExceptions([&] {
    return CatchBadAlloc("the ids of rows", [&]() -> Status {
      BELAY_ASSIGN_OR_RETURN(wanted, AskForIds(run.id_blocks, run.former));
      windows = CutWindows(run.id_blocks, run.team.size());
      return absl::OkStatus();
    });
  });
  std::vector<int64_t> most = {std::ssize(windows)};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, most, asked));
  if (most[0] == 0) {
    BELAY_RETURN_IF_AGREED(Agree(run.team, CheckNothingIsThere(run.id_blocks)));
  }
  windows.resize(static_cast<size_t>(most[0]));
  BELAY_RETURN_IF_AGREED(FetchWindows(run, wanted, windows));
  const Status same =
      CatchExceptions([&] { return CheckSameIds(run.id_blocks, wanted); });
  run.id_blocks.clear();
  return Agree(run.team, same);
}

}  // namespace belay
