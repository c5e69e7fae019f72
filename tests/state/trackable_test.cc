#include "belay/objects/trackable.h"

#include <array>
#include <complex>
#include <deque>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "belay/arrays/mesh.h"
#include "belay/arrays/tensor.h"
#include "belay/sharded_variable.h"
#include "gmock/gmock.h"
#include "graph_testing.h"

namespace belay::trackable_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Dense {
  std::vector<float> kernel = std::vector<float>(6);
  float bias = 0;

  void Track(Tracker& tracker) {
    tracker.Value("kernel", {2, 3}, AtAddress(kernel.data()));
    tracker.Child("bias", bias);
  }
};

class Layer : public Trackable {
 public:
  void Track(Tracker& tracker) override { tracker.Child("w", w_); }
  float w_ = 0;
};
class Named {
 public:
  virtual ~Named() = default;
  std::string name = "n";
};
// Whose Trackable does not lie where the object begins.
class NamedLayer : public Named, public Layer {};

TEST(TrackableTest, PlainStructsNeedNoBaseClass) {
  Dense dense;
  const LiveGraph live = Tracked(dense);
  EXPECT_THAT(
      KeysOf(live.graph),
      ElementsAre("/.ATTRIBUTES/kernel", "bias/.ATTRIBUTES/VARIABLE_VALUE"));
  ASSERT_EQ(live.values[0].shards.size(), 1);
  const Shard& shard = live.values[0].shards[0];
  EXPECT_EQ(shard.key, "/.ATTRIBUTES/kernel");
  EXPECT_EQ(shard.data, dense.kernel.data());
  EXPECT_EQ(shard.global_shape, (Shape{2, 3}));
  EXPECT_EQ(shard.replica, State::kReplicaIsRank);
}

TEST(TrackableTest, LeavesOfAllKinds) {
  int64_t steps = 3;
  bool done = false;
  BFloat16 half{};
  std::string text = "t";
  std::vector<double> list = {1, 2};
  std::array<std::complex<float>, 3> array = {};
  uint8_t bytes[4] = {};
  Tensor tensor(DType::kI32, {2, 2});
  float memory[6] = {};
  const auto root = [&](Tracker& t) {
    t.Child("steps", steps);
    t.Child("done", done);
    t.Child("half", half);
    t.Child("text", text);
    t.Child("list", list);
    t.Child("array", array);
    t.Child("bytes", bytes);
    t.Child("tensor", tensor);
    t.Child("span", std::span<float>(memory, 6));
    t.Child("matrix", TrackedValue({2, 3}, memory));
  };
  const ObjectGraph graph = Tracked(root).graph;
  std::vector<std::string> types;
  for (const GraphNode& node : graph.nodes) {
    for (const auto& a : node.attributes) {
      EXPECT_EQ(a.name, kVariableValue);
      types.push_back(std::string(DTypeName(a.dtype)) + ShapeText(a.shape));
    }
  }
  EXPECT_THAT(types, ElementsAre("i64[]", "bool[]", "bf16[]", "string[]",
                                 "f64[2]", "c64[3]", "u8[4]", "i32[2, 2]",
                                 "f32[6]", "f32[2, 3]"));
}

TEST(TrackableTest, ArraysAreOneIfTheyBeginTogetherAndHaveOneShape) {
  float memory[6] = {};
  const auto root = [&](Tracker& t) {
    t.Child("first", memory[0]);
    t.Child("all", TrackedValue({6}, memory));
    t.Child("again", std::span<float>(memory, 6));
    t.Child("too", TrackedValue(Shape{}, memory));
  };
  EXPECT_EQ(Tracked(root).graph.nodes.size(), 3);  // root, first, all
}

