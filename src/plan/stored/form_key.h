// Values that only say which objects of Python other values were.

#ifndef BELAY_PLAN_STORED_FORM_KEY_H_
#define BELAY_PLAN_STORED_FORM_KEY_H_

#include <string_view>

namespace belay {

// The first part of the keys of such values.
inline constexpr std::string_view kFormsName = ".python";

// Whether this is the key of such a value. It has no arrays, no handler takes
// part in it, and no program asks for it by its key (docs/format.md).
inline bool IsFormKey(std::string_view key) {
  return key.starts_with(kFormsName) &&
         (key.size() == kFormsName.size() || key[kFormsName.size()] == '/');
}

}  // namespace belay

#endif  // BELAY_PLAN_STORED_FORM_KEY_H_
