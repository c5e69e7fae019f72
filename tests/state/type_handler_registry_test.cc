#include "belay/extend/type_handler_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "handler_testing.h"

namespace belay::type_handler_registry_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Polynomial;
using testing::PolynomialHandler;

struct Apple {};
struct Pear {};

// Takes values of any type, and tells them by their type.
class AnyHandler : public TypeHandler {
 public:
  explicit AnyHandler(std::string typestr) : typestr_(std::move(typestr)) {}
  std::string typestr() const override { return typestr_; }
  Status ListValueForSave(const ValueRef&, State&) const override {
    return absl::OkStatus();
  }
  Status ListValueForRestore(const ValueRef&, const StoredValue&,
                             State&) const override {
    return absl::OkStatus();
  }

 private:
  std::string typestr_;
};

TypeHandlerPtr Any(const std::string& typestr) {
  return std::make_shared<AnyHandler>(typestr);
}

bool IsInteger(std::type_index type) {
  return type == typeid(int) || type == typeid(bool) || type == typeid(long);
}

template <typename T>
std::string TypestrOf(const TypeHandlerRegistry& registry) {
  const StatusOr<TypeHandlerPtr> handler = registry.Get<T>();
  return handler.ok() ? (*handler)->typestr() : "none";
}

TEST(RegistryTest, FindsByTypeAndByTypestr) {
  TypeHandlerRegistry registry;
  const TypeHandlerPtr apple = Any("apple");
  ASSERT_EQ(registry.Add<Apple>(apple), absl::OkStatus());
  EXPECT_EQ(registry.Get<Apple>().value(), apple);
  EXPECT_EQ(registry.GetByTypestr("apple").value(), apple);
  EXPECT_TRUE(registry.Has<Apple>());
  EXPECT_FALSE(registry.Has<Pear>());
}

// Orbax: test_missing_global_type_handler.
TEST(RegistryTest, MissingGlobalTypeHandler) {
  EXPECT_FALSE(HasTypeHandler<Apple>());
  EXPECT_EQ(
      GetTypeHandler<Apple>().status(),
      absl::NotFoundError(
          "find type handler \"belay::type_handler_registry_test::(anonymous "
          "namespace)::Apple\": no handler is "
          "registered for this type"));
  const Status status =
      GlobalTypeHandlerRegistry().GetByTypestr("fruit").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"fruit\""));
}

// Orbax: test_type_handler_registration.
TEST(RegistryTest, OverrideReplacesGlobally) {
  struct Local {};
  ASSERT_EQ(RegisterTypeHandler<Local>(Any("local")), absl::OkStatus());
  EXPECT_TRUE(absl::IsAlreadyExists(RegisterTypeHandler<Local>(Any("other"))));
  const TypeHandlerPtr other = Any("other local");
  ASSERT_EQ(RegisterTypeHandler<Local>(other, {.override_existing = true}),
            absl::OkStatus());
  EXPECT_EQ(GetTypeHandler<Local>().value(), other);
}

// Orbax: test_local_type_handler_registration.
TEST(RegistryTest, ALocalRegistryHasItsOwnEntriesOnly) {
  const StatusOr<TypeHandlerRegistry> local =
      CreateTypeHandlerRegistry({EntryFor<Apple>(Any("apple"))});
  ASSERT_TRUE(local.ok());
  EXPECT_TRUE(local->Has<Apple>());
  EXPECT_FALSE(HasTypeHandler<Apple>());
  struct InGlobal {};
  ASSERT_EQ(RegisterTypeHandler<InGlobal>(Any("in global")), absl::OkStatus());
  EXPECT_FALSE(local->Has<InGlobal>());
  EXPECT_TRUE(absl::IsNotFound(local->GetByTypestr("in global").status()));
  EXPECT_THAT(local->Typestrs(), ElementsAre("apple"));
}

TEST(RegistryTest, CreatingFailsWhereAddingDoes) {
  EXPECT_TRUE(absl::IsAlreadyExists(
      CreateTypeHandlerRegistry(
          {EntryFor<Apple>(Any("apple")), EntryFor<Pear>(Any("apple"))})
          .status()));
}

