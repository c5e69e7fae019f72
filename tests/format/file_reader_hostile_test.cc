// Files that nobody should trust.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "file_reader_testing.h"
#include "format/file_metadata.h"

namespace belay::h5::file_reader_hostile_test {
namespace {

class FileReaderHostileTest : public FileReaderFixture {};

TEST_F(FileReaderHostileTest, NoFileIsHdf5) {
  EXPECT_TRUE(absl::IsDataLoss(FindIn("", "x").status()));
  EXPECT_TRUE(
      absl::IsDataLoss(FindIn("not HDF5 at all, but text", "x").status()));
}

// A file as far as it goes is an error, and never more than that.
TEST_F(FileReaderHostileTest, AFileThatEndsEarlyIsDamaged) {
  std::vector<int64_t> offsets;
  const std::string bytes = Encoded(Columns({"a/b", "a/c/d", "x"}), offsets);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(FindIn(bytes.substr(0, size), "x").status()))
        << size;
  }
}

// Each byte is under a checksum, or is not needed.
TEST_F(FileReaderHostileTest, AFlippedBitIsNoticedOrChangesNothing) {
  std::vector<std::string> paths = {"few/x"};
  for (int i = 0; i < 30; ++i) paths.push_back(absl::StrCat("many/", i));
  for (const bool by_hdf5 : {true, false}) {
    std::vector<int64_t> offsets;
    std::string bytes = by_hdf5 ? MadeByHdf5(Columns(paths), offsets)
                                : Encoded(Columns(paths), offsets);
    int64_t noticed = 0;
    for (size_t at = 0; at < bytes.size(); ++at) {
      const char before = bytes[at];
      bytes[at] = static_cast<char>(before ^ (1 << at % 8));
      for (const std::string path : {"few/x", "many/17"}) {
        const auto found = FindIn(bytes, path);
        noticed += found.ok() ? 0 : 1;
        if (!found.ok()) continue;
        if (!found->has_value()) {
          ADD_FAILURE() << path << " is gone, at " << at;
          continue;
        }
        const int64_t offset = offsets[path == "few/x" ? 0 : 18];
        EXPECT_EQ((*found)->offset, offset) << at;
        EXPECT_EQ((*found)->shape, Shape{3}) << at;
        EXPECT_EQ((*found)->bytes, 24) << at;
      }
      bytes[at] = before;
    }
    EXPECT_GT(noticed, 200);
  }
}

// Puts a right checksum wherever one stands, so that changes get past it.
void Reseal(std::string& bytes, size_t begin, size_t end) {
  if (end + 4 > bytes.size()) return;
  std::string sealed = bytes.substr(begin, end - begin);
  PutChecksum(sealed, 0);
  bytes.replace(end, 4, sealed.substr(end - begin));
}

// The places of checksums in a file that is right: [begin, end) of what is
// under them.
std::vector<std::pair<size_t, size_t>> ChecksummedParts(
    const std::string& bytes) {
  std::vector<std::pair<size_t, size_t>> parts = {{0, 44}};
  for (size_t begin = 0; begin + 8 < bytes.size(); ++begin) {
    const std::string_view name = std::string_view(bytes).substr(begin, 4);
    if (name != "OHDR" && name != "BTHD" && name != "BTLF" && name != "BTIN" &&
        name != "FRHP" && name != "FHIB") {
      continue;
    }
    for (size_t end = begin + 6; end + 4 <= bytes.size() && end < begin + 4096;
         ++end) {
      std::string sealed = bytes.substr(begin, end - begin);
      PutChecksum(sealed, 0);
      if (sealed.substr(end - begin) != bytes.substr(end, 4)) continue;
      parts.emplace_back(begin, end);
      break;
    }
  }
  return parts;
}

// Never a crash, a hang or more memory than the budget, whatever a file says.
TEST_F(FileReaderHostileTest, ChangesUnderARightChecksumAreSurvived) {
  std::vector<std::string> paths = {"few/x"};
  for (int i = 0; i < 200; ++i) paths.push_back(absl::StrCat("many/", i));
  std::mt19937_64 random(5);
  const auto below = [&](uint64_t end) { return random() % end; };
  constexpr int64_t kSmallBudget = 1 << 20;
  for (const bool by_hdf5 : {true, false}) {
    std::vector<int64_t> offsets;
    const std::string bytes = by_hdf5 ? MadeByHdf5(Columns(paths), offsets)
                                      : Encoded(Columns(paths), offsets);
    const auto parts = ChecksummedParts(bytes);
    EXPECT_GT(parts.size(), 200);
    std::map<absl::StatusCode, int> results;
    for (int round = 0; round < 20000; ++round) {
      std::string changed = bytes;
      for (uint64_t times = 1 + below(3); times > 0; --times) {
        // Mostly what all lookups pass: the parts that are not datasets.
        const auto& [begin, end] =
            parts[below(2) == 0
                      ? below(parts.size())
                      : (below(2) == 0 ? 0 : parts.size() - 1 - below(6))];
        const size_t at = begin + below(end - begin);
        const uint64_t value = below(3) == 0 ? ~uint64_t{0} : random();
        std::memcpy(changed.data() + at, &value,
                    std::min<size_t>(1 + below(8), end - at));
        Reseal(changed, begin, end);
      }
      for (const std::string path : {"few/x", "many/17"}) {
        ++results[FindIn(changed, path, kSmallBudget).status().code()];
      }
    }
    EXPECT_GT(results[absl::StatusCode::kOk], 100);
    EXPECT_GT(results[absl::StatusCode::kDataLoss], 100);
    EXPECT_GT(results[absl::StatusCode::kUnimplemented], 10);
  }
}

