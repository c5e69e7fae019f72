// Many parts of memory that follow each other in a file.

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "directory_fixture.h"
#include "storage/posix_file.h"
#include "storage/reader.h"

namespace belay::parts_of_a_file_test {
namespace {

using PartsOfAFileTest = DirectoryTest;

TEST_F(PartsOfAFileTest, WritesManyParts) {
  PosixFile file = PosixFile::Open(Path("a"), PosixFile::Mode::kCreate).value();
  std::string need = "..";
  std::vector<std::string> texts;
  // More parts than one call of the system takes, some of them empty.
  for (int i = 0; i < 2500; ++i) texts.push_back(std::to_string(i * (i % 7)));
  texts[0] = texts[1024] = texts[2499] = "";
  std::vector<std::span<const std::byte>> parts;
  for (const std::string& text : texts) {
    parts.push_back(std::as_bytes(std::span(text)));
    need += text;
  }
  EXPECT_TRUE(file.PwriteAll(0, "..", 2).ok());
  EXPECT_TRUE(file.PwriteParts(2, parts).ok());
  EXPECT_EQ(Content("a"), need);
  EXPECT_EQ(file.write_calls(), 1 + 3);
}

TEST_F(PartsOfAFileTest, ReadsManyParts) {
  std::string content;
  for (int i = 0; i < 5000; ++i) content += std::to_string(i);
  Put("a", content);
  PosixFile file = PosixFile::Open(Path("a"), PosixFile::Mode::kRead).value();
  std::vector<std::string> texts(2500);
  std::vector<std::span<std::byte>> parts;
  // The empty ones at the start are as many as one call takes.
  for (int i = 1024; i < 2500; ++i) texts[i].resize(i % 7);
  size_t bytes = 0;
  for (std::string& text : texts) {
    parts.push_back(std::as_writable_bytes(std::span(text)));
    bytes += text.size();
  }
  EXPECT_TRUE(file.PreadParts(2, parts).ok());
  std::string found;
  for (const std::string& text : texts) found += text;
  EXPECT_EQ(found, content.substr(2, bytes));
  EXPECT_EQ(file.read_calls(), 2);
  // What is too short is the call that finds nothing more.
  std::string rest(100, ' ');
  EXPECT_EQ(file.PreadParts(content.size() - 1,
                            {{std::as_writable_bytes(std::span(rest))}}),
            absl::DataLossError(absl::StrFormat(
                "read \"%s\": the file is truncated (need %d bytes, found %d)",
                Path("a"), content.size() + 99, content.size())));
}

// Moves what follows each other in the file together, in as few parts of memory
// as there are.
TEST(JoinedSegmentsTest, MovesWhatIsAdjacentInOneCall) {
  std::vector<std::byte> memory(100);
  const std::span<std::byte> all(memory);
  std::vector<std::vector<int64_t>> calls;  // offset, bytes, length of parts
  JoinedSegments<std::byte> segments(
      [&](int64_t offset, int64_t bytes,
          std::span<const std::span<std::byte>> parts) {
        calls.push_back({offset, bytes});
        for (auto part : parts) calls.back().push_back(std::ssize(part));
        return calls.size() < 3 ? absl::OkStatus()
                                : absl::AbortedError("enough");
      });
  segments.Add(all.subspan(0, 10), 1000);
  segments.Add(all.subspan(10, 5), 1010);  // adjacent in memory as well
  segments.Add(all.subspan(50, 5), 1015);
  segments.Add(all.subspan(60, 5), 2000);
  EXPECT_EQ(segments.Flush(), absl::OkStatus());
  EXPECT_EQ(calls, (std::vector<std::vector<int64_t>>{{1000, 20, 15, 5},
                                                      {2000, 5, 5}}));
  EXPECT_EQ(segments.Flush(), absl::OkStatus());
  EXPECT_EQ(calls.size(), 2) << "nothing was waiting";
  segments.Add(all.subspan(0, 1), 1);
  segments.Add(all.subspan(0, 1), 5);
  segments.Add(all.subspan(0, 1), 9);
  EXPECT_EQ(segments.Flush(), absl::AbortedError("enough"));
  EXPECT_EQ(calls.size(), 3) << "nothing is moved after a failure";
}

}  // namespace
}  // namespace belay::parts_of_a_file_test
