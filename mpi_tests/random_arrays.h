// Random arrays that ranks hold in any way that a State knows.

#ifndef BELAY_MPI_TESTS_RANDOM_ARRAYS_H_
#define BELAY_MPI_TESTS_RANDOM_ARRAYS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/state.h"
#include "random_array.h"
#include "random_piece.h"
#include "random_restore.h"
#include "random_wants.h"

namespace belay::testing {

// Rows of ranks, with ids or without, and what each rank has of its own.
template <typename T>
class RowsArray final : public ArrayOf<T> {
 public:
  enum class Kind : uint8_t { kRows, kPerRank, kIds };

  RowsArray(std::string key, int rank, int ranks, bool is_small, Random& same)
      : ArrayOf<T>(std::move(key), rank, ranks, is_small),
        kind_(static_cast<Kind>(Uniform(0, 2, same))),
        counts_(ranks),
        holders_(ranks, true) {
    const bool is_own = kind_ == Kind::kPerRank;
    if (is_own) {
      if (OnceIn(2, same)) row_ = {3};
    } else {
      for (int64_t n = Uniform(0, 2, same); n > 0; --n) {
        row_.push_back(OnceIn(2, same) ? 3 : Uniform(1, 5, same));
      }
    }
    const bool is_text =
        is_own && row_.empty() && sizeof(T) == 1 && !OnceIn(3, same);
    if (is_own && OnceIn(3, same)) {
      memory_.form = row_.empty() ? RowForm::kOne : RowForm::kThree;
    } else if (row_ == Shape{3} && (is_own || OnceIn(2, same))) {
      memory_.form = RowForm::kPoints;
    } else if (is_text) {
      memory_.form = RowForm::kText;
    }
    const bool all_hold = !OnceIn(5, same);
    for (int i = 0; i < ranks; ++i) {
      holders_[i] = all_hold || OnceIn(2, same);
    }
    holders_[this->DrawRank(same)] = true;
    this->how_ =
        absl::StrFormat("rows of kind %d in form %d", static_cast<int>(kind_),
                        static_cast<int>(memory_.form));
  }

  void DrawStep(Random& same) override {
    const int64_t pattern = Uniform(0, 7, same), most = Uniform(1, 12, same);
    const bool is_large = OnceIn(100, same);
    for (int i = 0; i < this->ranks_; ++i) {
      counts_[i] = pattern == 0   ? 0
                   : pattern == 1 ? most
                                  : Uniform(0, most, same);
      if (pattern > 4 && OnceIn(2, same)) counts_[i] = 0;
      if (pattern == 2 && OnceIn(3, same)) counts_[i] = Uniform(0, 600, same);
      if (is_large && pattern != 2) counts_[i] *= 1000;
      if (IsOne()) counts_[i] = 1;
      if (!holders_[i]) counts_[i] = 0;
    }
    std::vector<int64_t> first(this->ranks_ + 1);
    std::partial_sum(counts_.begin(), counts_.end(), first.begin() + 1);
    Shape shape = {first.back()};
    shape.insert(shape.end(), row_.begin(), row_.end());
    Dense<T> dense = this->DrawDense(shape, same);
    auto& ids_of = ids_of_.emplace_back(this->ranks_);
    std::vector<int64_t> ids(first.back());
    std::iota(ids.begin(), ids.end(), 0);
    if (kind_ == Kind::kIds) {
      std::shuffle(ids.begin(), ids.end(), same);
    } else {
      dense.first = first;
    }
    for (int i = 0; i < this->ranks_; ++i) {
      ids_of[i].assign(ids.begin() + first[i], ids.begin() + first[i + 1]);
    }
    this->steps_.push_back(std::move(dense));
  }

  bool DrawMistake(Random& same) override {
    this->victim_ = this->DrawRank(same);
    // 1: an id that another row has, 2: one that is out of range, 3: a row less
    // of one rank, 4: another number of ids, 5: rows that are not whole.
    this->mistake_ = kind_ == Kind::kIds ? Uniform(1, 5, same) : 5;
    const std::vector<int64_t>& ids = ids_of_.back()[this->victim_];
    const int64_t total = this->steps_.back().rows();
    if (this->mistake_ == 5) {
      return memory_.form == RowForm::kNumbers && NumElements(row_) > 1 &&
             holders_[this->victim_];
    }
    if (kind_ != Kind::kIds || ids.empty()) return false;
    // The other one has to be different, and what is missing not the last.
    return this->mistake_ % 2 == 0 || (total > 1 && ids[0] != total - 1);
  }

