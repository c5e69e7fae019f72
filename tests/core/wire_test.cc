#include "core/wire.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "gtest/gtest.h"

namespace belay {
namespace wire_test {

enum class Color : uint8_t { kRed = 1, kBlue = 7 };

struct Inner {
  std::string name;
  std::optional<int64_t> step;

  friend bool operator==(const Inner&, const Inner&) = default;
};

template <typename Archive>
void Fields(Archive& archive, Inner& inner) {
  archive(inner.name, inner.step);
}

struct Outer {
  bool flag = false;
  Color color = Color::kRed;
  double number = 0;
  Shape shape;
  Box box;
  std::vector<Inner> inners;
  std::map<std::string, std::vector<int32_t>> map;
  std::pair<uint8_t, std::string> pair;

  friend bool operator==(const Outer&, const Outer&) = default;
};

template <typename Archive>
void Fields(Archive& archive, Outer& outer) {
  archive(outer.flag, outer.color, outer.number, outer.shape, outer.box,
          outer.inners, outer.map, outer.pair);
}

Outer Example() {
  return {.flag = true,
          .color = Color::kBlue,
          .number = -0.5,
          .shape = {2, 3},
          .box = {.offset = {1, 0}, .shape = {4, 5}},
          .inners = {{"a", 7}, {std::string("b\0c", 3), std::nullopt}},
          .map = {{"x", {1, 2}}, {"", {}}},
          .pair = {200, "end"}};
}

TEST(Fields, WritesAndReadsEveryKindOfField) {
  const Outer outer = Example();
  EXPECT_EQ(Decode<Outer>(Encode(outer)), outer);
  EXPECT_EQ(Decode<Outer>(Encode(Outer())), Outer());
}

TEST(Fields, ReadsNothingFromBytesThatEndEarlyOrLate) {
  const std::string bytes = Encode(Example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Decode<Outer>(std::string_view(bytes).substr(0, size)),
              std::nullopt)
        << size;
  }
  EXPECT_EQ(Decode<Outer>(bytes + '\0'), std::nullopt);
}

TEST(Fields, StopsAtTheEndWhateverANumberOfElementsSays) {
  const std::string bytes = Encode(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Decode<std::vector<std::string>>(bytes), std::nullopt);
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(Decode<Map>(bytes), std::nullopt);
}

}  // namespace wire_test
}  // namespace belay
