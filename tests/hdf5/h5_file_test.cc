#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "absl/strings/str_cat.h"
#include "core/fault.h"
#include "h5_by_library.h"
#include "h5_testing.h"
#include "hdf5/file.h"
#include "hdf5/handle.h"

namespace belay::h5::h5_file_test {
namespace {

using absl::StatusCode;

// One of everything that the library puts into files.
Status WriteEverything(const std::string& path) {
  StatusOr<Handle> file = CreateFile(path, {.metadata_bytes = 4096});
  if (!file.ok()) return file.status();
  ObjectCache cache;
  Status status;
  const DatasetSpec specs[] = {
      {"g/h/f", DType::kBF16, 0, {4}, {}},
      {"g/h/chunked", DType::kF8E4M3, 0, {4, 4}, {4, 2}},
      {"g/bool", DType::kBool, 0, {}, {}},
      {"g/text", DType::kString, 5, {}, {}},
      {"c", DType::kC64, 0, {0}, {}},
  };
  for (const DatasetSpec& spec : specs) {
    if (status.ok()) status = CreateDataset(*file, cache, spec).status();
  }
  const std::vector<uint64_t> numbers = {1, 2, 3};
  if (status.ok()) {
    status = WriteColumn(*file, cache, "t/n", numbers);
  }
  if (status.ok()) status = WriteTextColumn(*file, cache, "t/s", {"a", "bc"});
  cache = {};
  Status close = file->Close();
  return status.ok() ? close : status;
}

Status ReadEverything(const std::string& path) {
  StatusOr<Handle> file = OpenFileReadOnly(path);
  if (!file.ok()) return file.status();
  char bytes[16];
  Status status = ReadHyperslab(*file, "g/h/chunked", {DType::kF8E4M3},
                                WholeBox({4, 4}), bytes);
  uint64_t numbers[3];
  if (status.ok()) {
    status = ReadHyperslab(*file, "t/n", {DType::kU64}, WholeBox({3}), numbers);
  }
  if (status.ok()) {
    status =
        ReadHyperslab(*file, "t/s", {DType::kString, 2}, WholeBox({2}), bytes);
  }
  Status close = file->Close();
  return status.ok() ? close : status;
}

class H5FileTest : public H5Test {};

TEST_F(H5FileTest, TheSameCallsMakeTheSameBytes) {
  Ok(WriteEverything(Path("a.h5")));
  sleep(2);  // times in HDF5 count seconds
  Ok(WriteEverything(Path("b.h5")));
  EXPECT_EQ(testing::FileBytes(Path("a.h5")), testing::FileBytes(Path("b.h5")));
}

TEST_F(H5FileTest, DoesNotReplaceAFile) {
  testing::PutFile(Path("a.h5"), "mine");
  const Status status = CreateFile(Path("a.h5")).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("create file \"", Path("a.h5"),
                         "\": unable to open file: file exists"));
  EXPECT_EQ(testing::FileBytes(Path("a.h5")), "mine");
}

TEST_F(H5FileTest, NamesAMissingFile) {
  const std::string path = Path("no/a.h5");
  const std::string cause = "unable to open file: no such file or directory";
  const Status open = OpenFileReadOnly(path).status();
  EXPECT_EQ(open.code(), StatusCode::kNotFound);
  EXPECT_EQ(std::string(open.message()),
            absl::StrCat("open file \"", path, "\": ", cause));
  const Status create = CreateFile(path).status();
  EXPECT_EQ(create.code(), StatusCode::kNotFound);
  EXPECT_EQ(std::string(create.message()),
            absl::StrCat("create file \"", path, "\": ", cause));
}

TEST_F(H5FileTest, RefusesADirectory) {
  const Status status = OpenFileReadOnly(dir_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("is a directory"));
}

TEST_F(H5FileTest, RefusesWhatIsNoHdf5File) {
  testing::PutFile(Path("empty"), "");
  testing::PutFile(Path("text"), std::string(5000, 'x'));
  for (const char* name : {"empty", "text"}) {
    const Status status = OpenFileReadOnly(Path(name)).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
    EXPECT_EQ(std::string(status.message()),
              absl::StrCat("open file \"", Path(name),
                           "\": file signature not found (File accessibility: "
                           "Not an HDF5 file)"));
  }
}

TEST_F(H5FileTest, RefusesATruncatedFile) {
  Ok(WriteEverything(Path("a.h5")));
  const std::string bytes = testing::FileBytes(Path("a.h5"));
  for (size_t size : {size_t{1}, size_t{40}, size_t{96}, bytes.size() / 2,
                      bytes.size() - 1}) {
    testing::PutFile(Path("b.h5"), bytes.substr(0, size));
    const Status status = OpenFileReadOnly(Path("b.h5")).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << size << " " << status;
  }
}

// A name that looks like a symptom does not change the judgement.
// Else a passing trouble of the system would be taken for a damaged file.
TEST_F(H5FileTest, WhatTheSystemSaysIsTold) {
  Value(CreateFile(Path("a.h5"), {})).Close().IgnoreError();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  rlimit none = limit;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = OpenFileReadOnly(Path("a.h5")).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status;
  EXPECT_TRUE(IsOfSystem(status)) << status;
  testing::PutFile(Path("b.h5"), "nothing");
  const Status damaged = OpenFileReadOnly(Path("b.h5")).status();
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss) << damaged;
  EXPECT_FALSE(IsOfSystem(damaged));
  EXPECT_FALSE(IsOfSystem(absl::OkStatus()));
}

