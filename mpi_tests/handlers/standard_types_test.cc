// The handlers of further types of the standard library, on several ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <list>
#include <locale>
#include <map>
#include <random>
#include <tuple>
#include <unordered_map>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/handlers/standard_handlers.h"
#include "values.h"

namespace belay::standard_types_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;

class StandardTypesTest : public testing::CheckpointTest {
 protected:
  // Saves a value as "v" and restores it into `found`.
  template <typename T, typename U>
  Status SaveAndRestore(T value, U& found) {
    State state;
    state.Add("v", value);
    const auto saved = Save(comm_, run(), 1, state, {.overwrite = true});
    if (!saved.ok()) return saved.status();
    State wanted;
    wanted.Add("v", found);
    return Restore(comm_, run(), 1, wanted).status();
  }
  // Expects that a value comes back in the place of another one.
  template <typename T>
  void ExpectComesBack(const T& value, T found = {}) {
    EXPECT_EQ(SaveAndRestore(value, found), absl::OkStatus());
    EXPECT_TRUE(found == value);
  }
  // Expects that a value is refused in the place of one of another type.
  template <typename T, typename U>
  void ExpectIsNo(const T& value, U found, const std::string& text) {
    const U before = found;
    ExpectRefused(SaveAndRestore(value, found),
                  absl::StatusCode::kFailedPrecondition, text);
    EXPECT_TRUE(found == before);
  }
  std::string StoredTypestr() {
    for (const ValueInfo& value : Ok(CheckpointReader::Open(run())).Values()) {
      if (value.key == "v") return value.typestr;
    }
    return "";
  }
};

TEST_F(StandardTypesTest, PairsTuplesAndArraysAreLists) {
  ExpectComesBack(std::pair<int32_t, std::string>(7, "seven"));
  EXPECT_EQ(StoredTypestr(), "List");
  ExpectComesBack(std::tuple<double, std::vector<float>, std::optional<int>>(
      2.5, {1, 2, 3}, std::nullopt));
  ExpectComesBack(std::tuple<>());
  ExpectComesBack(std::array<std::string, 2>{"one", "two"});
  ExpectComesBack(std::vector<std::pair<int32_t, double>>{{1, 2}, {3, 4}});
  ExpectComesBack(std::optional(std::pair(1, std::pair(2.5, true))));
  ExpectIsNo(std::pair(1, 2), std::tuple(1, 2, 3), "need 3 values, found 2");
  ExpectIsNo(std::vector<int32_t>{1, 2}, std::pair(1, 2),
             "need typestr \"List\", found \"array\"");
}

enum class Color : uint8_t { kRed = 3, kBlue = 200 };

TEST_F(StandardTypesTest, KeysOfMapsMayBeNumbers) {
  const std::map<int32_t, double> map = {{-5, 1}, {0, 2}, {10, 3}, {9, 4}};
  ExpectComesBack(map, {{9, 0}, {77, 0}});
  EXPECT_EQ(StoredTypestr(), "Dict");
  std::map<std::string, double> by_name;
  ASSERT_EQ(SaveAndRestore(map, by_name), absl::OkStatus());
  EXPECT_EQ(by_name.at("-5"), 1);
  ExpectComesBack(std::map<int64_t, float>(), {{1, 2.0f}});
  ExpectComesBack(std::unordered_map<uint64_t, std::string>{
      {0, "least"}, {~uint64_t{0}, "most"}});
  ExpectComesBack(std::map<Color, std::vector<int32_t>>{{Color::kRed, {1}},
                                                        {Color::kBlue, {}}});
  ExpectComesBack(std::map<int8_t, std::map<bool, double>>{
      {-128, {{true, 1}}}, {127, {{false, 2}, {true, 3}}}});
  for (const std::string key : {"x", "1x", "", "1.5", "300"}) {
    ExpectIsNo(std::map<std::string, double>{{key, 1}},
               std::map<uint8_t, double>{{1, 2}},
               "the keys of the map are numbers");
  }
}

TEST_F(StandardTypesTest, DequesAndListsOfNumbersAreArrays) {
  std::deque<double> numbers;
  for (int i = 0; i < 2000; ++i) numbers.push_back(i / 8.0);
  ExpectComesBack(numbers, std::deque<double>(3));
  EXPECT_EQ(StoredTypestr(), "array");
  std::vector<double> vector;
  ASSERT_EQ(SaveAndRestore(numbers, vector), absl::OkStatus());
  EXPECT_EQ(vector[1999], numbers[1999]);
  ExpectComesBack(std::list<bool>{true, false});
  ExpectComesBack(std::list<int16_t>(), {1, 2});
  ExpectComesBack(std::deque<std::complex<float>>{{1, 2}, {3, 4}});
  ExpectComesBack(std::optional(std::deque<Color>{Color::kBlue}));
  ExpectIsNo(2.5, std::deque<double>{1},
             "no numbers along one axis are stored");
  ExpectIsNo(std::vector<float>{1}, std::deque<double>{1}, "need f64");
}

using Variant = std::variant<std::monostate, int32_t, double, std::string,
                             std::map<int32_t, std::vector<double>>>;

