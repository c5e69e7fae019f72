// RestoreValues: what a program restores that has nothing yet.

#include "belay/values/restore_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "values.h"

namespace belay::restore_values_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

const Shape kShape = {10, 6};

// Element i of the matrix is i.
float At(int64_t row, int64_t column) {
  return static_cast<float>(row * kShape[1] + column);
}

// A matrix that is cut by rows, a vector that all ranks have, and a text.
struct Model {
  explicit Model(const Comm& comm)
      : layout(Ok(Layout::Create(Ok(Mesh::Create({{"rows", comm.size()}})),
                                 {{"rows"}, {}}))),
        box(Ok(layout.LocalBox(kShape, comm.rank()))),
        matrix(static_cast<size_t>(NumElements(box.shape))) {
    for (size_t i = 0; i < matrix.size(); ++i) {
      matrix[i] = At(box.offset[0], 0) + static_cast<float>(i);
    }
  }

  void Track(Tracker& tracker) {
    tracker.Value("matrix", layout, kShape, matrix);
    tracker.Value("vector", vector);
    tracker.Value("text", text);
  }

  Layout layout;
  Box box;
  std::vector<float> matrix;
  std::vector<int32_t> vector = {3, -1, 300};
  std::string text = "held";
};

class RestoreValuesTest : public testing::CheckpointTest {
 protected:
  RestoreValuesTest() {
    Model model(comm_);
    Checkpoint checkpoint(comm_, model);
    Ok(checkpoint.Save(run()));
  }

  StatusOr<RestoredValues> Restore(
      const std::vector<ArrayRestoreArgsFor>& args) {
    return RestoreValues(comm_, run(), kLatestStep, args);
  }

  // The matrix as a rank holds it, 0 where nothing is stored.
  static void ExpectMatrix(const RestoredArray& array) {
    const std::span<const float> values = array.tensor.values<float>();
    size_t i = 0;
    for (int64_t r = 0; r < array.box.shape[0]; ++r) {
      for (int64_t c = 0; c < array.box.shape[1]; ++c) {
        const int64_t row = array.box.offset[0] + r;
        const int64_t column = array.box.offset[1] + c;
        const bool stored = row < kShape[0] && column < kShape[1];
        ASSERT_EQ(values[i++], stored ? At(row, column) : 0)
            << row << " " << column;
      }
    }
  }