TEST(TrackableTest, ContainersAndPointers) {
  std::vector<Dense> list(2);
  std::map<std::string, float> dict = {{"b", 1}, {"a", 2}};
  std::map<int, float> by_number = {{7, 1}};
  std::vector<std::unique_ptr<Trackable>> layers;
  layers.push_back(std::make_unique<Layer>());
  layers.push_back(std::make_unique<NamedLayer>());
  auto shared = std::make_shared<float>();
  std::optional<float> optional = 1;
  std::list<std::vector<float>> rows(1);
  Dense* plain = &list[1];
  std::vector<ObjectRef> mixed = {dict, plain};
  const auto root = [&](Tracker& t) {
    t.Child("list", list);
    t.Child("dict", dict);
    t.Child("numbers", by_number);
    t.Child("layers", layers);
    t.Child("shared", shared);
    t.Child("optional", optional);
    t.Child("rows", rows);
    t.Child("plain", plain);
    t.Child("mixed", mixed);
  };
  const LiveGraph live = Tracked(root);
  const std::string end = "/.ATTRIBUTES/VARIABLE_VALUE";
  EXPECT_THAT(KeysOf(live.graph),
              ::testing::UnorderedElementsAre(
                  "shared" + end, "optional" + end, "plain/.ATTRIBUTES/kernel",
                  "list/0/.ATTRIBUTES/kernel", "dict/a" + end, "dict/b" + end,
                  "numbers/7" + end, "rows/0" + end, "plain/bias" + end,
                  "list/0/bias" + end, "layers/0/w" + end, "layers/1/w" + end));
}

// Where the first value of an object is.
const void* FirstValue(const ObjectRef& object) {
  return Tracked(object).values.at(0).shards.at(0).data;
}

TEST(TrackableTest, PointersAreFollowedWhenTheObjectsAreTracked) {
  std::unique_ptr<float> unique;
  std::optional<float> optional;
  float* plain = nullptr;
  std::unique_ptr<std::unique_ptr<float>> nested;
  const std::vector<Attached> all = {{"unique", unique},
                                     {"optional", optional},
                                     {"plain", plain},
                                     {"nested", nested}};
  for (const auto& [name, object] : all) {
    EXPECT_EQ(MistakeOf(object), "track \"(root)\": the root is null") << name;
  }
  unique = std::make_unique<float>(1);
  optional = 2;
  plain = unique.get();
  nested = std::make_unique<std::unique_ptr<float>>();
  EXPECT_FALSE(TrackObjects(all[3].second, 0).ok());
  *nested = std::make_unique<float>(3);
  EXPECT_EQ(FirstValue(all[0].second), unique.get());
  EXPECT_EQ(FirstValue(all[1].second), &*optional);
  EXPECT_EQ(FirstValue(all[2].second), unique.get());
  EXPECT_EQ(FirstValue(all[3].second), nested->get());
  const auto nothing = [](Tracker&) {};
  // The root, what two pointers lead to, and what each of the others does.
  EXPECT_EQ(Tracked(nothing, all).graph.nodes.size(), 4);
  const auto old = std::exchange(unique, std::make_unique<float>(4));
  EXPECT_EQ(FirstValue(all[0].second), unique.get());
  EXPECT_EQ(FirstValue(all[2].second), old.get());
  EXPECT_EQ(Tracked(nothing, all).graph.nodes.size(), 5);
}

TEST(TrackableTest, PlainPointersMayBeTemporary) {
  float here = 0, there = 0;
  float* pointer = &here;
  const ObjectRef copied = pointer + 0;
  pointer = &there;
  EXPECT_EQ(FirstValue(copied), &here);
  std::vector<float> values(2);
  const auto root = [&](Tracker& t) {
    for (float& value : values) {
      float* const local = &value;
      t.Child(std::to_string(&value - values.data()), local);
    }
  };
  const LiveGraph live = Tracked(root);
  ASSERT_EQ(live.values.size(), 2);
  EXPECT_EQ(live.values[0].shards[0].data, &values[0]);
  EXPECT_EQ(live.values[1].shards[0].data, &values[1]);
}

TEST(TrackableTest, OneObjectSeenThroughTwoTypesIsOne) {
  NamedLayer layer;
  Trackable* base = &layer;
  Layer* middle = &layer;
  const auto root = [&](Tracker& t) {
    t.Child("a", base);
    t.Child("b", middle);
    t.Child("c", layer);
  };
  EXPECT_EQ(Tracked(root).graph.nodes.size(), 3);  // root, layer, w
}

TEST(TrackableTest, AMemberThatBeginsWhereItsOwnerDoesIsAnother) {
  struct Inner {
    float first = 0;
    void Track(Tracker& tracker) { tracker.Child("first", first); }
  };
  struct Outer {
    Inner inner;
    void Track(Tracker& tracker) { tracker.Child("inner", inner); }
  } outer;
  EXPECT_THAT(KeysOf(Tracked(outer).graph),
              ElementsAre("inner/first/.ATTRIBUTES/VARIABLE_VALUE"));
}