TEST_F(StandardTypesTest, VariantsGetTheAlternativeThatIsStored) {
  const Variant map = std::map<int32_t, std::vector<double>>{{4, {1, 2}}};
  for (const Variant& value :
       {Variant(), Variant(7), Variant(2.5), Variant("text"), map}) {
    for (const Variant& before : {Variant(8), map}) {
      ExpectComesBack(value, before);
    }
  }
  EXPECT_EQ(StoredTypestr(), "variant");
  ExpectComesBack(std::variant<int32_t, int32_t>(std::in_place_index<1>, 5));
  ExpectComesBack(std::optional<Variant>(Variant(3)));
  ExpectComesBack(std::vector<Variant>{Variant(3), Variant("x"), Variant()});
  ExpectComesBack(std::variant<float, Variant>(Variant("inner")));
  ExpectIsNo(map, std::variant<int32_t, double>(1),
             "need an index below 2, found 4");
  ExpectIsNo(4.0, std::variant<int32_t, double>(1),
             "need typestr \"variant\", found \"scalar\"");
}

TEST_F(StandardTypesTest, RanksHoldTheSameAlternative) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  std::variant<int32_t, int64_t> value = 1;
  if (rank_ == size_ - 1) value = int64_t{1};
  State state;
  state.Add("v", value);
  ExpectRefused(Save(comm_, run(), 1, state).status(),
                absl::StatusCode::kInvalidArgument, "v/");
}

TEST_F(StandardTypesTest, TimesAreConvertedBetweenUnits) {
  using namespace std::chrono_literals;
  using Seconds = std::chrono::duration<double>;
  ExpectComesBack(1500ms);
  EXPECT_EQ(StoredTypestr(), "duration 1/1000 s");
  EXPECT_EQ(Ok(Ok(CheckpointReader::Open(run())).ReadTensor("v"))
                .values<int64_t>()[0],
            1500);
  ExpectComesBack(std::chrono::nanoseconds::min());
  ExpectComesBack(Seconds(0.1));
  std::chrono::microseconds fine{};
  ASSERT_EQ(SaveAndRestore(-1500ms, fine), absl::OkStatus());
  EXPECT_EQ(fine, -1500ms);
  std::chrono::minutes coarse{};
  ASSERT_EQ(SaveAndRestore(std::chrono::hours(2), coarse), absl::OkStatus());
  ASSERT_EQ(SaveAndRestore(120s, coarse), absl::OkStatus());
  EXPECT_EQ(coarse, 2min);
  std::chrono::duration<double, std::milli> real{};
  ASSERT_EQ(SaveAndRestore(Seconds(0.25), real), absl::OkStatus());
  EXPECT_EQ(real, 250ms);
  ExpectIsNo(61s, coarse, "need a multiple of 60/1 s, found 61 times 1/1 s");
  ExpectIsNo(std::chrono::hours::max(), std::chrono::nanoseconds(1),
             "need a multiple of 1/1000000000 s");
  using Short = std::chrono::duration<int16_t>;
  using ShortMilli = std::chrono::duration<int16_t, std::milli>;
  ExpectIsNo(Short(1000), ShortMilli(1),
             "need 16 bits, found 1000000 times 1/1000 s");
  ExpectIsNo(1s, Short(1), "need i16, found i64");
  ExpectIsNo(int64_t{5}, 1s, "need typestr \"duration 1/1 s\"");
}

TEST_F(StandardTypesTest, TimesSinceTheEpoch) {
  using Clock = std::chrono::system_clock;
  const Clock::time_point now = Clock::time_point(Clock::duration(
      std::chrono::hours(24 * 365 * 50) + std::chrono::nanoseconds(7)));
  ExpectComesBack(now);
  EXPECT_THAT(StoredTypestr(), HasSubstr("time_point 1/"));
  ExpectComesBack(
      std::optional(std::chrono::time_point_cast<std::chrono::seconds>(now)));
  ExpectIsNo(now, Clock::duration(3), "need typestr \"duration");
}

// A made-up index of one of these would be used as it is.
static_assert(!standard::RandomEngine<std::ranlux24_base>);
static_assert(!standard::RandomEngine<std::ranlux48>);
static_assert(!standard::RandomEngine<std::knuth_b>);

template <typename Engine>
void Advance(Engine& engine, int times) {
  for (int i = 0; i < times; ++i) engine();
}

TEST_F(StandardTypesTest, RandomEnginesGoOn) {
  const auto goes_on = [&](auto engine) {
    Advance(engine, 1234);
    ExpectComesBack(engine);
    auto found = decltype(engine)();
    EXPECT_EQ(SaveAndRestore(engine, found), absl::OkStatus());
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(engine(), found());
  };
  goes_on(std::mt19937(5));
  goes_on(std::mt19937_64(5));
  goes_on(std::minstd_rand0(5));
  goes_on(std::minstd_rand(5));
  goes_on(std::independent_bits_engine<std::mt19937, 7, uint32_t>(5));
  ExpectIsNo(std::minstd_rand0(5), std::minstd_rand(6),
             "found \"random_engine 16807\"");
}

