// Wrong input: every rank gets the same code and words, nothing is left behind,
// HDF5 prints nothing, and the step before still restores.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/extend/state.h"
#include "values.h"

namespace belay::bad_input_test {
namespace {

using testing::IsSameEverywhere;
using testing::Names;
using testing::Values;

// What this process prints to stderr while it lives.
class CapturedStderr {
 public:
  explicit CapturedStderr(std::string path) : path_(std::move(path)) {
    kept_ = dup(STDERR_FILENO);
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  std::string Stop() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    return testing::FileBytes(path_);
  }

 private:
  std::string path_;
  int kept_;
};

class BadInputTest : public testing::CheckpointTest {
 protected:
  void SetUp() override {
    good_.AddCut("good", DType::kF32, {50}, 0, rank_, size_);
    good_.AddText("text", 20);
    good_.Fill(1);
    const auto saved = Save(comm_, run(), 1, good_.MakeState());
    ASSERT_TRUE(saved.ok()) << saved.status();
  }

  std::string By(int rank) {
    return absl::StrCat(" [rank ", rank, " of ", size_, "]");
  }

  // Expects that all ranks got that Status, and that nothing else happened.
  void ExpectRefused(const Status& found, const Status& need) {
    EXPECT_EQ(found, need);
    EXPECT_TRUE(IsSameEverywhere(found.ToString()));
    if (rank_ == 0) {
      EXPECT_EQ(Names(run()), "step_00000001");
    }
    ExpectRestores(good_, 1, 1);
  }

  Status SaveQuietly(const std::string& dir, int64_t step, const State& state,
                     const SaveOptions& options = {}) {
    CapturedStderr captured(dir_.File(absl::StrCat("stderr", rank_)));
    const Status status = Save(comm_, dir, step, state, options).status();
    EXPECT_EQ(captured.Stop(), "");
    return status;
  }

  void ExpectSaveRefused(const State& state, const Status& need) {
    ExpectRefused(SaveQuietly(run(), 2, state), need);
    PlanCache cache;
    ExpectRefused(SaveQuietly(run(), 2, state, {.cache = &cache}), need);
  }

  void ExpectRestoreRefused(std::optional<int64_t> step, const State& state,
                            const Status& need) {
    CapturedStderr captured(dir_.File(absl::StrCat("stderr", rank_)));
    const Status status = Restore(comm_, run(), step, state).status();
    EXPECT_EQ(captured.Stop(), "");
    ExpectRefused(status, need);
  }

  bool is_last() { return rank_ == size_ - 1; }

  Values good_;
};

TEST_F(BadInputTest, RanksDisagreeOnTheArguments) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const State state = good_.MakeState();
  const auto differs = [&](const std::string& what,
                           std::string has = "another value than rank 0") {
    return absl::InvalidArgumentError(
        absl::StrCat("save: ", what, " differs between ranks: rank ", size_ - 1,
                     " of ", size_, " has ", has, By(size_ - 1)));
  };
  ExpectRefused(SaveQuietly(run(), is_last() ? 3 : 2, state),
                differs("the step", "3, rank 0 has 2"));
  const std::string both = "\"" + run() + "x\", rank 0 has \"" + run() + "\"";
  ExpectRefused(SaveQuietly(is_last() ? run() + "x" : run(), 2, state),
                differs("the directory", both));
  EXPECT_FALSE(std::filesystem::exists(run() + "x"));
  ExpectRefused(SaveQuietly(run(), 2, state, {.checksums = !is_last()}),
                differs("the option checksums"));
  ExpectRefused(SaveQuietly(run(), 2, state,
                            {.file_layout = is_last() ? FileLayout::kPerTask
                                                      : FileLayout::kShared}),
                differs("the option file_layout"));
}

TEST_F(BadInputTest, RanksDisagreeOnAKey) {
  float values[6] = {};
  const int64_t last = size_ - 1;
  const auto plan = [&](const std::string& cause) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan \"a\": ", cause, By(0)));
  };
  if (size_ > 1) {
    State dtype;
    if (is_last()) {
      dtype.AddReplicated("a", {6}, AtAddress(values, DType::kI32));
    } else {
      dtype.AddReplicated("a", {6}, values);
    }
    ExpectSaveRefused(
        dtype, plan(absl::StrCat("ranks disagree on the dtype (rank 0 has f32, "
                                 "rank ",
                                 last, " has i32)")));
    State shape;
    shape.AddReplicated("a", is_last() ? Shape{2, 3} : Shape{6}, values);
    ExpectSaveRefused(
        shape, plan(absl::StrCat("ranks disagree on the shape (rank 0 has [6], "
                                 "rank ",
                                 last, " has [2, 3])")));
    std::string text = is_last() ? "longer" : "short";
    State length;
    length.Add("a", text);
    ExpectSaveRefused(
        length,
        plan(absl::StrCat("ranks disagree on the text length (rank 0 has 5, "
                          "rank ",
                          last, " has 6)")));
  }
  State gap;
  if (!is_last() || size_ == 1) {
    gap.AddPiece("a", {size_ + 1}, {{rank_}, {1}}, values);
  }
  const int64_t held = std::max<int64_t>(1, last);
  ExpectSaveRefused(gap, plan(absl::StrCat("no rank holds box \"", held, ",",
                                           size_ + 1 - held, "\" (need ",
                                           size_ + 1, " elements of shape [",
                                           size_ + 1, "], found ", held, ")")));
}

