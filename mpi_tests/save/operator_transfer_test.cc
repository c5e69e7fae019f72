// BELAY_TRANSFER: rank 0 has it when a communicator is duplicated, and every
// save with that one follows, whatever its options say.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "belay/async_saver.h"
#include "values.h"

namespace belay::operator_transfer_test {
namespace {

using testing::Ok;

class OperatorTransferTest : public testing::CheckpointTest {
 protected:
  OperatorTransferTest() {
    state_.AddReplicated("w", {24}, whole_);
    options_.transfer = Transfer::kIndependent;
    options_.durable = false;
  }
  ~OperatorTransferTest() override { unsetenv("BELAY_TRANSFER"); }

  // A communicator of a job where rank 0 has this value, and others another.
  Comm CommWith(const std::string& value) {
    setenv("BELAY_TRANSFER", rank_ == 0 ? value.c_str() : "nonsense", 1);
    return Ok(Comm::Duplicate(MPI_COMM_WORLD));
  }

  std::vector<double> whole_ = std::vector<double>(24, 1);
  State state_;
  SaveOptions options_;
};

TEST_F(OperatorTransferTest, EverySaveFollows) {
  Comm comm = CommWith("hdf5");
  const SaveResult saved = Ok(Save(comm, run(), 1, state_, options_));
  EXPECT_EQ(saved.transfer, Transfer::kHdf5);
  EXPECT_EQ(saved.transfer_note, "BELAY_TRANSFER is hdf5");

  AsyncSaver saver(comm);
  const PendingSave pending = Ok(saver.Save(run(), 2, state_, options_));
  ASSERT_TRUE(pending.saved.has_value()) << "all ranks write with HDF5";
  EXPECT_EQ(pending.saved->transfer, Transfer::kHdf5);
  EXPECT_TRUE(saver.Close().ok());

  Comm part = Ok(comm.Split(0));
  EXPECT_EQ(Ok(Save(part, run(), 3, state_, options_)).transfer,
            Transfer::kHdf5);
  EXPECT_TRUE(part.Close().ok());
  EXPECT_TRUE(comm.Close().ok());
}

TEST_F(OperatorTransferTest, OnlyWhereItWasSetBefore) {
  Comm comm = CommWith("");
  setenv("BELAY_TRANSFER", "hdf5", 1);
  EXPECT_EQ(Ok(Save(comm, run(), 1, state_, options_)).transfer,
            Transfer::kIndependent);
  EXPECT_EQ(Ok(Save(comm_, run(), 2, state_, options_)).transfer,
            Transfer::kIndependent);
  EXPECT_TRUE(comm.Close().ok());
}

TEST_F(OperatorTransferTest, AnotherWordIsAnErrorOfTheSave) {
  Comm comm = CommWith("fast");
  const std::string need =
      "save \"" + run() +
      "\": BELAY_TRANSFER is invalid (need collective, independent, "
      "hdf5, two_phase, auto, found \"fast\")";
  EXPECT_EQ(Save(comm, run(), 1, state_, options_).status(),
            absl::InvalidArgumentError(need));
  AsyncSaver saver(comm);
  EXPECT_EQ(saver.Save(run(), 1, state_, options_).status(),
            absl::InvalidArgumentError(need));
  EXPECT_TRUE(saver.Close().ok());
  EXPECT_FALSE(std::filesystem::exists(run()));
  EXPECT_TRUE(comm.Close().ok());
}

}  // namespace
}  // namespace belay::operator_transfer_test
