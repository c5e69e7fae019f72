// What commands print with --json: one object on stdout, in ASCII, also if they
// fail. docs/command.md describes the members.

#ifndef BELAY_TOOLS_JSON_OUTPUT_H_
#define BELAY_TOOLS_JSON_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "belay/arrays/tensor.h"
#include "belay/status.h"

namespace belay::tools {

using Json = nlohmann::ordered_json;

// A text as a string; one that is not UTF-8, which JSON has no string for, as
// {"base64": ...}.
Json TextJson(std::string_view text);

// The same, null for an empty one.
Json TextOrNull(std::string_view text);

// A number without loss: all digits of an integer, a float as the double that
// it is. NaN and infinities are "NaN", "Infinity" and "-Infinity"; a complex
// number is an array of its two parts.
Json ElementJson(const Tensor& tensor, int64_t i);

// A real number in the same way.
Json RealJson(double value);

// All elements, an array for each axis; one without axes as its element.
Json ValuesJson(const Tensor& tensor);

// Whether ValuesJson makes at most so many elements of an array, or so many
// empty arrays of one without elements.
bool HasAtMost(const Shape& shape, int64_t most);

// {"major": 1, "minor": 0}.
Json FormatJson(int major, int minor);

// Prints it to stdout.
void PrintJson(const Json& json);

// Prints {"error": {"code": "NOT_FOUND", "message": ...}}.
void PrintError(const Status& status);

// Prints an error to stderr as Fail(status) does and, with `json`, to stdout as
// well, as PrintError. Returns 2.
int Fail(const Status& status, bool json);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_JSON_OUTPUT_H_