TEST_F(BadInputTest, BoxesThatDoNotFit) {
  float values[16] = {};
  const auto refused = [&](absl::StatusCode code, const std::string& cause) {
    return Status(code, absl::StrCat("plan \"a\": ", cause, By(0)));
  };
  State overlap;
  if (rank_ == 0) overlap.AddPiece("a", {4}, {{0}, {3}}, values);
  if (is_last()) overlap.AddPiece("a", {4}, {{2}, {2}}, values);
  ExpectSaveRefused(
      overlap, refused(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("shards overlap: box \"0,3\" of rank 0 and "
                                    "box \"2,2\" of rank ",
                                    size_ - 1,
                                    "; leave ghost cells out: a MemoryLayout "
                                    "describes a box in larger memory")));
  State twice;
  if (rank_ == 0) twice.AddPiece("a", {4}, {{0}, {4}}, values);
  if (is_last()) twice.AddPiece("a", {4}, {{0}, {4}}, values);
  ExpectSaveRefused(
      twice,
      refused(absl::StatusCode::kInvalidArgument,
              size_ == 1
                  ? "the key was added twice: box \"0,4\" of rank 0, "
                    "both times as replica 0"
                  : absl::StrCat(
                        "shards overlap: box \"0,4\" of rank 0 "
                        "and of rank ",
                        size_ - 1,
                        ", both replica 0; give each replica its own number")));
  State outside;
  if (is_last()) outside.AddPiece("a", {2, 4}, {{1, 2}, {1, 3}}, values);
  const Status cause = CheckBox({{1, 2}, {1, 3}}, {2, 4});
  EXPECT_TRUE(absl::IsOutOfRange(cause));
  ExpectSaveRefused(outside,
                    refused(absl::StatusCode::kOutOfRange,
                            absl::StrCat("rank ", size_ - 1, ": ",
                                         std::string(cause.message()))));
  State axes;
  if (is_last()) axes.AddPiece("a", {2, 4}, {{1}, {1}}, values);
  EXPECT_TRUE(absl::IsInvalidArgument(SaveQuietly(run(), 2, axes)));
  State huge;
  huge.AddReplicated("a", {int64_t{1} << 40, int64_t{1} << 40}, values);
  EXPECT_TRUE(absl::IsInvalidArgument(SaveQuietly(run(), 2, huge)));
  if (rank_ == 0) {
    EXPECT_EQ(Names(run()), "step_00000001");
  }
}

TEST_F(BadInputTest, ValuesThatStateRemembers) {
  float value = 0;
  State null;
  null.AddReplicated("good", {2}, AtAddress(is_last() ? nullptr : &value));
  ExpectSaveRefused(null,
                    absl::InvalidArgumentError(absl::StrCat(
                        "add \"good\": the pointer is null", By(size_ - 1))));
  ExpectRestoreRefused(
      1, null,
      absl::InvalidArgumentError(
          absl::StrCat("add \"good\": the pointer is null", By(size_ - 1))));
  State no_text;
  no_text.Add<std::string>("text", nullptr);
  ExpectSaveRefused(no_text, absl::InvalidArgumentError(absl::StrCat(
                                 "add \"text\": the pointer is null", By(0))));
  State unknown;
  AddShard(unknown, {.key = "a",
                     .dtype = static_cast<DType>(99),
                     .replica = State::kReplicaIsRank,
                     .data = &value});
  ExpectSaveRefused(unknown,
                    absl::InvalidArgumentError(absl::StrCat(
                        "add \"a\": unknown dtype (found number 99)", By(0))));
}

