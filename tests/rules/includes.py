"""A file reaches the header of every name that it uses.

The release build parses the headers of BELAY_COMMON_HEADERS once for all
sources, and compiles several sources as one, so no compiler notices when an
include is missing. A file, or a header of this repository that it includes,
directly or not, has to include the header of every name of the lists below,
and of every capitalised name that one header of src/ or include/ declares.
"""

import collections
import functools
import posixpath
import re

import cpp
import rule

CHECKED = re.compile(r"(src|include|tests|mpi_tests|benchmarks|tools|examples)"
                     r"/.*\.(h|cc)")
ROOTS = ("src", "include", "tests", "mpi_tests", "benchmarks", "tools")
_INCLUDE = re.compile(r'^[ \t]*#include ["<]([^">]+)[">]', re.M)
# What a header of the library gives others: names that start a line.
_EXPORTS = [re.compile(pattern, re.M) for pattern in (
    r"^(?:struct|class|enum class|enum) (\w+)", r"^using (\w+) =",
    r"^(?:inline )*(?:constexpr|constinit|const) [^=;(]*?(\w+)\b[^=({;]*[={]",
    r"^(?! |return|using|struct|class|enum|template|namespace|friend)"
    r"[\w:<>,&*\[\] ]+?[ &*](\w+)\(")]
# What a file may mean by a name instead: something that it declares anywhere.
_DECLARED = re.compile(
    r"\b(?:struct|class|using|auto|typename(?:\.\.\.)?) (\w+)"
    r"|using [\w:]+::(\w+);"
    r"|\b(?!return\b|else\b|throw\b)\w+<?>*[&*]* (\w+)\("
    r"|\b(k[A-Z]\w*)(?:\[\w*\])? ?[={,]")
_MACRO = re.compile(r"^#define (\w+)\(", re.M)
_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\([^)]*\)", re.M)
_WORD = re.compile(r"(?<![\w.>:])((?:::)?(?:std|absl)::\w+|\w+)")

_STD = {
    "algorithm": "all_of any_of binary_search clamp count_if equal_range fill "
                 "fill_n find find_if find_if_not is_sorted lower_bound max "
                 "max_element min min_element minmax none_of nth_element "
                 "replace reverse rotate shuffle sort stable_sort transform "
                 "unique upper_bound",
    "chrono": "chrono",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t",
    "cmath": "ceil floor isfinite isinf isnan ldexp log lround pow sqrt",
    "cstring": "memcmp memcpy memmove memset strerror strlen",
    "complex": "complex",
    "deque": "deque",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "function greater less multiplies plus ref",
    "iterator": "back_inserter distance inserter istreambuf_iterator "
                "make_move_iterator next prev",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex scoped_lock unique_lock",
    "numeric": "accumulate gcd iota lcm partial_sum",
    "optional": "nullopt optional",
    "random": "mt19937 mt19937_64 normal_distribution "
              "uniform_int_distribution uniform_real_distribution",
    "set": "multiset set",
    "span": "span",
    "string": "string to_string",
    "string_view": "string_view",
    "thread": "thread",
    "tuple": "forward_as_tuple make_tuple tie tuple",
    "utility": "exchange make_pair move pair swap",
    "vector": "vector",
}
_ABSL = {
    "absl/container/flat_hash_map.h": "flat_hash_map",
    "absl/container/flat_hash_set.h": "flat_hash_set",
    "absl/container/inlined_vector.h": "InlinedVector",
    "absl/functional/function_ref.h": "FunctionRef",
    "absl/status/status.h": "InternalError InvalidArgumentError OkStatus "
                            "Status StatusCode",
    "absl/status/statusor.h": "StatusOr",
    "absl/strings/str_cat.h": "StrAppend StrCat",
    "absl/strings/str_format.h": "StrAppendFormat StrFormat",
    "absl/strings/str_join.h": "StrJoin",
}
_PLAIN = {
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t "
               "uint64_t intptr_t uintptr_t",
}
HEADERS = (*_PLAIN, *_STD, *_ABSL)
# A header that gives the names of another, by the standard or by its page.
_GIVES = {
    "map": ("utility",), "optional": ("utility",), "string": ("string_view",),
    "tuple": ("utility",), "fstream": ("string",),
    "sstream": ("string",), "iostream": ("string",),
    "absl/status/statusor.h": ("absl/status/status.h",),
    "string.h": ("cstring",), "stdint.h": ("cstdint",), "math.h": ("cmath",),
}


def _owners():
  """Returns {name as written: its header}."""
  owners = {}
  for names, prefix in ((_STD, "std::"), (_ABSL, "absl::"), (_PLAIN, "")):
    for header, words in names.items():
      for word in words.split():
        owners[prefix + word] = header
  return owners


