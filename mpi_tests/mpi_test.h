// What tests on several ranks share.
//
// A condition that differs between ranks is checked with EXPECT, never ASSERT,
// before a collective call: a rank that returns early leaves the others there.

#ifndef BELAY_MPI_TESTS_MPI_TEST_H_
#define BELAY_MPI_TESTS_MPI_TEST_H_

#include <mpi.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>

#include "belay/status.h"
#include "core/agreed.h"

namespace belay::testing {

inline int WorldRank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int WorldSize() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// The value, which has to be there on all ranks.
template <typename T>
T Ok(StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::cerr << "rank " << WorldRank() << ": " << value.status() << "\n";
  std::abort();
}

template <typename T>
T Ok(Agreed<T> value) {
  return Ok(StatusOr<T>(std::move(value)));
}

// A new directory that all ranks know; its life begins and ends together.
class ScratchDir {
 public:
  ScratchDir() {
    char name[4096] = {};
    if (WorldRank() == 0) {
      const std::string pattern =
          (std::filesystem::temp_directory_path() / "belay_test_XXXXXX")
              .string();
      pattern.copy(name, sizeof(name) - 1);
      if (mkdtemp(name) == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = name;
  }
  ~ScratchDir() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (WorldRank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_MPI_TEST_H_
