#include "pipeline/result_text.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/log.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr size_t kMostStages = 3;
constexpr size_t kMostKeys = 5;

std::string_view TransferText(Transfer transfer) {
  switch (transfer) {
    case Transfer::kCollective:
      return "collective MPI-IO";
    case Transfer::kIndependent:
      return "positional writes";
    case Transfer::kHdf5:
      return "collective HDF5";
    case Transfer::kTwoPhase:
      return "two-phase writes";
    case Transfer::kAuto:
      break;
  }
  return "no transfer";
}

double Sum(const std::vector<StageTime>& stages) {
  double sum = 0;
  for (const StageTime& stage : stages) sum += stage.seconds;
  return sum;
}

std::string StageText(const StageTime& stage) {
  return Cat(stage.stage, " ", SecondsText(stage.seconds));
}

// "0.42 s (write 0.3 s, plan 50 ms, commit 30 ms)", the longest first.
std::string TimesText(std::vector<StageTime> stages) {
  std::string text = SecondsText(Sum(stages));
  std::stable_sort(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  if (stages.size() > kMostStages) stages.resize(kMostStages);
  std::vector<std::string> parts;
  for (const StageTime& stage : stages) {
    parts.push_back(StageText(stage));
  }
  if (!parts.empty()) text += Cat(" (", absl::StrJoin(parts, ", "), ")");
  return text;
}

double Ratio(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

void AddKeys(std::string_view what, const std::vector<std::string>& keys,
             std::string& text) {
  if (keys.empty()) return;
  text += Cat("\n", what, ": ", JoinFirst(keys, kMostKeys, ", "));
}

void AddConversions(std::string_view what,
                    const std::vector<Conversion>& conversions,
                    std::string& text) {
  std::vector<std::string> keys;
  for (const Conversion& one : conversions) keys.push_back(one.key);
  AddKeys(what, keys, text);
}

// "stripes: 40, with 1.1 writers and 1.3 requests per stripe; 6.5 requests per
// server, 8 at the busiest of 8".
void AddStripes(const TransferCounters& counters, std::string& text) {
  if (counters.stripes == 0) return;
  text += absl::StrFormat(
      "\nstripes: %d, with %.3g writers and %.3g requests per stripe",
      counters.stripes, Ratio(counters.stripe_writers, counters.stripes),
      Ratio(counters.stripe_requests, counters.stripes));
  if (counters.stripe_servers == 0) return;
  text += absl::StrFormat(
      "; %.3g requests per server, %d at the busiest of %d",
      Ratio(counters.stripe_requests, counters.stripe_servers),
      counters.busiest_server_requests, counters.stripe_servers);
}

// Returns the text without warnings.
std::string Summary(const SaveResult& result) {
  std::string text = Cat("saved step ", result.step, " in \"", result.path,
                         "\": ", CountText(result.num_arrays, "array"), ", ",
                         BytesText(result.counters.bytes), " in ",
                         CountText(result.counters.files, "file"), " by ",
                         TransferText(result.transfer), ", ",
                         TimesText(result.counters.stages));
  if (!result.transfer_note.empty()) {
    text += Cat("\ntransfer: ", result.transfer_note);
  }
  AddStripes(result.counters, text);
  return text;
}

std::string Summary(const RestoreResult& result) {
  std::string text = Cat("restored step ", result.step, " from \"", result.path,
                         "\": ", CountText(result.num_arrays, "array"), ", ",
                         BytesText(result.counters.bytes), " read, ",
                         CountText(result.blocks_verified, "checksum"),
                         " compared, ", TimesText(result.counters.stages));
  AddKeys("not stored", result.missing, text);
  AddKeys("stored, and not restored", result.unexpected, text);
  AddConversions("stored in another form, and not restored", result.mismatched,
                 text);
  AddConversions("converted", result.conversions, text);
  return text;
}

std::string WithWarnings(std::string text,
                         const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    text += Cat("\nwarning: ", warning);
  }
  return text;
}

template <typename Result>
void LogAny(const CommContext& context, const Agreed<Result>& result) {
  if (!context.is_root()) return;
  if (!result.ok()) return LogError(context, result.status());
  if (IsLogged(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, Summary(*result));
  }
  for (const std::string& warning : result->warnings) {
    Log(LogLevel::kWarning, warning);
  }
  if (!IsLogged(LogLevel::kDebug)) return;
  for (const StageTime& stage : result->counters.stages) {
    Log(LogLevel::kDebug, Cat("stage ", StageText(stage)));
  }
}

}  // namespace

std::string SaveResult::ToString() const {
  return WithWarnings(Summary(*this), warnings);
}

std::string RestoreResult::ToString() const {
  return WithWarnings(Summary(*this), warnings);
}

void LogError(const CommContext& context, const Status& status) {
  if (!context.is_root() || !IsLogged(LogLevel::kError)) return;
  Log(LogLevel::kError, status.ToString());
}

void LogNoStep(const CommContext& context, const std::string& dir) {
  if (!context.is_root() || !IsLogged(LogLevel::kWarning)) return;
  std::error_code failed;  // then the path as it was given
  const std::filesystem::path path = std::filesystem::absolute(dir, failed);
  Log(LogLevel::kWarning,
      Cat("restore \"", failed ? dir : path.lexically_normal().string(),
          "\": no step is there, so nothing was restored and the program "
          "begins anew"));
}

void LogResult(const CommContext& context, const Agreed<SaveResult>& result) {
  LogAny(context, result);
}

void LogResult(const CommContext& context,
               const Agreed<RestoreResult>& result) {
  LogAny(context, result);
}

}  // namespace belay