// A program that groups the digits of its output.
class Grouping : public std::numpunct<char> {
  char do_thousands_sep() const override { return '\''; }
  std::string do_grouping() const override { return "\3"; }
};

TEST_F(StandardTypesTest, RandomEnginesDoNotMindALocale) {
  std::mt19937 engine(5), found;
  const std::locale before =
      std::locale::global(std::locale(std::locale(), new Grouping));
  EXPECT_EQ(SaveAndRestore(engine, found), absl::OkStatus());
  std::locale::global(before);
  EXPECT_EQ(found, engine);
}

TEST_F(StandardTypesTest, ASaveThatReusesItsPlanListsThemAnew) {
  std::deque<double> numbers = {1, 2};
  std::chrono::seconds elapsed(1);
  std::mt19937 engine;
  std::variant<int32_t, double> number = 1;
  std::pair<int32_t, std::chrono::seconds> pair;
  std::map<int32_t, double> map = {{1, 1}};
  State state;
  state.Add("numbers", numbers);
  state.Add("elapsed", elapsed);
  state.Add("engine", engine);
  state.Add("number", number);
  state.Add("pair", pair);
  state.Add("map", map);
  PlanCache cache;
  Ok(Save(comm_, run(), 1, state, {.cache = &cache}));
  numbers = {3, 4};
  elapsed = pair.second = std::chrono::seconds(2);
  Advance(engine, 3);
  number = 7;
  map = {{1, 2}};
  const std::mt19937 saved = engine;
  Ok(Save(comm_, run(), 2, state, {.cache = &cache}));
  numbers.clear();
  elapsed = pair.second = {};
  engine.seed(9);
  number = 0.5;
  map.clear();
  Ok(Restore(comm_, run(), 2, state));
  EXPECT_EQ(numbers, (std::deque<double>{3, 4}));
  EXPECT_EQ(elapsed.count(), 2);
  EXPECT_EQ(pair.second.count(), 2);
  EXPECT_EQ(engine, saved);
  EXPECT_EQ(number, (std::variant<int32_t, double>(7)));
  EXPECT_EQ(map.at(1), 2);
}

TEST_F(StandardTypesTest, TheyAreAttributesOfObjects) {
  struct Run {
    std::mt19937 engine;
    std::chrono::milliseconds elapsed{};
    std::variant<int32_t, std::string> mode;
    std::pair<int32_t, double> best;

    void Track(Tracker& tracker) {
      tracker.Value("engine", engine);
      tracker.Value("elapsed", elapsed);
      tracker.Value("mode", mode);
      tracker.Child("best", best);
    }
  };
  Run run_now;
  Advance(run_now.engine, 5);
  run_now.elapsed = std::chrono::seconds(3);
  run_now.mode = "fast";
  run_now.best = {12, 0.5};
  Ok(Checkpoint(comm_, {{"run", run_now}}).Save(run()));
  Run found;
  Checkpoint later(comm_, {{"run", found}});
  EXPECT_EQ(Ok(later.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(found.engine, run_now.engine);
  EXPECT_EQ(found.elapsed, run_now.elapsed);
  EXPECT_EQ(found.mode, run_now.mode);
  EXPECT_EQ(found.best, run_now.best);
}

TEST_F(StandardTypesTest, BytesOfTheProgramHaveAnyLength) {
  std::string memory(1000, '\0'), found;
  memory[999] = '\xff';
  State state;
  state.AddBytes(
      "v", [&] { return memory; },
      [&](const std::string& bytes) {
        found = bytes;
        return absl::OkStatus();
      });
  Ok(Save(comm_, run(), 1, state));
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(found, memory);
  memory.clear();
  PlanCache cache;
  Ok(Save(comm_, run(), 2, state, {.cache = &cache}));
  memory = "more";
  Ok(Save(comm_, run(), 3, state, {.cache = &cache}));
  Ok(Restore(comm_, run(), 2, state));
  EXPECT_EQ(found, "");
  Ok(Restore(comm_, run(), 3, state));
  EXPECT_EQ(found, "more");
}

TEST_F(StandardTypesTest, AFunctionOfBytesFailsOnAllRanks) {
  const auto get = [&]() -> StatusOr<std::string> {
    if (rank_ == 0) return absl::UnavailableError("no bytes now");
    return "bytes";
  };
  State state;
  state.AddBytes("v", get, [](const std::string&) { return absl::OkStatus(); });
  ExpectRefused(Save(comm_, run(), 1, state).status(),
                absl::StatusCode::kUnavailable, "no bytes now");
  State other;
  other.AddBytes(
      "v", [] { return "bytes"; },
      [&](const std::string&) -> Status {
        if (rank_ > 0) return absl::OkStatus();
        return absl::UnavailableError("not these bytes");
      });
  Ok(Save(comm_, run(), 1, other));
  ExpectRefused(Restore(comm_, run(), 1, other).status(),
                absl::StatusCode::kUnavailable, "not these bytes");
  State null;
  null.AddBytes("v", nullptr, nullptr);
  ExpectRefused(Save(comm_, run(), 1, null).status(),
                absl::StatusCode::kInvalidArgument, "a function is null");
}

}  // namespace
}  // namespace belay::standard_types_test