  void AddTo(State& state) override {
    if (this->rank_ < 0 || !holders_[this->rank_]) return;
    if (kind_ == Kind::kRows) {
      AddRowsOf(this->key_, {}, row_, memory_, state);
    } else if (kind_ == Kind::kPerRank) {
      AddPerRankOf(this->key_, {.other_ranks = OtherRanks::kError}, memory_,
                   state);
    } else if (memory_.form == RowForm::kPoints) {
      state.AddRowsById(this->key_, ids_, memory_.points);
    } else {
      state.AddRowsById(this->key_, ids_, memory_.numbers, {.row = row_});
    }
  }

  void Fill() override {
    if (this->rank_ < 0 || !holders_[this->rank_]) return;
    const Dense<T>& dense = this->steps_.back();
    ids_ = ids_of_.back()[this->rank_];
    const int64_t total = dense.rows();
    const bool is_mine = this->victim_ == this->rank_;
    const int64_t mistake = is_mine ? this->mistake_ : 0;
    if (mistake == 3) ids_.erase(ids_.begin());
    memory_.Put(dense.Pick(ids_));
    if (mistake == 1) ids_[0] = (ids_[0] + 1) % total;
    if (mistake == 2) ids_[0] = total > 5 ? -1 : total;
    if (mistake == 4) ids_.push_back(0);
    if (mistake == 5) memory_.numbers.push_back(T{});
  }

  void Spoil(size_t step, Random& own) override {
    if (this->rank_ < 0 || !holders_[this->rank_]) return;
    const int64_t rows = IsOne() ? 1 : Uniform(0, 9, own);
    memory_.Put(std::vector<T>(rows * NumElements(row_), T{23}));
    ids_ = ids_of_[step][this->rank_];
    const int64_t total = this->steps_[step].rows();
    if (total == 0 || OnceIn(2, own)) return;
    // Somebody has to want something.
    ids_.resize(Uniform(1, 9, own));
    for (int64_t& id : ids_) id = Uniform(0, total - 1, own);
  }
  std::string CheckOwn(size_t step) const override {
    if (this->rank_ < 0 || !holders_[this->rank_]) return "";
    const bool has_ids = kind_ == Kind::kIds;
    return Difference(
        this->steps_[step].Pick(has_ids ? ids_ : ids_of_[step][this->rank_]),
        memory_.Get());
  }

 private:
  // Whether each rank has one row.
  bool IsOne() const {
    return memory_.form == RowForm::kOne || memory_.form == RowForm::kThree;
  }

  const Kind kind_;
  Shape row_;
  std::vector<int64_t> counts_;  // of rows, of each rank
  std::vector<bool> holders_;    // the ranks that add the key
  // By step and rank.
  std::vector<std::vector<std::vector<int64_t>>> ids_of_;
  std::vector<int64_t> ids_;
  RowMemory<T> memory_;
};

// Appends boxes that cover a box, perhaps some without elements.
inline void CutIntoBoxes(const Box& box, int64_t depth, Random& random,
                         std::vector<Box>& boxes) {
  if (depth == 0 || box.shape.empty() || OnceIn(4, random)) {
    boxes.push_back(box);
    return;
  }
  const int64_t axis = Uniform(0, std::ssize(box.shape) - 1, random);
  Box low = box, high = box;
  low.shape[axis] = Uniform(0, box.shape[axis], random);
  high.offset[axis] += low.shape[axis];
  high.shape[axis] -= low.shape[axis];
  CutIntoBoxes(low, depth - 1, random, boxes);
  CutIntoBoxes(high, depth - 1, random, boxes);
}

// An array that is cut into boxes, in memory of any form.
template <typename T>
class PiecesArray final : public ArrayOf<T> {
 public:
  PiecesArray(std::string key, int rank, int ranks, bool is_small, Random& same)
      : ArrayOf<T>(std::move(key), rank, ranks, is_small) {
    for (int64_t n = Uniform(1, 4, same); n > 0; --n) {
      shape_.push_back(Uniform(1, n > 2 ? 7 : 20, same));
    }
    std::vector<Box> boxes;
    CutIntoBoxes(WholeBox(shape_), Uniform(0, 4, same), same, boxes);
    Random own(static_cast<uint32_t>(same()) + static_cast<uint32_t>(rank));
    for (const Box& box : boxes) {
      ranks_of_.push_back(this->DrawRank(same));
      if (!IsEmpty(box)) filled_.push_back(ranks_of_.size() - 1);
      pieces_.push_back(RandomPiece<T>(box, own));
    }
    this->how_ = absl::StrFormat("%d pieces", pieces_.size());
  }

  void DrawStep(Random& same) override {
    this->steps_.push_back(this->DrawDense(shape_, same));
  }
  // A piece that nobody has.
  bool DrawMistake(Random& same) override {
    this->mistake_ = 1;
    missing_ = filled_[Uniform(0, std::ssize(filled_) - 1, same)];
    return filled_.size() > 1;  // else there is no array at all
  }
  void AddTo(State& state) override {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const bool is_missing = this->mistake_ != 0 && i == missing_;
      if (ranks_of_[i] != this->rank_ || is_missing) continue;
      state.AddPiece(this->key_, shape_, pieces_[i].box, pieces_[i].InMemory());
    }
  }
  void Fill() override {
    const Dense<T>& dense = this->steps_.back();
    for (HeldPiece<T>& piece : pieces_) {
      piece.Fill([&](const Shape& index) { return dense.At(index); });
    }
  }

