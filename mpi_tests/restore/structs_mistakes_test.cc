// Structs that are not those that are stored, or have wrong fields.

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
                "\"p\": its structs: field \"a\" is there twice");
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

}  // namespace
}  // namespace structs_test
}  // namespace belay
