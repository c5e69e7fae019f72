// Amounts as a person reads them.

#ifndef BELAY_BASE_AMOUNT_TEXT_H_
#define BELAY_BASE_AMOUNT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace belay {

// "1 array", "2 arrays".
std::string CountText(int64_t count, std::string_view noun);

// "1.5 MiB".
std::string BytesText(int64_t bytes);

// "3 ms", "0.42 s", "95 s".
std::string SecondsText(double seconds);

}  // namespace belay

#endif  // BELAY_BASE_AMOUNT_TEXT_H_
