#include "base/amount_text.h"

#include <iterator>

#include "absl/strings/str_format.h"

namespace belay {

std::string CountText(int64_t count, std::string_view noun) {
  return absl::StrFormat("%d %s%s", count, std::string(noun),
                         count == 1 ? "" : "s");
}

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%d B", bytes)
                   : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string SecondsText(double seconds) {
  if (seconds < 0.0995) return absl::StrFormat("%.0f ms", seconds * 1000);
  if (seconds < 9.95) return absl::StrFormat("%.2g s", seconds);
  return absl::StrFormat("%.0f s", seconds);
}

}  // namespace belay
