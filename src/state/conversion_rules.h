// The JSON of `belay convert`; docs/arguments.md describes it.

#ifndef BELAY_STATE_CONVERSION_RULES_H_
#define BELAY_STATE_CONVERSION_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/reader/copy_options.h"
#include "belay/status.h"

namespace belay {

// Makes rules of the text. `keys` are those that are stored, for the inputs
// that an expression chooses. Errors: InvalidArgument - it is no JSON, or no
// rules;
//   says which member of which rule.
StatusOr<std::vector<ConversionRule>> ParseRules(
    std::string_view text, const std::vector<std::string>& keys);

// Orders texts as people do: "h.2" before "h.10".
bool IsNaturallyBefore(std::string_view a, std::string_view b);

}  // namespace belay

#endif  // BELAY_STATE_CONVERSION_RULES_H_
