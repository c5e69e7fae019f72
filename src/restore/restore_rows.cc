// The part of a restore in which rows go to the ranks that want them.
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "mpi/all_to_all.h"
#include "restore/restore_stages.h"
#include "values/rows/id_restore.h"
#include "values/rows/owned_rows.h"

namespace belay {
namespace {

constexpr std::string_view kOnTheirWay = "rows on their way";

// Gets the rows of one window after the other. Collective; agreed.
Status FetchWindows(CommContext& context, std::vector<IdBlock>& blocks,
                    const WantedIds& wanted,
                    const std::vector<IdWindow>& windows) {
  Mail requests(context.size());
  Mail answers(context.size());
  BlocksByKey by_key;
  Status status = CatchExceptions([&] {
    by_key = IndexBlocks(blocks);
    return absl::OkStatus();
  });
  for (const IdWindow& window : windows) {
    RowRanksOfWindow ranks;
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(context, kOnTheirWay, requests, [&](Messages& to) {
          if (status.ok()) {
            ranks = RequestRows(blocks, wanted, window, to);
          }
          return status;
        }));
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(context, kOnTheirWay, answers, [&](Messages& to) {
          return AnswerRequests(requests.from, by_key, blocks, to);
        }));
    status = CatchExceptions([&] {
      TakeAnswers(answers.from, window, ranks, blocks);
      return absl::OkStatus();
    });
  }
  return Agree(context, status);
}

}  // namespace

Status HandOutRows(RestoreFrame& frame, std::vector<Shard>& shards) {
  frame.stages.Enter("rows");
  Mail mail(frame.context.size());
  BELAY_RETURN_IF_AGREED(
      ExchangeMail(frame.context, kOnTheirWay, mail,
                   [&](Messages& to) { return PackByOwner(shards, to); }));
  return Agree(frame.context, CatchBadAlloc("rows that this rank owns", [&] {
                 return TakeOwned(mail.from, shards);
               }));
}

Status FetchById(RestoreFrame& frame, std::vector<IdBlock>& blocks,
                 std::vector<FormerElements> former) {
  frame.stages.Enter("ids");
  WantedIds wanted;
  std::vector<IdWindow> windows;
  const Status asked = CatchExceptions([&] {
    return CatchBadAlloc("the ids of rows", [&]() -> Status {
      BELAY_ASSIGN_OR_RETURN(wanted, AskForIds(blocks, former));
      windows = CutWindows(blocks, frame.context.size());
      return absl::OkStatus();
    });
  });
  std::vector<int64_t> most = {std::ssize(windows)};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, most, asked));
  if (most[0] == 0) {
    BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckNothingIsThere(blocks)));
  }
  windows.resize(static_cast<size_t>(most[0]));
  BELAY_RETURN_IF_AGREED(FetchWindows(frame.context, blocks, wanted, windows));
  const Status same =
      CatchExceptions([&] { return CheckSameIds(blocks, wanted); });
  return Agree(frame.context, same);
}

}  // namespace belay