  void ExpectError(const std::vector<ArrayRestoreArgsFor>& args,
                   absl::StatusCode code, const std::string& text) {
    const Status status = Restore(args).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const std::string matrix_ = "/.ATTRIBUTES/matrix";
  const std::string vector_ = "/.ATTRIBUTES/vector";
  const std::string text_ = "/.ATTRIBUTES/text";
};

TEST_F(RestoreValuesTest, MakesAllThatIsStored) {
  const RestoredValues values = Ok(Restore({}));
  EXPECT_EQ(values.result.step, 1);
  EXPECT_EQ(values.texts.at(text_), "held");
  const RestoredArray& matrix = values.arrays.at(matrix_);
  EXPECT_EQ(matrix.box, WholeBox(kShape));
  ExpectMatrix(matrix);
  EXPECT_THAT(values.arrays.at(vector_).tensor.values<int32_t>(),
              ElementsAre(3, -1, 300));
  EXPECT_TRUE(values.result.conversions.empty());
}

// A State keeps layouts as tracked objects do, and what arguments it was saved
// with.
TEST_F(RestoreValuesTest, LayoutsOfAStateAreStored) {
  Model model(comm_);
  State state;
  state.AddLaidOut("matrix", model.layout, kShape, rank_,
                   AtAddress(model.matrix.data()));
  state.Add("number", model.vector[0]);
  const SaveOptions options = {.args = {{"number", {.dtype = DType::kI8}}},
                               .durable = false};
  ASSERT_TRUE(Save(comm_, run(), 2, state, options).ok());
  const RestoredValues values =
      Ok(RestoreValues(comm_, run(), 2, {{".*", {.stored_layout = true}}}));
  EXPECT_EQ(values.arrays.at("matrix").box, model.box);
  ExpectMatrix(values.arrays.at("matrix"));
  const CheckpointReader reader = Ok(CheckpointReader::Open(StepFile(2, "")));
  EXPECT_EQ(Ok(reader.Find("matrix")).layout, model.layout.ToString());
  EXPECT_EQ(Ok(reader.Find("matrix")).args, "");
  EXPECT_EQ(Ok(reader.Find("number")).layout, "");
  EXPECT_EQ(Ok(reader.Find("number")).args, "dtype=i8");
}

TEST_F(RestoreValuesTest, CutsAndConvertsWhatIsAskedFor) {
  const Layout columns =
      Ok(Layout::Create(Ok(Mesh::Create({{"x", size_}})), {{}, {"x"}}));
  RestoredValues values = Ok(Restore({{matrix_, {.layout = columns}},
                                      {vector_, {.dtype = DType::kI8}},
                                      {".*", {.skip = true}}}));
  EXPECT_EQ(values.arrays.size(), 2u);
  EXPECT_TRUE(values.texts.empty());
  const RestoredArray& matrix = values.arrays.at(matrix_);
  EXPECT_EQ(matrix.box, Ok(columns.LocalBox(kShape, rank_)));
  ExpectMatrix(matrix);
  EXPECT_THAT(values.arrays.at(vector_).tensor.values<int8_t>(),
              ElementsAre(3, -1, 127));
  ASSERT_EQ(values.result.conversions.size(), 1u);
  EXPECT_EQ(values.result.conversions[0].stored_dtype, DType::kI32);
}

TEST_F(RestoreValuesTest, CutsAsItWasSaved) {
  const RestoredValues values = Ok(Restore({{".*", {.stored_layout = true}}}));
  const RestoredArray& matrix = values.arrays.at(matrix_);
  EXPECT_EQ(matrix.box, Model(comm_).box);
  ASSERT_TRUE(matrix.layout.has_value());
  ExpectMatrix(matrix);
  EXPECT_FALSE(values.arrays.at(vector_).layout.has_value());
}

// Saved on all ranks, restored on fewer: the axes are the same.
TEST_F(RestoreValuesTest, CutsAsItWasSavedOnAnotherNumberOfRanks) {
  const int fewer = (size_ + 1) / 2;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_ < fewer ? 0 : MPI_UNDEFINED, rank_,
                 &half);
  if (half != MPI_COMM_NULL) {
    {
      const Comm comm = Ok(Comm::Duplicate(half));
      const RestoredValues values = Ok(RestoreValues(
          comm, run(), kLatestStep, {{".*matrix", {.stored_layout = true}}}));
      const RestoredArray& matrix = values.arrays.at(matrix_);
      EXPECT_EQ(matrix.box, Model(comm).box);
      ExpectMatrix(matrix);
    }
    MPI_Comm_free(&half);
  }
}

// Orbax's test_padding and test_truncation.
TEST_F(RestoreValuesTest, PadsAndCutsOnlyIfNotStrict) {
  const Layout rows =
      Ok(Layout::Create(Ok(Mesh::Create({{"x", size_}})), {{"x"}, {}}));
  for (const Shape& shape :
       {Shape{13, 8}, Shape{4, 5}, Shape{13, 2}, Shape{1, 9}, Shape{0, 6}}) {
    ArrayRestoreArgs args{.global_shape = shape, .layout = rows};
    ExpectError({{matrix_, args}}, absl::StatusCode::kFailedPrecondition,
                "restore \"" + matrix_ + "\": the stored shape differs");
    args.strict = false;
    const RestoredValues values = Ok(Restore({{matrix_, args}}));
    const RestoredArray& matrix = values.arrays.at(matrix_);
    EXPECT_EQ(matrix.global_shape, shape);
    EXPECT_EQ(matrix.box, Ok(rows.LocalBox(shape, rank_)));
    ExpectMatrix(matrix);
    EXPECT_EQ(values.result.conversions.size(), 1u);
  }
}

TEST_F(RestoreValuesTest, RefusesTheSameOnAllRanks) {
  using Code = absl::StatusCode;
  ExpectError({{"matrix", {}}}, Code::kInvalidArgument,
              "args \"matrix\": matches no key (need one of 4)");
  ExpectError({{text_, {.dtype = DType::kF32}}}, Code::kInvalidArgument,
              "it is a text");
  ExpectError({{".*", {.dtype = DType::kString}}}, Code::kInvalidArgument,
              "does not convert");
  EXPECT_TRUE(absl::IsNotFound(RestoreValues(comm_, run(), 7, {}).status()));
  const Status args =
      RestoreValues(comm_, run(), 1, {}, {.args = {{".*", {.skip = true}}}})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(args)) << args;
  EXPECT_TRUE(testing::IsSameEverywhere(args.ToString()));
}

TEST_F(RestoreValuesTest, RanksThatDifferAreRefused) {
  if (size_ == 1) return;
  ArrayRestoreArgs args;
  args.skip = rank_ == 0;
  ExpectError({{".*", args}}, absl::StatusCode::kInvalidArgument,
              "the arguments of values");
}

}  // namespace
}  // namespace belay::restore_values_test