// Puts a message of a header in place of one of the same length or longer, and
// what is left over as nothing.
void ReplaceMessage(std::string& bytes, uint8_t kind, uint8_t by,
                    const std::string& content) {
  for (const auto& [begin, end] : ChecksummedParts(bytes)) {
    if (bytes.compare(begin, 4, "OHDR") != 0) continue;
    for (size_t at = begin + 10; at + 4 <= end;) {
      const size_t size = static_cast<uint8_t>(bytes[at + 1]) +
                          256 * static_cast<uint8_t>(bytes[at + 2]);
      if (static_cast<uint8_t>(bytes[at]) == kind && size >= content.size()) {
        bytes[at] = static_cast<char>(by);
        bytes.replace(at + 4, content.size(), content);
        Reseal(bytes, begin, end);
        return;
      }
      at += 4 + size;
    }
  }
  FAIL() << "no message of kind " << static_cast<int>(kind);
}

constexpr uint8_t kLayout = 0x08, kContinuation = 0x10;

// The message that names a part of a header.
std::string PlaceOf(int64_t offset, int64_t bytes) {
  std::string place;
  PutAddress(place, offset);
  PutAddress(place, bytes);
  return place;
}

// A file whose dataset "x" has a header that goes on in `part`, at the end. The
// part gets its checksum.
std::string WithPart(std::string part) {
  PutChecksum(part, 0);
  std::vector<int64_t> offsets;
  std::string bytes = Encoded(Columns({"x"}), offsets);
  ReplaceMessage(bytes, kLayout, kContinuation,
                 PlaceOf(std::ssize(bytes), std::ssize(part)));
  return bytes + part;
}

void ExpectDamage(const std::string& bytes, const char* problem) {
  const Status status = FindIn(bytes, "x").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find(problem), status.message().npos) << status;
}

// A part of a header that says that the next part is itself, and one that names
// a part of itself.
TEST_F(FileReaderHostileTest, PartsOfAHeaderDoNotOverlap) {
  const int64_t at = std::ssize(WithPart("")) - 4;
  for (const int64_t skipped : {0, 8}) {
    std::string part = "OCHK";
    PutNumber(part, kContinuation, 1);
    PutNumber(part, 16, 2);
    PutNumber(part, 0, 1);
    part += PlaceOf(at + skipped, 4 + 4 + 16 + 4 - skipped);
    ExpectDamage(WithPart(part), "the parts of a header overlap");
  }
}

// A header of messages that say nothing takes time, not memory.
TEST_F(FileReaderHostileTest, ALongHeaderIsCharged) {
  constexpr int64_t kPartBytes = 1 << 20;
  const std::string bytes = WithPart("OCHK" + std::string(kPartBytes, '\0'));
  BoundedFile file = FileOf(bytes, kPartBytes * 7 / 2);
  FileReader reader = Value(FileReader::Open(file));
  // Read and walked, and then walked again.
  for (int time = 0; time < 2; ++time) {
    EXPECT_TRUE(absl::IsDataLoss(reader.Find("x").status())) << time;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(reader.Find("x").status()));
  ExpectDamage(WithPart("OCHK" + std::string(4 * kPartBytes, '\0')),
               "a header is too long");
}

TEST_F(FileReaderHostileTest, ABudgetIsKept) {
  std::vector<int64_t> offsets;
  const std::string bytes = Encoded(Columns({"a/b"}), offsets);
  EXPECT_TRUE(absl::IsResourceExhausted(FindIn(bytes, "a/b", 100).status()));
  BoundedFile file = FileOf(bytes, 1000);
  EXPECT_TRUE(absl::IsDataLoss(file.Charge(-1, "it")));
  EXPECT_TRUE(absl::IsDataLoss(file.Charge(1, "it", -1)));
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(absl::IsResourceExhausted(file.Charge(kMax, "it", kMax)));
  EXPECT_TRUE(absl::IsResourceExhausted(file.Charge(501, "it", 2)));
  Ok(file.Charge(500, "it", 2));
  EXPECT_TRUE(absl::IsResourceExhausted(file.Charge(1, "it")));
  Ok(FindIn(bytes, "a/b", 2000).status());
}

}  // namespace
}  // namespace belay::h5::file_reader_hostile_test
