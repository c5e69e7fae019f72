// Makes every fault point of Save and Restore fail on every rank, one at a
// time, with values that have handlers; the handlers have points of their own.
// BELAY_SWEEP_STRIDE=1 takes every point.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "belay/rows.h"
#include "fault_points.h"
#include "format/paths.h"
#include "handler_testing.h"
#include "values.h"

namespace belay::testing {

// With padding, and stored in another order than it lies in memory.
struct Atom {
  int16_t kind = 0;
  double place[2] = {};

  friend bool operator==(const Atom&, const Atom&) = default;
};

}  // namespace belay::testing

template <>
struct belay::RowType<belay::testing::Atom> {
  using Atom = belay::testing::Atom;
  static belay::FieldsOf<Atom> Fields() {
    return {{"place", &Atom::place}, {"kind", &Atom::kind}};
  }
};

namespace belay::testing {
namespace {

using ::testing::ElementsAre;

// Fails, too, and asks for the coefficients when it has the name.
class FailingHandler : public PolynomialHandler {
 public:
  Status ListForSave(Polynomial& value, State& parts) const override {
    const Status status = PolynomialHandler::ListForSave(value, parts);
    return status.ok() ? fault::Point("list for save") : status;
  }
  Status ListForRestore(Polynomial& value, const StoredValue&,
                        State& parts) const override {
    parts.Add("variable", value.variable);
    return fault::Point("list for restore");
  }
  Status Received(Polynomial& value, const StoredValue& stored, int round,
                  State& more) const override {
    if (round > 0) return fault::Point("received all");
    value.coefficients.resize(
        static_cast<size_t>(stored.Find("coefficients")->shape[0]));
    more.Add("coefficients", value.coefficients);
    return fault::Point("received");
  }
  Status Finalize(const std::string&) const override {
    return fault::Point("finalize");
  }
};

// Values of one rank; which they are depends on `seed`.
struct HandledValues {
  explicit HandledValues(int64_t seed)
      : shared{std::vector<double>(5 + static_cast<size_t>(seed), 0.5 * seed),
               absl::StrCat("seed ", seed)},
        own{{static_cast<double>(WorldRank())}, absl::StrCat(seed)},
        texts(3, absl::StrCat("text ", seed)),
        map{{"a", {static_cast<float>(seed)}}, {"b", {}}},
        rows(static_cast<size_t>(WorldRank() + 1), 0.25 * seed),
        seed_of_rank(static_cast<size_t>(WorldRank()), 's'),
        halo(5, static_cast<double>(seed)),
        number(seed) {
    // Nobody has the ghost cells at the ends.
    if (WorldRank() == 0) halo.front() = -1;
    if (WorldRank() + 1 == WorldSize()) halo.back() = -1;
    for (const double row : rows) {
      if (WorldRank() == 0) owned.insert(owned.end(), WorldSize() + 1, row);
    }
    // Each with a number, and in the opposite order of it.
    for (const int id : {WorldSize() + WorldRank(), WorldRank()}) {
      ids.push_back(id);
      cells.push_back(static_cast<float>(seed + id));
      atoms.push_back({static_cast<int16_t>(seed), {0.5 * id, 1}});
    }
    moving.assign(static_cast<size_t>(WorldRank()), atoms.front());
  }

  State state() {
    State state;
    state.AddRows("rows", rows);
    // All go to rank 0, which has the last one.
    state.AddRows("owned", owned, {.owner = [](const double&) { return 0; }});
    state.AddPerRank("seed", seed_of_rank);
    state.AddRows("moving", moving);
    state.AddRowsById("cells", ids, cells);
    state.AddRowsById("atoms", ids, atoms);
    state.AddPiece("halo", {3 * WorldSize()}, {{3 * WorldRank()}, {3}},
                   {halo, {.before = {1}, .fill_ghosts = true}});
    state.Add("shared", shared);
    state.Add(absl::StrCat("own/", WorldRank()), own);
    state.Add("texts", texts);
    state.Add("map", map);
    state.Add("none", none);
    state.Add("number", number);
    return state;
  }
  void Track(Tracker& tracker) {
    tracker.Rows("rows", rows);
    tracker.Rows("owned", owned, {.owner = [](const double&) { return 0; }});
    tracker.PerRank("seed", seed_of_rank);
    tracker.Rows("moving", moving);
    tracker.RowsById("cells", ids, cells);
    tracker.RowsById("atoms", ids, atoms);
    tracker.Value("shared", shared);
    tracker.Value(absl::StrCat("own ", WorldRank()), own);
    tracker.Value("texts", texts);
    tracker.Value("map", map);
    tracker.Value("none", none);
    tracker.Value("number", number);
  }

