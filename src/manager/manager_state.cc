#include "manager/manager_state.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_format.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "nlohmann/json.hpp"

namespace belay {
namespace {

std::string NumberText(int64_t step) {
  return absl::StrFormat("step %d", step);
}

// Adopts the step that the state announces, if it was committed before a crash.
void Adopt(const std::vector<int64_t>& committed, RecoveredState& recovered) {
  std::optional<StepRecord>& saving = recovered.state.saving;
  if (!saving) return;
  if (std::ranges::binary_search(committed, saving->step)) {
    recovered.notes.push_back(
        NumberText(saving->step) +
        " was committed by a job that ended before it could write that down; "
        "it is managed now");
    PutRecord(*std::move(saving), recovered.state.steps);
  }
  saving.reset();
}

}  // namespace

void PutRecord(StepRecord record, std::vector<StepRecord>& steps) {
  const auto place = std::lower_bound(
      steps.begin(), steps.end(), record.step,
      [](const StepRecord& a, int64_t step) { return a.step < step; });
  if (place != steps.end() && place->step == record.step) {
    *place = std::move(record);
  } else {
    steps.insert(place, std::move(record));
  }
}

void KeepOnly(const std::vector<int64_t>& steps,
              std::vector<StepRecord>& records) {
  std::erase_if(records, [&](const StepRecord& record) {
    return !std::ranges::binary_search(steps, record.step);
  });
}

void ForgetNewer(int64_t step, ManagerState& state) {
  const auto is_newer = [&](const StepRecord& record) {
    return record.step > step;
  };
  if (std::none_of(state.steps.begin(), state.steps.end(), is_newer)) return;
  std::erase_if(state.steps, is_newer);
  if (state.steps.empty()) return;
  // Earlier than any step that is not preserved.
  double last = state.steps.front().time - 1;
  for (const StepRecord& record : state.steps) {
    if (record.preserved) last = std::max(last, record.time);
  }
  state.last_preserved = std::min(state.last_preserved, last);
}

RecoveredState RecoverState(std::optional<ManagerState> stored,
                            const std::vector<int64_t>& committed, double now) {
  RecoveredState recovered;
  ManagerState& state = recovered.state;
  if (!stored) {
    // Earlier than any step that will be saved.
    state.last_preserved = now - 1;
    return recovered;
  }
  state = *std::move(stored);
  if (state.going_back) ForgetNewer(state.going_back->to, state);
  Adopt(committed, recovered);
  KeepOnly(committed, state.steps);
  if (now < state.last_preserved) {
    recovered.notes.push_back(absl::StrFormat(
        "the clock is behind the last preserved step (need at least %.0f, "
        "found %.0f); the steps that are there will not be deleted",
        state.last_preserved, now));
    state.last_preserved = now;
  }
  for (StepRecord& record : state.steps) {
    if (std::min(record.time, now) <= state.last_preserved) {
      record.preserved = true;
    }
  }
  return recovered;
}

// --- JSON ---

namespace {

using nlohmann::json;

constexpr char kFormatName[] = "belay checkpoint manager";
constexpr int64_t kVersion = 1;

// JSON has neither NaN nor infinity.
json Number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::optional<double> ToDouble(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::nan("");
  if (value == "inf") return INFINITY;
  if (value == "-inf") return -INFINITY;
  return std::nullopt;
}

json ToJson(const StepRecord& record) {
  json out = {{"step", record.step}, {"time", Number(record.time)}};
  if (record.preserved) out["preserved"] = true;
  if (record.metrics) {
    json& metrics = out["metrics"] = json::object();
    for (const auto& [name, value] : *record.metrics) {
      metrics[name] = Number(value);
    }
  }
  return out;
}

// Reads the members of one object, and remembers the first invalid one.
class Reader {
 public:
  Reader(const json& object, std::string& problem)
      : object_(object), problem_(problem) {
    if (!object.is_object()) Blame("an object");
  }

  int64_t Step(const char* name = "step") {
    const json* value = Find(name);
    if (value == nullptr || !value->is_number_integer()) return Blame(name);
    if (value->is_number_unsigned() &&
        value->get<uint64_t>() > uint64_t{INT64_MAX}) {
      return Blame(name);
    }
    const auto step = value->get<int64_t>();
    return step < 0 ? Blame(name) : step;
  }

  // Reads the name of a file in the state's directory.
  std::string Name(const char* name) {
    const json* value = Find(name);
    if (value == nullptr || !value->is_string()) {
      Blame(name);
      return "";
    }
    std::string text = value->get<std::string>();
    if (text.empty() || text == "." || text == ".." ||
        text.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      Blame(name);
    }
    return text;
  }

  double Number(const char* name) {
    const json* value = Find(name);
    const auto number = value ? ToDouble(*value) : std::nullopt;
    return number ? *number : static_cast<double>(Blame(name));
  }

  bool Flag(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) Blame(name);
    return value->is_boolean() && value->get<bool>();
  }

