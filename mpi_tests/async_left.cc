// Programs that end while a save in the background is under way: async_left DIR
// CASE. MPI_Finalize finishes the save; what it cannot finish ends the program
// with an error, and the step before it stays.
//
//   destroys   the saver goes at the end of main
//   manages    a manager does
//   finalizes  the saver goes after MPI_Finalize, with the other statics
//   leaks      it never goes
//   exits      the same while the thread writes, and the program calls exit()
//   races      it goes while the thread writes and commits as fast as it can
//   replaced   a later save begins after it has gone, and is waited for
//   removed    the whole run is removed before the end
//   other      it goes, a save of another run begins, and is waited for
//   handles    belay's own handlers, and one of the program that has nothing to
//              finish, list some of the values
//
// These end with 1:
//
//   lazy       nobody has waited for the values to be copied
//   handler    a handler of the program is to finish the save
//   asks       a function of the program is to be called before the commit
//   closes     the communicator is closed before
//
// And this one with 75:
//
//   stuck      the save does not end before its deadline

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "belay/async_saver.h"
#include "belay/check.h"
#include "belay/checkpoint_manager.h"
#include "belay/extend/type_handler_registry.h"
#include "belay/handlers/value_tree.h"
#include "small_state.h"

namespace belay::testing {
namespace {

// Destroyed in the other order, after main.
std::unique_ptr<Comm> comm;
std::unique_ptr<SmallValues> values;
std::unique_ptr<AsyncSaver> saver;
std::optional<CheckpointManager> manager;

// For half a second.
constexpr AsyncOptions kSlow{.max_bytes_per_second = 200000};
// Never done by itself.
constexpr AsyncOptions kStuck{.max_bytes_per_second = 1};
constexpr int64_t kScale = 1000;

// The step before is as it was, and there is no other unless it is whole.
bool StepsAreWhole(const std::string& dir, int64_t& newest) {
  const std::vector<int64_t> steps =
      ListSteps(dir).value_or(std::vector<int64_t>());
  newest = steps.empty() ? 0 : steps.back();
  for (const int64_t step : steps) {
    if (!RestoresAs(*comm, dir, step, step, kScale)) return false;
  }
  return true;
}

// A value of the program, whose handler may have to finish each save.
struct Pair {
  double first = 1, second = 2;
};

class PairHandler : public Handler<Pair> {
 public:
  explicit PairHandler(bool finishes) : finishes_(finishes) {}
  std::string typestr() const override { return "pair"; }
  bool HasFinalize() const override { return finishes_; }
  Status ListForSave(Pair& pair, State& parts) const override {
    parts.Add("first", pair.first);
    parts.Add("second", pair.second);
    return absl::OkStatus();
  }
  Status ListForRestore(Pair& pair, const StoredValue&,
                        State& parts) const override {
    return ListForSave(pair, parts);
  }

 private:
  bool finishes_;
};

// Values that handlers list.
struct Handled {
  std::map<std::string, std::vector<std::string>> names = {{"a", {"b", "c"}},
                                                           {"none", {}}};
  std::vector<bool> flags = {true, false};
  std::optional<std::string> text;
  std::list<std::optional<double>> numbers = {1, 2};
  ValueTree tree = {.typestr = std::string(kDictTypestr)};
  Pair pair;

