#include <cstdio>

#include "absl/strings/str_format.h"
#include "commands.h"
#include "number_text.h"

namespace belay::tools {

int Fail(const Status& status) {
  absl::FPrintF(stderr, "belay: %s\n", IndentedText(status.ToString()));
  return 2;
}

}  // namespace belay::tools
