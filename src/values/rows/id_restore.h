// Restores of rows with ids: what each rank asks of those that have read them.
// Pure.
//
//   AskForIds; for each window: RequestRows -> exchange -> AnswerRequests
//   -> exchange -> TakeAnswers; then CheckSameIds

#ifndef BELAY_VALUES_ROWS_ID_RESTORE_H_
#define BELAY_VALUES_ROWS_ID_RESTORE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "belay/status.h"
#include "bytes/message.h"
#include "values/array_access.h"
#include "values/rows/id_block.h"

namespace belay {

// The ids that the program wants of each block, as it may change its own.
using WantedIds = std::vector<std::vector<int64_t>>;

// Asks the program for its ids, and gives its ranges as many rows. `former` is
// memory that containers have given up, to which that of these ranges is added.
// Errors: those of IdsOf; FailedPrecondition - there is no room for the rows,
//   or ranges of two keys are one; ResourceExhausted. All name the key.
StatusOr<WantedIds> AskForIds(std::vector<IdBlock>& blocks,
                              std::vector<FormerElements>& former);

// Errors: FailedPrecondition - there are rows, of which no rank wants any;
//   names the key.
Status CheckNothingIsThere(const std::vector<IdBlock>& blocks);

// Which rank has read each row of a window, in order.
using RowRanksOfWindow = std::vector<int32_t>;

// Puts the ids of a window into what the ranks get that have read their rows.
RowRanksOfWindow RequestRows(const std::vector<IdBlock>& blocks,
                             const WantedIds& wanted, const IdWindow& window,
                             Messages& to);

// Puts the rows that each rank has requested into what it gets.
// Errors: those of FindBlock.
Status AnswerRequests(const std::vector<std::span<std::byte>>& requests,
                      const BlocksByKey& by_key,
                      const std::vector<IdBlock>& blocks, Messages& to);

// Puts the rows of a window that were requested where the program has them.
void TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                 const IdWindow& window, const RowRanksOfWindow& ranks,
                 std::vector<IdBlock>& blocks);

// Errors: InvalidArgument - these rows are ids themselves, of others.
Status CheckSameIds(const std::vector<IdBlock>& blocks,
                    const WantedIds& wanted);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ID_RESTORE_H_
