#include "sharded_table.h"

#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "arrays.h"
#include "belay/variable/sharded_variable_ops.h"

namespace belay::bench {
namespace {

constexpr int64_t kRows = 1000000;
constexpr int64_t kPicked = 100000;

// Returns an initial element of the table. Sums of the elements are exact.
float Element(int64_t row, int64_t column) {
  return static_cast<float>((row * 5 + column) % 101);
}

// Returns random rows for a rank.
std::vector<int64_t> Pick(int64_t num_rows, int64_t count, int rank) {
  std::mt19937_64 random(rank + 1);
  std::vector<int64_t> rows(count);
  for (int64_t& row : rows) row = random() % num_rows;
  return rows;
}

void Fill(const Component& part) {
  float* values = reinterpret_cast<float*>(part.data);
  for (int64_t row = 0; row < part.num_rows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      *values++ = Element(part.first_row + row, column);
    }
  }
}

// Update i adds i % 7 to all columns.
float Delta(int64_t i) { return static_cast<float>(i % 7); }

Status WrongValue(int64_t row, int64_t column, float expected, float found) {
  return absl::DataLossError(absl::StrCat("row ", row, " column ", column,
                                          " (need ", expected, ", found ",
                                          found, ")"));
}

}  // namespace

StatusOr<std::shared_ptr<Table>> MakeTable(const Context& context) {
  const auto table = std::make_shared<Table>();
  table->num_rows = Scaled(context, kRows);
  const int64_t count = Scaled(context, kPicked);
  StatusOr<ShardedVariable> made = CreateShardedVariable(
      *context.comm, "table", DType::kF32, {table->num_rows, kColumns},
      FixedShards(context.comm->size()));
  if (!made.ok()) return made.status();
  table->variable = *std::move(made);
  Fill(table->part(*context.comm));
  table->picked = Pick(table->num_rows, count, context.comm->rank());
  table->indices = Tensor::Of<int64_t>({count}, table->picked);
  table->deltas = Tensor(DType::kF32, {count, kColumns});
  for (int64_t i = 0; i < count * kColumns; ++i) {
    table->deltas.values<float>()[i] = Delta(i / kColumns);
  }
  return table;
}

// Compares consecutive rows.
Status CheckRows(const std::vector<int64_t>& rows, const std::byte* bytes) {
  for (size_t i = 0; i < rows.size() * kColumns; ++i) {
    float found;
    std::memcpy(&found, bytes + i * sizeof(found), sizeof(found));
    const int64_t row = rows[i / kColumns];
    const float expected = Element(row, i % kColumns);
    if (found != expected)
      return WrongValue(row, i % kColumns, expected, found);
  }
  return absl::OkStatus();
}

Status CheckSums(const Comm& comm, const Table& table) {
  const Component& part = table.part(comm);
  std::vector<float> sums(part.num_rows);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::vector<int64_t> picked =
        Pick(table.num_rows, table.picked.size(), rank);
    for (size_t i = 0; i < picked.size(); ++i) {
      const int64_t row = picked[i] - part.first_row;
      if (row >= 0 && row < part.num_rows) sums[row] += Delta(i);
    }
  }
  const float* values = reinterpret_cast<const float*>(part.data);
  for (int64_t i = 0; i < part.num_rows * kColumns; ++i) {
    const int64_t row = part.first_row + i / kColumns;
    const float expected = Element(row, i % kColumns) + sums[i / kColumns];
    if (values[i] != expected) {
      return WrongValue(row, i % kColumns, expected, values[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace belay::bench
