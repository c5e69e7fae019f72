#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/fault.h"
#include "directory_fixture.h"
#include "storage/lease.h"

namespace belay::lease_renew_test {
namespace {

using ::testing::MatchesRegex;

class LeaseRenewTest : public DirectoryTest {
 protected:
  std::string File() const { return Path("step.lease"); }

  StatusOr<Lease> Take() const { return Lease::Take(File(), ThisProcess()); }
};

TEST_F(LeaseRenewTest, OneThatIsHeldIsRenewed) {
  Lease lease = *Take();
  const std::string text = Content("step.lease");
  EXPECT_EQ(lease.Renew(File()), absl::OkStatus());
  EXPECT_FALSE(lease.is_unsure());
  EXPECT_EQ(Content("step.lease"), text);
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Lease().Renew(File()), absl::OkStatus());
  // Somebody has tidied up.
  std::filesystem::remove(File());
  EXPECT_EQ(lease.Renew(File()), absl::OkStatus());
  EXPECT_EQ(Content("step.lease"), text);
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
}

// The file that is open is of no use any more, as on NFS after its server has
// forgotten it.
TEST_F(LeaseRenewTest, TheFileIsOpenedAnewWhereTheLockIsLost) {
  Lease lease = *Take();
  int tries = 0;
  const auto stale_once = [&](FileLock& file) -> StatusOr<FileLock::Result> {
    if (++tries == 1) return absl::UnavailableError("stale");
    return file.Try();
  };
  EXPECT_EQ(lease.Renew(File(), stale_once), absl::OkStatus());
  EXPECT_EQ(tries, 2);
  EXPECT_TRUE(lease.is_held());
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
}

// The server has not forgotten the connection from before yet.
TEST_F(LeaseRenewTest, ALockOfBeforeIsAskedForAgain) {
  Lease lease = *Take();
  const auto held = [](FileLock&) -> StatusOr<FileLock::Result> {
    return FileLock::Result::kHeld;
  };
  EXPECT_EQ(lease.Renew(File(), held), absl::OkStatus());
  EXPECT_TRUE(lease.is_unsure());
  EXPECT_EQ(lease.Renew(File()), absl::OkStatus());
  EXPECT_FALSE(lease.is_unsure());
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LeaseRenewTest, OneThatAnotherHasTakenMeanwhileIsLost) {
  Lease lease = *Take();
  LeaseOwner other = ThisProcess();
  other.host = "elsewhere";
  Put("step.lease", LeaseText(other));
  for (int i = 0; i < 2; ++i) {
    const Status lost = lease.Renew(File());
    EXPECT_EQ(lost.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(lost.message()),
                MatchesRegex("renew the lease \".*/step.lease\": taken "
                             "meanwhile by process .* on host "
                             "\"elsewhere\" .*"));
  }
  EXPECT_EQ(Content("step.lease"), LeaseText(other));
}

TEST_F(LeaseRenewTest, AFaultWhileItIsRenewedIsNoLoss) {
  for (const bool is_stale : {false, true}) {
    const auto once = [&, tries = 0](FileLock& file) mutable {
      return is_stale && ++tries == 1
                 ? StatusOr<FileLock::Result>(absl::UnavailableError("stale"))
                 : file.Try();
    };
    for (int64_t point = 1;; ++point) {
      Lease lease = *Take();
      fault::Arm(point);
      const Status status = lease.Renew(File(), once);
      const bool injected = fault::Count() >= point;
      fault::Disarm();
      EXPECT_EQ(lease.Renew(File()), absl::OkStatus()) << status;
      EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition)
          << point;
      if (!injected) break;
    }
  }
}

}  // namespace
}  // namespace belay::lease_renew_test