  friend bool operator==(const HandledValues&, const HandledValues&) = default;

  Polynomial shared, own;
  std::vector<std::string> texts;
  std::map<std::string, std::vector<float>> map;
  std::optional<double> none;
  std::vector<double> rows, owned;
  std::vector<int64_t> ids;
  std::vector<float> cells;
  std::vector<Atom> atoms, moving;
  std::string seed_of_rank;
  std::vector<double> halo;
  int64_t number;
};

class HandledFaultTest : public CheckpointTest {
 protected:
  static void SetUpTestSuite() { UseMemory(); }

  Status SaveSeed(int64_t step, int64_t seed, PlanCache* cache = nullptr) {
    HandledValues values(seed);
    const State state = values.state();
    return Save(comm_, run(), step, state,
                {.handlers = &handlers_,
                 .durable = false,
                 .deadline_seconds = 60,
                 .cache = cache})
        .status();
  }
  bool RestoresAs(int64_t step, int64_t seed) {
    HandledValues found(0);
    const Status status =
        Restore(comm_, run(), step, found.state(), {.handlers = &handlers_})
            .status();
    return OnAllRanks(status.ok() && found == HandledValues(seed));
  }
  std::set<std::string> Names() {
    MPI_Barrier(MPI_COMM_WORLD);  // rank 0 may still clean up
    std::set<std::string> names = NamesIn(run());
    MPI_Barrier(MPI_COMM_WORLD);
    return names;
  }

  // Calls `work` with every `stride`-th point of every rank, then `check`.
  // Returns the sites that failed.
  std::set<std::string> Sweep(int64_t stride,
                              const std::function<Status()>& work,
                              const std::function<void(const Status&)>& check) {
    fault::Arm(0);
    EXPECT_EQ(work(), absl::OkStatus());
    const std::vector<int64_t> counts = CountOfEachRank(fault::Count());
    fault::Disarm();
    check(absl::OkStatus());
    std::set<std::string> sites;
    for (int rank = 0; rank < size_; ++rank) {
      for (const int64_t n : PointsToTake(counts[rank], StrideOr(stride))) {
        SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
        const Status status = WithFault(rank, n, work);
        ExpectAgreed(status, rank);
        sites.insert(std::string(status.message()));
        check(status);
        if (!OnAllRanks(!HasFailure())) return sites;
      }
    }
    return sites;
  }

