// Variables that tests make: any rows for each component and any owners, with
// the dense array of the same values on every rank as an oracle.

#ifndef BELAY_MPI_TESTS_VARIABLES_H_
#define BELAY_MPI_TESTS_VARIABLES_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "belay/variable/sharded_variable_ops.h"
#include "values.h"

namespace belay::testing {

// The elements 0, 1, 2, ..
inline Tensor Iota(const Shape& shape) {
  Tensor tensor(DType::kI32, shape);
  int32_t next = 0;
  for (int32_t& value : tensor.values<int32_t>()) value = next++;
  return tensor;
}

inline std::vector<int32_t> Ints(const Tensor& tensor) {
  const auto values = tensor.values<int32_t>();
  return {values.begin(), values.end()};
}

inline bool SameTensor(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.num_bytes() == 0 ||
          std::memcmp(a.data(), b.data(), a.num_bytes()) == 0);
}

class VariableTest : public ::testing::Test {
 protected:
  VariableTest() : comm_(*Comm::Duplicate(MPI_COMM_WORLD)) {}
  ~VariableTest() override { EXPECT_EQ(comm_.Close(), absl::OkStatus()); }

  // A variable of the values of `dense`, in components of these rows, the i-th
  // on rank owners[i]; without owners dealt in turns.
  ShardedVariable Cut(const Tensor& dense, const std::vector<int64_t>& rows,
                      std::vector<int> owners = {}) {
    int64_t row_bytes = DTypeSize(dense.dtype());
    for (size_t axis = 1; axis < dense.shape().size(); ++axis) {
      row_bytes *= dense.shape()[axis];
    }
    auto memory = std::make_unique<std::byte[]>(dense.num_bytes() + 1);
    std::byte* next = memory.get();
    std::vector<Component> components;
    int64_t first = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      Component& component = components.emplace_back();
      component.first_row = first;
      component.num_rows = rows[i];
      component.owner =
          owners.empty() ? static_cast<int>(i) % size_ : owners[i];
      const int64_t bytes = rows[i] * row_bytes;
      if (component.owner == rank_ && bytes > 0) {
        component.data = next;
        std::memcpy(next, dense.data() + first * row_bytes, bytes);
        next += bytes;
      }
      first += rows[i];
    }
    EXPECT_EQ(first, dense.shape()[0]);
    return ShardedVariable("v", dense.dtype(), dense.shape(),
                           std::move(components), std::move(memory));
  }

  // The same with random components, some of them empty, on random ranks.
  // Equal draws on all ranks.
  ShardedVariable RandomCut(std::mt19937& random, const Tensor& dense) {
    std::vector<int64_t> rows(1 + random() % 6, 0);
    std::vector<int> owners;
    for (int64_t row = 0; row < dense.shape()[0]; ++row) {
      ++rows[random() % rows.size()];
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      owners.push_back(static_cast<int>(random() % size_));
    }
    return Cut(dense, rows, owners);
  }

  // Expects that the variable holds the values of `dense`.
  void ExpectHolds(const ShardedVariable& variable, const Tensor& dense) {
    const StatusOr<Tensor> found = ToTensor(comm_, variable);
    EXPECT_TRUE(found.ok()) << found.status();
    if (found.ok()) {
      EXPECT_TRUE(SameTensor(*found, dense));
    }
  }

  // Expects that all ranks got the same error, and that it is this one.
  void ExpectError(const Status& status, absl::StatusCode code,
                   const std::string& text) {
    EXPECT_TRUE(IsSameEverywhere(status.ToString())) << status;
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.ToString().find(text), std::string::npos) << status;
  }

  std::string RankText(int rank) const {
    return "[rank " + std::to_string(rank) + " of " + std::to_string(size_) +
           "]";
  }

  Comm comm_;
  const int rank_ = WorldRank();
  const int size_ = WorldSize();
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_VARIABLES_H_
