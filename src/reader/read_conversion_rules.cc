#include "base/printable.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "belay/save_restore.h"
#include "io/files/whole_file.h"
#include "transform/conversion_rules.h"

namespace belay {
namespace {

// Rules are written by hand, or by a script.
constexpr int64_t kMostRuleBytes = int64_t{64} << 20;

}  // namespace

StatusOr<std::vector<ConversionRule>> ReadConversionRules(
    const std::string& file, const std::string& path,
    std::optional<int64_t> step) {
  const StatusOr<std::string> text = ReadWhole(file, kMostRuleBytes);
  if (!text.ok()) return PrintableStatus(text.status());
  BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayInfo> arrays,
                         ListVariables(step ? StepPath(path, *step) : path));
  std::vector<std::string> keys;
  for (const ArrayInfo& array : arrays) keys.push_back(array.key);
  StatusOr<std::vector<ConversionRule>> rules = ParseRules(*text, keys);
  if (rules.ok()) return rules;
  return PrintableStatus(Status(
      rules.status().code(),
      Cat("convert \"", file, "\": ", std::string(rules.status().message()))));
}

}  // namespace belay