TEST(RegistryTest, AddingATypeTwiceIsAnError) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<Apple>(Any("apple")), absl::OkStatus());
  EXPECT_EQ(
      registry.Add<Apple>(Any("other")),
      absl::AlreadyExistsError(
          "register type handler "
          "\"belay::type_handler_registry_test::(anonymous namespace)::Apple\":"
          " the handler \"apple\" handles this type already; set "
          "override_existing"));
  EXPECT_EQ(TypestrOf<Apple>(registry), "apple");
  EXPECT_THAT(registry.Typestrs(), ElementsAre("apple"));
}

// In the seed, overriding points the typestr of one type to the handler of
// another.
TEST(RegistryTest, ATypestrIsUniqueEvenWhenOverriding) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<Apple>(Any("fruit")), absl::OkStatus());
  for (const bool override_existing : {false, true}) {
    const Status status = registry.Add<Pear>(
        Any("fruit"), {.override_existing = override_existing});
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("Apple\", has the typestr \"fruit\""));
  }
  EXPECT_FALSE(registry.Has<Pear>());
}

TEST(RegistryTest, OneHandlerMayHaveSeveralTypes) {
  TypeHandlerRegistry registry;
  const TypeHandlerPtr fruit = Any("fruit");
  ASSERT_EQ(registry.Add<Apple>(fruit), absl::OkStatus());
  ASSERT_EQ(registry.Add<Pear>(fruit), absl::OkStatus());
  EXPECT_EQ(registry.Get<Pear>().value(), fruit);
}

TEST(RegistryTest, TheFirstMatchWins) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<bool>(Any("bool")), absl::OkStatus());
  ASSERT_EQ(registry.Add<int>(Any("integer"), {.accepts = IsInteger}),
            absl::OkStatus());
  EXPECT_EQ(TypestrOf<bool>(registry), "bool");
  EXPECT_EQ(TypestrOf<int>(registry), "integer");
  EXPECT_EQ(TypestrOf<long>(registry), "integer");
  EXPECT_TRUE(absl::IsAlreadyExists(registry.Add<long>(Any("long"))));
}

// In the seed, overriding bool takes the entry of the integers, whose other
// types then have no handler.
TEST(RegistryTest, OverridingOneTypeOfAPredicateLeavesTheOthers) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<int>(Any("integer"), {.accepts = IsInteger}),
            absl::OkStatus());
  ASSERT_EQ(registry.Add<bool>(Any("bool"), {.override_existing = true}),
            absl::OkStatus());
  EXPECT_EQ(TypestrOf<bool>(registry), "bool");
  EXPECT_EQ(TypestrOf<int>(registry), "integer");
  EXPECT_EQ(TypestrOf<long>(registry), "integer");
  EXPECT_THAT(registry.Typestrs(), ElementsAre("bool", "integer"));
}

// In the seed, an override loses the predicate of the entry.
TEST(RegistryTest, OverridingKeepsThePredicateAndThePlace) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<int>(Any("integer"), {.accepts = IsInteger}),
            absl::OkStatus());
  ASSERT_EQ(registry.Add<Apple>(Any("apple")), absl::OkStatus());
  ASSERT_EQ(registry.Add<int>(Any("better"), {.override_existing = true}),
            absl::OkStatus());
  EXPECT_EQ(TypestrOf<long>(registry), "better");
  EXPECT_THAT(registry.Typestrs(), ElementsAre("better", "apple"));
  const auto only_int = [](std::type_index t) { return t == typeid(int); };
  ASSERT_EQ(registry.Add<int>(Any("best"),
                              {.accepts = only_int, .override_existing = true}),
            absl::OkStatus());
  EXPECT_EQ(TypestrOf<int>(registry), "best");
  EXPECT_EQ(TypestrOf<long>(registry), "none");
}

// In the seed, the typestr of a handler that was replaced still finds it.
TEST(RegistryTest, OverridingForgetsTheOldTypestr) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<Apple>(Any("old")), absl::OkStatus());
  ASSERT_EQ(registry.Add<Apple>(Any("new"), {.override_existing = true}),
            absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(registry.GetByTypestr("old").status()));
  EXPECT_THAT(registry.Typestrs(), ElementsAre("new"));
  // And is free for others.
  EXPECT_EQ(registry.Add<Pear>(Any("old")), absl::OkStatus());
}

