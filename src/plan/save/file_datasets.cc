#include "plan/save/file_datasets.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "plan/chunks/default_chunks.h"

namespace belay {
namespace {

void SortByPlace(std::vector<WritePiece>& pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const WritePiece& a, const WritePiece& b) {
              return std::tie(a.file, a.array, a.box.offset) <
                     std::tie(b.file, b.array, b.box.offset);
            });
}

StoredDataset DatasetOf(const WritePiece& piece) {
  return {.array = piece.array,
          .file = piece.file,
          .box = piece.box,
          .group = piece.group,
          .task = piece.rank};
}

// The smallest box that holds both.
Box Around(const Box& a, const Box& b) {
  Box box = a;
  for (size_t i = 0; i < a.offset.size(); ++i) {
    box.offset[i] = std::min(a.offset[i], b.offset[i]);
    box.shape[i] =
        std::max(a.offset[i] + a.shape[i], b.offset[i] + b.shape[i]) -
        box.offset[i];
  }
  return box;
}

// One dataset around the pieces of one array in one file, which are disjoint.
StoredDataset Joined(std::span<const WritePiece> pieces, bool& fills_box) {
  StoredDataset dataset = DatasetOf(pieces[0]);
  int64_t elements = 0;
  for (const WritePiece& piece : pieces) {
    dataset.box = Around(dataset.box, piece.box);
    elements += NumElements(piece.box.shape);
    if (piece.rank != dataset.task) dataset.task = -1;
  }
  fills_box = elements == NumElements(dataset.box.shape);
  return dataset;
}

// The chunks of a dataset that these pieces fill.
Shape ChunkOf(const StoredDataset& dataset, int64_t element_size,
              std::span<const WritePiece> pieces) {
  std::vector<Box> boxes;  // counted from the dataset's corner
  for (const WritePiece& piece : pieces) {
    boxes.push_back(FromCorner(piece.box, dataset.box.offset));
  }
  std::vector<const Box*> pointers;
  for (const Box& box : boxes) pointers.push_back(&box);
  return ChooseChunkShape(dataset.box.shape, element_size, pointers);
}

// Notes which datasets one rank writes alone, but for arrays whose layout says
// more than that.
void NoteWriters(const std::vector<WritePiece>& pieces,
                 const std::vector<int32_t>& of_piece, SavePlan& plan) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!plan.arrays[pieces[i].array].layout.empty()) continue;
    plan.datasets[of_piece[i]].task = pieces[i].rank;  // the last one
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    StoredDataset& dataset = plan.datasets[of_piece[i]];
    if (dataset.task != pieces[i].rank) dataset.task = -1;
  }
}

}  // namespace

std::vector<int32_t> AddWholeDatasets(const std::vector<ArrayBoxes>& arrays,
                                      const std::vector<WritePiece>& pieces,
                                      ArrayLayout layout, SavePlan& plan) {
  std::vector<int32_t> of_array(arrays.size(), -1);
  for (const ArrayBoxes& array : arrays) {
    if (array.boxes.empty()) continue;
    const Shape shape = IoShape(plan.arrays[array.array]);
    StoredDataset dataset{.array = array.array, .box = WholeBox(shape)};
    if (layout == ArrayLayout::kAuto) {
      std::vector<const Box*> boxes;
      for (const HeldBox& held : array.boxes) boxes.push_back(&held.box);
      dataset.chunk = ChooseChunkShape(shape, array.element_size, boxes);
    }
    of_array[array.array] = static_cast<int32_t>(plan.datasets.size());
    plan.datasets.push_back(std::move(dataset));
  }
  std::vector<int32_t> of_piece;
  for (const WritePiece& piece : pieces) {
    of_piece.push_back(of_array[piece.array]);
  }
  if (layout != ArrayLayout::kCanonical) NoteWriters(pieces, of_piece, plan);
  return of_piece;
}

std::vector<int32_t> AddPieceDatasets(std::vector<WritePiece>& pieces,
                                      SavePlan& plan) {
  SortByPlace(pieces);
  for (const WritePiece& piece : pieces) {
    plan.datasets.push_back(DatasetOf(piece));
  }
  std::vector<int32_t> of_piece(pieces.size());
  std::iota(of_piece.begin(), of_piece.end(), 0);
  return of_piece;
}

std::vector<int32_t> AddJoinedDatasets(std::vector<WritePiece>& pieces,
                                       ArrayLayout layout, SavePlan& plan) {
  SortByPlace(pieces);
  std::vector<int32_t> of_piece;
  for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    while (end < pieces.size() && pieces[end].file == pieces[begin].file &&
           pieces[end].array == pieces[begin].array) {
      ++end;
    }
    const auto same = std::span(pieces).subspan(begin, end - begin);
    bool fills_box = false;
    StoredDataset dataset = Joined(same, fills_box);
    if (fills_box && layout == ArrayLayout::kAuto) {
      const DType dtype = plan.arrays[dataset.array].dtype;
      dataset.chunk = ChunkOf(dataset, IoElementSize(dtype), same);
    }
    if (fills_box) plan.datasets.push_back(std::move(dataset));
    for (const WritePiece& piece : same) {
      if (!fills_box) plan.datasets.push_back(DatasetOf(piece));
      of_piece.push_back(static_cast<int32_t>(plan.datasets.size()) - 1);
    }
  }
  return of_piece;
}

Box FromCorner(Box box, const Shape& corner) {
  for (size_t i = 0; i < corner.size(); ++i) box.offset[i] -= corner[i];
  return box;
}

}  // namespace belay
