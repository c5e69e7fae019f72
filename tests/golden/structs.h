// Structs in the golden checkpoints.

#ifndef BELAY_TESTS_GOLDEN_STRUCTS_H_
#define BELAY_TESTS_GOLDEN_STRUCTS_H_

#include <cstdint>
#include <vector>

#include "belay/rows.h"
#include "belay/state.h"

namespace belay::golden {

inline constexpr int64_t kStructsStep = 18;

struct Body {
  int64_t id = 0;
  double place[2] = {};
  bool is_fixed = false;
  float mass = 0;

  friend bool operator==(const Body&, const Body&) = default;
};

// Those of one rank.
inline std::vector<Body> Bodies(int rank) {
  std::vector<Body> bodies(rank == 0 ? 3 : 1);
  for (size_t i = 0; i < bodies.size(); ++i) {
    const auto value = static_cast<double>(10 * rank + static_cast<int>(i));
    bodies[i] = {.id = 1000 * rank + static_cast<int64_t>(i),
                 .place = {value, -value},
                 .is_fixed = i == 1,
                 .mass = static_cast<float>(0.5 * value)};
  }
  return bodies;
}

}  // namespace belay::golden

template <>
struct belay::RowType<belay::golden::Body> {
  static FieldsOf<golden::Body> Fields() {
    return {{"id", &golden::Body::id},
            {"place", &golden::Body::place},
            {"is_fixed", &golden::Body::is_fixed},
            {"mass", &golden::Body::mass}};
  }
};

#endif  // BELAY_TESTS_GOLDEN_STRUCTS_H_
