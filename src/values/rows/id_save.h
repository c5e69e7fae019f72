// Saves of rows with ids: what each rank sends to those that write them. Pure.
//
//   TakeIds, NoteNoSender; for each window: PackWindow -> exchange ->
//   FillBlocks; then CheckFilled

#ifndef BELAY_VALUES_ROWS_ID_SAVE_H_
#define BELAY_VALUES_ROWS_ID_SAVE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "bytes/message.h"
#include "values/rows/id_block.h"

namespace belay {

// Counts the ids of the program's, and makes room for the senders of rows.
// Errors: InvalidArgument - there are other rows than ids; those of CountIds.
Status TakeIds(IdBlock& block);
void NoteNoSender(IdBlock& block);

// Puts the rows of a window into what the ranks get that write them.
// Errors: those of IdsOf.
Status PackWindow(const std::vector<IdBlock>& blocks, const IdWindow& window,
                  Messages& to);

// Puts what all ranks have packed for this one into its blocks.
// Errors: InvalidArgument - an id is there twice; names the key, the id and the
//   ranks; those of FindBlock.
Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  const BlocksByKey& by_key, std::vector<IdBlock>& blocks);

// A key of which the program has an id that is out of range, or none, and its
// ids of such a key, ascending: for who looks for one that is missing.
std::string KeyOutOfRange(const std::vector<IdBlock>& blocks);
struct SortedIds {
  std::vector<int64_t> ids;
  int64_t total = 0;  // as of IdBlock
};
SortedIds SortIds(const std::vector<IdBlock>& blocks, std::string_view key);

// Errors: InvalidArgument - no rank has sent an id; names the key and the id.
Status CheckFilled(const std::vector<IdBlock>& blocks);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ID_SAVE_H_
