// Options as text: what belay_options_set has taken, by name.

#ifndef BELAY_C_OPTIONS_H_
#define BELAY_C_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "belay/belay_c.h"
#include "belay/comm.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"
#include "belay/values/sharding_policy.h"
#include "c/handles.h"
#include "core/option_table.h"

namespace belay::c {

// The option of belay_options_set_sharding_policy; its value is the description
// of the policy.
inline constexpr char kPolicyOption[] = "sharding_policy";

// Reads options one by one and keeps the first mistake.
class OptionReader {
 public:
  // Null: all options keep their defaults. Borrows them.
  explicit OptionReader(const belay_options* options);

  // Reads all options of a struct that have a text.
  template <typename Options>
  void ReadAll(Options& options) {
    ForEachOption<Options>([&](const auto& row) {
      if (!row.is_only_cpp()) ReadRow(row, options.*row.field);
    });
  }

  // Reads an option of that name, if it is set.
  template <HasText T>
  void Read(const std::string& name, T& value, Bounds bounds = {}) {
    const std::string* const text = Find(name);
    if (text == nullptr) return;
    // Fortran writes numbers with blanks before them.
    const std::string bare(absl::StripAsciiWhitespace(*text));
    if (ReadText(std::is_same_v<T, std::string> ? *text : bare, value)) return;
    Refuse(name, *text, NeededText<T>(bounds));
  }

  // Returns the first mistake: a value that could not be read, or an option
  // that no function above has asked for.
  Status Finish() const;

 private:
  template <typename Row, typename T>
  void ReadRow(const Row& row, T& value) {
    if constexpr (HasText<T>) Read(row.other_name(), value, row.traits.bounds);
  }
  // Options in the midst of those of a manager.
  template <typename Row, typename T>
  requires(OptionGroup<T> ||
           std::is_same_v<T, SaveOptions>) void ReadRow(const Row&,
                                                        T& options) {
    ReadAll(options);
  }
  template <typename Row>
  void ReadRow(const Row& row, std::optional<AsyncOptions>& async) {
    bool is_async = false;
    AsyncOptions options;
    Read(row.other_name(), is_async);
    ReadAll(options);
    if (is_async) async = options;
  }
  template <typename Row>
  void ReadRow(const Row&, std::optional<AutoInterval>& interval) {
    AutoInterval options;
    const size_t first = known_.size();
    ReadAll(options);
    for (size_t i = first; i < known_.size(); ++i) {
      if (values_.contains(known_[i])) interval = options;
    }
  }
  // That of belay_options_set_sharding_policy, or MaxShardSize of an option.
  template <typename Row>
  void ReadRow(const Row&, ShardingPolicy& policy) {
    ReadShardingPolicy(policy);
  }

  void ReadShardingPolicy(ShardingPolicy& policy);
  // Null: not set.
  const std::string* Find(const std::string& name);
  void Refuse(const std::string& name, const std::string& text,
              const std::string& needed);

  const std::map<std::string, std::string>& values_;
  const std::optional<ShardingPolicy>& sharding_policy_;
  std::vector<std::string> known_;
  Status status_;
};

// Reads the options of a call.
// Errors: InvalidArgument - an unknown name, or a value that cannot be read.
template <typename Options>
Status ReadOptions(const belay_options* given, Options& options) {
  OptionReader reader(given);
  reader.ReadAll(options);
  return reader.Finish();
}

Status ReadRestoreOptions(const belay_options* given, RestoreOptions& options);

// The option deadline_seconds alone, which DeadlineOf returns.
Status CheckCommOptions(const belay_options* given);

// What surrounds a collective call: arguments before it, strings after it.

// Calls `prepare`, which must not communicate, and returns the same Status on
// all ranks: its own, or ResourceExhausted or Internal if it threw. Collective.
// `operation` is named if a rank does not arrive within the deadline.
Status PrepareTogether(const Comm& comm, double deadline_seconds,
                       const std::string& operation,
                       const std::function<Status()>& prepare);

// Names an operation as messages do: `save "run"`. `dir` may be null.
std::string OperationOn(const char* operation, const char* dir);

// Returns the option deadline_seconds, its default if it is no number.
double DeadlineOf(const belay_options* options);

// Checks a State, and takes what the program has beside the elements of arrays:
// the strings in its buffers and the numbers of its rows.
// Errors: InvalidArgument - it is null; the first mistake in adding to it;
//   those of TakeRows.
Status TakeValues(belay_state* state);

// Gives the program what a restore has changed of these; the keys `missing`,
// ascending, it has not.
// Errors: OutOfRange - a string is longer than its buffer; those of GiveCounts.
Status GiveValues(const std::vector<std::string>& missing, belay_state& state);

// Copies a string of the program.
// Errors: InvalidArgument - it is null; names the argument.
Status TakeText(const char* name, const char* text, std::string& taken);

}  // namespace belay::c

#endif  // BELAY_C_OPTIONS_H_
