// Values with handlers through Save and Restore, on several ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "belay/extend/state.h"
#include "handler_testing.h"
#include "values.h"

namespace belay::type_handler_test {
namespace {

using ::testing::HasSubstr;
using testing::Odd;
using testing::OddHandler;
using testing::Polynomial;
using testing::Polynomials;
using testing::RegistryOf;

class TypeHandlerTest : public testing::CheckpointTest {
 protected:
  Status SaveOne(State& state, const TypeHandlerRegistry& handlers,
                 int64_t step = 1, PlanCache* cache = nullptr) {
    return Save(comm_, run(), step, state,
                {.overwrite = true, .handlers = &handlers, .cache = cache})
        .status();
  }
  Status RestoreOne(State& state, const TypeHandlerRegistry& handlers,
                    int64_t step = 1) {
    return Restore(comm_, run(), step, state, {.handlers = &handlers}).status();
  }
  // Saves a value whose handler does what `list` says.
  Status SaveOdd(OddHandler::List list) {
    Odd odd;
    State state;
    state.Add("odd", odd);
    return SaveOne(state, RegistryOf({EntryFor<Odd>(
                              std::make_shared<OddHandler>(std::move(list)))}));
  }
  std::string OfRank(int rank) const {
    return absl::StrCat(" [rank ", rank, " of ", size_, "]");
  }
};

TEST_F(TypeHandlerTest, AValueOfManyPartsComesBack) {
  Polynomial value{{1, 2, 3}, "time"};
  State state;
  state.Add("p", value);
  const TypeHandlerRegistry handlers = Polynomials();
  ASSERT_EQ(SaveOne(state, handlers), absl::OkStatus());
  // Changed as soon as the save has returned; and another size.
  const Polynomial saved = value;
  value = {{7}, "something else"};
  ASSERT_EQ(RestoreOne(state, handlers), absl::OkStatus());
  EXPECT_EQ(value, saved);

  const CheckpointReader reader = CheckpointReader::Open(run()).value();
  EXPECT_EQ(reader.ReadText("p/variable").value(), "time");
  EXPECT_EQ(reader.Find("p/coefficients")->shape, Shape({3}));
}

TEST_F(TypeHandlerTest, TheRegistryOfTheProgramIsUsedWithoutOptions) {
  struct Mine : Polynomial {};
  class MineHandler : public Handler<Mine> {
   public:
    std::string typestr() const override { return "mine"; }
    Status ListForSave(Mine& value, State& parts) const override {
      parts.Add("", value.variable);
      return absl::OkStatus();
    }
    Status ListForRestore(Mine& value, const StoredValue&,
                          State& parts) const override {
      return ListForSave(value, parts);
    }
  };
  ASSERT_EQ(RegisterTypeHandler<Mine>(std::make_shared<MineHandler>(),
                                      {.override_existing = true}),
            absl::OkStatus());
  Mine value;
  State state;
  state.Add("mine", value);
  ASSERT_EQ(Save(comm_, run(), 1, state).status(), absl::OkStatus());
  value.variable = "y";
  ASSERT_EQ(Restore(comm_, run(), 1, state).status(), absl::OkStatus());
  EXPECT_EQ(value.variable, "x");
}

// Orbax: unregistered_types, save_unsupported_type, restore_unsupported_type.
TEST_F(TypeHandlerTest, UnsupportedTypesAreAnErrorOnAllRanks) {
  int32_t number = 3;
  Polynomial value;
  State plain, state;
  plain.Add("number", number);
  state.Add("number", number);
  if (rank_ == size_ - 1) state.Add("p", value);
  const TypeHandlerRegistry none;
  const Status expected = absl::InvalidArgumentError(
      absl::StrCat("list \"p\": no handler for type "
                   "belay::testing::Polynomial: register one "
                   "with RegisterTypeHandler<belay::testing::Polynomial>; an "
                   "object with a member void Track(belay::Tracker&) goes into "
                   "a Checkpoint, not into a State",
                   OfRank(size_ - 1)));
  EXPECT_EQ(SaveOne(state, none), expected);
  ASSERT_EQ(SaveOne(plain, none), absl::OkStatus());
  EXPECT_EQ(RestoreOne(state, none), expected);
}

TEST_F(TypeHandlerTest, WhatAHandlerReturnsOrThrowsIsTheErrorOfAll) {
  const int last = size_ - 1;
  EXPECT_EQ(SaveOdd([&](Odd& odd, State& parts) {
              parts.Add("", odd.values);
              return rank_ == last ? absl::AbortedError("busy")
                                   : absl::OkStatus();
            }),
            absl::AbortedError(absl::StrCat(
                "list \"odd\" (handler \"odd\"): busy", OfRank(last))));
  EXPECT_EQ(SaveOdd([&](Odd& odd, State& parts) -> Status {
              parts.Add("", odd.values);
              if (rank_ == 0) throw std::runtime_error("no");
              return absl::OkStatus();
            }),
            absl::InternalError(absl::StrCat(
                "list \"odd\" (handler \"odd\"): exception: no", OfRank(0))));
  EXPECT_FALSE(std::filesystem::exists(run()));
}

TEST_F(TypeHandlerTest, OverlappingBoxesAreAnErrorOnAllRanks) {
  const Status status = SaveOdd([&](Odd& odd, State& parts) {
    parts.AddPiece("x", {6}, {{0}, {4}}, AtAddress(odd.values.data()));
    parts.AddPiece("x", {6}, {{2}, {4}}, AtAddress(odd.values.data()));
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("odd/x"));
}

TEST_F(TypeHandlerTest, RanksMustUseTheSameHandler) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const std::string name = rank_ == 0 ? "polynomial" : "polynom";
  const TypeHandlerRegistry handlers = RegistryOf({EntryFor<Polynomial>(
      std::make_shared<testing::PolynomialHandler>(name))});
  Polynomial value;
  State state;
  state.Add("p", value);
  EXPECT_EQ(SaveOne(state, handlers),
            absl::InvalidArgumentError(absl::StrCat(
                "plan \"p\": ranks store it with different handlers (need "
                "\"polynomial\" as on rank 0, found \"polynom\" on rank 1)",
                OfRank(0))));
}

TEST_F(TypeHandlerTest, AValueOfAnotherTypestrIsRefusedBeforeAnythingIsRead) {
  Polynomial value{{1, 2}, "x"};
  int32_t number = 5;
  State state;
  state.Add("number", number);
  state.Add("p", value);
  ASSERT_EQ(SaveOne(state, Polynomials()), absl::OkStatus());
  number = 6;
  value = {{3, 4, 5}, "y"};
  const Polynomial before = value;
  const TypeHandlerRegistry other = RegistryOf({EntryFor<Polynomial>(
      std::make_shared<testing::PolynomialHandler>("other"))});
  EXPECT_EQ(RestoreOne(state, other),
            absl::FailedPreconditionError(absl::StrCat(
                "list \"p\" (handler \"other\"): a value of another type is "
                "stored (need typestr \"other\", found \"polynomial\")",
                OfRank(0))));
  EXPECT_EQ(value, before);
  EXPECT_EQ(number, 6);
}

TEST_F(TypeHandlerTest, MissingAndMistakenKeysAreNamed) {
  Polynomial value;
  State state;
  state.Add("model/p", value);
  ASSERT_EQ(SaveOne(state, Polynomials()), absl::OkStatus());
  State absent;
  absent.Add("model/q", value);
  const Status status = RestoreOne(absent, Polynomials());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("plan \"model/q\": key is not in the checkpoint; "
                        "close to it: \"model/p\""));
  // A number where a value with a handler is.
  float number = 0;
  State plain;
  plain.Add("model/p", number);
  const Status mistaken = RestoreOne(plain, Polynomials());
  EXPECT_TRUE(absl::IsFailedPrecondition(mistaken)) << mistaken;
  EXPECT_THAT(std::string(mistaken.message()),
              HasSubstr("(need f32 [], found typestr \"polynomial\")"));
}

// A handler of an own type takes what was saved without one.
TEST_F(TypeHandlerTest, ArraysWithoutAHandlerCanBeRestoredWithOne) {
  std::vector<double> coefficients = {4, 5};
  std::string variable = "z";
  State fields;
  fields.Add("p/coefficients", coefficients);
  fields.Add("p/variable", variable);
  ASSERT_EQ(Save(comm_, run(), 1, fields).status(), absl::OkStatus());
  Polynomial value;
  State state;
  state.Add("p", value);
  ASSERT_EQ(RestoreOne(state, Polynomials()), absl::OkStatus());
  EXPECT_EQ(value, (Polynomial{{4, 5}, "z"}));
}

TEST_F(TypeHandlerTest, APlanIsReusedUntilTheHandlerChanges) {
  PlanCache cache;
  Polynomial value{{1, 2}, "x"};
  State state;
  state.Add("p", value);
  const auto save = [&](int64_t step, const TypeHandlerRegistry& handlers) {
    return Save(comm_, run(), step, state,
                {.handlers = &handlers, .cache = &cache})
        .value()
        .plan_reused;
  };
  EXPECT_FALSE(save(1, Polynomials()));
  value.coefficients[1] = 9;
  EXPECT_TRUE(save(2, Polynomials()));
  value.coefficients[1] = 0;
  ASSERT_EQ(RestoreOne(state, Polynomials(), 2), absl::OkStatus());
  EXPECT_EQ(value.coefficients[1], 9);
  EXPECT_FALSE(save(3, RegistryOf({EntryFor<Polynomial>(
                           std::make_shared<testing::PolynomialHandler>(
                               "better polynomial"))})));
  value.coefficients.push_back(1);
  EXPECT_FALSE(save(4, Polynomials()));
}

// Counts what it is told, in all ranks of this test's process.
class CountingHandler : public testing::PolynomialHandler {
 public:
  Status Finalize(const std::string& directory) const override {
    ++calls;
    seen = directory;
    return fails ? absl::AbortedError("not now") : absl::OkStatus();
  }

