// Adds to a State what a rank restores of an array, in a random way.

#ifndef BELAY_MPI_TESTS_RANDOM_WANTS_H_
#define BELAY_MPI_TESTS_RANDOM_WANTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "belay/arrays/dtype.h"
#include "belay/rows.h"
#include "belay/state.h"
#include "random_piece.h"
#include "random_restore.h"

namespace belay::testing {

// A form in which this rank can restore `count` rows.
template <typename T>
RowForm DrawForm(const Dense<T>& dense, int64_t count, bool per_rank,
                 bool is_fixed, bool may_be_text, Random& random) {
  std::vector<RowForm> forms;
  const bool is_plain = dense.row().empty(),
             has_three = dense.row() == Shape{3};
  if (is_plain || !per_rank) forms = {RowForm::kNumbers, RowForm::kNumbers};
  if (has_three) forms.push_back(RowForm::kPoints);
  if (is_fixed && (is_plain || !per_rank)) forms.push_back(RowForm::kSpan);
  if (may_be_text && is_plain && std::is_same_v<T, uint8_t>) {
    forms.push_back(RowForm::kText);
  }
  if (per_rank && count == 1 && is_plain) forms.push_back(RowForm::kOne);
  if (per_rank && count == 1 && has_three) forms.push_back(RowForm::kThree);
  return forms[Uniform(0, std::ssize(forms) - 1, random)];
}

// Memory with other numbers in it. Forms of a fixed length have room for
// `count` rows, others for any.
template <typename T>
std::shared_ptr<RowMemory<T>> OtherMemory(const Dense<T>& dense, RowForm form,
                                          int64_t count, Random& random) {
  auto memory = std::make_shared<RowMemory<T>>();
  memory->form = form;
  const bool is_fixed = form == RowForm::kSpan || form == RowForm::kOne ||
                        form == RowForm::kThree;
  const int64_t rows = is_fixed ? count : Uniform(0, 20, random);
  memory->Put(std::vector<T>(rows * dense.width(), T{17}));
  return memory;
}

// Expects numbers in `memory`, which the checker keeps.
template <typename T>
Checker CheckerOf(std::shared_ptr<RowMemory<T>> memory,
                  std::vector<T> expected) {
  return [memory = std::move(memory), expected = std::move(expected)] {
    if (!memory->HasGuards()) return std::string("a guard was written");
    return Difference(expected, memory->Get());
  };
}

// Adds rows to `state`, with the rule.
template <typename T>
void AddRowsOf(const std::string& key, const RowsRule& rule, const Shape& row,
               RowMemory<T>& memory, State& state) {
  memory.With([&](auto&& range) {
    using R = std::remove_reference_t<decltype(range)>;
    if constexpr (RowRange<R> && !std::is_same_v<R, std::string>) {
      using U = std::ranges::range_value_t<R>;
      RowsOptions<U> options{.other_ranks = rule.other_ranks};
      if constexpr (std::is_same_v<U, T>) options.row = row;
      if (!rule.sources.empty()) {
        options.source = [rule](int rank, int ranks, int saved) {
          return rule.SourceOf(rank, ranks, saved);
        };
      }
      if (!rule.owners.empty()) {
        options.owner = [rule](const U& one) {
          if constexpr (std::is_same_v<U, T>) {
            return rule.OwnerOf(one);
          } else {
            return rule.OwnerOf(one[0]);
          }
        };
      }
      state.AddRows(key, std::forward<decltype(range)>(range), options);
    }
  });
}

// The same for what each rank has of its own.
template <typename T>
void AddPerRankOf(const std::string& key, const RowsRule& rule,
                  RowMemory<T>& memory, State& state) {
  PerRankOptions options{.other_ranks = rule.other_ranks};
  if (!rule.sources.empty()) {
    options.source = [rule](int rank, int ranks, int saved) {
      return rule.SourceOf(rank, ranks, saved);
    };
  }
  memory.With([&](auto&& value) {
    state.AddPerRank(key, std::forward<decltype(value)>(value), options);
  });
}

template <typename T>
Checker WantRows(const Dense<T>& dense, Wanted& wanted) {
  const Shape row = dense.row();
  const bool per_rank =
      (row.empty() || row == Shape{3}) && OnceIn(2, wanted.same);
  const RowsRule rule = DrawGoodRule(dense, per_rank, wanted);
  const int victim =
      wanted.holders[Uniform(0, std::ssize(wanted.holders) - 1, wanted.same)];
  // A span that is too long by a row.
  const bool is_too_long =
      wanted.may_fail && OnceIn(3, wanted.same) && rule.owners.empty() &&
      wanted.mistake.code == absl::StatusCode::kOk &&
      (row.empty() || !per_rank) &&
      !(per_rank && rule.NamesNobody(dense, victim, wanted));
  if (is_too_long) wanted.Fails(absl::StatusCode::kFailedPrecondition);
  wanted.text = absl::StrFormat("%s, other %d, %d sources, %d owners",
                                per_rank ? "per rank" : "rows",
                                static_cast<int>(rule.other_ranks),
                                rule.sources.size(), rule.owners.size());
  if (!wanted.IsHolder()) return nullptr;
  const auto rows = rule.RowsOf(dense, wanted.group.rank, wanted);
  const std::vector<int64_t> mine = rows.value_or(std::vector<int64_t>());
  const bool is_fixed = rule.owners.empty();
  const bool is_kept =
      per_rank && rule.NamesNobody(dense, wanted.group.rank, wanted);
  // A text has no even part.
  const bool may_be_text = per_rank && (rule.other_ranks != OtherRanks::kEven ||
                                        !rule.sources.empty());
  int64_t count = is_kept ? 1 : std::ssize(mine);
  RowForm form =
      DrawForm(dense, count, per_rank, is_fixed, may_be_text, wanted.own);
  if (is_too_long && victim == wanted.group.rank) {
    form = RowForm::kSpan;
    ++count;
  }
  const auto memory = OtherMemory(dense, form, count, wanted.own);
  if (per_rank) {
    AddPerRankOf(wanted.key, rule, *memory, wanted.state);
  } else {
    AddRowsOf(wanted.key, rule, row, *memory, wanted.state);
  }
  return CheckerOf(memory, is_kept ? memory->Get() : dense.Pick(mine));
}

// Ids of an integer type, in memory that the checker keeps.
template <typename Id, typename T>
Checker WantIdsAs(const Dense<T>& dense, std::vector<int64_t> mine,
                  Wanted& wanted) {
  const auto ids = std::make_shared<std::vector<Id>>(mine.begin(), mine.end());
  std::vector<T> expected;
  if (wanted.mistake.code == absl::StatusCode::kOk) expected = dense.Pick(mine);
  const int64_t count = std::ssize(mine);
  const RowForm form = DrawForm(dense, count, false, true, false, wanted.own);
  const auto memory = OtherMemory(dense, form, count, wanted.own);
  memory->With([&](auto&& range) {
    using R = std::remove_reference_t<decltype(range)>;
    if constexpr (RowRange<R> && !std::is_same_v<R, std::string>) {
      using U = std::ranges::range_value_t<R>;
      IdOptions options;
      if constexpr (std::is_same_v<U, T>) options.row = dense.row();
      wanted.state.AddRowsById(wanted.key, *ids,
                               std::forward<decltype(range)>(range), options);
    }
  });
  const Checker checker = CheckerOf(memory, std::move(expected));
  return [ids, checker] { return checker(); };
}

template <typename T>
Checker WantIds(const Dense<T>& dense, Wanted& wanted) {
  Random& same = wanted.same;
  const int victim =
      wanted.holders[Uniform(0, std::ssize(wanted.holders) - 1, same)];
  const int64_t bad = OnceIn(2, same) ? dense.rows() + Uniform(0, 3, same) : -1;
  wanted.text = "ids";
  if (wanted.may_fail) wanted.Fails(absl::StatusCode::kInvalidArgument);
  if (!wanted.IsHolder()) return nullptr;
  std::vector<int64_t> ids;
  // Somebody has to want something.
  const bool is_first = wanted.group.rank == wanted.holders[0];
  const int64_t count =
      !is_first && OnceIn(4, wanted.own) ? 0 : Uniform(1, 30, wanted.own);
  for (int64_t i = 0; i < count && dense.rows() > 0; ++i) {
    ids.push_back(Uniform(0, dense.rows() - 1, wanted.own));
  }
  if (wanted.may_fail && victim == wanted.group.rank) {
    ids.insert(ids.begin() + Uniform(0, std::ssize(ids), wanted.own), bad);
  }
  if (OnceIn(2, wanted.own)) return WantIdsAs<int32_t>(dense, ids, wanted);
  return WantIdsAs<int64_t>(dense, ids, wanted);
}

// A box in an array, perhaps without elements.
inline Box RandomBox(const Shape& shape, Random& random) {
  Box box;
  for (const int64_t length : shape) {
    const int64_t a = Uniform(0, length, random),
                  b = Uniform(0, length, random);
    box.offset.push_back(std::min(a, b));
    box.shape.push_back(std::max(a, b) - std::min(a, b));
  }
  return box;
}

// Pieces, which may overlap and need not cover the array.
template <typename T>
Checker WantPiecesOf(const Dense<T>& dense, bool whole, Wanted& wanted) {
  Shape shape = dense.shape;
  wanted.text = whole ? "replicas" : "pieces";
  if (wanted.may_fail && !shape.empty()) {
    wanted.Fails(absl::StatusCode::kFailedPrecondition);
    ++shape[Uniform(0, std::ssize(shape) - 1, wanted.same)];
  }
  if (!wanted.IsHolder()) return nullptr;
  const auto pieces = std::make_shared<std::deque<HeldPiece<T>>>();
  for (int64_t i = whole ? 1 : Uniform(1, 3, wanted.own); i > 0; --i) {
    const Box box = whole ? WholeBox(shape) : RandomBox(shape, wanted.own);
    HeldPiece<T>& piece = pieces->emplace_back(RandomPiece<T>(box, wanted.own));
    if (whole) {
      wanted.state.AddReplicated(wanted.key, shape, piece.InMemory());
    } else {
      wanted.state.AddPiece(wanted.key, shape, box, piece.InMemory());
    }
  }
  return [pieces, dense] {
    for (const HeldPiece<T>& piece : *pieces) {
      const std::vector<T> expected = piece.Expected(
          dense.shape, [&](const Shape& index) { return dense.At(index); });
      std::string wrong = Difference(expected, piece.memory);
      if (!wrong.empty()) return wrong;
    }
    return std::string();
  };
}

// A number or a vector that takes the stored length.
template <typename T>
Checker WantValue(const Dense<T>& dense, Wanted& wanted) {
  wanted.text = "a value";
  if (!wanted.IsHolder()) return nullptr;
  const bool is_number = dense.shape.empty();
  const RowForm form = is_number ? RowForm::kOne : RowForm::kNumbers;
  auto memory = std::make_shared<RowMemory<T>>();
  memory->form = form;
  memory->Put(std::vector<T>(is_number ? 1 : Uniform(0, 9, wanted.own), T{17}));
  if (is_number) {
    wanted.state.Add(wanted.key, memory->one);
  } else {
    wanted.state.Add(wanted.key, memory->numbers);
  }
  return CheckerOf(memory, dense.values);
}

// Adds what the ranks restore of the array.
template <typename T>
Checker WantAny(const Dense<T>& dense, Wanted& wanted) {
  const size_t axes = dense.shape.size();
  const int64_t kind = Uniform(axes == 0 ? 4 : 0, 6, wanted.same);
  if (kind <= 1) return WantRows(dense, wanted);
  if (kind <= 3) return WantIds(dense, wanted);
  if (kind == 6 && axes <= 1) return WantValue(dense, wanted);
  return WantPiecesOf(dense, kind == 5, wanted);
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_WANTS_H_
