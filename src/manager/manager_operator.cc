// What an operator says by the environment, on all ranks.

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "manager/manager_impl.h"
#include "manager/rules/operator_options.h"
#include "mpi/mpi_error.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

// How the message of rank 0 begins. It is the first one of its call.
constexpr std::string_view kOperatorMessage = "operator options";

// The variables of this process, once they are known to be sound. Rank 0 only.
StatusOr<std::string> ReadVariables(const std::string& dir) {
  std::vector<std::string> texts;
  for (const char* const name : kOperatorVariables) {
    const char* const value = std::getenv(name);
    texts.emplace_back(value == nullptr ? "" : value);
  }
  WireWriter out;
  out.PutText(kOperatorMessage);
  PutTexts(texts, out);
  const Status sound = ParseOperatorOptions([](const char* name) {
                         return std::getenv(name);
                       }).status();
  if (sound.ok()) return out.Take();
  return Status(sound.code(),
                absl::StrCat("manage \"", dir, "\": ", sound.message()));
}

// Nobody sees otherwise that a variable was not read. Rank 0 only.
void WarnOfVariables() {
  std::vector<std::string> names;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text(*one);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& line : MisspeltVariables(names)) {
    Log(LogLevel::kWarning, line);
  }
}

}  // namespace

Status TakeOperatorOptions(Impl& impl) {
  CommContext context = ManagerContext(impl, "manage", false);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes, FromRoot(context, [&] {
                                  return ReadVariables(impl.dir);
                                }));
  WireReader in(bytes);
  if (in.GetText() != kOperatorMessage) return DifferentCalls();
  const std::vector<std::string> texts = GetTexts(in);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      impl.operators,
      ParseOperatorOptions([&](const char* wanted) -> const char* {
        for (size_t i = 0; i < texts.size(); ++i) {
          if (std::string_view(kOperatorVariables[i]) == wanted) {
            return texts[i].c_str();
          }
        }
        return nullptr;
      }));
  if (context.is_root()) WarnOfVariables();
  impl.notes = ApplyOperatorOptions(impl.operators, impl.dir, impl.options);
  return absl::OkStatus();
}

}  // namespace belay
