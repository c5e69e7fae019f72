// Random ways to restore an array, and what each has to give, computed from the
// dense array without the library.

#ifndef BELAY_MPI_TESTS_RANDOM_RESTORE_H_
#define BELAY_MPI_TESTS_RANDOM_RESTORE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "belay/rows.h"
#include "belay/state.h"
#include "random_piece.h"

namespace belay::testing {

// An array as it has to be in a checkpoint.
template <typename T>
struct Dense {
  Shape shape;
  std::vector<T> values;
  // Of rows of ranks: the first row of each rank that saved, and the number of
  // all. Empty: of no ranks.
  std::vector<int64_t> first;

  int64_t rows() const { return shape[0]; }
  Shape row() const { return {shape.begin() + 1, shape.end()}; }
  int64_t width() const { return NumElements(row()); }
  T At(const Shape& index) const { return values[DensePlace(index, shape)]; }
  // The numbers of some rows.
  std::vector<T> Pick(const std::vector<int64_t>& some) const {
    std::vector<T> picked;
    for (const int64_t i : some) {
      const auto begin = values.begin() + i * width();
      picked.insert(picked.end(), begin, begin + width());
    }
    return picked;
  }
};

// Memory of one rank for rows of T.
enum class RowForm : uint8_t { kNumbers, kPoints, kSpan, kText, kOne, kThree };
template <typename T>
struct RowMemory {
  RowForm form = RowForm::kNumbers;
  std::vector<T> numbers;  // of a span with two guards at each end
  std::vector<std::array<T, 3>> points;
  std::span<T> span;
  std::string text;
  T one = {};
  std::array<T, 3> three = {};

  // Calls visit(the range or value).
  template <typename Visit>
  void With(Visit visit) {
    switch (form) {
      case RowForm::kNumbers:
        return visit(numbers);
      case RowForm::kPoints:
        return visit(points);
      case RowForm::kSpan:
        return visit(std::span<T>(span));
      case RowForm::kText:
        return visit(text);
      case RowForm::kOne:
        return visit(one);
      case RowForm::kThree:
        return visit(three);
    }
  }

  // Fixed forms have room for exactly these numbers.
  void Put(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    numbers = values;
    points.resize(values.size() / 3);
    text.assign(reinterpret_cast<const char*>(values.data()), bytes);
    if (form == RowForm::kPoints) Copy(values, points.data());
    if (form == RowForm::kOne) Copy(values, &one);
    if (form == RowForm::kThree) Copy(values, &three);
    if (form != RowForm::kSpan) return;
    numbers.insert(numbers.begin(), 2, HeldPiece<T>::kNobody);
    numbers.resize(values.size() + 4, HeldPiece<T>::kNobody);
    span = std::span<T>(numbers.data() + 2, values.size());
  }

  std::vector<T> Get() const {
    if (form == RowForm::kPoints) return Numbers(points.data(), points.size());
    if (form == RowForm::kText) return Numbers(text.data(), text.size());
    if (form == RowForm::kOne) return {one};
    if (form == RowForm::kThree) return {three.begin(), three.end()};
    if (form == RowForm::kSpan) return {span.begin(), span.end()};
    return numbers;
  }

  // Whether the guards of a span are as they were.
  bool HasGuards() const {
    if (form != RowForm::kSpan) return true;
    const auto is_guard = [](T x) { return x == HeldPiece<T>::kNobody; };
    return std::all_of(numbers.begin(), numbers.begin() + 2, is_guard) &&
           std::all_of(numbers.end() - 2, numbers.end(), is_guard);
  }