  std::optional<Metrics> Numbers(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) Blame(name);
    Metrics metrics;
    for (const auto& [key, member] : value->items()) {
      const std::optional<double> number = ToDouble(member);
      if (!number) Blame(name);
      metrics[key] = number.value_or(0);
    }
    return metrics;
  }

  const json* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

 private:
  int64_t Blame(const char* name) {
    if (problem_.empty()) problem_ = name;
    return 0;
  }

  const json& object_;
  std::string& problem_;
};

StepRecord ToRecord(const json& value, std::string& problem) {
  Reader reader(value, problem);
  StepRecord record{.step = reader.Step(), .time = reader.Number("time")};
  record.metrics = reader.Numbers("metrics");
  record.preserved = reader.Flag("preserved");
  return record;
}

GoingBack ToGoingBack(const json& value, std::string& problem) {
  Reader reader(value, problem);
  return {.to = reader.Step("to"),
          .aside = reader.Name("aside"),
          .deletes = reader.Flag("deletes")};
}

Status CheckHeader(const json& document, std::string_view prefix,
                   std::string_view operation) {
  const auto text = [&](const char* name) {
    const auto found = document.find(name);
    return found != document.end() && found->is_string()
               ? found->get<std::string>()
               : std::string();
  };
  if (!document.is_object() || text("format") != kFormatName) {
    return absl::FailedPreconditionError(
        Cat(operation,
            ": not written by belay; move the file away if the directory is to "
            "hold checkpoints"));
  }
  const auto version = document.find("version");
  if (version != document.end() && version->is_number_integer() &&
      version->get<int64_t>() > kVersion) {
    return absl::UnimplementedError(absl::StrFormat(
        "%s: written by a newer belay; use that (need version %d, found %d)",
        std::string(operation), kVersion, version->get<int64_t>()));
  }
  if (text("prefix") != prefix) {
    return absl::FailedPreconditionError(
        Cat(operation, ": written for another prefix (need \"", prefix,
            "\", found ", QuotedText(text("prefix")), ")"));
  }
  return absl::OkStatus();
}

Status Damaged(std::string_view operation, std::string_view what) {
  return absl::DataLossError(
      Cat(operation, ": the state is damaged (", what,
          "); restore the file from a copy, or move it away: then the existing "
          "steps stay and are never deleted"));
}

}  // namespace

StatusOr<std::string> StateText(const ManagerState& state,
                                std::string_view prefix) {
  json document = {{"format", kFormatName},
                   {"version", kVersion},
                   {"prefix", std::string(prefix)},
                   {"last_preserved", Number(state.last_preserved)},
                   {"steps", json::array()}};
  for (const StepRecord& record : state.steps) {
    document["steps"].push_back(ToJson(record));
  }
  if (state.saving) document["saving"] = ToJson(*state.saving);
  if (state.going_back) {
    document["going_back"] = {{"to", state.going_back->to},
                              {"aside", state.going_back->aside},
                              {"deletes", state.going_back->deletes}};
  }
  const auto failed = [&](const std::string& cause) {
    return absl::InvalidArgumentError(
        Cat("describe the steps of \"", prefix, "\": ", cause));
  };
  std::string text;
  try {
    text = document.dump(1) + "\n";
  } catch (const json::type_error&) {
    return failed("the name of a metric is not UTF-8");
  }
  if (std::ssize(text) > kMaxStateBytes) {
    return failed(
        Cat("they are too many; delete some with Delete(step), or report "
            "fewer metrics (need at most ",
            kMaxStateBytes, " bytes, found ", text.size(), ")"));
  }
  return text;
}

StatusOr<ManagerState> ParseState(std::string_view text,
                                  std::string_view prefix,
                                  std::string_view operation) {
  constexpr int kMaxLevels = 16;
  constexpr int kMaxValues = 1 << 20;  // of 8 bytes each
  const std::string too_much = TooMuchJson(text, kMaxLevels, kMaxValues);
  if (!too_much.empty()) return Damaged(operation, too_much);
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return Damaged(operation, "not JSON");
  BELAY_RETURN_IF_ERROR(CheckHeader(document, prefix, operation));
  std::string problem;
  Reader reader(document, problem);
  ManagerState state{.last_preserved = reader.Number("last_preserved")};
  const json* const steps = reader.Find("steps");
  const json* const saving = reader.Find("saving");
  const json* const going_back = reader.Find("going_back");
  const json* const version = reader.Find("version");
  if (version == nullptr || *version != kVersion) problem = "version";
  if (steps == nullptr || !steps->is_array()) {
    return Damaged(operation, "steps");
  }
  for (const json& step : *steps) {
    state.steps.push_back(ToRecord(step, problem));
    const size_t count = state.steps.size();
    if (count > 1 && state.steps[count - 2].step >= state.steps.back().step) {
      problem = "steps";
    }
    if (!problem.empty()) return Damaged(operation, problem);
  }
  if (saving != nullptr) state.saving = ToRecord(*saving, problem);
  if (going_back != nullptr) {
    state.going_back = ToGoingBack(*going_back, problem);
  }
  if (!problem.empty()) return Damaged(operation, problem);
  return state;
}

}  // namespace belay
