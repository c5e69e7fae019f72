// Opening a checkpoint of many arrays and listing its contents, on one rank.

#include <utility>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kReaderArrays = 100000;
constexpr double kReaderLimitMs = 1000;
constexpr double kOneArrayLimitMs = 5;

// Lists the newest step of `dir` on rank 0.
Contender List(const Context& context, const std::string& dir, size_t arrays) {
  struct Run {
    std::vector<ArrayInfo> listed;
  };
  const auto run = std::make_shared<Run>();
  const bool lists = context.comm->rank() == 0;
  return {
      .name = "belay",
      .run = [run, dir, lists]() -> Status {
        if (!lists) return absl::OkStatus();
        StatusOr<std::vector<ArrayInfo>> listed = ListVariables(dir);
        if (!listed.ok()) return listed.status();
        run->listed = *std::move(listed);
        return absl::OkStatus();
      },
      .check = [run, lists, arrays]() -> Status {
        if (!lists || run->listed.size() == arrays) return absl::OkStatus();
        return absl::InternalError(
            absl::StrCat("list: another number of "
                         "arrays (need ",
                         arrays, ", found ", run->listed.size(), ")"));
      },
      .clean = nullptr,
      .detail = [run] { return absl::StrCat(run->listed.size(), " arrays"); }};
}

// Reads one array of the newest step of `dir` on rank 0.
Contender Load(const Context& context, const std::string& dir,
               const std::string& key) {
  struct Run {
    Tensor loaded;
  };
  const auto run = std::make_shared<Run>();
  const bool loads = context.comm->rank() == 0;
  return {.name = "one", .run = [run, dir, key, loads]() -> Status {
            if (!loads) return absl::OkStatus();
            StatusOr<Tensor> loaded = LoadVariable(dir, key);
            if (!loaded.ok()) return loaded.status();
            run->loaded = *std::move(loaded);
            return absl::OkStatus();
          }};
}

}  // namespace

Workload OpenReader() {
  return {.title = "open 100,000 arrays to list them, and one of them",
          .comparisons = {{.name = "reader.open.100000",
                           .contender = "belay",
                           .baseline = "",
                           .bar = 0.08,
                           .limit_ms = kReaderLimitMs},
                          {.name = "reader.one.100000",
                           .contender = "one",
                           .baseline = "",
                           .bar = 1,
                           .limit_ms = kOneArrayLimitMs}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int64_t count = Scaled(context, kReaderArrays);
            const std::shared_ptr<Arrays> arrays =
                MakeVectors(context, count, /*bytes=*/16);
            const std::string key = arrays->pieces[count / 2].key;
            StatusOr<std::string> dir = SaveForRestore(context, medium, arrays);
            if (!dir.ok()) return dir.status();
            return std::vector<Contender>{
                List(context, *dir, static_cast<size_t>(count)),
                Load(context, *dir, key)};
          }};
}

}  // namespace belay::bench
