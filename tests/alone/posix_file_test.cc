#include "storage/posix_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/fault.h"
#include "directory_fixture.h"

namespace {

struct Transfer {
  long number;  // of the system call
  int fd;
  void* data;
  size_t count;
  off_t offset;
};

ssize_t Real(const Transfer& call) {
  return syscall(call.number, call.fd, call.data, call.count, call.offset);
}

// What pread, pwrite and fallocate do in this program: the library's calls
// land in the definitions below, so that a test decides what they return.
std::function<ssize_t(const Transfer&)> transfer_hook = Real;
int fallocate_error = 0;

ssize_t Fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

extern "C" ssize_t pwrite(int fd, const void* data, size_t count,
                          off_t offset) {
  return transfer_hook(
      {SYS_pwrite64, fd, const_cast<void*>(data), count, offset});
}

extern "C" ssize_t pread(int fd, void* data, size_t count, off_t offset) {
  return transfer_hook({SYS_pread64, fd, data, count, offset});
}

extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (fallocate_error != 0) return static_cast<int>(Fail(fallocate_error));
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace belay {
namespace {

using Mode = PosixFile::Mode;

static_assert(std::is_nothrow_move_constructible_v<PosixFile>);
static_assert(std::is_nothrow_move_assignable_v<PosixFile>);
static_assert(!std::is_copy_constructible_v<PosixFile>);
static_assert(!std::is_copy_assignable_v<PosixFile>);

int OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

class PosixFileTest : public DirectoryTest {
 protected:
  ~PosixFileTest() override {
    transfer_hook = Real;
    fallocate_error = 0;
  }

  PosixFile Create(const std::string& name) const {
    return PosixFile::Open(Path(name), Mode::kCreate).value();
  }
};

TEST(ErrnoStatusTest, MapsEveryClass) {
  using absl::StatusCode;
  const std::vector<std::pair<StatusCode, std::vector<int>>> classes = {
      {StatusCode::kResourceExhausted, {ENOSPC, EDQUOT, EFBIG, ENOMEM}},
      {StatusCode::kNotFound, {ENOENT}},
      {StatusCode::kAlreadyExists, {EEXIST, ENOTEMPTY}},
      {StatusCode::kPermissionDenied, {EACCES, EPERM, EROFS}},
      {StatusCode::kInvalidArgument,
       {ENOTDIR, EISDIR, EINVAL, ELOOP, ENAMETOOLONG}},
      {StatusCode::kUnavailable,
       {EIO, EREMOTEIO, ENOTCONN, ESTALE, ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH,
        ENETDOWN, ECONNRESET, ESHUTDOWN, EBADFD, EAGAIN, EBUSY}},
      {StatusCode::kInternal, {EBADF, EXDEV, EMFILE, EUCLEAN, ENXIO}},
  };
  for (const auto& [code, errors] : classes) {
    for (int error : errors) {
      EXPECT_EQ(ErrnoStatus(error, "write", "a").code(), code) << error;
    }
  }
}

TEST(ErrnoStatusTest, QuotesTheObjectAndLowersTheText) {
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write", "/Run/Step 1"),
            absl::ResourceExhaustedError(
                "write \"/Run/Step 1\": no space left on device"));
  EXPECT_EQ(ErrnoStatus(EIO, "sync", "x"),
            absl::UnavailableError("sync \"x\": input/output error"));
}

TEST_F(PosixFileTest, WritesAndReadsBack) {
  PosixFile file = Create("a");
  EXPECT_EQ(file.path(), Path("a"));
  EXPECT_TRUE(file.PwriteAll(3, "def", 3).ok());
  EXPECT_TRUE(file.PwriteAll(0, "abc", 3).ok());
  char back[4] = {};
  EXPECT_TRUE(file.PreadAll(1, back, 4).ok());
  EXPECT_EQ(std::string(back, 4), "bcde");
  EXPECT_EQ(file.write_calls(), 2);
  EXPECT_EQ(file.read_calls(), 1);
  file.StartWriteback(0, 6);
  EXPECT_TRUE(file.Sync().ok());
  EXPECT_EQ(file.Stat()->size, 6);
  EXPECT_TRUE(file.Close().ok());
  EXPECT_TRUE(file.Close().ok());
  EXPECT_EQ(Content("a"), "abcdef");
}

TEST_F(PosixFileTest, NoBytesMakeNoCalls) {
  PosixFile file = Create("a");
  EXPECT_TRUE(file.PwriteAll(100, nullptr, 0).ok());
  EXPECT_TRUE(file.PreadAll(100, nullptr, 0).ok());
  EXPECT_TRUE(file.Fallocate(0).ok());
  EXPECT_EQ(file.write_calls() + file.read_calls(), 0);
  EXPECT_EQ(file.Stat()->size, 0);
}

TEST_F(PosixFileTest, WriteModeKeepsTheContent) {
  Put("a", "abcdef");
  PosixFile file = PosixFile::Open(Path("a"), Mode::kWrite).value();
  EXPECT_TRUE(file.PwriteAll(2, "XY", 2).ok());
  EXPECT_EQ(Content("a"), "abXYef");
}

TEST_F(PosixFileTest, ReadModeCannotWrite) {
  Put("a", "abcdef");
  PosixFile file = PosixFile::Open(Path("a"), Mode::kRead).value();
  const Status need =
      absl::InternalError("write \"" + Path("a") + "\": bad file descriptor");
  EXPECT_EQ(file.PwriteAll(0, "X", 1), need);
  const std::byte part[2] = {};
  EXPECT_EQ(file.PwriteParts(0, {{part}}), need);
  EXPECT_EQ(Content("a"), "abcdef");
}

TEST_F(PosixFileTest, OpenErrors) {
  Put("a", "");
  const std::string quoted = "\"" + Path("a") + "\"";
  const std::string inside = Path("a") + "/b";
  const std::string missing = Path("missing");
  EXPECT_EQ(PosixFile::Open(Path("a"), Mode::kCreate).status(),
            absl::AlreadyExistsError("create " + quoted + ": file exists"));
  for (Mode mode : {Mode::kRead, Mode::kWrite}) {
    EXPECT_EQ(PosixFile::Open(missing, mode).status(),
              absl::NotFoundError("open \"" + missing +
                                  "\": no such file or directory"));
  }
  EXPECT_EQ(
      PosixFile::Open(inside, Mode::kRead).status(),
      absl::InvalidArgumentError("open \"" + inside + "\": not a directory"));
  EXPECT_EQ(
      PosixFile::Open(dir_, Mode::kWrite).status(),
      absl::InvalidArgumentError("open \"" + dir_ + "\": is a directory"));
  const std::string longest = Path(std::string(300, 'x'));
  EXPECT_EQ(PosixFile::Open(longest, Mode::kCreate).status(),
            absl::InvalidArgumentError("create \"" + longest +
                                       "\": file name too long"));
}

TEST_F(PosixFileTest, PermissionDenied) {
  Put("a", "secret");
  ASSERT_EQ(chmod(Path("a").c_str(), 0), 0);
  EXPECT_EQ(AsNobody([&] {
              return PosixFile::Open(Path("a"), Mode::kRead).status();
            }),
            absl::PermissionDeniedError("open \"" + Path("a") +
                                        "\": permission denied"));
}

TEST_F(PosixFileTest, ShortFileIsDataLoss) {
  Put("a", "abcdef");
  PosixFile file = PosixFile::Open(Path("a"), Mode::kRead).value();
  char back[10];
  EXPECT_EQ(file.PreadAll(2, back, 10),
            absl::DataLossError("read \"" + Path("a") +
                                "\": the file is truncated (need 12 bytes, "
                                "found 6)"));
  EXPECT_EQ(file.PreadAll(100, back, 1),
            absl::DataLossError("read \"" + Path("a") +
                                "\": the file is truncated (need 101 bytes, "
                                "found 6)"));
}

TEST_F(PosixFileTest, GoesOnAfterShortAndInterruptedTransfers) {
  PosixFile file = Create("a");
  int call = 0;
  transfer_hook = [&](Transfer transfer) {
    if (++call % 3 == 1) return Fail(EINTR);
    transfer.count = std::min<size_t>(transfer.count, 4);
    return Real(transfer);
  };
  const std::string text = "a text of 21 letters.";
  EXPECT_TRUE(file.PwriteAll(1, text.data(), 21).ok());
  EXPECT_EQ(file.write_calls(), 9);  // 6 that move bytes, 3 interrupted
  std::string back(21, ' ');
  call = 0;
  EXPECT_TRUE(file.PreadAll(1, back.data(), 21).ok());
  EXPECT_EQ(file.read_calls(), 9);
  EXPECT_EQ(back, text);
  EXPECT_EQ(Content("a"), std::string(1, '\0') + text);
}

TEST_F(PosixFileTest, ErrorAfterAShortTransferIsReported) {
  PosixFile file = Create("a");
  transfer_hook = [](Transfer transfer) {
    if (transfer.offset > 0) return Fail(EDQUOT);
    transfer.count = 3;
    return Real(transfer);
  };
  EXPECT_EQ(file.PwriteAll(0, "abcdef", 6),
            absl::ResourceExhaustedError("write \"" + Path("a") +
                                         "\": disk quota exceeded"));
  EXPECT_EQ(file.write_calls(), 2);
}

TEST_F(PosixFileTest, AWriteThatDoesNotMoveIsAnError) {
  PosixFile file = Create("a");
  transfer_hook = [](const Transfer&) { return ssize_t{0}; };
  EXPECT_EQ(file.PwriteAll(0, "a", 1),
            absl::UnavailableError("write \"" + Path("a") +
                                   "\": input/output error"));
}

TEST_F(PosixFileTest, SplitsWhatLinuxWouldCut) {
  constexpr int64_t kLimit = 0x7ffff000;
  constexpr int64_t kBytes = 2 * kLimit + 5;
  void* memory = mmap(nullptr, kBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* start = static_cast<char*>(memory);
  std::vector<std::vector<int64_t>> calls;  // offset, place in memory, count
  transfer_hook = [&](const Transfer& transfer) {
    calls.push_back({transfer.offset, static_cast<char*>(transfer.data) - start,
                     static_cast<int64_t>(transfer.count)});
    return static_cast<ssize_t>(transfer.count);
  };
  const std::vector<std::vector<int64_t>> expected = {
      {7, 0, kLimit},
      {7 + kLimit, kLimit, kLimit},
      {7 + 2 * kLimit, 2 * kLimit, 5}};
  PosixFile file = Create("a");
  EXPECT_TRUE(file.PwriteAll(7, memory, kBytes).ok());
  EXPECT_EQ(calls, expected);
  calls.clear();
  EXPECT_TRUE(file.PreadAll(7, memory, kBytes).ok());
  EXPECT_EQ(calls, expected);
  munmap(memory, kBytes);
}

TEST_F(PosixFileTest, ReservesBehindTheEndAndGivesItBack) {
  PosixFile file = Create("a");
  EXPECT_TRUE(file.PwriteAll(0, "0123456789", 10).ok());
  EXPECT_TRUE(file.ReserveUnsized(1 << 20).ok());
  EXPECT_EQ(file.Stat()->size, 10);
  EXPECT_GE(file.Stat()->allocated_bytes, 1 << 20);
  EXPECT_TRUE(file.ReleaseUnsized().ok());
  EXPECT_EQ(file.Stat()->size, 10);
  EXPECT_LT(file.Stat()->allocated_bytes, 1 << 20);
}

TEST_F(PosixFileTest, WithoutFallocateTheFreeSpaceDecides) {
  PosixFile file = Create("a");
  for (int error : {EOPNOTSUPP, ENOSYS}) {
    fallocate_error = error;
    EXPECT_TRUE(file.ReserveUnsized(2000).ok());
    EXPECT_TRUE(file.Fallocate(1000).ok());
    EXPECT_EQ(file.Stat()->size, 1000);
    EXPECT_TRUE(file.Fallocate(10).ok());
    EXPECT_EQ(file.Stat()->size, 1000);
    const Status status = file.Fallocate(int64_t{1} << 60);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(std::string(status.message())
                  .rfind("reserve \"" + Path("a") +
                             "\": no space left (need 1152921504606846976 "
                             "bytes, found ",
                         0),
              0u);
  }
}

TEST_F(PosixFileTest, OtherFallocateErrorsKeepTheirText) {
  PosixFile file = Create("a");
  fallocate_error = EIO;
  EXPECT_EQ(file.Fallocate(1000),
            absl::UnavailableError("reserve \"" + Path("a") +
                                   "\": input/output error"));
}

TEST_F(PosixFileTest, FileSizeLimit) {
  PosixFile file = Create("a");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {4096, before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string data(8192, 'x');
  const Status write = file.PwriteAll(0, data.data(), 8192);
  const Status reserve = file.Fallocate(8192);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  const std::string rest = " \"" + Path("a") + "\": file too large";
  EXPECT_EQ(write, absl::ResourceExhaustedError("write" + rest));
  EXPECT_EQ(reserve, absl::ResourceExhaustedError("reserve" + rest));
  EXPECT_EQ(file.write_calls(), 2);  // the first one wrote what still fits
  EXPECT_EQ(file.Stat()->size, 4096);
}

TEST_F(PosixFileTest, MovesAndDestructorClose) {
  const int before = OpenDescriptors();
  {
    PosixFile a = Create("a");
    ASSERT_TRUE(a.PwriteAll(0, "x", 1).ok());
    PosixFile b = std::move(a);
    EXPECT_EQ(b.path(), Path("a"));
    EXPECT_EQ(b.write_calls(), 1);
    PosixFile c = Create("c");
    c = std::move(b);
    EXPECT_TRUE(c.PwriteAll(1, "y", 1).ok());
    EXPECT_EQ(c.write_calls(), 2);
  }
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(Content("a"), "xy");
  EXPECT_EQ(Content("c"), "");
}

TEST_F(PosixFileTest, EachFileOperationPassesOneFaultPoint) {
  PosixFile file = Create("a");
  ASSERT_TRUE(file.PwriteAll(0, "abc", 3).ok());
  char back = '?';
  ExpectOnePoint(
      "open", [&] { return PosixFile::Open(Path("a"), Mode::kRead).status(); });
  ExpectOnePoint("create", [&] {
    return PosixFile::Open(Path("b"), Mode::kCreate).status();
  });
  ExpectOnePoint("write", [&] { return file.PwriteAll(0, "X", 1); });
  ExpectOnePoint("read", [&] { return file.PreadAll(0, &back, 1); });
  ExpectOnePoint("reserve", [&] { return file.Fallocate(10); });
  ExpectOnePoint("sync", [&] { return file.Sync(); });
  ExpectOnePoint("stat", [&] { return file.Stat().status(); });
  const int before = OpenDescriptors();
  ExpectOnePoint("close", [&] { return file.Close(); });
  EXPECT_EQ(OpenDescriptors(), before - 1);
  EXPECT_EQ(Content("a"), "abc");
  EXPECT_EQ(back, '?');
  EXPECT_EQ(ListDirectory(dir_).value(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace belay