  const TypeHandlerRegistry handlers_ =
      RegistryOf({EntryFor<Polynomial>(std::make_shared<FailingHandler>())});
};

// How many of the messages have this text.
int64_t With(const std::set<std::string>& messages, const std::string& text) {
  return std::count_if(messages.begin(), messages.end(), [&](const auto& one) {
    return one.find(text) != one.npos;
  });
}

TEST_F(HandledFaultTest, EverySaveFailsEverywhereOrNowhere) {
  ASSERT_EQ(SaveSeed(1, 1), absl::OkStatus());
  PlanCache cache;
  ASSERT_EQ(SaveSeed(2, 1, &cache), absl::OkStatus());
  for (PlanCache* reused : {static_cast<PlanCache*>(nullptr), &cache}) {
    int64_t seed = 2;  // as long as those before, so that the plan holds
    const auto clear = [&] {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank_ == 0) std::filesystem::remove_all(StepFile(2, ""));
      MPI_Barrier(MPI_COMM_WORLD);
    };
    clear();
    const std::set<std::string> sites = Sweep(
        reused == nullptr ? 5 : 3, [&] { return SaveSeed(2, seed, reused); },
        [&](const Status& status) {
          std::set<std::string> expected = {StepName(1)};
          if (status.ok()) expected.insert(StepName(2));
          std::set<std::string> names = Names();
          // Removing what is left may fail as well, after the commit.
          if (status.ok()) std::erase_if(names, IsInProgress);
          EXPECT_EQ(names, expected);
          EXPECT_TRUE(RestoresAs(status.ok() ? 2 : 1, status.ok() ? seed : 1));
          clear();
        });
    EXPECT_GT(With(sites, "finalize"), 0);
    EXPECT_GT(sites.size(), 10);
  }
  EXPECT_TRUE(RestoresAs(1, 1));
}

TEST_F(HandledFaultTest, EveryRestoreFailsEverywhere) {
  ASSERT_EQ(SaveSeed(1, 3), absl::OkStatus());
  HandledValues found(0);
  Polynomial fresh, other;
  State state = found.state();
  state.Add("fresh", fresh);
  state.Add("other", other);
  const RestoreOptions options = {.args = {{"fresh", {.allow_missing = true}},
                                           {"other", {.stored_key = "shared"}},
                                           {".*", {}}},
                                  .handlers = &handlers_,
                                  .deadline_seconds = 60};
  int num_ok = 0;
  const std::set<std::string> sites = Sweep(
      3, [&] { return Restore(comm_, run(), 1, state, options).status(); },
      [&](const Status& status) {
        num_ok += status.ok() ? 1 : 0;
        if (status.ok()) {
          EXPECT_EQ(found, HandledValues(3));
          EXPECT_EQ(other, found.shared);
        }
        EXPECT_EQ(fresh, Polynomial());
        EXPECT_TRUE(RestoresAs(1, 3));
      });
  EXPECT_EQ(num_ok, 1);  // without a fault
  EXPECT_GT(sites.size(), 10);
}

TEST_F(HandledFaultTest, EveryCallOfAHandlerMayFail) {
  ASSERT_EQ(SaveSeed(1, 1), absl::OkStatus());
  HandledValues found(0);
  const State state = found.state();
  const RestoreOptions options = {
      .on_open = [](const StoredStep&) { return fault::Point("on open"); },
      .handlers = &handlers_,
      .deadline_seconds = 60};
  const auto restore = [&] {
    return Restore(comm_, run(), 1, state, options).status();
  };
  const std::set<std::string> saved = Sweep(
      1, [&] { return SaveSeed(2, 2); },
      [&](const Status&) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_ == 0) std::filesystem::remove_all(StepFile(2, ""));
        MPI_Barrier(MPI_COMM_WORLD);
      });
  // Two values of each rank, and the name of each is in the error.
  EXPECT_EQ(With(saved, "list for save"), 2 * size_);
  EXPECT_EQ(With(saved,
                 "list \"shared\" (handler \"polynomial\"): list for "
                 "save: injected fault"),
            size_);
  EXPECT_EQ(With(saved, "finalize \"polynomial\""), 1);
  const std::set<std::string> restored =
      Sweep(1, restore, [](const Status&) {});
  EXPECT_EQ(With(restored, "list for restore"), 2 * size_);
  EXPECT_EQ(With(restored, "received: "), 2 * size_);
  EXPECT_EQ(With(restored, "received all: "), 2 * size_);
  EXPECT_EQ(With(restored, "on open: "), size_);
  EXPECT_TRUE(RestoresAs(1, 1));
}

TEST_F(HandledFaultTest, ObjectsWithHandledValues) {
  HandledValues values(4);
  Checkpoint checkpoint(comm_, {{"model", values}});
  const SaveOptions saving = {
      .handlers = &handlers_, .durable = false, .deadline_seconds = 60};
  const RestoreOptions restoring = {.handlers = &handlers_,
                                    .deadline_seconds = 60};
  Ok(checkpoint.Save(run(), saving));
  Sweep(
      11, [&] { return checkpoint.Save(run(), saving).status(); },
      [&](const Status&) {
        MPI_Barrier(MPI_COMM_WORLD);
        EXPECT_EQ(Ok(ListSteps(run())).back(), checkpoint.save_counter());
        MPI_Barrier(MPI_COMM_WORLD);
      });
  Sweep(
      3, [&] { return checkpoint.Restore(run(), restoring).status(); },
      [&](const Status& status) {
        if (!status.ok()) {
          values = HandledValues(0);
          values.halo = HandledValues(4).halo;  // the object has none
          Ok(checkpoint.Restore(run(), restoring));
        }
        EXPECT_EQ(values, HandledValues(4));
      });
}

}  // namespace
}  // namespace belay::testing
