#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "storage/file_system.h"

namespace belay::lustre_layout_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kPlain = 0x0BD10BD0;
constexpr uint32_t kInPool = 0x0BD30BD0;
constexpr uint32_t kComposite = 0x0BD60BD0;
constexpr int64_t kMiB = 1 << 20;

template <typename T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A layout as the client gives it out, with `objects` on servers.
std::string PlainLayout(uint32_t magic, uint32_t stripe_bytes, uint16_t count,
                        int objects, uint32_t pattern = 1) {
  std::string bytes;
  Put(bytes, magic);
  Put(bytes, pattern);
  Put<uint64_t>(bytes, 0x1234);  // of the object
  Put<uint64_t>(bytes, 0x5678);
  Put(bytes, stripe_bytes);
  Put(bytes, count);
  Put<uint16_t>(bytes, 0);  // generation
  if (magic == kInPool) bytes += std::string("flash") + std::string(11, '\0');
  for (int i = 0; i < objects; ++i) bytes += std::string(24, 'o');
  return bytes;
}

std::string CompositeLayout(const std::vector<std::string>& components) {
  std::string bytes;
  uint32_t size = 32 + 48 * components.size();
  uint32_t next = size;
  for (const std::string& one : components) size += one.size();
  Put(bytes, kComposite);
  Put(bytes, size);
  Put<uint32_t>(bytes, 3);  // generation
  Put<uint16_t>(bytes, 0);  // flags
  Put<uint16_t>(bytes, components.size());
  bytes += std::string(16, '\0');
  for (const std::string& one : components) {
    Put<uint32_t>(bytes, 7);   // number
    Put<uint32_t>(bytes, 16);  // flags
    Put<uint64_t>(bytes, 0);   // from
    Put<uint64_t>(bytes, -1);  // to
    Put<uint32_t>(bytes, next);
    Put<uint32_t>(bytes, one.size());
    bytes += std::string(16, '\0');
    next += one.size();
  }
  for (const std::string& one : components) bytes += one;
  return bytes;
}

StatusOr<LustreLayout> Parse(const std::string& bytes) {
  // In memory of its own, so that a read beyond the end shows.
  const std::vector<char> copy(bytes.begin(), bytes.end());
  return ParseLustreLayout(std::as_bytes(std::span(copy)));
}

void ExpectLayout(const std::string& bytes, int64_t stripe, int32_t count) {
  const StatusOr<LustreLayout> layout = Parse(bytes);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->stripe_bytes, stripe);
  EXPECT_EQ(layout->stripe_count, count);
}

void ExpectNone(const std::string& bytes, const std::string& text) {
  const Status status = Parse(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(LustreLayoutTest, PlainLayouts) {
  ExpectLayout(PlainLayout(kPlain, kMiB, 4, 4), kMiB, 4);
  ExpectLayout(PlainLayout(kPlain, 65536, 1, 0), 65536, 1);
  ExpectLayout(PlainLayout(kInPool, 4 * kMiB, 160, 160), 4 * kMiB, 160);
  // On all servers, however many there are.
  ExpectLayout(PlainLayout(kInPool, kMiB, 0xFFFF, 0), kMiB, 0);
}

TEST(LustreLayoutTest, TheWidestComponentCounts) {
  const std::string on_metadata = PlainLayout(kPlain, kMiB, 0, 0, 0x100);
  const std::string narrow = PlainLayout(kPlain, kMiB, 1, 1);
  const std::string wide = PlainLayout(kInPool, 4 * kMiB, 8, 8);
  const std::string not_yet = PlainLayout(kPlain, kMiB, 0xFFFF, 0);
  ExpectLayout(CompositeLayout({on_metadata, narrow}), kMiB, 1);
  ExpectLayout(CompositeLayout({on_metadata, narrow, wide}), 4 * kMiB, 8);
  ExpectLayout(CompositeLayout({wide, narrow}), 4 * kMiB, 8);
  ExpectLayout(CompositeLayout({narrow, wide, not_yet}), kMiB, 0);
  ExpectNone(CompositeLayout({on_metadata}), "no component with stripes");
  ExpectNone(CompositeLayout({}), "no component with stripes");
}

TEST(LustreLayoutTest, NothingIsReadBeyondTheEnd) {
  const std::string plain = PlainLayout(kPlain, kMiB, 2, 2);
  const std::string in_pool = PlainLayout(kInPool, kMiB, 2, 2);
  for (const std::string& whole :
       {plain, in_pool, CompositeLayout({plain, in_pool})}) {
    EXPECT_TRUE(Parse(whole).ok());
    for (size_t size = 0; size < whole.size(); ++size) {
      const bool has_no_objects =
          (size == 32 && whole == plain) || (size == 48 && whole == in_pool);
      EXPECT_EQ(Parse(whole.substr(0, size)).ok(), has_no_objects) << size;
    }
    EXPECT_FALSE(Parse(whole + "x").ok());
  }
}

TEST(LustreLayoutTest, NonsenseIsRefused) {
  ExpectNone("", "it ends early (need 32, found 0)");
  ExpectNone(PlainLayout(0x0BD70BD0, kMiB, 1, 1), "kind is not known");
  ExpectNone(PlainLayout(kPlain, 0, 1, 1), "need 65536, found 0");
  ExpectNone(PlainLayout(kPlain, 65537, 1, 1), "need 65536, found 65537");
  ExpectNone(PlainLayout(kPlain, kMiB, 3, 2), "need 72, found 48");
  std::string among = CompositeLayout({PlainLayout(kPlain, kMiB, 1, 1)});
  among[32 + 24] = 32;
  ExpectNone(among, "among the entries (need 80, found 32)");
  std::string nested = CompositeLayout({CompositeLayout({})});
  ExpectNone(nested, "kind is not known");
}

// Any damage is refused or gives a layout that makes sense; what it must not do
// is read elsewhere, which shows where memory is checked.
TEST(LustreLayoutTest, DamageDoesNoHarm) {
  std::mt19937 random(11);
  const std::string whole = CompositeLayout(
      {PlainLayout(kPlain, kMiB, 2, 2), PlainLayout(kInPool, 4 * kMiB, 3, 3)});
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const StatusOr<LustreLayout> layout = Parse(bytes);
    if (!layout.ok()) {
      ++refused;
      continue;
    }
    EXPECT_GT(layout->stripe_bytes, 0);
    EXPECT_EQ(layout->stripe_bytes % 65536, 0);
    EXPECT_GE(layout->stripe_count, 0);
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace belay::lustre_layout_test
