// Sharded variables for tests, and what should become of them: dense arrays
// that every rank holds whole, changed by plain loops.

#ifndef BELAY_MPI_TESTS_SPARSE_ORACLE_H_
#define BELAY_MPI_TESTS_SPARSE_ORACLE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/sharded_variable.h"
#include "belay/variable/update_op.h"
#include "mpi_test.h"

namespace belay::testing {

class SparseTest : public ::testing::Test {
 protected:
  SparseTest() : comm_(*Comm::Duplicate(MPI_COMM_WORLD)) {}
  ~SparseTest() override { EXPECT_EQ(comm_.Close(), absl::OkStatus()); }

  // How the error of that rank ends.
  std::string RankOf(int rank) {
    return absl::StrCat(" [rank ", rank, " of ", WorldSize(), "]");
  }

  Comm comm_;
};

// How a variable is cut: rows and owner of each component.
struct Cut {
  std::vector<int64_t> rows;
  std::vector<int> owners;

  int64_t num_rows() const {
    int64_t sum = 0;
    for (int64_t some : rows) sum += some;
    return sum;
  }
  // The owner of a row, by walking.
  int OwnerOf(int64_t row) const {
    size_t component = 0;
    while (row >= rows[component]) row -= rows[component++];
    return owners[component];
  }
};

// Components of these rows, the first ones on rank 0.
inline Cut Dealt(std::vector<int64_t> rows) {
  Cut cut{.rows = std::move(rows), .owners = {}};
  const int64_t count = static_cast<int64_t>(cut.rows.size());
  for (int64_t i = 0; i < count; ++i) {
    cut.owners.push_back(static_cast<int>(i * WorldSize() / count));
  }
  return cut;
}

// Any number of components of any size, none included, on any ranks.
inline Cut RandomCut(std::mt19937& random) {
  Cut cut;
  const int count = 1 + static_cast<int>(random() % 9);
  const int64_t most = 1 + random() % 14;
  for (int i = 0; i < count; ++i) {
    cut.rows.push_back(random() % (most + 1));
    cut.owners.push_back(static_cast<int>(random() % WorldSize()));
  }
  return cut;
}

// A variable with the values of a dense tensor.
inline ShardedVariable MakeVariable(const Cut& cut, const Tensor& dense) {
  const int64_t rows = dense.shape()[0];
  EXPECT_EQ(rows, cut.num_rows());
  const int64_t row_bytes = rows == 0 ? 0 : dense.num_bytes() / rows;
  auto memory = std::make_unique<std::byte[]>(dense.num_bytes());
  std::byte* next = memory.get();
  std::vector<Component> components;
  int64_t row = 0;
  for (size_t i = 0; i < cut.rows.size(); ++i) {
    Component component{.first_row = row,
                        .num_rows = cut.rows[i],
                        .owner = cut.owners[i],
                        .data = nullptr};
    const int64_t size = component.num_rows * row_bytes;
    if (component.owner == WorldRank() && size > 0) {
      component.data = next;
      std::memcpy(next, dense.data() + row * row_bytes, size);
      next += size;
    }
    components.push_back(component);
    row += cut.rows[i];
  }
  return ShardedVariable("v", dense.dtype(), dense.shape(),
                         std::move(components), std::move(memory));
}

// Compares what this rank holds, byte for byte.
inline void ExpectHolds(const ShardedVariable& variable, const Tensor& dense) {
  const int64_t row_bytes = variable.RowBytes();
  for (const Component& component : variable) {
    if (component.data == nullptr) continue;
    EXPECT_EQ(std::memcmp(component.data,
                          dense.data() + component.first_row * row_bytes,
                          component.num_rows * row_bytes),
              0)
        << "rows from " << component.first_row << " differ on rank "
        << WorldRank();
  }
}

template <typename T>
inline constexpr bool kIsComplexNumber =
    std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, std::complex<double>>;

// A number whose sums, products and quotients are exact for a while.
template <typename T>
T RandomValue(std::mt19937& random) {
  const int value = static_cast<int>(random() % 9) - 4;
  if constexpr (std::is_same_v<T, bool>) {
    return value > 0;
  } else if constexpr (kIsComplexNumber<T>) {
    return T(value, static_cast<int>(random() % 5) - 2);
  } else {
    return static_cast<T>(value == 0 ? 5 : value);
  }
}

// A number to divide by.
template <typename T>
T RandomDivisor(std::mt19937& random) {
  if constexpr (kIsComplexNumber<T>) {
    return T(1 << random() % 3, 0);
  } else if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else {
    return static_cast<T>(1 + random() % 4);
  }
}

template <typename T>
Tensor RandomTensor(const Shape& shape, std::mt19937& random,
                    bool divisors = false) {
  Tensor tensor(DTypeOf<T>(), shape);
  for (T& value : tensor.values<T>()) {
    value = divisors ? RandomDivisor<T>(random) : RandomValue<T>(random);
  }
  return tensor;
}

// x after one update, in plain C++.
template <typename T>
T Updated(UpdateOp op, T x, T d) {
  if (op == UpdateOp::kUpdate) return d;
  if constexpr (!kIsComplexNumber<T>) {
    if (op == UpdateOp::kMin) return std::min(x, d);
    if (op == UpdateOp::kMax) return std::max(x, d);
  }
  if constexpr (std::is_integral_v<T>) {
    const uint64_t a = static_cast<uint64_t>(x);
    const uint64_t b = static_cast<uint64_t>(d);
    if (op == UpdateOp::kAdd) return static_cast<T>(a + b);
    if (op == UpdateOp::kSub) return static_cast<T>(a - b);
    if (op == UpdateOp::kMul) return static_cast<T>(a * b);
  } else {
    if (op == UpdateOp::kAdd) return x + d;
    if (op == UpdateOp::kSub) return x - d;
    if (op == UpdateOp::kMul) return x * d;
  }
  return static_cast<T>(x / d);
}

// Updates rows of a dense tensor, one after the other.
template <typename T>
void UpdateDense(UpdateOp op, const std::vector<int64_t>& indices,
                 const Tensor& rows, Tensor& dense) {
  if (indices.empty()) return;
  const int64_t row =
      rows.num_elements() / static_cast<int64_t>(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    for (int64_t k = 0; k < row; ++k) {
      T& x = dense.values<T>()[indices[i] * row + k];
      x = Updated<T>(op, x, rows.values<T>()[i * row + k]);
    }
  }
}

// 0, 1, 2, ... from `first`, as f32.
inline Tensor Counting(const Shape& shape, float first = 0) {
  Tensor tensor(DType::kF32, shape);
  for (float& value : tensor.values<float>()) value = first++;
  return tensor;
}

inline Tensor Ones(const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  for (float& value : tensor.values<float>()) value = 1;
  return tensor;
}

// Indices as a tensor of either type.
inline Tensor IndexTensor(const std::vector<int64_t>& indices, bool wide) {
  const Shape shape{static_cast<int64_t>(indices.size())};
  if (wide) return Tensor::Of<int64_t>(shape, indices);
  const std::vector<int32_t> narrow(indices.begin(), indices.end());
  return Tensor::Of<int32_t>(shape, narrow);
}

inline std::vector<int64_t> RandomIndices(int64_t num_rows, int64_t most,
                                          std::mt19937& random) {
  std::vector<int64_t> indices(num_rows == 0 ? 0 : random() % (most + 1));
  for (int64_t& index : indices) index = random() % num_rows;
  return indices;
}

// What this rank sends if each rank asks for the rows of `asked`: 8 bytes for
// each different row that it lacks, and the rows that others lack.
inline int64_t BytesToAskAndAnswer(
    const Cut& cut, const std::vector<std::vector<int64_t>>& asked,
    int64_t row_bytes) {
  int64_t bytes = 0;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    const std::set<int64_t> different(asked[rank].begin(), asked[rank].end());
    for (int64_t row : different) {
      const int owner = cut.OwnerOf(row);
      if (owner == rank) continue;
      if (rank == WorldRank()) bytes += 8;
      if (owner == WorldRank()) bytes += row_bytes;
    }
  }
  return bytes;
}

// TensorFlow's example: components [[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9,
// 10]].
inline ShardedVariable Example() {
  return MakeVariable(
      Dealt({2, 2, 1}),
      Tensor::Of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

// The values of a result that has to be there.
template <typename T = float>
std::vector<T> ValuesOf(const StatusOr<Tensor>& tensor) {
  EXPECT_EQ(tensor.status(), absl::OkStatus());
  if (!tensor.ok()) return {};
  return {tensor->values<T>().begin(), tensor->values<T>().end()};
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_SPARSE_ORACLE_H_
