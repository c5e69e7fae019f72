// The JSON of `belay convert`; docs/arguments.md describes it.

#ifndef BELAY_STATE_CONVERSION_RULES_H_
#define BELAY_STATE_CONVERSION_RULES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/reader/copy_options.h"
#include "belay/status.h"

namespace belay {

// Returns how many stored arrays and functions all rules together may use. Each
// is counted once for every key that its rule matches.
inline int64_t MostRuleNodes(size_t stored_keys) {
  return (int64_t{1} << 16) + 16 * static_cast<int64_t>(stored_keys);
}

// Parses rules. `keys` are the stored keys from which expressions select
// inputs.
// Errors: InvalidArgument - the text is not JSON, or has no rules;
//   ResourceExhausted - MostRuleNodes. Names the member of the rule.
StatusOr<std::vector<ConversionRule>> ParseRules(
    std::string_view text, const std::vector<std::string>& keys);

// Natural order: numbers inside strings are compared by value ("h.2" comes
// before "h.10").
bool IsNaturallyBefore(std::string_view a, std::string_view b);

}  // namespace belay

#endif  // BELAY_STATE_CONVERSION_RULES_H_
