#include "belay/arrays/device.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// Types that have a short form, such as "/cpu:0".
constexpr std::string_view kShortTypes[] = {"CPU", "GPU", "TPU", "CUSTOM",
                                            "EPU"};

StatusOr<int> ParseIndex(std::string_view what, std::string_view text) {
  constexpr int kMaxInt = std::numeric_limits<int>::max();
  if (const auto value = ParseDigits(text, kMaxInt)) {
    return static_cast<int>(*value);
  }
  return absl::InvalidArgumentError(
      Cat(what, " \"", text, "\" is not a number from 0 to ", kMaxInt));
}

Status SetNamed(std::string_view name, std::string_view value,
                DeviceSpec& device) {
  if (name == "job") {
    if (value.empty()) return absl::InvalidArgumentError("empty job");
    device.job = std::string(value);
    return absl::OkStatus();
  }
  BELAY_ASSIGN_OR_RETURN(const int number, ParseIndex(name, value));
  (name == "replica" ? device.replica : device.task) = number;
  return absl::OkStatus();
}

Status SetType(std::string type, std::string_view index, DeviceSpec& device) {
  if (device.device_type.has_value()) {
    return absl::InvalidArgumentError(
        Cat("two device types, ", *device.device_type, " and ", type));
  }
  device.device_type = std::move(type);
  if (index == "*") return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(device.device_index,
                         ParseIndex("device index", index));
  return absl::OkStatus();
}

Status ParsePart(std::string_view part, DeviceSpec& device) {
  if (part.empty()) return absl::OkStatus();
  const std::vector<std::string_view> fields = Split(part, ':');
  const bool named =
      fields[0] == "job" || fields[0] == "replica" || fields[0] == "task";
  if (named && fields.size() == 2) {
    return SetNamed(fields[0], fields[1], device);
  }
  std::string upper = absl::AsciiStrToUpper(AbslView(fields[0]));
  if (fields.size() <= 2 && std::ranges::count(kShortTypes, upper) > 0) {
    return SetType(std::move(upper), fields.size() == 2 ? fields[1] : "*",
                   device);
  }
  if (fields.size() == 3 && fields[0] == "device" && !fields[1].empty()) {
    // The long form preserves the spelling of all types except these two.
    const bool lower = fields[1] == "cpu" || fields[1] == "gpu";
    return SetType(lower ? absl::AsciiStrToUpper(AbslView(fields[1]))
                         : std::string(fields[1]),
                   fields[2], device);
  }
  return absl::InvalidArgumentError(Cat("unknown part \"", part, "\""));
}

}  // namespace

std::string DeviceText(const DeviceSpec& device) {
  std::string text;
  if (device.job) absl::StrAppend(&text, "/job:", *device.job);
  if (device.replica) absl::StrAppend(&text, "/replica:", *device.replica);
  if (device.task) absl::StrAppend(&text, "/task:", *device.task);
  if (device.device_type) {
    absl::StrAppend(&text, "/device:", *device.device_type, ":",
                    device.device_index ? Cat(*device.device_index) : "*");
  }
  return text;
}

StatusOr<DeviceSpec> ParseDevice(std::string_view text) {
  DeviceSpec device;
  for (std::string_view part : Split(text, '/')) {
    BELAY_RETURN_IF_ERROR(
        AddPrefix(ParsePart(part, device), "parse device \"", text, "\""));
  }
  return device;
}

DeviceSpec MergeDevice(const DeviceSpec& base, const DeviceSpec& over) {
  DeviceSpec merged = base;
  if (over.job) merged.job = over.job;
  if (over.replica) merged.replica = over.replica;
  if (over.task) merged.task = over.task;
  if (over.device_type) merged.device_type = over.device_type;
  if (over.device_index) merged.device_index = over.device_index;
  return merged;
}

DeviceSpec RankDevice(std::string_view job, int replica, int rank) {
  return DeviceSpec{.job = std::string(job),
                    .replica = replica,
                    .task = rank,
                    .device_type = "CPU",
                    .device_index = 0};
}

}  // namespace belay
