// belay_set_log: messages go to a function of the program.

#include "belay/log.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "belay/belay_c.h"
#include "belay/status.h"
#include "c/error.h"

int belay_set_log(void (*sink)(void* context, int level, const char* message),
                  void* context, int least) {
  return belay::c::Call([&]() -> belay::Status {
    if (least < BELAY_LOG_DEBUG || least > BELAY_LOG_ERROR) {
      return absl::InvalidArgumentError(
          absl::StrFormat("set log: not a log level (need %d to %d, found %d)",
                          BELAY_LOG_DEBUG, BELAY_LOG_ERROR, least));
    }
    if (sink == nullptr) {
      belay::SetLogSink(nullptr);
      return absl::OkStatus();
    }
    belay::SetLogSink(
        [sink, context](belay::LogLevel level, std::string_view message) {
          sink(context, static_cast<int>(level), std::string(message).c_str());
        },
        static_cast<belay::LogLevel>(least));
    return absl::OkStatus();
  });
}
