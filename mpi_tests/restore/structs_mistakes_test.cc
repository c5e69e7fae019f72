// Structs that are not those that are stored, or have wrong fields.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/rows.h"
#include "belay/save_restore.h"
#include "restore/structs_testing.h"
#include "values.h"

namespace belay {
namespace structs_test {
namespace {

using testing::Ok;

TEST_F(StructsTest, OtherFieldsAreAnErrorUnlessTheRuleSaysSo) {
  SaveParticles(1);
  ExpectRefused(RestoreAs<Lighter>(), absl::StatusCode::kFailedPrecondition,
                "not stored: mass:f64; only stored: position:f64[3]");
  ExpectRefused(RestoreAs<Lighter>(), absl::StatusCode::kFailedPrecondition,
                "kByName");
  ExpectRefused(RestoreAs<OtherType>({.other_fields = OtherFields::kByName}),
                absl::StatusCode::kFailedPrecondition,
                "id:i64 in place of id:i32");
  ExpectRefused(RestoreAs<Sample>({.other_fields = OtherFields::kByName}),
                absl::StatusCode::kFailedPrecondition, "other fields");
  ExpectRefused(RestoreAs<Opaque>(), absl::StatusCode::kFailedPrecondition,
                "16 bytes without fields");
  ExpectRefused(RestoreAs<double>(), absl::StatusCode::kFailedPrecondition,
                "particles");

  std::vector<Lighter> some;
  State state;
  state.AddRows<std::vector<Lighter>>("particles", some,
                                      {.other_fields = OtherFields::kByName});
  Ok(Restore(comm_, run(), 1, state));
  ASSERT_EQ(std::ssize(some), 3 + rank_);
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].id, FirstOf(rank_) + static_cast<int64_t>(i));
    EXPECT_EQ(some[i].mass, 2.5);
  }
}

TEST_F(StructsTest, BadFieldsAreErrors) {
  const auto save = [&]<typename T>(std::vector<T> rows,
                                    const RowsOptions<T>& options) {
    State state;
    state.AddRows("p", rows, options);
    return Save(comm_, run(), 1, state).status();
  };
  ExpectRefused(save(std::vector<Twice>(2), {}),
                absl::StatusCode::kInvalidArgument,
                "\"p\": its structs: field \"a\" appears twice");
  ExpectRefused(save(std::vector<Together>(2), {}),
                absl::StatusCode::kInvalidArgument,
                "fields \"a\" and \"b\" lie in the same memory");
  ExpectRefused(save(std::vector<Sample>(2), {.row = {2}}),
                absl::StatusCode::kInvalidArgument, "`row` stays empty");
  if (size_ < 2) return;
  std::vector<Sample> samples(2);
  std::vector<Opaque> opaque(2);
  State state;
  if (rank_ == 0) {
    state.AddRows("p", samples);
  } else {
    state.AddRows("p", opaque);
  }
  ExpectRefused(Save(comm_, run(), 1, state).status(),
                absl::StatusCode::kInvalidArgument,
                "rank 0 has structs of value:f64 error:f32 count:u32");
}

// By name also where nothing can be resized, and something else is.
TEST_F(StructsTest, OtherFieldsInRangesThatKeepTheirLength) {
  std::vector<double> other = {1, 2, 3};
  std::vector<Particle> all;
  std::vector<int64_t> ids;
  for (int64_t id = rank_; id < 20; id += size_) {
    ids.push_back(id);
    all.push_back(ParticleOf(id));
  }
  Particle own = ParticleOf(rank_);
  State state;
  state.AddPerRank("own", own);
  state.AddRowsById("cells", ids, all);
  state.Add("other", other);
  Ok(Save(comm_, run(), 1, state));

  Lighter found;
  std::array<Lighter, 2> cells;
  other.clear();
  ids = {7, 3};
  State by_name;
  by_name.AddPerRank("own", found, {.other_fields = OtherFields::kByName});
  by_name.AddRowsById("cells", ids, cells,
                      {.other_fields = OtherFields::kByName});
  by_name.Add("other", other);
  Ok(Restore(comm_, run(), 1, by_name));
  EXPECT_EQ(found.id, rank_);
  EXPECT_EQ(cells[0].id, 7);
  EXPECT_EQ(cells[1].id, 3);
  EXPECT_EQ(cells[1].mass, 2.5);
  EXPECT_EQ(other.size(), 3);
}

// What is not stored is neither another row's nor another rank's.
TEST_F(StructsTest, OwnersGetFieldsOnly) {
  SaveParticles(1);
  std::vector<Particle> mine(2);
  for (Particle& one : mine) one.neighbours = 100 + rank_;
  State state;
  const int last = size_ - 1;
  state.AddRows<std::vector<Particle>>(
      "particles", mine, {.owner = [last](const Particle&) { return last; }});
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(std::ssize(mine), rank_ == last ? FirstOf(size_) : 0);
  for (const Particle& one : mine) {
    EXPECT_EQ(one.neighbours, -1);
  }
  if (size_ < 2) return;
  std::vector<Twin> first;
  std::vector<Swapped> second;
  State saved;
  first.resize(3);
  saved.AddRows("twins", first);
  Ok(Save(comm_, run(), 2, saved));
  State other;
  if (rank_ == 0) {
    other.AddRows<std::vector<Twin>>("twins", first,
                                     {.owner = [](const Twin&) { return 1; }});
  } else {
    other.AddRows<std::vector<Swapped>>(
        "twins", second, {.owner = [](const Swapped&) { return 1; }});
  }
  Ok(Restore(comm_, run(), 2, other));
  for (const Swapped& one : second) {
    EXPECT_EQ(one.a, 1);
    EXPECT_EQ(one.b, 2);
  }
}

TEST_F(StructsTest, NumbersAreNoStructs) {
  std::vector<std::array<double, 16>> numbers(2);
  State state;
  state.AddRows("n", numbers);
  Ok(Save(comm_, run(), 1, state));
  std::vector<Opaque> opaque;
  State other;
  other.AddRows("n", opaque);
  ExpectRefused(
      Restore(comm_, run(), 1, other, {.allow_dtype_cast = true}).status(),
      absl::StatusCode::kFailedPrecondition, "no structs are stored");
}

// One that is larger than what is written at once, and than a usual chunk.
TEST_F(StructsTest, LargeOnes) {
  std::vector<Large> large(2), found;
  for (Large& one : large) std::iota(one.values, one.values + kLarge, rank_);
  State state;
  state.AddRows("large", large);
  State restored;
  restored.AddRows("large", found);
  int64_t step = 0;
  for (const Transfer transfer :
       {Transfer::kIndependent, Transfer::kHdf5, Transfer::kTwoPhase}) {
    Ok(Save(comm_, run(), ++step, state,
            {.transfer = transfer, .max_bytes_in_flight = 4096}));
    Ok(Restore(comm_, run(), step, restored, {.max_bytes_in_flight = 4096}));
    ASSERT_EQ(found.size(), 2);
    EXPECT_EQ(found[1].values[kLarge - 1], large[1].values[kLarge - 1]);
  }
  Ok(Save(comm_, run(), ++step, state,
          {.args = {{"large", {.filters = Deflate(1)}}}}));
  Ok(Restore(comm_, run(), step, restored));
  EXPECT_EQ(found[0].values[1], large[0].values[1]);
}

}  // namespace
}  // namespace structs_test
}  // namespace belay
