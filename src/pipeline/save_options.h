// Checks of the options of a save, alone and between ranks.

#ifndef BELAY_PIPELINE_SAVE_OPTIONS_H_
#define BELAY_PIPELINE_SAVE_OPTIONS_H_

#include <type_traits>

#include "core/option_table.h"
#include "plan/chunks.h"
#include "state/type_handlers.h"

namespace belay {

// Checks the numbers, and the expressions of the arguments. `start` is the
// beginning of the message, such as `save "run"`.
// Errors: InvalidArgument - one is out of its range; those of CompileArgs.
Status CheckSaveOptions(std::string_view start, const SaveOptions& options);

// Checks in a child process that data can be read again after filters of
// plugins. Call it on one rank: the result is the same on all.
// Errors: FailedPrecondition - a filter is not there in it; those of
//   ChildProcess.
Status CheckFiltersCanBeRead(std::string_view start,
                             const SaveOptions& options);

// How replicas are compared; see SaveOptions::check_replicas.
enum class ReplicaChecks : uint8_t {
  kNone = 0,
  kOncePerPlan = 1,
  kEachSave = 2,
};

ReplicaChecks ChooseReplicaChecks(const SaveOptions& options);

// An option that has to be the same on all ranks, as bytes to compare.
struct CommonOption {
  std::string name;
  std::string bytes;
};

// Functions are equal if all ranks have one or none has, and so are pointers.
std::string OptionBytes(const SaveOptions& options) = delete;
std::string OptionBytes(const ShardingPolicy& policy);
std::string OptionBytes(const std::optional<PreservationPolicy>& policy);
inline std::string OptionBytes(const std::vector<SaveArgsFor>& args) {
  return EncodeArgs(args);
}
inline std::string OptionBytes(const std::vector<RestoreArgsFor>& args) {
  return EncodeArgs(args);
}
template <typename T>
std::string OptionBytes(const T& value) {
  if constexpr (kIsFunction<T> || std::is_pointer_v<T>) {
    return Encode(value != nullptr);
  } else {
    return Encode(value);
  }
}

// Returns the options that must not differ between ranks.
template <typename Options>
std::vector<CommonOption> CommonOptions(const Options& options) {
  std::vector<CommonOption> common;
  ForEachOption<Options>([&](const auto& row) {
    const auto& value = options.*row.field;
    if constexpr (OptionGroup<std::decay_t<decltype(value)>>) {
      for (CommonOption& one : CommonOptions(value)) {
        common.push_back(std::move(one));
      }
    } else if constexpr (requires { OptionBytes(value); }) {
      if (!row.traits.may_differ) {
        common.push_back({row.name, OptionBytes(value)});
      }
    }
  });
  return common;
}

template <typename Options>
requires requires { OptionTable<Options>::kRows; }
std::string OptionBytes(const std::optional<Options>& options) {
  std::string bytes = Encode(options.has_value());
  if (!options) return bytes;
  for (const CommonOption& one : CommonOptions(*options)) bytes += one.bytes;
  return bytes;
}

}  // namespace belay

#endif  // BELAY_PIPELINE_SAVE_OPTIONS_H_
