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

// Returns one element with the shortest digits that distinguish it from its
// neighbors: "0.1", "1e-07", "True", "(1.5-2j)".
std::string ElementText(const Tensor& tensor, int64_t i);

// Returns all elements with the same width and aligned points, and at most 8
// digits after the point.
std::vector<std::string> AlignedTexts(const Tensor& tensor);

// Returns seconds since 1970 as "2026-11-28 09:14:43Z".
std::string TimeText(int64_t seconds);

// Returns a double with its shortest digits.
std::string RealText(double value);

// Returns the name unchanged if it is printable, else in quotes.
std::string PrintableName(const std::string& name);

// Returns a message that is safe to print on a terminal. All lines after the
// first are indented, so names from files cannot look like output of the
// command.
std::string IndentedText(std::string_view text);

// Returns the number of characters of a printable UTF-8 text.
size_t WidthOf(std::string_view text);

// Prints to stdout like absl::PrintF, but only what is safe on a terminal.
template <typename... Args>
void Print(const absl::FormatSpec<Args...>& format, const Args&... args) {
  const std::string text = PrintableText(absl::StrFormat(format, args...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// Returns the text padded with blanks to at least `width` characters.
std::string Padded(std::string text, size_t width);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_NUMBER_TEXT_H_
