#include <cstdio>

#include "absl/strings/str_format.h"
#include "commands.h"
#include "number_text.h"

namespace belay::tools {

int Fail(const Status& status) {
  // Names come from files, too: no error may speak to the terminal.
  absl::FPrintF(stderr, "belay: %s\n", PrintableText(status.ToString()));
  return 2;
}

}  // namespace belay::tools