TEST(TrackableTest, LaidOutPiecesAndShardedVariables) {
  const Mesh mesh = Mesh::Create({{"x", 2}}).value();
  const Layout rows = Layout::Create(mesh, {{"x"}, {}}).value();
  std::vector<float> local(6);
  ShardedVariable table("table", DType::kI32, {4, 2},
                        {{.first_row = 0, .num_rows = 2, .owner = 0},
                         {.first_row = 2,
                          .num_rows = 2,
                          .owner = 1,
                          .data = reinterpret_cast<std::byte*>(local.data())}},
                        nullptr);
  int32_t piece[2] = {};
  const auto root = [&](Tracker& t) {
    EXPECT_EQ(t.rank(), 1);
    t.Value("rows", rows, {4, 3}, local);
    t.Value("table", table);
    t.Value(
        "pieces",
        TrackedValue({8}, Box{{0}, {2}}, piece).AddPiece(Box{{4}, {2}}, piece));
  };
  const LiveGraph live = TrackObjects(root, 1).value();
  const auto& attributes = live.graph.nodes[0].attributes;
  EXPECT_EQ(attributes[0].layout, "[x,-] on x=2");
  EXPECT_EQ(live.values[0].shards[0].box, (Box{{2, 0}, {2, 3}}));
  EXPECT_EQ(attributes[1].shape, (Shape{4, 2}));
  ASSERT_EQ(live.values[1].shards.size(), 1);
  EXPECT_EQ(live.values[1].shards[0].box, (Box{{2, 0}, {2, 2}}));
  ASSERT_EQ(live.values[2].shards.size(), 2);
  EXPECT_EQ(live.values[2].shards[1].box, (Box{{4}, {2}}));
  EXPECT_EQ(live.values[2].shards[1].replica, 0);
}

// An owner says anew for each save where its values lie: what it passes may go.
TEST(TrackableTest, ViewsAndFunctionsAreAskedWhenTheOwnerIsTracked) {
  std::vector<float> first(6, 1), second(6, 2);
  float* current = first.data();
  const auto root = [&](Tracker& t) {
    std::span<float> view(current, 6);
    t.Value("view", view);
    t.Value("function", {2, 3}, [&] { return view; });
    t.Value("pieces", TrackedValue({12}, Box{{0}, {6}}, [&] { return view; }));
  };
  for (const std::vector<float>* memory : {&first, &second}) {
    current = const_cast<float*>(memory->data());
    const LiveGraph live = TrackObjects(root, 0).value();
    ASSERT_EQ(live.values.size(), 3);
    for (const LiveValue& value : live.values) {
      EXPECT_EQ(value.shards[0].data, memory->data());
      EXPECT_EQ(value.shards[0].access, nullptr);
    }
  }
}

