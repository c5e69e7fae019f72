// A value that says only step by step what it wants, on several ranks.

#include <gtest/gtest.h>

#include <memory>

#include "belay/extend/state.h"
#include "belay/extend/type_handler_registry.h"
#include "values.h"

namespace belay::sparse_handler_test {
namespace {

// The rows of a sparse matrix that a rank holds. Where the entries of its rows
// lie among all entries is stored, too.
struct SparseRows {
  int64_t num_rows = 0, num_entries = 0;  // of all ranks
  int64_t first_row = 0, first_entry = 0;
  std::vector<int64_t> row_ends;  // of its rows
  std::vector<int32_t> columns;
  std::vector<double> values;
};

class SparseHandler : public Handler<SparseRows> {
 public:
  std::string typestr() const override { return "sparse rows"; }

  Status ListForSave(SparseRows& m, State& parts) const override {
    AddRows(m, parts);
    AddEntries(m, parts);
    return absl::OkStatus();
  }
  Status ListForRestore(SparseRows& m, const StoredValue& stored,
                        State& parts) const override {
    m.num_entries = stored.Find("columns")->shape[0];
    // The end of the row before is where the first one begins.
    m.row_ends.resize(m.row_ends.size() + 1);
    parts.AddPiece("row_ends", {m.num_rows + 1},
                   {{m.first_row}, {std::ssize(m.row_ends)}},
                   AtAddress(m.row_ends.data()));
    return absl::OkStatus();
  }
  Status Received(SparseRows& m, const StoredValue&, int round,
                  State& more) const override {
    if (round > 0) return absl::OkStatus();
    m.first_entry = m.row_ends.front();
    m.row_ends.erase(m.row_ends.begin());
    const int64_t end = m.row_ends.empty() ? m.first_entry : m.row_ends.back();
    m.columns.resize(static_cast<size_t>(end - m.first_entry));
    m.values.resize(m.columns.size());
    AddEntries(m, more);
    return absl::OkStatus();
  }

 private:
  static void AddRows(SparseRows& m, State& parts) {
    if (m.first_row == 0) {
      parts.AddPiece("row_ends", {m.num_rows + 1}, {{0}, {1}},
                     AtAddress(&Own(parts, std::make_shared<int64_t>(0))));
    }
    parts.AddPiece("row_ends", {m.num_rows + 1},
                   {{m.first_row + 1}, {std::ssize(m.row_ends)}},
                   AtAddress(m.row_ends.data()));
  }
  static void AddEntries(SparseRows& m, State& parts) {
    const Box box{{m.first_entry}, {std::ssize(m.columns)}};
    parts.AddPiece("columns", {m.num_entries}, box,
                   AtAddress(m.columns.data()));
    parts.AddPiece("values", {m.num_entries}, box, AtAddress(m.values.data()));
  }
};

// Row i has i % 4 entries.
int64_t EntriesBefore(int64_t row) {
  int64_t entries = 0;
  for (int64_t i = 0; i < row; ++i) entries += i % 4;
  return entries;
}

SparseRows RowsOf(int64_t num_rows, int64_t first, int64_t end) {
  SparseRows m{.num_rows = num_rows,
               .num_entries = EntriesBefore(num_rows),
               .first_row = first,
               .first_entry = EntriesBefore(first)};
  for (int64_t row = first; row < end; ++row) {
    m.row_ends.push_back(EntriesBefore(row + 1));
    for (int64_t i = 0; i < row % 4; ++i) {
      m.columns.push_back(static_cast<int32_t>(row + i));
      m.values.push_back(static_cast<double>(row) + 0.125 * i);
    }
  }
  return m;
}

using SparseHandlerTest = testing::CheckpointTest;

// The cut of the rows need not be the one that was saved, and a rank may have
// none of them.
TEST_F(SparseHandlerTest, ASparseMatrixIsRestoredWithOtherCuts) {
  const TypeHandlerRegistry handlers =
      CreateTypeHandlerRegistry(
          {EntryFor<SparseRows>(std::make_shared<SparseHandler>())})
          .value();
  constexpr int64_t kRows = 23;
  const auto border = [](int rank, int size) { return kRows * rank / size; };
  SparseRows mine =
      RowsOf(kRows, border(rank_, size_), border(rank_ + 1, size_));
  State state;
  state.Add("m", mine);
  ASSERT_EQ(Save(comm_, run(), 1, state, {.handlers = &handlers}).status(),
            absl::OkStatus());

  // Rank r has what rank size - 1 - r has had, but for the last, which has none
  // if there are others.
  const int other = size_ - 1 - rank_;
  const int64_t first = border(other, size_);
  const int64_t end =
      size_ > 1 && other == 0 ? first : border(other + 1, size_);
  const SparseRows expected = RowsOf(kRows, first, end);
  SparseRows found{.num_rows = kRows, .first_row = first};
  found.row_ends.resize(static_cast<size_t>(end - first));
  State wanted;
  wanted.Add("m", found);
  ASSERT_EQ(Restore(comm_, run(), 1, wanted, {.handlers = &handlers}).status(),
            absl::OkStatus());
  EXPECT_EQ(found.row_ends, expected.row_ends);
  EXPECT_EQ(found.columns, expected.columns);
  EXPECT_EQ(found.values, expected.values);
  EXPECT_EQ(found.num_entries, expected.num_entries);
}

}  // namespace
}  // namespace belay::sparse_handler_test
