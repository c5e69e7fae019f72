// Prints docs/options.md and the Python types of options from the rows of
// options, and fails if the files differ. With --write it writes them.
//
//   option_pages SOURCES [--write]

#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_join.h"
#include "core/option_table.h"
#include "core/text.h"
#include "safetensors/export_options.h"

namespace belay {
namespace {

template <typename T>
concept IsStruct = requires {
  OptionTable<T>::kName;
};
template <typename T>
inline constexpr bool kIsArgs = std::is_same_v<T, std::vector<SaveArgsFor>> ||
                                std::is_same_v<T, std::vector<RestoreArgsFor>>;

// --- docs/options.md ---

constexpr char kIntroduction[] = R"(# Options

All defaults work. `tests/option_pages.cc` writes this page from
`src/core/option_table.h`.

An option has one name: it is a field of a struct in C++, a keyword argument in
Python, and a name for `belay_options_set` in [C](c.md#options) and Fortran. A
value such as `two_phase` is `Transfer::kTwoPhase` in C++ and `"two_phase"` in
Python; a flag that is on is `true`, in Python `True`. In
`{.overwrite = true, .durable = false}` C++ requires the members in the order of
their declaration, which is that of these tables.
)";

template <typename T>
std::string ValuesText(const T& value) {
  if constexpr (kIsOnlyCpp<T>) {
    return "only in C++";
  } else if constexpr (HasWords<T>) {
    return Cat("`", absl::StrJoin(ListWords(value), "`, `"), "`");
  } else if constexpr (std::is_same_v<T, bool>) {
    return "flag";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else if constexpr (std::is_same_v<T, std::vector<int>>) {
    return "signals";
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    return "numbers";
  } else if constexpr (kIsFunction<T>) {
    return "function; not in C";
  } else if constexpr (kIsArgs<T> || requires { value.find(""); } ||
                       std::is_same_v<T, std::vector<std::string>>) {
    return "not in C";
  } else if constexpr (requires { typename T::value_type; }) {
    return IsStruct<typename T::value_type> ? ""
                                            : ValuesText(*T(std::in_place));
  } else {
    return "";
  }
}

template <typename T>
std::string DefaultText(const T& value) {
  if constexpr (HasWords<T>) {
    return Cat("`", ListWords(value)[static_cast<size_t>(value)], "`");
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "on" : "off";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return Cat(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? "none" : Cat("`", value, "`");
  } else {
    return "none";
  }
}

template <typename Options>
std::string Table() {
  std::string text = Cat("\n| `", OptionTable<Options>::kName,
                         "` | values | default | |\n| --- | --- | --- | --- "
                         "|\n");
  const Options options;
  ForEachOption<Options>([&](const auto& row) {
    const auto& traits = row.traits;
    const auto& value = options.*row.field;
    const std::string name =
        traits.other_name == nullptr
            ? Cat("`", row.name, "`")
            : Cat("`", row.name, "`; elsewhere `", traits.other_name, "`");
    const std::string help =
        traits.variable == nullptr
            ? row.help
            : Cat(row.help, ". [`", traits.variable,
                  "`](manager.md#what-an-operator-may-set) in the environment "
                  "overrides it");
    text +=
        Cat("| ", name, " | ",
            traits.is_only_cpp ? "only in C++" : ValuesText(value),
            traits.bounds.low > -DBL_MAX && !traits.is_only_cpp
                ? Cat(", ", BoundsText(traits.bounds))
                : "",
            " | ", traits.usual != nullptr ? traits.usual : DefaultText(value),
            " | ", help, " |\n");
  });
  return text;
}

std::string Page() {
  return Cat(kIntroduction, "\n## Saves\n", Table<SaveOptions>(),
             "\n## Restores\n", Table<RestoreOptions>(),
             "\n## Savers in the background\n", Table<AsyncOptions>(),
             "\n## Managers\n", Table<ManagerOptions>(), Table<SavePolicy>(),
             Table<RetentionPolicy>(), Table<AutoInterval>(),
             "\n## Exports\n\nIn C++ and Python.\n", Table<ExportOptions>());
}

// --- python/belay/_options.pyi ---

template <typename T>
std::string PythonType(const T& value) {
  using O = SaveOptions;
  if constexpr (HasWords<T>) {
    return Cat("Literal[\"", absl::StrJoin(ListWords(value), "\", \""), "\"]");
  } else if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_integral_v<T>) {
    return "int";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "float";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "str";
  } else if constexpr (std::is_same_v<T, std::vector<int>>) {
    return "Sequence[Union[int, str]]";
  } else if constexpr (std::is_same_v<T, std::optional<AsyncOptions>>) {
    return "Union[bool, AsyncOptions]";
  } else if constexpr (std::is_same_v<T, ShardingPolicy>) {
    return "belay.ShardingPolicy";
  } else if constexpr (kIsArgs<T>) {
    return "Mapping[str, Mapping[str, Any]]";
  } else if constexpr (std::is_same_v<T, decltype(O::before_commit)>) {
    return "Callable[[str, int], Any]";
  } else if constexpr (std::is_same_v<T, decltype(O::after_commit)>) {
    return "Callable[[belay.SaveResult], Any]";
  } else if constexpr (kIsFunction<T>) {
    return "Union[bool, Callable[[int, int], Any]]";
  } else if constexpr (requires { typename T::mapped_type; }) {
    return "Mapping[str, str]";
  } else if constexpr (requires { value.has_value(); }) {
    return Cat("Optional[", PythonType(*T(std::in_place)), "]");
  } else {
    return Cat("Sequence[", PythonType(typename T::value_type()), "]");
  }
}

// The options of a struct, also of one among them.
template <typename Options>
std::string Fields() {
  std::string text;
  const Options options;
  ForEachOption<Options>([&](const auto& row) {
    using T = std::decay_t<decltype(options.*row.field)>;
    if (row.is_only_cpp()) return;
    if constexpr (std::is_same_v<T, std::optional<AutoInterval>>) {
      text += Fields<AutoInterval>();
    } else if constexpr (OptionGroup<T>) {
      text += Fields<T>();
    } else if constexpr (!kIsOnlyCpp<T> && !IsStruct<T>) {
      if (std::is_same_v<T, ShardingPolicy>) text += "  max_shard_size: int\n";
      text += Cat("  ", row.other_name(), ": ", PythonType(options.*row.field),
                  "\n");
    }
  });
  return text;
}

template <typename Options>
std::string Class(const char* base = "TypedDict") {
  return Cat("\nclass ", OptionTable<Options>::kName, "(", base,
             ", total=False):\n", Fields<Options>());
}

std::string Types() {
  return Cat(
      "# tests/option_pages.cc writes this file.\n"
      "from collections.abc import Callable, Mapping, Sequence\n"
      "from typing import Any, Literal, Optional, TypedDict, Union\n\n"
      "import belay\n",
      Class<SaveOptions>(), Class<RestoreOptions>(), Class<AsyncOptions>(),
      Class<ManagerOptions>("SaveOptions"), Class<ExportOptions>());
}

bool IsFile(const std::string& path, const std::string& text, bool write) {
  if (write) {
    std::ofstream(path) << text;
    return true;
  }
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  if (found.str() == text) return true;
  std::fprintf(stderr,
               "%s is not what its options say: run option_pages with "
               "--write\n",
               path.c_str());
  return false;
}

}  // namespace
}  // namespace belay

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string root = argv[1];
  const bool write = argc > 2 && std::strcmp(argv[2], "--write") == 0;
  const bool page =
      belay::IsFile(root + "/docs/options.md", belay::Page(), write);
  const bool types =
      belay::IsFile(root + "/python/belay/_options.pyi", belay::Types(), write);
  return page && types ? 0 : 1;
}