TEST(RegistryTest, OverridingWhatIsHiddenMovesItToTheFront) {
  TypeHandlerRegistry registry;
  const auto all = [](std::type_index) { return true; };
  ASSERT_EQ(registry.Add<int>(Any("int")), absl::OkStatus());
  ASSERT_EQ(registry.Add<Apple>(Any("apple")), absl::OkStatus());
  ASSERT_EQ(registry.Add<int>(Any("all"),
                              {.accepts = all, .override_existing = true}),
            absl::OkStatus());
  EXPECT_EQ(TypestrOf<Apple>(registry), "all");
  ASSERT_EQ(registry.Add<Apple>(Any("new"), {.override_existing = true}),
            absl::OkStatus());
  EXPECT_EQ(TypestrOf<Apple>(registry), "new");
  EXPECT_EQ(TypestrOf<Pear>(registry), "all");
  EXPECT_THAT(registry.Typestrs(), ElementsAre("new", "all"));
}

TEST(RegistryTest, OverridingWhatIsNotThereAddsIt) {
  TypeHandlerRegistry registry;
  EXPECT_EQ(registry.Add<Apple>(Any("apple"), {.override_existing = true}),
            absl::OkStatus());
  EXPECT_TRUE(registry.Has<Apple>());
}

TEST(RegistryTest, BadEntriesAreRefused) {
  TypeHandlerRegistry registry;
  const auto none = [](std::type_index) { return false; };
  const auto broken = [](std::type_index) -> bool {
    throw std::runtime_error("no idea");
  };
  const std::pair<Status, std::string> refused[] = {
      {registry.Add<Apple>(nullptr), "the handler is null"},
      {registry.Add<Apple>(Any("")), "its typestr is empty"},
      {registry.Add<Apple>(Any(std::string("a\0b", 3))), "NUL byte"},
      {registry.Add<Apple>(Any("a"), {.accepts = none}),
       "it is not for its own type"},
      {registry.Add<Apple>(Any("a"), {.accepts = broken}), "no idea"}};
  for (const auto& [status, text] : refused) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  for (const char* plain :
       {"scalar", "array", "string", "group", "None", "Dict", "List"}) {
    EXPECT_TRUE(absl::IsAlreadyExists(registry.Add<Apple>(Any(plain))));
  }
  EXPECT_THAT(registry.Typestrs(), ElementsAre());
}

TEST(RegistryTest, APredicateThatThrowsLaterIsAnError) {
  TypeHandlerRegistry registry;
  const auto broken = [](std::type_index type) -> bool {
    if (type == typeid(Apple)) return true;
    throw std::runtime_error("no idea");
  };
  ASSERT_EQ(registry.Add<Apple>(Any("apple"), {.accepts = broken}),
            absl::OkStatus());
  EXPECT_EQ(registry.Get<Pear>().status(),
            absl::InternalError("exception: no idea"));
  EXPECT_FALSE(registry.Has<Pear>());
}

TEST(RegistryTest, ATypedHandlerRefusesOtherTypes) {
  const PolynomialHandler handler;
  Apple apple;
  State parts;
  const Status status =
      handler.ListValueForSave({&apple, typeid(Apple)}, parts);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  Polynomial value;
  EXPECT_EQ(handler.ListValueForSave({&value, typeid(Polynomial)}, parts),
            absl::OkStatus());
  EXPECT_EQ(parts.shards().size(), 2);
}

// Many threads look up while others add.
TEST(RegistryTest, ThreadsMayUseItAtOnce) {
  TypeHandlerRegistry registry;
  ASSERT_EQ(registry.Add<Apple>(Any("apple")), absl::OkStatus());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry, t] {
      for (int i = 0; i < 200; ++i) {
        const Status status =
            t == 0
                ? registry.Add<Apple>(Any("apple"), {.override_existing = true})
                : registry.Get<Apple>().status();
        if (!status.ok()) std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(registry.Typestrs(), ElementsAre("apple"));
}

TEST(TypeHandlerTest, MemorySizeCountsWhatIsListed) {
  Polynomial value{{1, 2, 3}, "time"};
  const PolynomialHandler handler;
  EXPECT_EQ(handler.MemorySize({&value, typeid(Polynomial)}).value(), 28);
  const testing::OddHandler broken(
      [](testing::Odd&, State&) { return absl::AbortedError("busy"); });
  testing::Odd odd;
  EXPECT_EQ(broken.MemorySize({&odd, typeid(testing::Odd)}).status(),
            absl::AbortedError("busy"));
}

}  // namespace
}  // namespace belay::type_handler_registry_test