  void AddTo(State& state) {
    state.Add("names", names);
    state.Add("flags", flags);
    state.Add("no_text", text);
    state.Add("numbers", numbers);
    state.Add("tree", tree);
    state.Add("pair", pair);
  }
};

// If set, these are saved as well.
std::optional<Handled> handled;

Status Begin(const std::string& dir, int64_t step,
             const SaveOptions& options = {.overwrite = true}) {
  values->Fill(step);
  State state = values->state();
  if (handled) handled->AddTo(state);
  return saver->Save(dir, step, state, options).status();
}

Status BeginManaged(const std::string& dir, int64_t step) {
  static const State state = values->state();
  values->Fill(step);
  auto made = CheckpointManager::Create(*comm, state, dir, {.async = kSlow});
  if (!made.ok()) return made.status();
  manager.emplace(*std::move(made));
  return manager->Save(step).status();
}

// Saves again and again, and lets savers go meanwhile.
Status Race(const std::string& dir, int64_t step) {
  Status status;
  for (int i = 0; i < 50; ++i) {
    status.Update(Begin(dir, step));
    for (int polls = 0; polls < i % 5; ++polls) {
      status.Update(saver->Poll().status());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (i % 7)));
    saver = std::make_unique<AsyncSaver>(*comm);
  }
  return status;
}

// Begins what the program leaves behind.
Status Leave(const std::string& dir, int64_t step, std::string_view name) {
  if (name == "manages") return BeginManaged(dir, step);
  if (name == "races") return Race(dir, step);
  AsyncOptions async = name == "stuck" ? kStuck : kSlow;
  if (name == "exits") async = {};
  if (name == "lazy") async.snapshot = SnapshotMode::kLazy;
  saver = std::make_unique<AsyncSaver>(*comm, async);
  SaveOptions options{.overwrite = true};
  if (name == "asks") {
    options.before_commit = [](const std::string&, int64_t) {
      return absl::OkStatus();
    };
  }
  if (name == "stuck") options.deadline_seconds = 1;
  if (name == "handles" || name == "handler") {
    Check(RegisterTypeHandler<Pair>(
        std::make_shared<PairHandler>(name == "handler")));
    handled.emplace();
  }
  Status status = Begin(dir, step, options);
  if (name == "replaced" || name == "other") {
    saver = std::make_unique<AsyncSaver>(*comm);
    status.Update(Begin(name == "replaced" ? dir : dir + "_other", step));
    status.Update(saver->Close());
  }
  return status;
}

Status Run(const std::string& dir, std::string_view name, int64_t& last) {
  int64_t newest = 0;
  if (!StepsAreWhole(dir, newest)) return absl::DataLossError("a step");
  MPI_Barrier(MPI_COMM_WORLD);
  if (WorldRank() == 0 && newest > 2) {
    std::filesystem::remove_all(StepPath(dir, newest - 2));
  }
  values = std::make_unique<SmallValues>(1, kScale);
  saver = std::make_unique<AsyncSaver>(*comm);
  Status status = Begin(dir, newest + 1);
  status.Update(saver->Close());
  if (!status.ok()) return status;
  last = newest + 2;
  return Leave(dir, last, name);
}

void End(const std::string& dir, std::string_view name) {
  if (name == "finalizes" || name == "closes") {
    if (name == "closes") comm->Close().IgnoreError();
    return;
  }
  if (name == "leaks" || name == "exits") {
    (void)saver.release();
    (void)values.release();
    (void)comm.release();
  }
  manager.reset();
  saver.reset();
  comm.reset();
  if (name == "removed" && WorldRank() == 0) std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace belay::testing

int main(int argc, char** argv) {
  using namespace belay::testing;
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  comm = std::make_unique<belay::Comm>(
      belay::Comm::Duplicate(MPI_COMM_WORLD).value());
  const std::string dir = argv[1];
  int64_t last = 0;
  const belay::Status status = Run(dir, argv[2], last);
  if (!status.ok()) {
    std::fprintf(stderr, "async_left: %s\n", status.ToString().c_str());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  const bool is_root = WorldRank() == 0;
  End(dir, argv[2]);
  MPI_Finalize();
  // The next program looks whether it is whole.
  if (is_root && argv[2] != std::string_view("removed") &&
      !std::filesystem::exists(belay::StepPath(dir, last))) {
    std::fprintf(stderr, "async_left: no step %d\n", static_cast<int>(last));
    return 4;
  }
  if (argv[2] == std::string_view("exits")) std::exit(0);
  return 0;
}
