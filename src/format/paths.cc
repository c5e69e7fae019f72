#include "format/paths.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/integers.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr char kInProgress[] = ".inprogress";
constexpr char kMarker[] = "writer_";
constexpr char kReplaced[] = ".replaced";
constexpr size_t kMaxPrefix = 200;
constexpr std::string_view kReservedGroup = ".belay";

void AppendEscaped(unsigned char c, std::string& out) {
  absl::StrAppendFormat(&out, "%%%02X", c);
}

std::string EscapePart(std::string_view part, bool first) {
  std::string out;
  if (part.empty()) return "%";  // unambiguous: '%' alone is no escape
  if (part == "." || part == ".." || (first && part == kReservedGroup)) {
    AppendEscaped(part[0], out);
    part.remove_prefix(1);
  }
  for (char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '@' || byte < 0x20 || byte == 0x7f) {
      AppendEscaped(byte, out);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string EscapeKey(std::string_view key) {
  std::string path;
  for (bool first = true;; first = false) {
    const size_t slash = key.find('/');
    absl::StrAppend(&path, first ? "" : "/",
                    EscapePart(key.substr(0, slash), first));
    if (slash == std::string_view::npos) return path;
    key.remove_prefix(slash + 1);
  }
}

bool IsStepPrefix(std::string_view prefix) {
  return !prefix.empty() && prefix.size() <= kMaxPrefix &&
         std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '=';
         });
}

}  // namespace

std::string StepName(int64_t step, std::string_view prefix) {
  return absl::StrFormat("%s_%08d", AbslView(prefix), step);
}

std::optional<StepLabel> ParseStepName(std::string_view name) {
  const size_t bar = name.rfind('_');
  if (bar == std::string_view::npos) return std::nullopt;
  if (!IsStepPrefix(name.substr(0, bar))) return std::nullopt;
  const std::optional<int64_t> step =
      ParseDigits(name.substr(bar + 1), INT64_MAX);
  if (!step.has_value()) return std::nullopt;
  StepLabel label{std::string(name.substr(0, bar)), *step};
  // Each step has one spelling: eight digits, or more if the number needs more.
  if (StepName(label.step, label.prefix) != name) return std::nullopt;
  return label;
}

Status CheckStepPrefix(std::string_view prefix) {
  if (IsStepPrefix(prefix)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "the prefix of steps \"%s\" cannot be a name (need 1 to %d letters, "
      "digits or any of \"-_=\")",
      AbslView(prefix), kMaxPrefix));
}

std::string InProgressPath(std::string_view path) {
  return absl::StrCat(AbslView(path), kInProgress);
}

std::string InProgressPath(std::string_view path, uint64_t nonce) {
  return absl::StrFormat("%s.%016x%s", AbslView(path), nonce, kInProgress);
}

bool WithoutInProgress(std::string_view& path) {
  if (!IsInProgress(path)) return false;
  path.remove_suffix(InProgressPath("").size());
  const size_t dot = path.rfind('.');
  const bool has_nonce =
      dot != path.npos && path.size() - dot - 1 == 16 &&
      path.find_first_not_of("0123456789abcdef", dot + 1) == path.npos;
  if (has_nonce) path = path.substr(0, dot);
  return true;
}

bool IsInProgress(std::string_view path) { return path.ends_with(kInProgress); }

std::string ReplacedName(std::string_view path) {
  return absl::StrCat(AbslView(path), kReplaced);
}

bool IsReplaced(std::string_view path) { return path.ends_with(kReplaced); }

std::string AsideName(std::string_view prefix, int64_t number) {
  return absl::StrFormat("%s.aside_%04d", AbslView(prefix), number);
}

std::string WithoutSlashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

std::string GetParent(std::string_view path) {
  const std::string whole = WithoutSlashes(path);
  const size_t slash = whole.rfind('/');
  if (slash == std::string::npos) return ".";
  return whole.substr(0, slash == 0 ? 1 : slash);
}

std::string GetLastName(std::string_view path) {
  const std::string whole = WithoutSlashes(path);
  return whole.substr(whole.rfind('/') + 1);
}

std::string MarkerName(uint64_t nonce) {
  return absl::StrFormat("%s%016x", kMarker, nonce);
}

bool IsMarker(std::string_view name) { return name.starts_with(kMarker); }

std::string IndexName() { return "index.h5"; }

std::string MetadataName() { return "metadata.json"; }

std::string JoinPath(std::string_view parent, std::string_view name) {
  std::string path(parent);
  if (!path.empty() && path.back() != '/') path.push_back('/');
  return path.append(name);
}

std::vector<std::string> ObjectPaths(const std::vector<StoredArray>& arrays) {
  std::vector<std::string> paths;
  paths.reserve(arrays.size());
  for (const StoredArray& array : arrays) paths.push_back(EscapeKey(array.key));
  // A set of all groups would take memory quadratic in the length of a path.
  std::vector<std::string_view> sorted(paths.begin(), paths.end());
  if (!std::is_sorted(sorted.begin(), sorted.end())) {
    std::sort(sorted.begin(), sorted.end());
  }
  std::vector<size_t> groups;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string inside = paths[i] + "/";
    const auto next = std::lower_bound(sorted.begin(), sorted.end(), inside);
    if (next != sorted.end() && next->starts_with(inside)) groups.push_back(i);
  }
  for (const size_t i : groups) paths[i] += "/%value";
  return paths;
}

std::string DatasetPath(const std::string& object_path,
                        const StoredArray& array,
                        const StoredDataset& dataset) {
  if (dataset.box == WholeBox(IoShape(array))) return object_path;
  return absl::StrCat(object_path, "@", BoxText(dataset.box));
}

}  // namespace belay
