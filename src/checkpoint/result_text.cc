#include "checkpoint/result_text.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/amount_text.h"
#include "base/first_of.h"
#include "base/log.h"
#include "base/text.h"

namespace belay {
namespace {

constexpr size_t kMostStations = 3;
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

double Sum(const std::vector<StationTime>& stations) {
  double sum = 0;
  for (const StationTime& station : stations) sum += station.seconds;
  return sum;
}

std::string StationText(const StationTime& station) {
  return Cat(station.station, " ", SecondsText(station.seconds));
}

// "0.42 s (write 0.3 s, plan 50 ms, commit 30 ms)", the longest first.
std::string TimesText(std::vector<StationTime> stations) {
  std::string text = SecondsText(Sum(stations));
  std::stable_sort(
      stations.begin(), stations.end(),
      [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  if (stations.size() > kMostStations) stations.resize(kMostStations);
  std::vector<std::string> parts;
  for (const StationTime& station : stations) {
    parts.push_back(StationText(station));
  }
  if (!parts.empty()) text += Cat(" (", absl::StrJoin(parts, ", "), ")");
  return text;
}

void AddKeys(std::string_view what, const std::vector<std::string>& keys,
             std::string& text) {
  if (keys.empty()) return;
  text += Cat("\n", what, ": ", FirstOf(keys, kMostKeys, ", "));
}

void AddConversions(std::string_view what,
                    const std::vector<Conversion>& conversions,
                    std::string& text) {
  std::vector<std::string> keys;
  for (const Conversion& one : conversions) keys.push_back(one.key);
  AddKeys(what, keys, text);
}

void AddLines(const std::vector<std::string>& warnings, std::string& text) {
  for (const std::string& warning : warnings) {
    text += Cat("\nwarning: ", warning);
  }
}

template <typename Result>
void LogAny(const Team& team, const StatusOr<Result>& result) {
  if (!team.is_root()) return;
  if (!result.ok()) return LogError(team, result.status());
  if (IsLogged(LogLevel::kInfo)) {
    Result quiet = *result;
    quiet.warnings.clear();
    Log(LogLevel::kInfo, quiet.ToString());
  }
  for (const std::string& warning : result->warnings) {
    Log(LogLevel::kWarning, warning);
  }
  if (!IsLogged(LogLevel::kDebug)) return;
  for (const StationTime& station : result->counters.stations) {
    Log(LogLevel::kDebug, Cat("station ", StationText(station)));
  }
}

}  // namespace

std::string SaveResult::ToString() const {
  std::string text =
      Cat("saved step ", step, " in \"", path,
          "\": ", CountText(num_arrays, "array"), ", ",
          BytesText(counters.bytes), " in ", CountText(counters.files, "file"),
          " by ", TransferText(transfer), ", ", TimesText(counters.stations));
  if (!transfer_note.empty()) text += Cat("\ntransfer: ", transfer_note);
  AddLines(warnings, text);
  return text;
}

std::string RestoreResult::ToString() const {
  std::string text = Cat("restored step ", step, " from \"", path,
                         "\": ", CountText(num_arrays, "array"), ", ",
                         BytesText(counters.bytes), " read, ",
                         CountText(blocks_verified, "checksum"), " compared, ",
                         TimesText(counters.stations));
  AddKeys("not stored", missing, text);
  AddKeys("stored, and not restored", unexpected, text);
  AddConversions("stored in another form, and not restored", mismatched, text);
  AddConversions("converted", conversions, text);
  AddLines(warnings, text);
  return text;
}

void LogError(const Team& team, const Status& status) {
  if (!team.is_root() || !IsLogged(LogLevel::kError)) return;
  Log(LogLevel::kError, status.ToString());
}

void LogResult(const Team& team, const StatusOr<SaveResult>& result) {
  LogAny(team, result);
}

void LogResult(const Team& team, const StatusOr<RestoreResult>& result) {
  LogAny(team, result);
}

}  // namespace belay
