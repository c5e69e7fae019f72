#include "state/value_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "belay/extend/state.h"
#include "handler_testing.h"
#include "state/type_handlers.h"

namespace belay::value_listing_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Odd;
using testing::OddHandler;
using testing::Polynomial;
using testing::Polynomials;
using testing::RegistryOf;

std::vector<std::string> KeysOf(const HandlerListing& listing) {
  std::vector<std::string> keys;
  for (const Shard& shard : listing.shards) keys.push_back(shard.key);
  return keys;
}

StatusOr<HandlerListing> Save(const State& state,
                              const TypeHandlerRegistry& registry) {
  return ListForSave(state, *GetHandlers(&registry));
}

// All values of a state, as they are.
StatusOr<ValuesToRead> ToRead(const State& state,
                              const TypeHandlerRegistry& registry) {
  return ChooseValues(state, *GetHandlers(&registry),
                      [](std::string_view) { return RestoreChoice(); });
}

StatusOr<HandlerListing> List(const State& state,
                              const TypeHandlerRegistry& registry,
                              const std::vector<StoredValue>& stored) {
  return ListForRestore(ToRead(state, registry).value(),
                        *GetHandlers(&registry), stored);
}

Status SaveOdd(OddHandler::List list) {
  Odd odd;
  State state;
  state.Add("k", odd);
  return Save(state, RegistryOf({EntryFor<Odd>(
                         std::make_shared<OddHandler>(std::move(list)))}))
      .status();
}

StoredValue StoredPolynomial(int64_t size) {
  return {.key = "p",
          .typestr = "polynomial",
          .parts = {{"coefficients", DType::kF64, {size}, 8 * size},
                    {"variable", DType::kString, {}, 1}},
          .values = {}};
}

TEST(ValueListingTest, PlainValuesAreListedAsTheyAre) {
  int32_t number = 0;
  std::vector<float> values(3);
  State state;
  state.Add("number", number);
  state.AddReplicated("values", {3}, AtAddress(values.data()));
  const HandlerListing listing = Save(state, TypeHandlerRegistry()).value();
  EXPECT_THAT(KeysOf(listing), ElementsAre("number", "values"));
  EXPECT_TRUE(listing.values.empty());
}

TEST(ValueListingTest, PartsStandBehindTheKey) {
  Polynomial value{{1, 2}, "t"};
  State state;
  state.Add("p", value);
  const HandlerListing listing = Save(state, Polynomials()).value();
  EXPECT_THAT(KeysOf(listing), ElementsAre("p/coefficients", "p/variable"));
  EXPECT_EQ(listing.shards[0].data, value.coefficients.data());
  const ListedValue expected{"p", "polynomial", {"coefficients", "variable"}};
  EXPECT_THAT(listing.values, ElementsAre(expected));
}

TEST(ValueListingTest, ATypeWithoutHandlerIsNamed) {
  Polynomial value;
  State state;
  state.Add("p", value);
  const Status expected = absl::InvalidArgumentError(
      "list \"p\": no handler for type belay::testing::Polynomial: register "
      "one with RegisterTypeHandler<belay::testing::Polynomial>; an "
      "object with a member void Track(belay::Tracker&) goes into a "
      "Checkpoint, not into a State");
  const TypeHandlerRegistry none;
  EXPECT_EQ(Save(state, none).status(), expected);
  EXPECT_EQ(ToRead(state, none).status(), expected);
}

// The handler of a list calls its parts "0", "1", ...
TEST(ValueListingTest, ATypeWithoutHandlerInsideAListHasAWholeKey) {
  std::map<std::string, std::vector<Polynomial>> value;
  value["p"].resize(2);
  State state;
  state.Add("model", value);
  const TypeHandlerRegistry none;
  EXPECT_EQ(Save(state, none).status(),
            absl::InvalidArgumentError(
                "list \"model/p/0\": no handler for type "
                "belay::testing::Polynomial: register one with "
                "RegisterTypeHandler<belay::testing::Polynomial>; an "
                "object with a member void Track(belay::Tracker&) goes into a "
                "Checkpoint, not into a State"));
}

