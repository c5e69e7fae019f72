// Checks the options of a save, on one rank and between ranks.

#ifndef BELAY_PIPELINE_SAVE_OPTIONS_H_
#define BELAY_PIPELINE_SAVE_OPTIONS_H_

#include <type_traits>

#include "core/option_table.h"
#include "plan/chunks.h"
#include "state/type_handlers.h"

namespace belay {

// Checks the options and their arguments. `start` is the beginning of the
// message, such as `save "run"`.
// Errors: InvalidArgument - an option is out of range; those of CompileArgs.
Status CheckSaveOptions(std::string_view start, const SaveOptions& options);

// Checks in a child process that data written with filters of plugins can be
// read back. Call it on one rank: the result is the same on all ranks.
// Errors: FailedPrecondition - a filter is not available there; those of
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

// An option that must be the same on all ranks, as bytes to compare.
struct CommonOption {
  std::string name;
  std::string bytes;
};

// Functions and pointers are equal if they are null on all ranks or on none.
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
