#include "base/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "absl/strings/str_replace.h"

namespace belay {
namespace {

// The end of the list of arguments that `<` at `begin` opens.
size_t EndOfArguments(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>' && --depth == 0) return i + 1;
  }
  return text.size();
}

// Removes arguments of this template, which follow others.
void RemoveArguments(std::string& text, std::string_view name) {
  const std::string begin = ", " + std::string(name) + "<";
  for (size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
    text.erase(at, EndOfArguments(text, at + begin.size() - 1) - at);
  }
}

// Leaves out what nobody writes: the arguments that templates of the standard
// library have by default, and the namespaces of its versions.
std::string AsWritten(std::string text) {
  text = absl::StrReplaceAll(
      text, {{"std::__cxx11::", "std::"}, {"std::__1::", "std::"}});
  for (const char* name :
       {"std::allocator", "std::char_traits", "std::less", "std::hash",
        "std::equal_to", "std::default_delete"}) {
    RemoveArguments(text, name);
  }
  text = absl::StrReplaceAll(text, {{" >", ">"}});
  return absl::StrReplaceAll(
      text, {{"std::basic_string<char>", "std::string"},
             {"std::basic_string_view<char>", "std::string_view"}});
}

}  // namespace

std::string TypeName(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? AsWritten(name.get()) : type.name();
}

}  // namespace belay
