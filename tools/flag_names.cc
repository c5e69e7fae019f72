#include "flag_names.h"

#include <string>
#include <string_view>

namespace belay::tools {
namespace {

struct Name {
  std::string_view option;
  std::string_view flag;
};

constexpr Name kNames[] = {
    {"set ExportOptions.overwrite", "add --overwrite"},
    {"set SaveOptions.overwrite", "add --overwrite"},
    {"leave_out_others", "--leave-out-others"},
    {": leave_out ", ": --leave-out "},
    {"max_file_bytes", "--max-file-bytes"},
    {"the option metadata", "--no-metadata"},
    {"strict_dtype", "--strict-dtype"},
    {"others with keys", "others with --keys"},
    {": keys ", ": --keys "},
};

}  // namespace

Status WithFlagNames(const Status& status) {
  std::string_view rest(status.message().data(), status.message().size());
  std::string text;
  bool is_quoted = false;
  while (!rest.empty()) {
    std::string_view next = rest.substr(0, 1), found = next;
    if (next == "\"") is_quoted = !is_quoted;
    for (const Name& name : kNames) {
      if (is_quoted || !rest.starts_with(name.option)) continue;
      found = name.option;
      next = name.flag;
    }
    text += next;
    rest.remove_prefix(found.size());
  }
  return Status(status.code(), text);
}

}  // namespace belay::tools