  mutable int calls = 0;
  mutable std::string seen;
  bool fails = false;
};

TEST_F(TypeHandlerTest, FinalizeIsCalledOnceOnRank0BeforeTheCommit) {
  const auto handler = std::make_shared<CountingHandler>();
  const TypeHandlerRegistry handlers =
      RegistryOf({EntryFor<Polynomial>(handler)});
  std::vector<Polynomial> values(3);
  State state;
  for (size_t i = 0; i < values.size(); ++i) {
    state.Add(absl::StrCat("p", i), values[i]);
  }
  PlanCache cache;
  for (int save = 1; save <= 2; ++save) {  // with a new plan, and the old one
    ASSERT_EQ(SaveOne(state, handlers, save, &cache), absl::OkStatus());
    EXPECT_EQ(handler->calls, rank_ == 0 ? save : 0);
  }
  if (rank_ == 0) {
    EXPECT_THAT(handler->seen, HasSubstr("step_00000002.inprogress"));
  }
  handler->fails = true;
  const Status status = SaveOne(state, handlers, 3);
  EXPECT_EQ(status, absl::AbortedError(absl::StrCat(
                        "save \"", StepFile(3, ""),
                        "\": finalize \"polynomial\": not now", OfRank(0))));
  EXPECT_EQ(ListSteps(run()).value(), (std::vector<int64_t>{1, 2}));
}

TEST_F(TypeHandlerTest, AHandlerThatRank0DoesNotHaveIsRefused) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  Polynomial value;
  State state;
  if (rank_ == 1) state.Add("p", value);
  const TypeHandlerRegistry none, some = Polynomials();
  const Status status = SaveOne(state, rank_ == 1 ? some : none);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("another rank uses the handler \"polynomial\", which "
                        "rank 0 does not have"));
}