 private:
  template <typename U>
  static void Copy(const std::vector<T>& values, U* to) {
    if (values.empty()) return;
    std::memcpy(static_cast<void*>(to), values.data(),
                values.size() * sizeof(T));
  }
  template <typename U>
  static std::vector<T> Numbers(const U* from, size_t count) {
    std::vector<T> numbers(count * sizeof(U) / sizeof(T));
    if (count > 0) std::memcpy(numbers.data(), from, count * sizeof(U));
    return numbers;
  }
};

template <typename T>
std::array<unsigned char, sizeof(T)> BitsOf(const T& number) {
  std::array<unsigned char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}

// "" if the numbers are equal to the last bit, else what is not.
template <typename T>
std::string Difference(const std::vector<T>& need,
                       const std::vector<T>& found) {
  if (need.size() != found.size()) {
    return absl::StrFormat("need %d numbers, found %d", need.size(),
                           found.size());
  }
  int64_t wrong = 0, first = -1;
  for (size_t i = 0; i < need.size(); ++i) {
    if (BitsOf(need[i]) == BitsOf(found[i])) continue;
    if (wrong++ == 0) first = static_cast<int64_t>(i);
  }
  if (wrong == 0) return "";
  return absl::StrFormat(
      "%d of %d numbers are wrong, first at %d: need %s, "
      "found %s",
      wrong, need.size(), first, std::to_string(need[first]),
      std::to_string(found[first]));
}

// The one error that a case has to give, on all ranks.
struct Mistake {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string key = {};
};

// The ranks of a restore, of which this is one.
struct Restorers {
  int rank = 0;
  int ranks = 1;
  int saved_ranks = 1;
};

// What is wrong with what was restored; "" if nothing is.
using Checker = std::function<std::string()>;

// A random way to restore an array: what is drawn from `same` is the same on
// all ranks. With `may_fail`, it may be a mistake.
struct Wanted {
  std::string key;
  Restorers group;
  std::vector<int> holders = {};  // that restore the key, ascending
  bool may_fail = false;
  Random& same;
  Random& own;
  State& state;
  Mistake mistake = {};
  std::string text = {};

  bool IsHolder() const {
    return std::binary_search(holders.begin(), holders.end(), group.rank);
  }
  void Fails(absl::StatusCode code) { mistake = {code, key}; }
};

// A number that follows from all bits of another one.
template <typename T>
size_t HashOf(const T& number) {
  size_t sum = 7;
  for (const unsigned char byte : BitsOf(number)) sum = sum * 31 + byte;
  return sum;
}

// Who gets which rows of ranks.
struct RowsRule {
  OtherRanks other_ranks = OtherRanks::kEven;
  std::vector<int> sources = {};  // of each rank; empty: no function `source`
  std::vector<int> owners = {};   // by hash; empty: no function `owner`
  int saved_ranks = 0;

  // The function `source`.
  int SourceOf(int rank, int num_ranks, int saved) const {
    const bool is_right =
        num_ranks == std::ssize(sources) && saved == saved_ranks;
    return is_right ? sources[rank] : -3;
  }

  template <typename T>
  int OwnerOf(const T& number) const {
    return owners[HashOf(number) % owners.size()];
  }

  // Whether all ranks that have saved rows restore them.
  template <typename T>
  static bool AllAreHere(const Dense<T>& dense, const Wanted& wanted) {
    const int saved = static_cast<int>(dense.first.size()) - 1;
    bool all_here = saved == wanted.group.ranks;
    for (int i = 0; all_here && i < saved; ++i) {
      all_here =
          dense.first[i] == dense.first[i + 1] ||
          std::binary_search(wanted.holders.begin(), wanted.holders.end(), i);
    }
    return all_here;
  }

  // Whether the function `source` names nobody for a rank.
  template <typename T>
  bool NamesNobody(const Dense<T>& dense, int rank,
                   const Wanted& wanted) const {
    return !sources.empty() && sources[rank] == -1 &&
           !AllAreHere(dense, wanted);
  }

