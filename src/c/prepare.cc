#include "c/prepare.h"

#include <cstring>
#include <deque>
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
  Status status = TakeRows(state->rows);
  if (!status.ok()) return status;
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

}  // namespace

Status GiveValues(const std::vector<std::string>& missing, belay_state& state) {
  Status status = GiveCounts(missing, state.rows);
  status.Update(GiveStrings(state.strings));
  return status;
}

Status TakeText(const char* name, const char* text, std::string& taken) {
  if (text == nullptr) return NullArgument(name);
  taken = text;
  return absl::OkStatus();
}

}  // namespace belay::c