TEST(ValueListingTest, AnEntryForNumbersTakesPrecedence) {
  class Doubled : public Handler<int32_t> {
   public:
    std::string typestr() const override { return "doubled"; }
    Status ListForSave(int32_t& value, State& parts) const override {
      int64_t& twice = Own(parts, std::make_shared<int64_t>(2 * value));
      parts.Add("", twice);
      return absl::OkStatus();
    }
    Status ListForRestore(int32_t&, const StoredValue&, State&) const override {
      return absl::OkStatus();
    }
  };
  int32_t number = 21;
  float other = 0;
  State state;
  state.Add("number", number);
  state.Add("other", other);
  const HandlerListing listing =
      Save(state, RegistryOf({EntryFor<int32_t>(std::make_shared<Doubled>())}))
          .value();
  EXPECT_THAT(KeysOf(listing), ElementsAre("number", "other"));
  EXPECT_EQ(listing.shards[0].dtype, DType::kI64);
  EXPECT_EQ(*static_cast<int64_t*>(listing.shards[0].data), 42);
  const ListedValue expected{"number", "doubled", {""}};
  EXPECT_THAT(listing.values, ElementsAre(expected));
}

TEST(ValueListingTest, ValuesInsideValuesHaveRowsOfTheirOwn) {
  struct Pair {
    Polynomial first, second;
  };
  class PairHandler : public Handler<Pair> {
   public:
    std::string typestr() const override { return "pair"; }
    Status ListForSave(Pair& value, State& parts) const override {
      parts.Add("a", value.first);
      parts.Add("b", value.second);
      return absl::OkStatus();
    }
    Status ListForRestore(Pair& value, const StoredValue&,
                          State& parts) const override {
      return ListForSave(value, parts);
    }
  };
  TypeHandlerRegistry registry = Polynomials();
  ASSERT_EQ(registry.Add<Pair>(std::make_shared<PairHandler>()),
            absl::OkStatus());
  Pair pair;
  State state;
  state.Add("k", pair);
  const HandlerListing listing = Save(state, registry).value();
  EXPECT_THAT(KeysOf(listing), ElementsAre("k/a/coefficients", "k/a/variable",
                                           "k/b/coefficients", "k/b/variable"));
  ASSERT_EQ(listing.values.size(), 3);
  EXPECT_EQ(listing.values[1].key, "k/b");
  EXPECT_THAT(listing.values[2].parts,
              ElementsAre("a/coefficients", "a/variable", "b/coefficients",
                          "b/variable"));

  StoredValue a = StoredPolynomial(3), b = StoredPolynomial(1);
  a.key = "k/a";
  b.key = "k/b";
  const StoredValue stored{
      .key = "k", .typestr = "pair", .parts = {}, .values = {a, b}};
  const HandlerListing wanted = List(state, registry, {stored}).value();
  EXPECT_EQ(pair.first.coefficients.size(), 3);
  EXPECT_EQ(pair.second.coefficients.size(), 1);
  ASSERT_EQ(wanted.handled.size(), 3);
  EXPECT_EQ(wanted.handled[2].key, "k");
}

TEST(ValueListingTest, WhatAHandlerReturnsOrThrowsNamesTheKey) {
  EXPECT_EQ(SaveOdd([](Odd&, State&) { return absl::AbortedError("busy"); }),
            absl::AbortedError("list \"k\" (handler \"odd\"): busy"));
  EXPECT_EQ(
      SaveOdd([](Odd&, State&) -> Status { throw std::runtime_error("no"); }),
      absl::InternalError("list \"k\" (handler \"odd\"): exception: no"));
  EXPECT_EQ(SaveOdd([](Odd&, State&) -> Status { throw std::bad_alloc(); }),
            absl::ResourceExhaustedError(
                "list \"k\" (handler \"odd\"): exception: out of memory"));
  EXPECT_EQ(
      SaveOdd([](Odd&, State& parts) {
        parts.AddReplicated("x", {3}, AtAddress(static_cast<float*>(nullptr)));
        return absl::OkStatus();
      }),
      absl::InvalidArgumentError(
          "list \"k\" (handler \"odd\"): add \"x\": the pointer is null"));
}

TEST(ValueListingTest, NullIsAMistake) {
  State state;
  state.Add("p", static_cast<Polynomial*>(nullptr));
  EXPECT_EQ(state.status(),
            absl::InvalidArgumentError("add \"p\": the pointer is null"));
  State vector;
  vector.Add("v", static_cast<std::vector<float>*>(nullptr));
  EXPECT_FALSE(vector.status().ok());
}