TEST(TrackableTest, MistakesAreCollected) {
  float x = 0;
  std::unique_ptr<Dense> none;
  std::vector<float> two(2);
  const auto inner = [&](Tracker& t) {
    t.Child("", x);
    t.Child("null", none);
    t.Child("twice", x);
    t.Child("twice", two);
    t.Value("twice", x);
    t.Value("twice", x);
    t.Value("small", {3}, two);
    t.Value("large", {1}, two);
    t.Value("null", {3}, AtAddress(static_cast<float*>(nullptr)));
    t.Value(std::string("nul\0byte", 8), x);
    t.Value("deep", TrackedValue({2}, Box{{1}, {2}}, two));
    t.Bytes("rng", nullptr, nullptr);
  };
  const auto root = [&](Tracker& t) { t.Child("in", inner); };
  const std::string text = MistakeOf(root);
  for (const char* part :
       {"track \"(root).in\": a child has an empty name",
        "track \"(root).in\": child \"null\" is null",
        "track \"(root).in\": two children are named \"twice\"",
        "track \"(root).in\": two values are named \"twice\"",
        "add \"in/.ATTRIBUTES/small\": the size of the memory does not match "
        "its "
        "box (need 3 elements, found 2)",
        "add \"in/.ATTRIBUTES/large\": the size of the memory does not match "
        "its "
        "box (need 1 elements, found 2)",
        "add \"in/.ATTRIBUTES/deep\": check box ",
        "add \"in/.ATTRIBUTES/null\": the pointer is null",
        "the name of a value has a NUL byte", "axis 0",
        "track \"(root).in\": a function of \"rng\" is null"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(TrackObjects(root, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MistakeOf(none), "track \"(root)\": the root is null");
}

TEST(TrackableTest, ADescriptionThatThrowsIsAMistake) {
  const auto root = [](Tracker& t) {
    t.Child("bad", [](Tracker&) { throw std::runtime_error("no file"); });
    t.Child("worse", [](Tracker&) { throw 1; });
  };
  EXPECT_EQ(MistakeOf(root),
            "track \"(root).bad\": its description threw an exception: no "
            "file; track \"(root).worse\": its description threw an exception "
            "of a type without text");
  const auto greedy = [](Tracker&) { throw std::bad_alloc(); };
  EXPECT_EQ(TrackObjects(greedy, 0).status(),
            absl::ResourceExhaustedError("track \"(root)\": its description "
                                         "threw an exception: out of memory"));
}

void Forever(Tracker& tracker) { tracker.Child("next", Forever); }

TEST(TrackableTest, FunctionsThatDescribeEachOtherForEverAreAMistake) {
  EXPECT_THAT(MistakeOf(Forever), HasSubstr("need at most 1000"));
}

TEST(TrackableTest, ManyMistakesAreShortened) {
  const auto root = [](Tracker& t) {
    for (int i = 0; i < 25; ++i) t.Child("", ObjectRef());
  };
  EXPECT_THAT(MistakeOf(root), HasSubstr("; and 15 more"));
}

TEST(TrackableTest, OpaqueStateIsFetchedAndHandedOver) {
  std::string state = "seed 7";
  const auto root = [&](Tracker& t) {
    t.Bytes(
        "rng", [&] { return state; },
        [&](const std::string& bytes) {
          state = "got " + bytes;
          return absl::OkStatus();
        });
    t.Bytes(
        "bad", [] { return absl::AbortedError("locked"); },
        [](const std::string&) -> Status { throw std::runtime_error("full"); });
  };
  LiveGraph live = Tracked(root);
  EXPECT_TRUE(live.graph.nodes[0].attributes[0].opaque);
  EXPECT_EQ(live.graph.nodes[0].attributes[0].dtype, DType::kString);
  EXPECT_EQ(FetchOpaqueStates(live),
            absl::AbortedError("fetch state \"/.ATTRIBUTES/bad\": locked"));
  ASSERT_NE(live.values[0].shards[0].text, nullptr);
  EXPECT_EQ(*live.values[0].shards[0].text, "seed 7");
  const LiveGraph moved = std::move(live);
  *moved.values[0].shards[0].text = "seed 8";
  EXPECT_EQ(HandOverOpaqueStates(moved, {{.value = 0, .key = "k"}}),
            absl::OkStatus());
  EXPECT_EQ(state, "got seed 8");
  EXPECT_EQ(HandOverOpaqueStates(moved, {{.value = 1, .key = "k"}}),
            absl::InternalError("hand over state \"k\": exception: full"));
}

// What must not compile, and what must.
template <typename T>
concept CanBeValue = std::convertible_to<T, TrackedValue>;
static_assert(CanBeValue<float&> && CanBeValue<std::vector<int>&>);
static_assert(CanBeValue<std::span<double>> && CanBeValue<std::string&>);
static_assert(CanBeValue<const float&> && CanBeValue<std::span<const int>>);
static_assert(CanBeValue<const std::vector<int>&>);
static_assert(CanBeValue<const std::string&> && !CanBeValue<std::string>);
static_assert(!CanBeValue<const char (&)[4]> && !CanBeValue<std::string_view>);
static_assert(!CanBeValue<std::vector<bool>&>);
static_assert(!CanBeValue<long double&> && !CanBeValue<void*&>);
static_assert(!CanBeValue<float>);
static_assert(tracking::IsTemporaryOwner<std::unique_ptr<float>>);
static_assert(tracking::IsTemporaryOwner<const std::shared_ptr<float>>);
static_assert(tracking::IsTemporaryOwner<std::optional<float>>);
static_assert(!tracking::IsTemporaryOwner<std::unique_ptr<float>&>);
static_assert(!tracking::IsTemporaryOwner<float*>);
static_assert(!tracking::IsTemporaryOwner<std::vector<float>>);

}  // namespace
}  // namespace belay::trackable_test
