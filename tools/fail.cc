#include <cstdio>

#include "absl/strings/str_format.h"
#include "commands.h"

namespace belay::tools {

int Fail(const Status& status) {
  absl::FPrintF(stderr, "belay: %s\n", status.ToString());
  return 2;
}

}  // namespace belay::tools
