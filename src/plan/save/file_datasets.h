// Datasets: which pieces of a file share one, and how it lies there.

#ifndef BELAY_PLAN_SAVE_FILE_DATASETS_H_
#define BELAY_PLAN_SAVE_FILE_DATASETS_H_

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/options.h"
#include "plan/choose_ranks.h"
#include "plan/plan.h"

namespace belay {

// The three below add the datasets of all files to the plan, ascending by file,
// array and box, and return the dataset of each piece; they may sort `pieces`.

// One per array, in one file. Unless the layout is kCanonical, which depends on
// no rank, it says who writes it, if one rank does and the array has no layout.
std::vector<int32_t> AddWholeDatasets(const std::vector<ArrayBoxes>& arrays,
                                      const std::vector<WritePiece>& pieces,
                                      ArrayLayout layout, SavePlan& plan);

// One per piece.
std::vector<int32_t> AddPieceDatasets(std::vector<WritePiece>& pieces,
                                      SavePlan& plan);

// One per array and file where the pieces of that array in that file fill a
// box, else one per piece.
std::vector<int32_t> AddJoinedDatasets(std::vector<WritePiece>& pieces,
                                       ArrayLayout layout, SavePlan& plan);

// The box counted from the corner of its dataset.
Box FromCorner(Box box, const Shape& corner);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_FILE_DATASETS_H_
