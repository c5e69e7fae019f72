// The values of the golden checkpoints: the same for the program that writes
// them and for the tests that read them. Never change a value here: files in
// the repository hold it.

#ifndef BELAY_TESTS_GOLDEN_VALUES_H_
#define BELAY_TESTS_GOLDEN_VALUES_H_

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/state.h"

namespace belay::golden {

inline constexpr int64_t kSharedStep = 7;
inline constexpr int64_t kPerTaskStep = 100000008;
// Shared files, with at most so many bytes of a task in each.
inline constexpr int64_t kGroupsStep = 9;
inline constexpr int64_t kGroupBytes = 100;
// Chunks that pass filters.
inline constexpr int64_t kFiltersStep = 15;
// When all of them were saved: 2023-11-14 22:13:20Z.
inline constexpr int64_t kTime = 1700000000;

// One value of every element type, as small arrays.
struct Values {
  std::vector<Float16> f16 = {{0x3c00}, {0xc000}, {0x7bff}};  // 1, -2, 65504
  std::vector<BFloat16> bf16 = {{0x3f80}, {0x4049}};          // 1, 3.140625
  float f32[2][3] = {{0.5f, -1.25f, 3e38f}, {1e-40f, 0, -0.0f}};
  double f64 = 0.1;
  std::vector<Float8E4M3> f8e4m3 = {{0x38}, {0xfe}};
  std::vector<Float8E5M2> f8e5m2 = {{0x3c}, {0xc0}};
  std::vector<int8_t> i8 = {-128, 0, 127};
  std::vector<int16_t> i16 = {-32768, 32767};
  std::vector<int32_t> i32 = {INT32_MIN, -1, INT32_MAX};
  int64_t i64 = INT64_MIN;
  std::vector<uint8_t> u8 = {0, 255};
  uint16_t u16 = 65535;
  std::vector<uint32_t> u32 = {1, UINT32_MAX};
  std::vector<uint64_t> u64 = {UINT64_MAX, 2};
  bool flags[3] = {true, false, true};
  std::complex<float> c64 = {1.5f, -2.0f};
  std::vector<std::complex<double>> c128 = {{0, 1}, {-3.25, 1e300}};
  std::string text = "gr\xc3\xbc\xc3\x9f dich, belay";
  std::string nothing;
  double none = 0;  // stands for the elements of an array that has none

  // Adds all of them, replicated, in an order that is not that of the keys.
  void AddTo(State& state) {
    state.AddReplicated("types/u8", {2}, AtAddress(u8.data()));
    state.AddReplicated("types/f16", {3}, AtAddress(f16.data()));
    state.AddReplicated("types/bf16", {2, 1}, AtAddress(bf16.data()));
    state.AddReplicated("types/f32", {2, 3}, AtAddress(&f32[0][0]));
    state.Add("types/f64", f64);
    state.AddReplicated("types/f8e4m3", {2}, AtAddress(f8e4m3.data()));
    state.AddReplicated("types/f8e5m2", {2}, AtAddress(f8e5m2.data()));
    state.AddReplicated("types/i8", {3}, AtAddress(i8.data()));
    state.AddReplicated("types/i16", {1, 2, 1}, AtAddress(i16.data()));
    state.AddReplicated("types/i32", {3}, AtAddress(i32.data()));
    state.Add("types/i64", i64);
    state.Add("types/u16", u16);
    state.AddReplicated("types/u32", {2}, AtAddress(u32.data()));
    state.AddReplicated("types/u64", {2}, AtAddress(u64.data()));
    state.AddReplicated("types/bool", {3}, AtAddress(&flags[0]));
    state.Add("types/c64", c64);
    state.AddReplicated("types/c128", {2}, AtAddress(c128.data()));
    state.Add("text", text);
    state.Add("empty text", nothing);
    state.AddReplicated("none", {3, 0}, AtAddress(&none));
    state.Add("types", scalar_beside_group);
    state.Add("odd/100%/a@b", odd_key);
  }

  // A key that is the beginning of others, and one with special characters.
  int64_t scalar_beside_group = 17;
  int32_t odd_key = -5;
};

// The array "w", [6, 10]: element (r, c) is 10 r + c, and an i32.
inline constexpr int64_t kRows = 6, kColumns = 10;

// The piece of "w" that rank 0 or 1 of the writers holds: 6 or 4 columns.
inline Box PieceOfW(int rank) {
  return rank == 0 ? Box{{0, 0}, {kRows, 6}} : Box{{0, 6}, {kRows, 4}};
}

inline std::vector<int32_t> ValuesOfW(const Box& box) {
  std::vector<int32_t> values;
  for (int64_t r = 0; r < box.shape[0]; ++r) {
    for (int64_t c = 0; c < box.shape[1]; ++c) {
      values.push_back(static_cast<int32_t>(kColumns * (box.offset[0] + r) +
                                            box.offset[1] + c));
    }
  }
  return values;
}

}  // namespace belay::golden

#endif  // BELAY_TESTS_GOLDEN_VALUES_H_
