// Numbers as text, as NumPy prints them.

#ifndef BELAY_TOOLS_NUMBER_TEXT_H_
#define BELAY_TOOLS_NUMBER_TEXT_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/tensor.h"
#include "core/text.h"

namespace belay::tools {

// One element, by the shortest digits that tell it from its neighbours: "0.1",
// "1e-07", "True", "(1.5-2j)".
std::string ElementText(const Tensor& tensor, int64_t i);

// All elements, each of the same width and with their points in one column;
// at most 8 digits stand behind the point.
std::vector<std::string> AlignedTexts(const Tensor& tensor);

// Seconds since 1970 as "2026-11-28 09:14:43Z".
std::string TimeText(int64_t seconds);

// A double by its shortest digits.
std::string RealText(double value);

// The name as it is if it prints, else in quotes.
std::string PrintableName(const std::string& name);

// What a terminal may show of a message, its further lines indented: what a
// file names cannot look like a line of the command.
std::string IndentedText(std::string_view text);

// Characters of a UTF-8 text that prints.
size_t WidthOf(std::string_view text);

// Prints to stdout, as absl::PrintF, what a terminal may show of it.
template <typename... Args>
void Print(const absl::FormatSpec<Args...>& format, const Args&... args) {
  const std::string text = PrintableText(absl::StrFormat(format, args...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// With blanks at its end, so that it has that many characters at least.
std::string Padded(std::string text, size_t width);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_NUMBER_TEXT_H_