TEST_F(H5FileTest, NamesAreNoSymptoms) {
  const std::string path = Path("bad checksum of signature.h5");
  EXPECT_EQ(OpenFileReadOnly(path).status().code(), StatusCode::kNotFound);
  Ok(WriteEverything(path));
  const Handle file = Value(OpenFileReadOnly(path));
  EXPECT_EQ(OpenDataset(file, "no 'checksum' here").status().code(),
            StatusCode::kNotFound);
}

TEST_F(H5FileTest, ReadsWhileAnotherReaderHasTheFile) {
  Ok(WriteEverything(Path("a.h5")));
  const Handle first = Value(OpenFileReadOnly(Path("a.h5")));
  const Handle second = Value(OpenFileReadOnly(Path("a.h5")));
  uint64_t numbers[3] = {};
  Ok(ReadHyperslab(second, "t/n", {DType::kU64}, WholeBox({3}), numbers));
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 2, 3));
}

// A file that may not grow is the nearest thing to a full disk.
TEST_F(H5FileTest, ReportsThatThereIsNoSpace) {
  Handle file = Value(CreateFile(Path("a.h5")));
  ObjectCache cache;
  Value(CreateDataset(file, cache, {"a", DType::kU8, 0, {1 << 20}, {}}));
  Handle dataset = Value(OpenDataset(file, "a"));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string bytes(1 << 20, 'x');
  const Status status =
      WriteHyperslab(dataset, WholeBox({1 << 20}), {DType::kU8}, bytes.data());
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()),
            "write dataset \"a\": file write failed: file too large");
}

TEST_F(H5FileTest, PrintsNothing) {
  ::testing::internal::CaptureStderr();
  OpenFileReadOnly(Path("missing.h5")).status().IgnoreError();
  CreateFile(Path("no/a.h5")).status().IgnoreError();
  Handle file = Value(CreateFile(Path("a.h5")));
  OpenDataset(file, "missing").status().IgnoreError();
  EXPECT_FALSE(OpenDataset(Handle(), "missing").ok());
  { const Handle no_such_id(12345, "none"); }
  EXPECT_FALSE(Handle(12345, "none").Close().ok());
  Ok(file.Close());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(H5FileTest, AHandleClosesOnce) {
  Handle file = Value(CreateFile(Path("a.h5")));
  Handle other = std::move(file);
  EXPECT_FALSE(file.is_open());  // NOLINT(bugprone-use-after-move)
  Ok(file.Close());
  EXPECT_TRUE(other.is_open());
  EXPECT_EQ(other.name(), Path("a.h5"));
  Ok(other.Close());
  EXPECT_FALSE(other.is_open());
  Ok(other.Close());
  const std::vector<int64_t> before = OpenIds();
  { const Handle reader = Value(OpenFileReadOnly(Path("a.h5"))); }
  EXPECT_EQ(OpenIds(), before);
}

TEST_F(H5FileTest, ClosingAFileThatIsInUseFails) {
  Handle file = Value(CreateFile(Path("a.h5")));
  ObjectCache cache;
  Value(CreateDataset(file, cache, {"a", DType::kU8, 0, {1}, {}}));
  const Handle dataset = Value(OpenDataset(file, "a"));
  EXPECT_EQ(std::string(file.Close().message()),
            absl::StrCat("close file \"", Path("a.h5"),
                         "\": can't close file, there are objects still open "
                         "(File accessibility: Unable to close file)"));
}

// Runs `work` once for each of its fault points.
void Sweep(const std::function<Status()>& work) {
  InitLibrary();
  Ok(work());
  fault::Arm(0);
  Ok(work());
  const int64_t points = fault::Count();
  EXPECT_GT(points, 10);
  const std::vector<int64_t> before = OpenIds();
  for (int64_t point = 1; point <= points; ++point) {
    fault::Arm(point);
    const Status status = work();
    fault::Disarm();
    EXPECT_EQ(status.code(), StatusCode::kInternal) << point;
    EXPECT_THAT(std::string(status.message()),
                ::testing::EndsWith(": injected fault"));
    EXPECT_EQ(OpenIds(), before) << point << " " << status;
  }
  Ok(work());
}

TEST_F(H5FileTest, EveryFaultWhileWritingIsAStatusAndLeaksNothing) {
  const std::string path = Path("a.h5");
  Sweep([&] {
    std::filesystem::remove(path);
    return WriteEverything(path);
  });
}

TEST_F(H5FileTest, EveryFaultWhileReadingIsAStatusAndLeaksNothing) {
  Ok(WriteEverything(Path("a.h5")));
  Sweep([&] { return ReadEverything(Path("a.h5")); });
}

// Metadata carries checksums, so no flipped bit of it goes unnoticed or is
// taken for anything but damage. Array bytes carry none.
TEST_F(H5FileTest, FlippedBitsAreDataLossOrHarmless) {
  Ok(WriteEverything(Path("a.h5")));
  const std::string bytes = testing::FileBytes(Path("a.h5"));
  const std::vector<int64_t> before = OpenIds();
  int64_t damaged = 0;
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    testing::PutFile(Path("b.h5"), flipped);
    const Status status = ReadEverything(Path("b.h5"));
    if (status.ok()) continue;
    ++damaged;
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << at << " " << status;
    ASSERT_EQ(OpenIds(), before) << at << " " << status;
  }
  EXPECT_GT(damaged, 100);
}

}  // namespace
}  // namespace belay::h5::h5_file_test
