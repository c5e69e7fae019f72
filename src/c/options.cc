#include "c/options.h"

#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "c/error.h"
#include "c/handles.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"

namespace belay::c {

OptionReader ReaderOf(const belay_options* options) {
  static const auto* const kNone = new OptionTexts();
  if (options == nullptr) return OptionReader(*kNone, nullptr);
  const auto& policy = options->sharding_policy;
  return OptionReader(options->texts, policy ? &*policy : nullptr);
}

}  // namespace belay::c

int belay_options_create(belay_options** result) {
  return belay::c::Call({{"result", result}}, [&]() -> belay::Status {
    *result = nullptr;
    *result = new belay_options();
    return absl::OkStatus();
  });
}

int belay_options_set(belay_options* options, const char* name,
                      const char* value) {
  return belay::c::Call(
      {{"options", options}, {"name", name}, {"value", value}},
      [&]() -> belay::Status {
        options->texts[name] = value;
        return absl::OkStatus();
      });
}

int belay_options_set_text(belay_options* options, const char* text) {
  return belay::c::Call(
      {{"options", options}, {"text", text}}, [&]() -> belay::Status {
        options->status.Update(belay::ParseOptionTexts(text, options->texts));
        return absl::OkStatus();
      });
}

void belay_options_free(belay_options** options) {
  if (options != nullptr) delete std::exchange(*options, nullptr);
}

// --- Prepare ---

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
  const auto found = options->texts.find("deadline_seconds");
  double seconds = 0;
  if (found == options->texts.end() ||
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

Status ReadRestoreOptions(const belay_options* given, RestoreOptions& options) {
  BELAY_RETURN_IF_ERROR(ReadOptions(given, options));
  if (options.missing == MismatchPolicy::kIgnore) {
    options.missing = MismatchPolicy::kCollect;  // GiveCounts needs the keys
  }
  return absl::OkStatus();
}

Status CheckCommOptions(const belay_options* given) {
  if (given != nullptr) BELAY_RETURN_IF_ERROR(given->status);
  OptionReader reader = ReaderOf(given);
  double seconds = 0;
  reader.Read("deadline_seconds", seconds);
  BELAY_RETURN_IF_ERROR(reader.Finish());
  const std::string mistake =
      OutOfRange("deadline_seconds", seconds, kDeadline.bounds);
  if (mistake.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(mistake);
}

}  // namespace belay::c
