// Values that tests save and restore: every byte is known from its key, its
// place in the global array and a seed, so that any rank can check any box.

#ifndef BELAY_MPI_TESTS_VALUES_H_
#define BELAY_MPI_TESTS_VALUES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/extend/state.h"
#include "belay/save_restore.h"
#include "file_bytes.h"
#include "mpi_test.h"

namespace belay::testing {

// Byte `index` of the row-major bytes of a key's array.
inline char PatternByte(uint64_t key_seed, uint64_t index) {
  return static_cast<char>(((index + key_seed) * 2654435761U) >> 13);
}

inline uint64_t KeySeed(std::string_view key, uint64_t seed) {
  uint64_t sum = seed * 1000003;
  for (char c : key) sum = sum * 31 + static_cast<unsigned char>(c);
  return sum % 1000000007;
}

inline std::string PatternText(std::string_view key, int64_t bytes,
                               uint64_t seed) {
  std::string text(bytes, '\0');
  for (int64_t i = 0; i < bytes; ++i) {
    text[i] = PatternByte(KeySeed(key, seed), i);
  }
  return text;
}

// The pieces that one rank holds, with their memory.
class Values {
 public:
  void Add(std::string_view key, DType dtype, const Shape& shape,
           const Box& box, int64_t replica = 0, std::string layout = "") {
    pieces_.push_back(
        {std::string(key), dtype, shape, box, replica, std::move(layout), ""});
    pieces_.back().bytes.resize(DTypeSize(dtype) * NumElements(box.shape));
  }
  void AddWhole(std::string_view key, DType dtype, const Shape& shape) {
    Add(key, dtype, shape, WholeBox(shape), State::kReplicaIsRank);
  }
  void AddLaidOut(std::string_view key, DType dtype, const Shape& shape,
                  const Layout& layout, int rank) {
    Add(key, dtype, shape, *layout.LocalBox(shape, rank), layout.Replica(rank),
        layout.ToString());
  }
  // Cuts `axis` evenly over the ranks; a rank beyond its length has nothing.
  void AddCut(std::string_view key, DType dtype, const Shape& shape, int axis,
              int rank, int size) {
    const int64_t length = shape[axis];
    Box box = WholeBox(shape);
    box.offset[axis] = length * rank / size;
    box.shape[axis] = length * (rank + 1) / size - box.offset[axis];
    if (!IsEmpty(box)) Add(key, dtype, shape, box);
  }
  void AddText(std::string_view key, int64_t bytes) {
    Add(key, DType::kString, {}, {}, State::kReplicaIsRank);
    pieces_.back().bytes.resize(bytes);
  }

  // Gives every piece the values of that seed.
  void Fill(uint64_t seed) {
    for (Piece& piece : pieces_) {
      VisitBytes(piece, seed, [](char& at, char value) { at = value; });
    }
  }
  // Makes every byte wrong.
  void Spoil(uint64_t seed) {
    for (Piece& piece : pieces_) {
      VisitBytes(piece, seed, [](char& at, char v) { at = ~v; });
    }
  }
  // Counts the bytes that are not those of the seed.
  int64_t CountWrong(uint64_t seed) {
    int64_t wrong = 0;
    for (Piece& piece : pieces_) {
      VisitBytes(piece, seed,
                 [&](char& at, char value) { wrong += at != value; });
    }
    return wrong;
  }
  int64_t num_bytes() const {
    int64_t bytes = 0;
    for (const Piece& piece : pieces_) {
      bytes += static_cast<int64_t>(piece.bytes.size());
    }
    return bytes;
  }

  State MakeState() {
    State state;
    for (Piece& piece : pieces_) {
      const bool is_text = piece.dtype == DType::kString;
      AddShard(state, {.key = piece.key,
                       .dtype = piece.dtype,
                       .global_shape = piece.shape,
                       .box = piece.box,
                       .replica = piece.replica,
                       .data = is_text ? nullptr : piece.bytes.data(),
                       .text = is_text ? &piece.bytes : nullptr,
                       .layout = piece.layout});
    }
    return state;
  }

