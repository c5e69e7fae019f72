// Options as text: what belay_options_set has taken, by name.

#ifndef BELAY_C_OPTIONS_H_
#define BELAY_C_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/belay_c.h"
#include "belay/comm.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"
#include "belay/values/sharding_policy.h"
#include "c/handles.h"

namespace belay::c {

// The option of belay_options_set_sharding_policy; its value is the description
// of the policy.
inline constexpr char kPolicyOption[] = "sharding_policy";

// Reads options one by one and keeps the first mistake.
class OptionReader {
 public:
  // Null: all options keep their defaults. Borrows them.
  explicit OptionReader(const belay_options* options);

  // Reads an option of that name, if it is set.
  void Read(const std::string& name, bool& value);
  void Read(const std::string& name, int64_t& value);
  void Read(const std::string& name, double& value);
  void Read(const std::string& name, std::string& value);
  template <typename T>
  void Read(const std::string& name, std::optional<T>& value) {
    T given = value.value_or(T());
    if (IsSet(name)) {
      Read(name, given);
      value = given;
    } else {
      Read(name, given);
    }
  }
  // Signals by name or number, with blanks or commas between them.
  void ReadSignals(const std::string& name, std::vector<int>& signals);
  // That of belay_options_set_sharding_policy, or MaxShardSize of an option
  // with this name.
  void ReadShardingPolicy(const std::string& limit, ShardingPolicy& policy);
  // One of several words.
  template <typename Enum>
  void ReadWord(
      const std::string& name, Enum& value,
      std::initializer_list<std::pair<std::string_view, Enum>> words) {
    const std::string* const text = Find(name);
    if (text == nullptr) return;
    std::string known;
    for (const auto& [word, meaning] : words) {
      if (*text == word) {
        value = meaning;
        return;
      }
      known += known.empty() ? "" : ", ";
      known += word;
    }
    Refuse(name, *text, known);
  }

  // Returns the first mistake: a value that could not be read, or an option
  // that no function above has asked for.
  Status Finish() const;

 private:
  bool IsSet(const std::string& name) const;
  // Null: not set.
  const std::string* Find(const std::string& name);
  void Refuse(const std::string& name, const std::string& text,
              const std::string& needed);

  const std::map<std::string, std::string>& values_;
  const std::optional<ShardingPolicy>& sharding_policy_;
  std::vector<std::string> known_;
  Status status_;
};

// Read the options of a call.
// Errors: InvalidArgument - an unknown name, or a value that cannot be read.
Status ReadSaveOptions(const belay_options* given, SaveOptions& options);
Status ReadRestoreOptions(const belay_options* given, RestoreOptions& options);
Status CheckCommOptions(const belay_options* given);
Status ReadAsyncOptions(const belay_options* given, AsyncOptions& options);
// Those of its saves as well.
Status ReadManagerOptions(const belay_options* given, ManagerOptions& options);

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