  void Spoil(size_t /*step*/, Random& /*own*/) override {
    for (HeldPiece<T>& piece : pieces_) {
      std::fill(piece.memory.begin(), piece.memory.end(),
                HeldPiece<T>::kNobody);
    }
  }
  std::string CheckOwn(size_t step) const override {
    const Dense<T>& dense = this->steps_[step];
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (ranks_of_[i] != this->rank_) continue;
      const std::vector<T> expected = pieces_[i].Expected(
          shape_, [&](const Shape& index) { return dense.At(index); });
      std::string wrong = Difference(expected, pieces_[i].memory);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  Shape shape_;
  std::deque<HeldPiece<T>> pieces_;
  std::vector<int> ranks_of_;   // the rank of each piece
  std::vector<size_t> filled_;  // the pieces with elements
  size_t missing_ = 0;
};

// What every rank holds alike: a number, a vector, or an array.
template <typename T>
class ReplicaArray final : public ArrayOf<T> {
 public:
  ReplicaArray(std::string key, int rank, int ranks, bool is_small,
               Random& same)
      : ArrayOf<T>(std::move(key), rank, ranks, is_small),
        axes_(Uniform(0, 2, same)) {
    memory_.form = axes_ == 0 ? RowForm::kOne : RowForm::kNumbers;
    if (axes_ == 2) shape_ = {Uniform(1, 9, same), Uniform(1, 9, same)};
    this->how_ = "replicas";
  }

  void DrawStep(Random& same) override {
    if (axes_ == 1) shape_ = {OnceIn(5, same) ? 0 : Uniform(1, 50, same)};
    this->steps_.push_back(this->DrawDense(shape_, same));
  }
  bool DrawMistake(Random& same) override {
    this->mistake_ = 1;
    this->victim_ = this->DrawRank(same);
    return this->ranks_ > 1 && NumElements(shape_) > 0;
  }
  void AddTo(State& state) override {
    if (this->rank_ < 0) return;
    if (axes_ == 0) {
      state.Add(this->key_, memory_.one);
    } else if (axes_ == 1) {
      state.Add(this->key_, memory_.numbers);
    } else {
      memory_.numbers.resize(NumElements(shape_));
      state.AddReplicated(this->key_, shape_, memory_.numbers);
    }
  }
  void Fill() override {
    Dense<T> dense = this->steps_.back();
    if (this->mistake_ != 0 && this->victim_ == this->rank_) {
      unsigned char byte = 0;
      std::memcpy(&byte, &dense.values.back(), 1);
      byte ^= 1;
      std::memcpy(&dense.values.back(), &byte, 1);
    }
    memory_.Put(dense.values);
  }

  void Spoil(size_t /*step*/, Random& own) override {
    const int64_t count = axes_ == 1 ? Uniform(0, 9, own) : NumElements(shape_);
    memory_.Put(std::vector<T>(count, T{23}));
  }
  std::string CheckOwn(size_t step) const override {
    if (this->rank_ < 0) return "";
    return Difference(this->steps_[step].values, memory_.Get());
  }

 private:
  const int64_t axes_;
  Shape shape_;
  RowMemory<T> memory_;
};

template <typename T>
std::unique_ptr<RandomArray> RandomArrayOf(const std::string& key, int rank,
                                           int ranks, Random& same) {
  const bool is_small = OnceIn(2, same);
  switch (Uniform(0, 3, same)) {
    case 0:
      return std::make_unique<PiecesArray<T>>(key, rank, ranks, is_small, same);
    case 1:
      return std::make_unique<ReplicaArray<T>>(key, rank, ranks, is_small,
                                               same);
    default:
      return std::make_unique<RowsArray<T>>(key, rank, ranks, is_small, same);
  }
}

// An array of a random kind and type for so many ranks that save.
inline std::unique_ptr<RandomArray> DrawArray(const std::string& key, int rank,
                                              int ranks, Random& same) {
  switch (Uniform(0, 4, same)) {
    case 0:
      return RandomArrayOf<float>(key, rank, ranks, same);
    case 1:
      return RandomArrayOf<double>(key, rank, ranks, same);
    case 2:
      return RandomArrayOf<int32_t>(key, rank, ranks, same);
    case 3:
      return RandomArrayOf<int64_t>(key, rank, ranks, same);
    default:
      return RandomArrayOf<uint8_t>(key, rank, ranks, same);
  }
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_ARRAYS_H_
