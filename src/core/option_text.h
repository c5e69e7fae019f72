// Options as text: each by its name in core/option_table.h.

#ifndef BELAY_CORE_OPTION_TEXT_H_
#define BELAY_CORE_OPTION_TEXT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"
#include "belay/values/sharding_policy.h"
#include "core/option_table.h"

namespace belay {

// The texts of options by their names.
using OptionTexts = std::map<std::string, std::string>;

// Reads a text such as `max_to_keep=3 async_save save_on_steps=10,20`: options
// with blanks or new lines between them. A name alone means true. A value with
// blanks stands in single or double quotes. If an option appears twice, the
// later value replaces the earlier one, also one that is in `texts` before.
// Errors: InvalidArgument - a part that is no option.
Status ParseOptionTexts(std::string_view text, OptionTexts& texts);

// Reads options one by one and keeps the first mistake.
class OptionReader {
 public:
  // Borrows both. `policy` is the program's sharding policy, whose description
  // `texts` has as the value of kPolicyOption; may be null.
  OptionReader(const OptionTexts& texts, const ShardingPolicy* policy);

  // The option of a sharding policy that is a function of the program.
  static constexpr char kPolicyOption[] = "sharding_policy";

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
    bool is_async = async.has_value();
    AsyncOptions options = async.value_or(AsyncOptions());
    Read(row.other_name(), is_async);
    ReadAll(options);
    async = is_async ? std::optional(options) : std::nullopt;
  }
  template <typename Row>
  void ReadRow(const Row&, std::optional<AutoInterval>& interval) {
    AutoInterval options = interval.value_or(AutoInterval());
    const size_t first = known_.size();
    ReadAll(options);
    for (size_t i = first; i < known_.size(); ++i) {
      if (texts_.contains(known_[i])) interval = options;
    }
  }
  template <typename Row>
  void ReadRow(const Row&, ShardingPolicy& policy) {
    ReadShardingPolicy(policy);
  }

  // Reads that of the program, or MaxShardSize of an option.
  void ReadShardingPolicy(ShardingPolicy& policy);
  // Null: not set.
  const std::string* Find(const std::string& name);
  void Refuse(const std::string& name, const std::string& text,
              const std::string& needed);

  const OptionTexts& texts_;
  const ShardingPolicy* policy_;
  std::vector<std::string> known_;
  Status status_;
};

// Sets the options of a manager, of its saves included, that `texts` has.
// Errors: InvalidArgument - an unknown option, or a value that cannot be read.
Status SetManagerOptions(const OptionTexts& texts, ManagerOptions& options);

}  // namespace belay

#endif  // BELAY_CORE_OPTION_TEXT_H_
