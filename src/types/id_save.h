// Saves of rows with ids: what each rank sends to those that write them. Pure.
//
//   CountIds; for each window: PackWindow -> exchange -> FillBlocks; then
//   CheckFilled

#ifndef BELAY_TYPES_ID_SAVE_H_
#define BELAY_TYPES_ID_SAVE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/message.h"
#include "belay/status.h"
#include "types/id_block.h"

namespace belay {

// Counts the ids of the program's.
// Errors: InvalidArgument - there are other rows than ids; names the key.
Status CountIds(IdBlock& block);

// Puts the rows of a window into what the ranks get that write them.
// Errors: those of IdsOf.
Status PackWindow(const std::vector<IdBlock>& blocks, const IdWindow& window,
                  Messages& to);

// Puts what all ranks have packed for this one into its blocks.
// Errors: InvalidArgument - an id is there twice; names the key, the id and the
//   ranks; those of FindBlock.
Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  std::vector<IdBlock>& blocks);

// Errors: InvalidArgument - no rank has sent an id; names the key and the id.
Status CheckFilled(const std::vector<IdBlock>& blocks);

}  // namespace belay

#endif  // BELAY_TYPES_ID_SAVE_H_
