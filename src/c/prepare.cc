#include "c/prepare.h"

#include <cstring>
#include <deque>
#include <map>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "base/text.h"
#include "c/error.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"

namespace belay::c {

Status PrepareTogether(const Comm& comm, double deadline_seconds,
                       const std::string& operation,
                       const std::function<Status()>& prepare) {
  const Status mine = CatchExceptions([&] { return prepare(); });
  CommContext context{comm, Deadline(comm, deadline_seconds, operation,
                                     /*watchdog=*/false)};
  context.deadline.Enter("arguments");
  return Agree(context, mine);
}

std::string OperationOn(const char* operation, const char* dir) {
  return Cat(operation, " \"", dir != nullptr ? dir : "", "\"");
}

double DeadlineOf(const belay_options* options) {
  constexpr double kUsual = 600;
  if (options == nullptr) return kUsual;
  const auto found = options->values.find("deadline_seconds");
  double seconds = 0;
  if (found == options->values.end() ||
      !absl::SimpleAtod(found->second, &seconds) || !(seconds >= 0)) {
    return kUsual;
  }
  return seconds;
}

Status TakeValues(belay_state* state) {
  if (state == nullptr) return NullArgument("state");
  if (!state->status.ok()) return state->status;
  for (ProgramRows& rows : state->rows) {
    Status status = TakeRows(rows);
    if (!status.ok()) return status;
  }
  for (BufferedString& string : state->strings) {
    std::string_view text(string.buffer, static_cast<size_t>(string.capacity));
    if (string.padding == '\0') {
      text = text.substr(0, text.find('\0'));
    } else {
      text = text.substr(0, text.find_last_not_of(string.padding) + 1);
    }
    string.value.assign(text);
  }
  return absl::OkStatus();
}

namespace {

Status GiveStrings(const std::deque<BufferedString>& strings) {
  for (const BufferedString& string : strings) {
    const auto length = static_cast<int64_t>(string.value.size());
    if (length > string.capacity) {
      return absl::OutOfRangeError(absl::StrFormat(
          "restore \"%s\": the string is longer than its buffer (need %d "
          "bytes, found %d)",
          string.key, length, string.capacity));
    }
    std::memset(string.buffer, string.padding,
                static_cast<size_t>(string.capacity));
    std::memcpy(string.buffer, string.value.data(), string.value.size());
  }
  return absl::OkStatus();
}

// Arrays that share a count must have the same number of rows.
Status CheckCounts(const std::deque<ProgramRows>& rows) {
  std::map<const void*, const ProgramRows*> first;
  for (const ProgramRows& one : rows) {
    const void* const address = one.given.count != nullptr
                                    ? static_cast<const void*>(one.given.count)
                                    : one.given.count32;
    if (address == nullptr) continue;
    const ProgramRows& other = *first.emplace(address, &one).first->second;
    if (other.count == one.count) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": it shares its count with \"%s\", and this rank gets "
        "another number of rows of it (need %d, found %d)",
        one.key, other.key, other.count, one.count));
  }
  return absl::OkStatus();
}

}  // namespace

Status GiveValues(const belay_state& state) {
  Status status = CheckCounts(state.rows);
  if (!status.ok()) return status;
  for (const ProgramRows& rows : state.rows) GiveCount(rows);
  return GiveStrings(state.strings);
}

void GiveCountsOfResized(const belay_state& state) {
  for (const ProgramRows& rows : state.rows) {
    if (rows.given.resize != nullptr) GiveCount(rows);
  }
}

Status TakeText(const char* name, const char* text, std::string& taken) {
  if (text == nullptr) return NullArgument(name);
  taken = text;
  return absl::OkStatus();
}

}  // namespace belay::c
