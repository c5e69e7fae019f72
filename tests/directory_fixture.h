// A fresh directory for each test, and what tests of files share.

#ifndef BELAY_TESTS_DIRECTORY_FIXTURE_H_
#define BELAY_TESTS_DIRECTORY_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "belay/status.h"
#include "core/fault.h"
#include "file_bytes.h"

namespace belay {

class DirectoryTest : public ::testing::Test {
 protected:
  DirectoryTest() {
    std::string name = ::testing::TempDir() + "belay_test_XXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~DirectoryTest() override {
    fault::Disarm();
    std::filesystem::remove_all(dir_);
  }

  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

  std::string Content(const std::string& name) const {
    return testing::FileBytes(Path(name));
  }

  void Put(const std::string& name, const std::string& content) const {
    testing::PutFile(Path(name), content);
  }

  std::string dir_;
};

// Runs `operation` as a user without rights. Root passes all checks; others
// stay who they are.
inline Status AsNobody(const std::function<Status()>& operation) {
  const int before = setfsuid(65534);
  Status status = operation();
  setfsuid(static_cast<uid_t>(before));
  return status;
}

// Expects that `operation` passes one fault point and fails there.
inline void ExpectOnePoint(const std::string& site,
                           const std::function<Status()>& operation) {
  fault::Arm(1);
  EXPECT_EQ(operation(), absl::InternalError(site + ": injected fault"));
  EXPECT_EQ(fault::Count(), 1) << site;
  fault::Disarm();
}

}  // namespace belay

#endif  // BELAY_TESTS_DIRECTORY_FIXTURE_H_
