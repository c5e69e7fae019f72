// Opening a checkpoint of many arrays and listing what it holds, on one rank.

#include <utility>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kReaderArrays = 100000;
constexpr double kReaderLimitMs = 1000;

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

}  // namespace

Workload OpenReader() {
  return {.title = "open and list 100,000 arrays",
          .comparisons = {{.name = "reader.open.100000",
                           .contender = "belay",
                           .baseline = "",
                           .bar = 0.08,
                           .limit_ms = kReaderLimitMs}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int64_t count = Scaled(context, kReaderArrays);
            StatusOr<std::string> dir = SaveForRestore(
                context, medium, MakeVectors(context, count, /*bytes=*/16));
            if (!dir.ok()) return dir.status();
            return std::vector<Contender>{
                List(context, *dir, static_cast<size_t>(count))};
          }};
}

}  // namespace belay::bench
