// The part of a restore that looks at the arguments of single values.

#include <algorithm>

#include "base/status_macros.h"
#include "restore/restore_stages.h"

namespace belay {
namespace {

// Agrees that every entry of the arguments matches a key of some rank.
// Collective; agreed.
Status CheckEntriesMatch(CommContext& context, const KeyPatterns& patterns,
                         const std::vector<std::string_view>& keys) {
  std::vector<int64_t> unmatched = patterns.Unmatched(keys);
  if (unmatched.empty()) return absl::OkStatus();
  BELAY_RETURN_IF_AGREED(MinAll(context, unmatched));
  const auto first = std::find(unmatched.begin(), unmatched.end(), 1);
  if (first == unmatched.end()) return absl::OkStatus();
  return OnRoot(context, [&] {
    return patterns.NoMatchError(static_cast<size_t>(first - unmatched.begin()),
                                 keys);
  });
}

}  // namespace

StatusOr<RestoreChooser> AgreeOnChooser(
    RestoreFrame& frame, const std::vector<std::string_view>& keys) {
  StatusOr<RestoreChooser> chooser = RestoreChooser::Create(frame.options);
  if (frame.options.args.empty()) return chooser;
  BELAY_RETURN_IF_AGREED(Agree(frame.context, chooser.status()));
  BELAY_RETURN_IF_AGREED(
      CheckEntriesMatch(frame.context, chooser->patterns(), keys));
  return chooser;
}

}  // namespace belay