// A value may bring its handler along, which no registry has.
TEST_F(TypeHandlerTest, AHandlerThatAValueCameWithNeedsNoEntry) {
  class Counting : public testing::PolynomialHandler {
   public:
    Status Finalize(const std::string&) const override {
      ++finalized;
      return absl::OkStatus();
    }
    mutable int finalized = 0;
  };
  const TypeHandlerRegistry none;
  const auto handler = std::make_shared<Counting>();
  Polynomial value{{1, 2}, "x"}, found;
  State state, wanted;
  AddValue(state, "p", {&value, typeid(Polynomial)}, handler);
  AddValue(wanted, "p", {&found, typeid(Polynomial)}, handler);
  ASSERT_EQ(SaveOne(state, none), absl::OkStatus());
  ASSERT_EQ(RestoreOne(wanted, none), absl::OkStatus());
  EXPECT_EQ(found, value);
  EXPECT_EQ(handler->finalized, rank_ == 0 ? 1 : 0);
}

// Another type for what needs no handler.
TEST_F(TypeHandlerTest, AnEntryForAVectorTakesPrecedence) {
  class Halved : public Handler<std::vector<float>> {
   public:
    std::string typestr() const override { return "halved"; }
    Status ListForSave(std::vector<float>& value, State& parts) const override {
      auto& half = Own(parts, std::make_shared<std::vector<float>>(value));
      half.resize(value.size() / 2);
      parts.Add("half", half);
      return absl::OkStatus();
    }
    Status ListForRestore(std::vector<float>& value, const StoredValue& stored,
                          State& parts) const override {
      value.resize(static_cast<size_t>(stored.Find("half")->shape[0]));
      parts.Add("half", value);
      return absl::OkStatus();
    }
  };
  const TypeHandlerRegistry handlers =
      RegistryOf({EntryFor<std::vector<float>>(std::make_shared<Halved>())});
  std::vector<float> values = {1, 2, 3, 4};
  State state;
  state.Add("v", values);
  ASSERT_EQ(SaveOne(state, handlers), absl::OkStatus());
  ASSERT_EQ(RestoreOne(state, handlers), absl::OkStatus());
  EXPECT_EQ(values, std::vector<float>({1, 2}));
}

}  // namespace
}  // namespace belay::type_handler_test