TEST_F(BadInputTest, Keys) {
  float value = 0;
  State empty;
  empty.Add("", value);
  ExpectSaveRefused(empty,
                    absl::InvalidArgumentError(absl::StrCat(
                        "plan \"\": a key must not be empty or hold a NUL byte "
                        "(listed by rank 0)",
                        By(0))));
  State nul;
  nul.Add(std::string_view("a\0b", 3), value);
  ExpectSaveRefused(
      nul, absl::InvalidArgumentError(absl::StrCat(
               "plan \"a\\000b\": a key must not be empty or hold a NUL byte "
               "(listed by rank 0)",
               By(0))));
}

TEST_F(BadInputTest, Numbers) {
  const State state = good_.MakeState();
  ExpectRefused(SaveQuietly(run(), -1, state),
                absl::InvalidArgumentError(absl::StrCat(
                    "save \"", run(), "\": step is out of range (need 0 to ",
                    INT64_MAX, ", found -1)", By(0))));
  for (int64_t bytes :
       {int64_t{0}, int64_t{-5}, int64_t{4095}, (int64_t{1} << 30) + 1}) {
    ExpectRefused(SaveQuietly(run(), 2, state, {.max_bytes_in_flight = bytes}),
                  absl::InvalidArgumentError(absl::StrCat(
                      "save \"", run(),
                      "\": max_bytes_in_flight is out of range (need 4096 to "
                      "1073741824, found ",
                      bytes, ")", By(0))));
  }
  ExpectRestoreRefused(
      -2, state,
      absl::InvalidArgumentError(absl::StrCat(
          "restore \"", run(), "\": step is out of range (need 0 to ",
          INT64_MAX, ", found -2); the newest one is kLatestStep", By(0))));
  // The step before the first is not the newest.
  ExpectRestoreRefused(
      0 - 1, state,
      absl::InvalidArgumentError(absl::StrCat(
          "restore \"", run(), "\": step is out of range (need 0 to ",
          INT64_MAX, ", found -1); the newest one is kLatestStep", By(0))));
}

// What is no time to wait would be taken for no limit.
TEST_F(BadInputTest, Deadlines) {
  const State state = good_.MakeState();
  for (const double seconds : {-1.0, -HUGE_VAL, double{NAN}}) {
    const std::string rest = absl::StrFormat(
        "deadline_seconds is out of range (need at least 0, "
        "found %g)%s",
        seconds, By(0));
    ExpectRefused(SaveQuietly(run(), 2, state, {.deadline_seconds = seconds}),
                  absl::InvalidArgumentError(
                      absl::StrCat("save \"", run(), "\": ", rest)));
    ExpectRefused(
        Restore(comm_, run(), 1, state, {.deadline_seconds = seconds}).status(),
        absl::InvalidArgumentError(
            absl::StrCat("restore \"", StepFile(1, ""), "\": ", rest)));
  }
}

TEST_F(BadInputTest, UnknownEnumerators) {
  const State state = good_.MakeState();
  ExpectRefused(
      SaveQuietly(run(), 2, state, {.file_layout = FileLayout{9}}),
      absl::InvalidArgumentError(absl::StrCat(
          "save \"", run(),
          "\": file_layout is out of range (need 0 to 2, found 9)", By(0))));
}

// Without a communicator nothing can be agreed: no rank number at the end.
TEST_F(BadInputTest, AClosedCommunicator) {
  const State state = good_.MakeState();
  Comm closed = *Comm::Duplicate(MPI_COMM_WORLD);
  EXPECT_EQ(closed.Close(), absl::OkStatus());
  EXPECT_EQ(Save(closed, "run", 1, state).status(),
            absl::FailedPreconditionError("save \"run\": the communicator is "
                                          "closed or was moved from"));
  EXPECT_EQ(Restore(closed, "run", 1, state).status(),
            absl::FailedPreconditionError("restore \"run\": the communicator "
                                          "is closed or was moved from"));
}

