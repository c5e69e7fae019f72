// Structs whose fields are stored, and a state of them.

#ifndef BELAY_MPI_TESTS_RESTORE_STRUCTS_TESTING_H_
#define BELAY_MPI_TESTS_RESTORE_STRUCTS_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "belay/rows.h"
#include "belay/save_restore.h"
#include "values.h"

namespace belay::structs_test {

struct Vector {
  float x, y;

  friend bool operator==(const Vector&, const Vector&) = default;
};

// With padding behind `alive`, and a member that is not stored.
struct Particle {
  int64_t id = 0;
  double position[3] = {};
  bool alive = false;
  Vector velocity = {};
  int32_t neighbours = -1;  // not stored
  std::array<int16_t, 2> cell = {};

  bool SameFields(const Particle& other) const {
    return id == other.id &&
           std::equal(position, position + 3, other.position) &&
           alive == other.alive && velocity == other.velocity &&
           cell == other.cell;
  }
};

// The same fields in another order and memory.
struct Reordered {
  std::array<int16_t, 2> cell;
  Vector velocity;
  double unused;
  bool alive;
  double position[3];
  int64_t id;
};

// Some of the fields, and one that nobody has stored.
struct Lighter {
  double mass = 2.5;
  int64_t id = 0;
};

struct OtherType {
  int32_t id = 0;
};

// Packed: lies in memory as it is stored.
struct Sample {
  double value;
  float error;
  uint32_t count;

  friend bool operator==(const Sample&, const Sample&) = default;
};

// Stored as bytes; padding in the middle.
struct Opaque {
  char name = 0;
  double value = 0;
};

struct Twin {
  int32_t a = 1;
  int32_t b = 2;
};
struct Swapped {
  int32_t b = 0;
  int32_t a = 0;
};

inline constexpr int kLarge = 300'000;
struct Large {
  double values[kLarge];
};

struct Twice {
  int32_t a, b;
};

struct Together {
  int32_t a, b;
};

}  // namespace belay::structs_test

namespace belay {

using structs_test::Large;
using structs_test::Lighter;
using structs_test::Opaque;
using structs_test::OtherType;
using structs_test::Particle;
using structs_test::Reordered;
using structs_test::Sample;
using structs_test::Swapped;
using structs_test::Together;
using structs_test::Twice;
using structs_test::Twin;
using structs_test::Vector;

template <>
struct RowType<Vector> {
  static FieldsOf<Vector> Fields() {
    return {{"x", &Vector::x}, {"y", &Vector::y}};
  }
};
template <>
struct RowType<Particle> {
  static FieldsOf<Particle> Fields() {
    return {{"id", &Particle::id},
            {"position", &Particle::position},
            {"alive", &Particle::alive},
            {"velocity", &Particle::velocity},
            {"cell", &Particle::cell}};
  }
};
template <>
struct RowType<Reordered> {
  static FieldsOf<Reordered> Fields() {
    return {{"alive", &Reordered::alive},
            {"cell", &Reordered::cell},
            {"id", &Reordered::id},
            {"velocity", &Reordered::velocity},
            {"position", &Reordered::position}};
  }
};
template <>
struct RowType<Lighter> {
  static FieldsOf<Lighter> Fields() {
    return {{"mass", &Lighter::mass}, {"id", &Lighter::id}};
  }
};
template <>
struct RowType<OtherType> {
  static FieldsOf<OtherType> Fields() { return {{"id", &OtherType::id}}; }
};
template <>
struct RowType<Sample> {
  static FieldsOf<Sample> Fields() {
    return {{"value", &Sample::value},
            {"error", &Sample::error},
            {"count", &Sample::count}};
  }
};
template <>
struct RowType<Opaque> : StoredAsBytes<Opaque> {};
template <>
struct RowType<Twin> {
  static FieldsOf<Twin> Fields() { return {{"a", &Twin::a}, {"b", &Twin::b}}; }
};
template <>
struct RowType<Swapped> {
  static FieldsOf<Swapped> Fields() {
    return {{"b", &Swapped::b}, {"a", &Swapped::a}};
  }
};
template <>
struct RowType<Large> {
  static FieldsOf<Large> Fields() { return {{"values", &Large::values}}; }
};
template <>
struct RowType<Twice> {
  static FieldsOf<Twice> Fields() {
    return {{"a", &Twice::a}, {"a", &Twice::b}};
  }
};
template <>
struct RowType<Together> {
  static FieldsOf<Together> Fields() {
    return {{"a", &Together::a}, {"b", &Together::a}};
  }
};

namespace structs_test {

inline constexpr char kFields[] =
    "id:i64 position:f64[3] alive:bool velocity.x:f32 velocity.y:f32 "
    "cell:i16[2]";
inline constexpr int64_t kStoredBytes = 8 + 24 + 1 + 8 + 4;

// The particle that is the `id`th of all.
template <typename T = Particle>
T ParticleOf(int64_t id) {
  T one{};
  const auto value = static_cast<double>(id);
  one.id = id;
  for (int axis = 0; axis < 3; ++axis) one.position[axis] = value + 0.25 * axis;
  one.alive = id % 3 == 0;
  one.velocity = {static_cast<float>(-value), static_cast<float>(0.5 * value)};
  one.cell = {static_cast<int16_t>(id), static_cast<int16_t>(id - 7)};
  return one;
}

class StructsTest : public testing::CheckpointTest {
 protected:
  // Rank r has 3 + r particles, which go on over the ranks.
  static int64_t FirstOf(int rank) { return 3 * rank + rank * (rank - 1) / 2; }
  static std::vector<Particle> Particles(int rank) {
    std::vector<Particle> mine;
    for (int64_t id = FirstOf(rank); id < FirstOf(rank + 1); ++id) {
      mine.push_back(ParticleOf(id));
    }
    return mine;
  }

  template <typename T>
  static void ExpectParticles(const std::vector<T>& found, int64_t first,
                              int64_t count) {
    ASSERT_EQ(std::ssize(found), count);
    for (int64_t i = 0; i < count; ++i) {
      const auto& one = found[static_cast<size_t>(i)];
      Particle same = ParticleOf(0);
      same.id = one.id;
      std::copy(one.position, one.position + 3, same.position);
      same.alive = one.alive;
      same.velocity = one.velocity;
      same.cell = one.cell;
      EXPECT_TRUE(same.SameFields(ParticleOf(first + i))) << first + i;
    }
  }

  void SaveParticles(int64_t step, const SaveOptions& options = {}) {
    std::vector<Particle> particles = Particles(rank_);
    State state;
    state.AddRows("particles", particles);
    SaveOptions all = options;
    all.durable = false;
    testing::Ok(Save(comm_, run(), step, state, all));
  }

  template <typename T>
  void ExpectRestores(int64_t step, const RowsOptions<T>& options = {}) {
    std::vector<T> particles;
    State state;
    state.AddRows("particles", particles, options);
    testing::Ok(Restore(comm_, run(), step, state));
    ExpectParticles(particles, FirstOf(rank_), 3 + rank_);
  }

  template <typename T>
  Status RestoreAs(const RowsOptions<T>& options = {}) {
    std::vector<T> some;
    State state;
    state.AddRows("particles", some, options);
    return Restore(comm_, run(), 1, state).status();
  }
};

}  // namespace structs_test
}  // namespace belay

#endif  // BELAY_MPI_TESTS_RESTORE_STRUCTS_TESTING_H_