 private:
  struct Piece {
    std::string key;
    DType dtype;
    Shape shape;
    Box box;
    int64_t replica;
    std::string layout;
    std::string bytes;
  };

  // Visits all bytes of a piece with the values they should have, row by row.
  template <typename Visitor>
  static void VisitBytes(Piece& piece, uint64_t seed, Visitor visit) {
    const uint64_t key_seed = KeySeed(piece.key, seed);
    const char mask = static_cast<char>(piece.dtype == DType::kBool ? 1 : 255);
    const bool is_text = piece.dtype == DType::kString;
    const int64_t size = is_text ? 1 : DTypeSize(piece.dtype);
    const int64_t bytes = static_cast<int64_t>(piece.bytes.size());
    const bool flat = is_text || piece.box.shape.empty();
    const int64_t row = flat ? bytes : piece.box.shape.back() * size;
    for (int64_t at = 0; at < bytes; at += row) {
      const int64_t first = flat ? 0 : GlobalIndex(piece, at / size) * size;
      for (int64_t i = 0; i < row; ++i) {
        const char value = PatternByte(key_seed, first + i);
        visit(piece.bytes[at + i], static_cast<char>(value & mask));
      }
    }
  }

  // The row-major number in the array of element `i` of the box.
  static int64_t GlobalIndex(const Piece& piece, int64_t i) {
    int64_t index = 0;
    int64_t scale = 1;
    for (size_t axis = piece.shape.size(); axis-- > 0;) {
      const int64_t length = piece.box.shape[axis];
      index += (piece.box.offset[axis] + i % length) * scale;
      i /= length;
      scale *= piece.shape[axis];
    }
    return index;
  }

  std::deque<Piece> pieces_;  // references stay valid
};

// Sums over the ranks of MPI_COMM_WORLD.
inline int64_t SumOverRanks(int64_t mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}

// Whether every rank passed the same text.
inline bool IsSameEverywhere(const std::string& mine) {
  int bytes = static_cast<int>(mine.size());
  MPI_Bcast(&bytes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string first = mine;
  first.resize(bytes);
  MPI_Bcast(first.data(), bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  return SumOverRanks(first == mine ? 0 : 1) == 0;
}

// The names in a directory, sorted, joined by blanks.
inline std::string Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string joined;
  for (const std::string& name : names) {
    joined += (joined.empty() ? "" : " ") + name;
  }
  return joined;
}

// A directory and all ranks.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : comm_(*Comm::Duplicate(MPI_COMM_WORLD)) {}
  ~CheckpointTest() override { EXPECT_EQ(comm_.Close(), absl::OkStatus()); }

  // Expects that a restore of `values` gives those of `seed`.
  RestoreResult ExpectRestores(Values& values, std::optional<int64_t> step,
                               uint64_t seed) {
    values.Spoil(seed);
    const auto restored = Restore(comm_, run(), step, values.MakeState());
    EXPECT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(values.CountWrong(seed), 0);
    return restored.ok() ? *restored : RestoreResult{};
  }

  // Expects the same error on all ranks, with this text in it.
  void ExpectRefused(const Status& status, absl::StatusCode code,
                     const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
    EXPECT_TRUE(IsSameEverywhere(status.ToString())) << status;
  }

  std::string run() const { return dir_.File("run"); }
  std::string StepFile(int64_t step, const std::string& name) const {
    std::string digits = std::to_string(step);
    digits.insert(0, 8 - std::min<size_t>(8, digits.size()), '0');
    return run() + "/step_" + digits + (name.empty() ? "" : "/" + name);
  }

  ScratchDir dir_;
  Comm comm_;
  const int rank_ = WorldRank();
  const int size_ = WorldSize();
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_VALUES_H_