OWNERS = _owners()


def _find(tree, path, name):
  """Returns the path of a header of this repository, None for another's."""
  beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
  for candidate in (beside, *(f"{root}/{name}" for root in ROOTS)):
    if candidate in tree:
      return candidate
  return None


def reached(tree, path):
  """Returns what a file includes, directly or not: the headers of others, and
  files of this repository, itself among them."""
  foreign, seen, left = set(), {path}, [path]
  while left:
    current = left.pop()
    for name in _INCLUDE.findall(tree[current]):
      found = _find(tree, current, name)
      if found is None:
        foreign.update((name, *_GIVES.get(name, ())))
      elif found not in seen:
        seen.add(found)
        left.append(found)
  return foreign, seen


def exported(tree, blank):
  """Returns {name: header} of what one header of the library declares."""
  headers = collections.defaultdict(set)
  for path in blank:
    if path.startswith(("src/", "include/")) and path.endswith(".h"):
      names = [name for pattern in _EXPORTS
               for name in pattern.findall(blank[path])]
      for name in names + _MACRO.findall(tree[path]):
        if re.match("[A-Z]|k[A-Z]", name):
          headers[name].add(path)
  return {name: min(found) for name, found in headers.items()
          if len(found) == 1}


def unknown(tree):
  """Returns the precompiled headers whose names are not known here."""
  listed = re.search(r"BELAY_COMMON_HEADERS\b([^)]*)\)",
                     tree.get("cmake/BelayLayers.cmake", ""))
  return [f"cmake/BelayLayers.cmake: <{header}> is precompiled, and "
          "tests/rules/includes.py knows none of its names"
          for header in re.findall(r"<([^>]+)>", listed[1] if listed else "")
          if header not in HEADERS]


def check(tree):
  blank = {path: _TEST.sub("", cpp.blank(text)) for path, text in tree.items()
           if CHECKED.fullmatch(path)}
  owners = exported(tree, blank)

  @functools.cache
  def declared(path):
    return {name for names in _DECLARED.findall(blank[path])
            for name in names if name}

  problems = unknown(tree)
  for path, text in blank.items():
    foreign, own = reached(tree, path)
    missing = {}
    for word in _WORD.findall(text):
      word = word.removeprefix("::")
      header = OWNERS.get(word)
      if header is not None and header not in foreign:
        missing.setdefault(f"<{header}>", word)
      header = owners.get(word)
      if (header is not None and header not in own
          and not any(word in declared(file) for file in own)):
        missing.setdefault(header, word)
    problems += [f"{path}: uses {word} and does not reach {header}"
                 for header, word in sorted(missing.items())]
  return problems


BAD = [
    ({"src/a/a.h": "inline std::string A() { return {}; }\n"},
     "uses std::string and does not reach <string>"),
    ({"src/a/a.h": "#include <string>\nvoid A(int64_t n);\n"}, "<cstdint>"),
    ({"src/a/a.h": "#include <string>\n",
      "tests/a_test.cc": '#include "a/a.h"\nint a = std::max(1, 2);\n'},
     "tests/a_test.cc: uses std::max and does not reach <algorithm>"),
    ({"src/a/a.cc": "auto a = absl::StrCat(1);\n"}, "<absl/strings/str_cat.h>"),
    ({"src/a/a.h": "struct Apple {};\n",
      "src/a/b.h": "void Use(const Apple& apple);\n"},
     "src/a/b.h: uses Apple and does not reach src/a/a.h"),
    ({"src/a/a.h": "int Eat(int n);\ninline constexpr int kMax = 3;\n",
      "tests/b_test.cc": "TEST(B, C) { EXPECT_EQ(Eat(1), 1); }\n"},
     "tests/b_test.cc: uses Eat and does not reach src/a/a.h"),
    ({"cmake/BelayLayers.cmake": "set(BELAY_COMMON_HEADERS\n  <map> <regex>)\n"},
     "<regex> is precompiled"),
]
GOOD = [
    {"src/a/a.h": "#include <string>\n// Says std::vector.\nstd::string A();\n",
     "src/a/a.cc": '#include "a/a.h"\nstd::string_view a = "std::map";\n'},
    {"src/a/a.h": "template <typename T>\nT Make() {\n  return Status(1);\n}\n",
     "src/b/b.h": "Status Do();\n"},
    {"src/a/a.h": "struct Apple {};\nint Eat(int n);\n",
     "src/a/b.h": '#include "a/a.h"\n',
     "src/a/b.cc": '#include "a/b.h"\nApple a;\nint n = Eat(2);\n',
     "src/b/b.cc": "struct Apple {};\nApple a;\nint n = a.Eat(2);\n"},
    {"src/a/a.cc": "#include <vector>\nint sort(int max);\nint n = a.max();\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