TEST(ValueListingTest, AValueThatHoldsItselfIsAnError) {
  const Status status = SaveOdd([](Odd& odd, State& parts) {
    parts.Add("again", odd);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("need at most 32"));
}

TEST(ValueListingTest, AValueInPlaceOfTheWholeIsAlone) {
  Polynomial inner;
  const auto list = [&](Odd& odd, State& parts) {
    parts.Add("", inner);
    parts.Add("values", odd.values);
    return absl::OkStatus();
  };
  EXPECT_THAT(std::string(SaveOdd(list).message()),
              HasSubstr("beside other parts"));
}

TEST(ValueListingTest, RestoringMayResizeTheValue) {
  Polynomial value;
  State state;
  state.Add("p", value);
  const TypeHandlerRegistry registry = Polynomials();
  const HandlerListing listing =
      List(state, registry, {StoredPolynomial(5)}).value();
  EXPECT_EQ(value.coefficients.size(), 5);
  EXPECT_EQ(listing.shards[0].global_shape, Shape({5}));
  ASSERT_EQ(listing.handled.size(), 1);
  EXPECT_EQ(listing.handled[0].stored, StoredPolynomial(5));
}

TEST(ValueListingTest, AValueOfAnotherHandlerIsRefused) {
  Polynomial value;
  State state;
  state.Add("p", value);
  StoredValue stored = StoredPolynomial(5);
  stored.typestr = "matrix";
  EXPECT_EQ(
      List(state, Polynomials(), {stored}).status(),
      absl::FailedPreconditionError(
          "list \"p\" (handler \"polynomial\"): a value of another type is "
          "stored (need typestr \"polynomial\", found \"matrix\")"));
  // Arrays without a handler are accepted; what comes of it is its own affair.
  stored.typestr = "group";
  EXPECT_TRUE(List(state, Polynomials(), {stored}).ok());
}

TEST(ValueListingTest, AHandlerMayAskForMoreUntilItHasAll) {
  class Asking : public Handler<Odd> {
   public:
    std::string typestr() const override { return "asking"; }
    Status ListForSave(Odd& value, State& parts) const override {
      parts.Add("first", value.values);
      return absl::OkStatus();
    }
    Status ListForRestore(Odd& value, const StoredValue&,
                          State& parts) const override {
      return ListForSave(value, parts);
    }
    Status Received(Odd& value, const StoredValue&, int round,
                    State& more) const override {
      if (round < 2) more.Add(std::to_string(round), value.values);
      return absl::OkStatus();
    }
  };
  const TypeHandlerRegistry registry =
      RegistryOf({EntryFor<Odd>(std::make_shared<Asking>())});
  Odd odd;
  State state;
  state.Add("k", odd);
  const StoredValue stored{
      .key = "k", .typestr = "asking", .parts = {}, .values = {}};
  HandlerListing listing = List(state, registry, {stored}).value();
  for (const char* key : {"k/0", "k/1"}) {
    listing = ListMore(listing, *GetHandlers(&registry)).value();
    EXPECT_THAT(KeysOf(listing), ElementsAre(key));
  }
  listing = ListMore(listing, *GetHandlers(&registry)).value();
  EXPECT_TRUE(listing.handled.empty());
}

TEST(ValueListingTest, AHandlerThatNeverHasEnoughIsAnError) {
  class Greedy : public OddHandler {
   public:
    using OddHandler::OddHandler;
    Status Received(Odd& value, const StoredValue&, int,
                    State& more) const override {
      more.Add("more", value.values);
      return absl::OkStatus();
    }
  };
  const TypeHandlerRegistry registry =
      RegistryOf({EntryFor<Odd>(std::make_shared<Greedy>(
          [](Odd&, State&) { return absl::OkStatus(); }))});
  Odd odd;
  State state;
  state.Add("k", odd);
  const StoredValue stored{
      .key = "k", .typestr = "odd", .parts = {}, .values = {}};
  StatusOr<HandlerListing> listing = List(state, registry, {stored});
  for (int round = 0; round < 40 && listing.ok(); ++round) {
    listing = ListMore(HandlerListing(*listing), *GetHandlers(&registry));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(listing.status()));
  EXPECT_THAT(std::string(listing.status().message()),
              HasSubstr("need at most 16 rounds"));
}

}  // namespace
}  // namespace belay::value_listing_test