  // The rows of a rank; none if that is an error.
  template <typename T>
  std::optional<std::vector<int64_t>> RowsOf(const Dense<T>& dense, int rank,
                                             const Wanted& wanted) const {
    const std::vector<int>& holders = wanted.holders;
    std::vector<int64_t> rows;
    if (!owners.empty()) {
      for (int64_t i = 0; i < dense.rows(); ++i) {
        const int owner = OwnerOf(dense.values[i * dense.width()]);
        if (owner < 0 || owner >= wanted.group.ranks) return std::nullopt;
        if (owner == rank) rows.push_back(i);
      }
      return rows;
    }
    const auto range = [&](int64_t begin, int64_t end) {
      while (begin < end) rows.push_back(begin++);
      return rows;
    };
    const int saved = static_cast<int>(dense.first.size()) - 1;
    if (AllAreHere(dense, wanted)) {
      return range(dense.first[rank], dense.first[rank + 1]);
    }
    if (!sources.empty()) {
      const int source = sources[rank];
      if (source == -1) return rows;
      if (source < 0 || source >= saved) return std::nullopt;
      return range(dense.first[source], dense.first[source + 1]);
    }
    if (other_ranks == OtherRanks::kFirst && saved > 0) {
      return range(0, dense.first[1]);
    }
    if (other_ranks != OtherRanks::kEven) return std::nullopt;
    const auto ranks = static_cast<int64_t>(holders.size());
    const int64_t place =
        std::lower_bound(holders.begin(), holders.end(), rank) -
        holders.begin();
    const int64_t each = dense.rows() / ranks, more = dense.rows() % ranks;
    const int64_t begin = place * each + std::min(place, more);
    return range(begin, begin + each + (place < more ? 1 : 0));
  }

  absl::StatusCode ErrorCode() const {
    return owners.empty() && sources.empty()
               ? absl::StatusCode::kFailedPrecondition
               : absl::StatusCode::kInvalidArgument;
  }
};

// A rule for this array and these ranks.
template <typename T>
RowsRule DrawRule(const Dense<T>& dense, bool per_rank, const Wanted& wanted) {
  Random& same = wanted.same;
  const int saved = static_cast<int>(dense.first.size()) - 1;
  RowsRule rule{.saved_ranks = wanted.group.saved_ranks};
  const bool may_have_owners = !per_rank;
  int64_t kind = Uniform(0, may_have_owners ? 4 : 3, same);
  if (wanted.may_fail && OnceIn(2, same)) kind = may_have_owners ? 4 : 3;
  if (kind == 1) rule.other_ranks = OtherRanks::kFirst;
  if (kind == 2) rule.other_ranks = OtherRanks::kError;
  for (int i = 0; kind == 3 && saved > 0 && i < wanted.group.ranks; ++i) {
    rule.sources.push_back(static_cast<int>(Uniform(-1, saved - 1, same)));
    if (!wanted.may_fail || !OnceIn(3, same)) continue;
    rule.sources.back() = OnceIn(2, same) ? saved : -2;
  }
  for (int64_t i = 0, n = Uniform(1, 8, same); kind == 4 && i < n; ++i) {
    const int64_t last = std::ssize(wanted.holders) - 1;
    rule.owners.push_back(wanted.holders[Uniform(0, last, same)]);
    if (!wanted.may_fail || !OnceIn(6, same)) continue;
    rule.owners.back() = OnceIn(2, same) ? wanted.group.ranks : -1;
  }
  return rule;
}

// The same, until no rank has an error, unless there may be one.
template <typename T>
RowsRule DrawGoodRule(const Dense<T>& dense, bool per_rank, Wanted& wanted) {
  for (;;) {
    RowsRule rule = DrawRule(dense, per_rank, wanted);
    const bool is_strict = rule.other_ranks == OtherRanks::kError;
    // Arrays from before rows were known are taken for those of ranks.
    const bool is_older =
        dense.first.empty() && dense.rows() == wanted.group.ranks;
    if (is_strict && is_older) continue;
    wanted.mistake = {};
    for (const int rank : wanted.holders) {
      if (!rule.RowsOf(dense, rank, wanted)) wanted.Fails(rule.ErrorCode());
    }
    const bool is_good = wanted.mistake.code == absl::StatusCode::kOk;
    if (is_good || wanted.may_fail) return rule;
  }
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_RESTORE_H_
