// Memory that lies elsewhere than when it was added.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "belay/arrays/layout.h"
#include "belay/extend/state.h"
#include "belay/sharded_variable.h"
#include "belay/state.h"
#include "state/array_access.h"

namespace belay::moved_memory_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Where the shards' elements begin now.
std::vector<const void*> Places(const State& state) {
  std::vector<const void*> places;
  for (Shard shard : state.shards()) {
    EXPECT_EQ(FindElements(shard), absl::OkStatus());
    places.push_back(shard.data);
  }
  return places;
}

// A container of the program that is no range of the library's.
class Field {
 public:
  explicit Field(int64_t length)
      : elements_(new double[static_cast<size_t>(length)]()), length_(length) {}
  double* begin() { return elements_.get(); }
  double* end() { return elements_.get() + length_; }
  const double* begin() const { return elements_.get(); }
  const double* end() const { return elements_.get() + length_; }

 private:
  std::unique_ptr<double[]> elements_;
  int64_t length_;
};

TEST(MovedMemoryTest, SwappedContainersAreFoundWhereTheyAreNow) {
  std::vector<double> u(12, 1), v(12, 2);
  Field f(6), g(6);
  State state;
  state.AddReplicated("u", {3, 4}, u);
  state.AddPiece("inner", {2}, {{0}, {2}}, {u, {.before = {5}}});
  state.AddLaidOut("laid", *Layout::Parse("[x] on x=1"), {12}, 0, u);
  state.AddFlatRange("",
                     {{.key = "a", .global_shape = {2}},
                      {.key = "b", .global_shape = {10}, .begin = 2}},
                     0, 12, u);
  state.Add("f", f);
  state.AddPerRank("own", f);
  state.AddRows("rows", f);
  EXPECT_EQ(state.status(), absl::OkStatus());
  for (int i = 0; i < 3; ++i) {
    const double* const p = u.data();
    double* const q = f.begin();
    EXPECT_THAT(Places(state), ElementsAre(p, p + 5, p, p, p + 2, q, q, q));
    std::swap(u, v);
    std::swap(f, g);
    EXPECT_NE(u.data(), p);
    EXPECT_NE(f.begin(), q);
  }
  // Rows may be more or fewer each time; nothing else of a fixed length may.
  f = Field(7);
  for (const Shard& shard : state.shards()) {
    if (shard.key == "f") {
      Shard changed = shard;
      EXPECT_THAT(std::string(FindElements(changed).message()),
                  HasSubstr("\"f\": its range has changed its length since it "
                            "was added (need 6 elements, found 7)"));
    } else if (shard.key == "rows") {
      Shard changed = shard;
      EXPECT_EQ(FindElements(changed), absl::OkStatus());
      EXPECT_EQ(changed.global_shape, Shape{7});
    }
  }
}

TEST(MovedMemoryTest, AFunctionIsAskedWhereTheElementsAreNow) {
  std::vector<double> memory(20);
  double* u = memory.data();
  double* v = u + 10;
  size_t length = 10;
  bool fails = false;
  State state;
  {
    const auto find = [&] {
      if (fails) throw std::runtime_error("no field");
      return std::span(u, length);
    };
    state.AddPiece("u", {10}, {{0}, {10}}, find);
    state.AddPiece("inner", {4, 2}, {{0, 0}, {4, 2}},
                   {find, {.before = {0, 0}, .after = {1, 0}}});
    state.AddFlatRange("flat/", {{.key = "", .global_shape = {10}}}, 4, 8,
                       [&] { return std::span(u + 4, 4); });
    state.AddReplicated(
        "all", {20}, [&]() -> auto& { return memory; });
    state.AddReplicated("fixed", {10}, std::span(u, 10));
    state.AddReplicated("address", {10}, AtAddress(u));
  }
  EXPECT_EQ(state.status(), absl::OkStatus());
  const double* const first = u;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Places(state),
                ElementsAre(u, u, u + 4, memory.data(), first, first));
    std::swap(u, v);
  }
  const State copy = state;
  state = {};
  EXPECT_EQ(Places(copy)[0], u);
  Shard shard = copy.shards()[0];
  length = 9;
  EXPECT_EQ(FindElements(shard).message(),
            "list \"u\": its range has changed its length since it was added "
            "(need 10 elements, found 9); make a new State for another length");
  fails = true;
  EXPECT_EQ(FindElements(shard).message(), "exception: no field");
}

TEST(MovedMemoryTest, ComponentsOfAVariableAreFoundWhereTheyAreNow) {
  const auto make = [](std::vector<int64_t> rows) {
    int64_t all = 0;
    for (const int64_t number : rows) all += number;
    auto memory = std::make_unique<std::byte[]>(static_cast<size_t>(all) * 8);
    std::vector<Component> components;
    int64_t first = 0;
    for (const int64_t number : rows) {
      components.push_back({.first_row = first,
                            .num_rows = number,
                            .data = memory.get() + first * 8});
      first += number;
    }
    return ShardedVariable("v", DType::kF32, {all, 2}, components,
                           std::move(memory));
  };
  ShardedVariable u = make({2, 3}), v = make({2, 3}), other = make({1, 4});
  State state;
  state.AddShardedVariable("u", u);
  for (int i = 0; i < 2; ++i) {
    std::byte* const first = u.components()[0].data;
    EXPECT_THAT(Places(state), ElementsAre(first, first + 16));
    std::swap(u, v);
    EXPECT_NE(u.components()[0].data, first);
  }
  std::swap(u, other);
  Shard shard = state.shards()[0];
  EXPECT_EQ(FindElements(shard).message(),
            "list \"u\": the object has no memory: was it moved from?");
}

TEST(MovedMemoryTest, AnAddressCanBeChanged) {
  std::vector<double> u(12), v(12);
  State state;
  state.AddPiece("x", {10}, {{0}, {10}},
                 {AtAddress(u.data()), {.before = {1}}});
  state.Add("container", u);
  EXPECT_EQ(state.shards()[0].data, u.data() + 1);
  SetAddress(state, 0, v.data());
  EXPECT_EQ(state.shards()[0].data, v.data() + 1);
  EXPECT_EQ(state.status(), absl::OkStatus());
  State null = state, container = state;
  SetAddress(null, 0, nullptr);
  EXPECT_EQ(null.status().message(), "add \"x\": the pointer is null");
  SetAddress(container, 1, v.data());
  EXPECT_EQ(container.status().message(),
            "add \"container\": it was not added by its address");
}

}  // namespace
}  // namespace belay::moved_memory_test
