// The output of commands with --json: one object on stdout, in ASCII, even on
// failure. docs/command.md describes the members.

#ifndef BELAY_TOOLS_JSON_OUTPUT_H_
#define BELAY_TOOLS_JSON_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "belay/arrays/tensor.h"
#include "belay/status.h"

namespace belay::tools {

using Json = nlohmann::ordered_json;

// Returns a text as a JSON string, or as {"base64": ...} if it is not valid
// UTF-8.
Json TextJson(std::string_view text);

// The same; null for an empty text.
Json TextOrNull(std::string_view text);

// Returns a number without loss: all digits of an integer, a float as a double.
// NaN and infinities are "NaN", "Infinity" and "-Infinity"; a complex number is
// an array of its two parts.
Json ElementJson(const Tensor& tensor, int64_t i);

// Returns a real number in the same way.
Json RealJson(double value);

// Returns all elements as nested arrays, one level for each axis; a scalar as
// its element.
Json ValuesJson(const Tensor& tensor);

// True if ValuesJson returns at most `most` elements or, for an array without
// elements, at most `most` empty arrays.
bool HasAtMost(const Shape& shape, int64_t most);

// {"major": 1, "minor": 0}.
Json FormatJson(int major, int minor);

// Prints the object to stdout.
void PrintJson(const Json& json);

// Prints {"error": {"code": "NOT_FOUND", "message": ...}}.
void PrintError(const Status& status);

// Prints an error to stderr as Fail(status) does and, with `json`, also to
// stdout as PrintError does. Returns 2.
int Fail(const Status& status, bool json);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_JSON_OUTPUT_H_