TEST_F(BadInputTest, Directories) {
  const State state = good_.MakeState();
  ExpectRefused(SaveQuietly(dir_.File("no/such"), 2, state),
                absl::NotFoundError(
                    absl::StrCat("create directory \"", dir_.File("no/such"),
                                 "\": no such file or directory; make \"",
                                 dir_.File("no"), "\" first", By(0))));
  ExpectRefused(
      SaveQuietly(run(), 1, state),
      absl::AlreadyExistsError(absl::StrCat(
          "save \"", StepFile(1, ""),
          "\": the step is committed already; choose another number or set "
          "SaveOptions.overwrite",
          By(0))));
  if (rank_ == 0) testing::PutFile(dir_.File("file"), "");
  MPI_Barrier(MPI_COMM_WORLD);
  const Status in_file = SaveQuietly(dir_.File("file"), 2, state);
  EXPECT_FALSE(in_file.ok());
  EXPECT_TRUE(IsSameEverywhere(in_file.ToString()));
  ExpectRestoreRefused(9, state,
                       absl::NotFoundError(absl::StrCat(
                           "restore \"", StepFile(9, ""),
                           "\": no such step; the only step is 1", By(0))));
  const std::string inside = StepPath(StepPath(run(), 1), 9);
  ExpectRefused(
      Restore(comm_, StepPath(run(), 1), 9, state).status(),
      absl::NotFoundError(absl::StrCat(
          "restore \"", inside, "\": no such step; \"", StepPath(run(), 1),
          "\" is a step itself, which kLatestStep takes", By(0))));
  const Status none = Restore(comm_, dir_.File("none"), {}, state).status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_TRUE(IsSameEverywhere(none.ToString()));
}

TEST_F(BadInputTest, WantsThatAreNotStored) {
  double values[60] = {};
  const auto refused = [&](absl::StatusCode code, const std::string& cause) {
    return Status(code, absl::StrCat("restore \"", StepFile(1, ""),
                                     "\": plan \"", cause, By(0)));
  };
  State absent;
  absent.Add("gone", values[0]);
  if (is_last()) absent.Add("also gone", values[1]);
  ExpectRestoreRefused(
      1, absent,
      refused(absl::StatusCode::kNotFound,
              "gone\": key is not in the checkpoint (wanted by rank 0; 2 "
              "wanted keys are absent, the checkpoint has 2); close to it: "
              "\"good\"; set RestoreOptions.missing to kIgnore if values may "
              "keep what "
              "they have"));
  State dtype;
  if (is_last()) dtype.AddReplicated("good", {50}, values);
  ExpectRestoreRefused(
      1, dtype,
      refused(absl::StatusCode::kFailedPrecondition,
              absl::StrCat("good\": the stored dtype differs (need f64, found "
                           "f32; wanted by rank ",
                           size_ - 1, "); allow_dtype_cast converts it")));
  State shape;
  float* const floats = reinterpret_cast<float*>(values);
  if (is_last()) shape.AddReplicated("good", {60}, AtAddress(floats));
  ExpectRestoreRefused(
      1, shape,
      refused(absl::StatusCode::kFailedPrecondition,
              absl::StrCat("good\": the stored shape differs (need [60], found "
                           "[50]; wanted by rank ",
                           size_ - 1,
                           "); allow_shape_mismatch restores what both have "
                           "in common")));
  State text;
  text.Add("text", values[0]);
  ExpectRestoreRefused(1, text,
                       refused(absl::StatusCode::kFailedPrecondition,
                               "text\": the stored dtype differs (need f64, "
                               "found string; wanted by rank 0)"));
}

TEST_F(BadInputTest, RestoringRanksDisagree) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const State state = good_.MakeState();
  ExpectRestoreRefused(
      is_last() ? std::optional<int64_t>() : 1, state,
      absl::InvalidArgumentError(absl::StrCat(
          "restore: the step differs between ranks: rank ", size_ - 1, " of ",
          size_, " has another value than rank 0", By(size_ - 1))));
}

}  // namespace
}  // namespace belay::bad_input_test
