#include "core/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/catch_exceptions.h"

namespace belay {
namespace {

// Values of `least` beyond the levels. By default, errors are not printed:
// callers receive them as statuses.
constexpr uint8_t kNothing = 4;
constexpr uint8_t kWarningsOnly = 5;
constexpr uint8_t kInfoAndWarnings = 6;

// Without a sink and without BELAY_LOG.
std::atomic<uint8_t> usual_least = kWarningsOnly;

void PrintToStderr(LogLevel level, std::string_view message) {
  const std::string line =
      Cat("belay: ", LogLevelName(level), ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// Uses the environment variables of launchers, since src/core does not call
// MPI.
bool IsOtherRank() {
  for (const char* const name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const rank = std::getenv(name);
    if (rank != nullptr) return std::string_view(rank) != "0";
  }
  return false;
}

// Warns only if the value differs from the one in the last warning.
void WarnOfLevel(const std::string& wanted) {
  static auto* const told = new std::string;
  if (std::exchange(*told, wanted) == wanted || IsOtherRank()) return;
  PrintToStderr(
      LogLevel::kWarning,
      PrintableText(Cat("BELAY_LOG is no level (need debug, info, "
                        "warning, error or none, found ",
                        QuotedText(wanted), "); it counts as not set")));
}

uint8_t LeastOfEnvironment() {
  const char* const wanted = std::getenv("BELAY_LOG");
  if (wanted == nullptr || *wanted == '\0') return usual_least;
  for (uint8_t level = 0; level < kNothing; ++level) {
    if (LogLevelName(LogLevel{level}) == wanted) return level;
  }
  if (std::string_view(wanted) == "none") return kNothing;
  WarnOfLevel(wanted);
  return kWarningsOnly;
}

// Never destroyed: the program may save in destructors.
struct Sinks {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink =
      std::make_shared<const LogSink>(PrintToStderr);
  std::atomic<uint8_t> least = LeastOfEnvironment();
};

Sinks& TheSinks() {
  static auto* const sinks = new Sinks;
  return *sinks;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  const auto number = static_cast<size_t>(level);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

void LogInfoByDefault() {
  usual_least = kInfoAndWarnings;
  uint8_t before = kWarningsOnly;
  TheSinks().least.compare_exchange_strong(before, kInfoAndWarnings);
}

void SetLogSink(LogSink sink, LogLevel least) {
  Sinks& sinks = TheSinks();
  const bool is_own = sink != nullptr;
  auto next = std::make_shared<const LogSink>(is_own ? std::move(sink)
                                                     : LogSink(PrintToStderr));
  const std::lock_guard lock(sinks.mutex);
  sinks.sink.swap(next);
  sinks.least = is_own ? static_cast<uint8_t>(least) : LeastOfEnvironment();
}

bool IsLogged(LogLevel level) {
  const uint8_t least = TheSinks().least;
  if (least == kWarningsOnly) return level == LogLevel::kWarning;
  if (least == kInfoAndWarnings) {
    return level == LogLevel::kInfo || level == LogLevel::kWarning;
  }
  return static_cast<uint8_t>(level) >= least;
}

void Log(LogLevel level, std::string_view message) {
  if (!IsLogged(level)) return;
  std::shared_ptr<const LogSink> sink;
  {
    Sinks& sinks = TheSinks();
    const std::lock_guard lock(sinks.mutex);
    sink = sinks.sink;
  }
  // A program must be able to save even if logging fails.
  CatchExceptions([&]() -> Status {
    (*sink)(level, PrintableText(message));
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace belay
