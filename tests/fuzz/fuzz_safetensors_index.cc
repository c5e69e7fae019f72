// Fed: the index of a safetensors export, or, where it is none, the name of a
// file. Each file that an index names is a name in its directory, and an index
// is written and read back as it was.
#include <optional>
#include <string>

#include "core/text.h"
#include "fuzz_target.h"
#include "safetensors/export_plan.h"
#include "safetensors/header.h"

namespace belay::fuzz_safetensors_index {
namespace {

using safetensors::FileOfTensor;

// Returns an index as an export writes it.
std::string TextOf(const FileOfTensor& files) {
  std::string text = "{\"metadata\":{},\"weight_map\":{";
  bool is_first = true;
  for (const auto& [tensor, file] : files) {
    const StatusOr<std::string> name = safetensors::JsonText(tensor);
    const StatusOr<std::string> value = safetensors::JsonText(file);
    Require(name.ok() && value.ok(), "names are UTF-8");
    text += Cat(is_first ? "" : ",", *name, ":", *value);
    is_first = false;
  }
  return text + "}}";
}

void CheckName(std::string_view name) {
  const std::optional<safetensors::NumberedName> parts =
      safetensors::ParseNumberedName(name);
  if (!parts) return;
  Require(parts->number >= 0 && parts->count >= 0, "files are counted from 0");
  Require(!parts->stem.empty() || name.starts_with('-'),
          "a name begins with its stem");
}

void Run(std::string_view input) {
  const StatusOr<FileOfTensor> files = safetensors::ParseIndex(input);
  if (!files.ok()) return CheckName(input);
  for (const auto& [tensor, file] : *files) {
    Require(!file.empty() && file.find('/') == file.npos && file != "." &&
                file != "..",
            "a file lies in the directory of its index");
    CheckName(file);
  }
  const StatusOr<FileOfTensor> again = safetensors::ParseIndex(TextOf(*files));
  Require(again.ok() && *again == *files, "an index comes back as it was");
}

const RegisterFuzzTarget kTarget({"safetensors_index", Run});

}  // namespace
}  // namespace belay::fuzz_safetensors_index
