#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "core/list_exchange.h"

// For the secret with which it begins.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace belay::entries_test {
namespace {

using Random = std::mt19937_64;

std::string ChangesOf(const Entries& base, const Entries& now) {
  WireWriter out;
  PutChanges(ComputeHashes(base), now, out);
  return out.Take();
}

// The list that the other side makes from the changes.
Entries Arrives(const Entries& base, const Entries& now) {
  const std::string changes = ChangesOf(base, now);
  WireReader in(changes);
  const StatusOr<Entries> found = GetChanged(base, in);
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(in.done());
  return found.value_or(Entries());
}

Entries Numbered(int count) {
  Entries entries;
  for (int i = 0; i < count; ++i) {
    entries.push_back("entry " + std::to_string(i));
  }
  return entries;
}

TEST(EntriesTest, FingerprintsTellListsApart) {
  const auto fingerprint = [](const Entries& entries) {
    return FingerprintList(ComputeHashes(entries));
  };
  EXPECT_EQ(fingerprint({"a", "b"}), fingerprint({"a", "b"}));
  EXPECT_NE(fingerprint({"a", "b"}), fingerprint({"b", "a"}));
  EXPECT_NE(fingerprint({"a", "b"}), fingerprint({"ab"}));
  EXPECT_NE(fingerprint({"a"}), fingerprint({"a", "a"}));
  EXPECT_NE(fingerprint({}), fingerprint({""}));
}

TEST(EntriesTest, OnlyWhatIsNewTravels) {
  const Entries base = Numbered(1000);
  Entries now = base;
  EXPECT_EQ(Arrives(base, now), now);
  EXPECT_LE(ChangesOf(base, now).size(), 40u);
  now[500] = "another";
  EXPECT_EQ(Arrives(base, now), now);
  EXPECT_LE(ChangesOf(base, now).size(), 80u);
  now.erase(now.begin() + 200);
  now.insert(now.begin() + 700, {"two", "more"});
  std::swap(now[3], now[900]);
  EXPECT_EQ(Arrives(base, now), now);
  EXPECT_LE(ChangesOf(base, now).size(), 240u);
  EXPECT_EQ(Arrives(base, {}), Entries());
  EXPECT_EQ(Arrives({}, now), now);
}

TEST(EntriesTest, AnyListLeadsToAnyOther) {
  Random random(7);
  const auto draw = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end)(random);
  };
  const auto some = [&] {
    Entries entries(static_cast<size_t>(draw(12)));
    for (std::string& entry : entries) {
      entry = std::string(static_cast<size_t>(draw(3)), 'x');
    }
    return entries;
  };
  for (int i = 0; i < 2000; ++i) {
    const Entries base = some();
    const Entries now = some();
    EXPECT_EQ(Arrives(base, now), now);
  }
}

// Two texts of 16 bytes that have one hash of 64 bits, after what that does to
// each half of them.
std::pair<std::string, std::string> EqualIn64Bits() {
  const auto word = [](size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, XXH3_kSecret + at, sizeof(value));
    return value;
  };
  const uint64_t flip_low = word(24) ^ word(32);
  const uint64_t flip_high = word(40) ^ word(48);
  const uint64_t any = 0x0123456789abcdef;
  const auto text = [&](uint64_t low, uint64_t high) {
    const uint64_t words[] = {low ^ flip_low, high ^ flip_high};
    return std::string(reinterpret_cast<const char*>(words), sizeof(words));
  };
  return {text(0, any), text(__builtin_bswap64(any), 0)};
}

TEST(EntriesTest, EntriesWithOneShortHashAreToldApart) {
  const auto [a, b] = EqualIn64Bits();
  ASSERT_NE(a, b);
  ASSERT_EQ(Fingerprint(a), Fingerprint(b));
  EXPECT_NE(FingerprintList(ComputeHashes({a})),
            FingerprintList(ComputeHashes({b})));
  EXPECT_EQ(Arrives({a}, {b}), Entries{b});
  EXPECT_EQ(Arrives({a, b}, {b, a}), (Entries{b, a}));
}

TEST(EntriesTest, AnotherBaseIsNoticed) {
  const std::string changes = ChangesOf(Numbered(5), Numbered(4));
  WireReader in(changes);
  EXPECT_EQ(GetChanged(Numbered(3), in).status(),
            absl::InternalError("the changes of a list are not those of its "
                                "base (need at least 4 entries, found 3)"));
  WireReader cut(std::string_view(changes).substr(0, changes.size() - 1));
  EXPECT_EQ(GetChanged(Numbered(5), cut).status(),
            absl::InternalError("the changes of a list are cut off"));
}

}  // namespace
}  // namespace belay::entries_test
