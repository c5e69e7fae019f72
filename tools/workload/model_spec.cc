#include "workload/model_spec.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

int64_t Shorter(int64_t length, int64_t divisor) {
  return std::max<int64_t>(1, length / divisor);
}

void Divide(int64_t divisor, TensorSpec& tensor) {
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const auto number = static_cast<int32_t>(axis);
    if (number == tensor.ep_axis || number == tensor.tp_axis) continue;
    tensor.shape[axis] = Shorter(tensor.shape[axis], divisor);
  }
  if (tensor.tp_axis < 0) return;
  int64_t& length = tensor.shape[tensor.tp_axis];
  const int64_t unit = tensor.tp_unit;
  if (unit > 1) tensor.tp_unit = Shorter(unit, divisor);
  const auto shorten = [&](int64_t old) {
    return unit > 1 ? old / unit * tensor.tp_unit : Shorter(old, divisor);
  };
  length = shorten(length);
  if (tensor.tp_segments.empty()) return;
  length = 0;
  for (int64_t& segment : tensor.tp_segments) {
    segment = shorten(segment);
    length += segment;
  }
}

}  // namespace

StatusOr<ModelSpec> ReadModel(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(Cat("read \"", path, "\": no such model file"));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) {
    return absl::InternalError(Cat("read \"", path, "\": cannot be read"));
  }
  BELAY_ASSIGN_OR_RETURN(ModelSpec model, ParseModel(path, text));
  model.name = std::filesystem::path(path).stem().string();
  return model;
}

int64_t NumParameters(const ModelSpec& model) {
  int64_t sum = 0;
  for (const TensorSpec& tensor : model.tensors) {
    if (tensor.tied_to.empty()) sum += NumElements(tensor.shape);
  }
  return sum;
}

ModelSpec Divided(ModelSpec model, int64_t divisor) {
  for (TensorSpec& tensor : model.tensors) Divide(divisor, tensor);
  return model;
}

// The table of a model: one line per tensor.

namespace {

// Unset if a field is valid; otherwise what it should be.
using Problem = std::optional<std::string>;

std::optional<int64_t> FieldNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

// "-" leaves `value` unchanged.
template <typename T>
Problem ParseNumber(std::string_view field, T& value) {
  if (field == "-") return std::nullopt;
  const std::optional<int64_t> number = FieldNumber(field);
  if (!number || *number > std::numeric_limits<T>::max()) {
    return "a number or \"-\"";
  }
  value = static_cast<T>(*number);
  return std::nullopt;
}

template <typename List>
Problem ParseList(std::string_view field, List& list) {
  if (field == "-") return std::nullopt;
  for (std::string_view part : Split(field, ',')) {
    const std::optional<int64_t> number = FieldNumber(part);
    if (!number || *number == 0)
      return "positive numbers with ',' between them";
    list.push_back(*number);
  }
  return std::nullopt;
}

// Parses the number of a layer or an expert, which must be small.
template <typename Number>
Problem ParseCounted(std::string_view field, Number& number) {
  constexpr int64_t kMax = 1 << 20;
  Problem problem = ParseNumber(field, number);
  if (!problem && number > kMax) problem = "a number up to 1048576";
  return problem;
}

Problem ParseKind(std::string_view field, TensorSpec& tensor) {
  tensor.is_vocabulary = field == "vocab";
  for (const char* known : {"vocab", "column", "row", "replicated", "-"}) {
    if (field == known) return std::nullopt;
  }
  return "vocab, column, row or replicated";
}

Problem ParseStage(std::string_view field, TensorSpec& tensor) {
  if (field == "first") tensor.stage = StageOf::kFirst;
  if (field == "last") tensor.stage = StageOf::kLast;
  if (field == "first" || field == "layer" || field == "last") {
    return std::nullopt;
  }
  return "first, layer or last";
}

Problem ParseDTypeField(std::string_view field, TensorSpec& tensor) {
  const StatusOr<DType> dtype = ParseDType(field);
  if (!dtype.ok() || *dtype == DType::kString) {
    return "a dtype such as f32 or bf16";
  }
  tensor.dtype = *dtype;
  return std::nullopt;
}

Problem ParseParams(std::string_view field, TensorSpec& tensor) {
  const StatusOr<int64_t> elements = CheckedNumElements(tensor.shape);
  if (elements.ok() && FieldNumber(field) == *elements) return std::nullopt;
  return Cat("the elements of shape ", ShapeText(tensor.shape));
}

Problem ParseOptimizer(std::string_view field, TensorSpec& tensor) {
  tensor.has_optimizer = field == "adamw";
  if (field == "adamw" || field == "-") return std::nullopt;
  return "adamw or \"-\"";
}

Problem ParseText(std::string_view field, std::string& text) {
  if (field.empty()) return "a name";
  if (field != "-") text = field;
  return std::nullopt;
}

struct Column {
  std::string_view name;
  bool is_needed;
  Problem (*parse)(std::string_view field, TensorSpec& tensor);
};

// Columns are parsed in this order.
constexpr Column kColumns[] = {
    {"name", true, [](auto f, auto& t) { return ParseText(f, t.name); }},
    {"dtype", true, ParseDTypeField},
    {"global_shape", true,
     [](auto f, auto& t) { return ParseList(f, t.shape); }},
    {"params", false, ParseParams},
    {"kind", false, ParseKind},
    {"tp_axis", false,
     [](auto f, auto& t) { return ParseNumber(f, t.tp_axis); }},
    {"tp_unit", false,
     [](auto f, auto& t) { return ParseNumber(f, t.tp_unit); }},
    {"tp_max", false, [](auto f, auto& t) { return ParseNumber(f, t.tp_max); }},
    {"tp_segments", false,
     [](auto f, auto& t) { return ParseList(f, t.tp_segments); }},
    {"pp", true, ParseStage},
    {"layer", false, [](auto f, auto& t) { return ParseCounted(f, t.layer); }},
    {"ep_axis", false,
     [](auto f, auto& t) { return ParseNumber(f, t.ep_axis); }},
    {"expert", false,
     [](auto f, auto& t) { return ParseCounted(f, t.expert); }},
    {"fsdp_axis", false,
     [](auto f, auto& t) { return ParseNumber(f, t.fsdp_axis); }},
    {"tied_to", false, [](auto f, auto& t) { return ParseText(f, t.tied_to); }},
    {"optim", false, ParseOptimizer},
};

// Position of each known column in the lines; -1: missing.
using Positions = std::vector<int>;

Status Mistake(std::string_view file, size_t line, std::string_view column,
               const std::string& cause) {
  return absl::InvalidArgumentError(
      column.empty() ? Cat("read \"", file, "\": line ", line, ": ", cause)
                     : Cat("read \"", file, "\": line ", line, ", column \"",
                           column, "\": ", cause));
}

StatusOr<Positions> ParseHead(std::string_view file,
                              const std::vector<std::string_view>& names) {
  Positions positions(std::size(kColumns), -1);
  std::string known;
  for (const Column& column : kColumns) {
    known += Cat(known.empty() ? "" : ", ", column.name);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* const found =
        std::find_if(std::begin(kColumns), std::end(kColumns),
                     [&](const Column& c) { return c.name == names[i]; });
    if (found == std::end(kColumns)) {
      return Mistake(file, 1, names[i],
                     Cat("unknown column (need some of ", known, ")"));
    }
    int& position = positions[found - std::begin(kColumns)];
    if (position >= 0) return Mistake(file, 1, names[i], "appears twice");
    position = static_cast<int>(i);
  }
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    if (kColumns[i].is_needed && positions[i] < 0) {
      return Mistake(file, 1, kColumns[i].name, "is missing");
    }
  }
  return positions;
}

// Returns what is wrong with an axis, or "".
std::string AxisProblem(const TensorSpec& tensor, int32_t axis) {
  if (axis < static_cast<int32_t>(tensor.shape.size())) return "";
  return absl::StrFormat("no such axis (need less than %d, found %d)",
                         tensor.shape.size(), axis);
}

// Returns what is wrong with the segments of an axis of that length, or "".
std::string SegmentProblem(const TensorSpec& tensor, int64_t length) {
  if (tensor.tp_segments.empty()) return "";
  if (tensor.is_vocabulary)
    return "a vocabulary, which may be padded, has none";
  int64_t sum = 0;
  for (int64_t segment : tensor.tp_segments) {
    if (segment % tensor.tp_unit != 0) {
      return absl::StrFormat(
          "a segment is not whole units (need a multiple of "
          "%d, found %d)",
          tensor.tp_unit, segment);
    }
    if (__builtin_add_overflow(sum, segment, &sum)) sum = INT64_MAX;
  }
  if (sum == length) return "";
  return absl::StrFormat("do not make up axis %d (need %d, found %d)",
                         tensor.tp_axis, length, sum);
}

// Checks the columns against each other. Returns the column and what is wrong
// with it.
std::pair<std::string_view, std::string> CutProblem(const TensorSpec& tensor) {
  for (const auto& [name, axis] : {std::pair("tp_axis", tensor.tp_axis),
                                   std::pair("ep_axis", tensor.ep_axis),
                                   std::pair("fsdp_axis", tensor.fsdp_axis)}) {
    std::string problem = AxisProblem(tensor, axis);
    if (!problem.empty()) return {name, std::move(problem)};
  }
  if (tensor.tp_unit < 1) return {"tp_unit", "need at least 1, found 0"};
  if (tensor.tp_axis >= 0 && tensor.tp_axis == tensor.ep_axis) {
    return {"ep_axis", "is tp_axis too"};
  }
  if (tensor.ep_axis >= 0 && tensor.expert >= 0) {
    return {"expert", "an axis is cut over the experts already"};
  }
  if (tensor.tp_axis < 0) {
    if (tensor.tp_segments.empty()) return {};
    return {"tp_segments", "no axis is cut (tp_axis is \"-\")"};
  }
  const int64_t length = tensor.shape[tensor.tp_axis];
  std::string problem = SegmentProblem(tensor, length);
  if (!problem.empty()) return {"tp_segments", std::move(problem)};
  if (length % tensor.tp_unit == 0) return {};
  return {"tp_unit", absl::StrFormat("axis %d is not whole units (need a "
                                     "divisor of %d, found %d)",
                                     tensor.tp_axis, length, tensor.tp_unit)};
}

StatusOr<TensorSpec> ParseLine(std::string_view file, size_t line,
                               const std::vector<std::string_view>& fields,
                               const Positions& positions) {
  TensorSpec tensor;
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    if (positions[i] < 0) continue;
    const std::string_view field = fields[positions[i]];
    const Problem need = kColumns[i].parse(field, tensor);
    if (!need) continue;
    return Mistake(file, line, kColumns[i].name,
                   Cat("need ", *need, ", found \"", field, "\""));
  }
  if (tensor.name.empty()) return Mistake(file, line, "name", "is empty");
  const auto [column, cause] = CutProblem(tensor);
  if (!cause.empty()) return Mistake(file, line, column, cause);
  return tensor;
}

// True if both are partitioned in the same way, so that ranks can hold them as
// one tensor.
bool IsCutAs(const TensorSpec& a, const TensorSpec& b) {
  const auto cut = [](const TensorSpec& t) {
    return std::tie(t.dtype, t.shape, t.tp_axis, t.tp_unit, t.tp_max,
                    t.tp_segments, t.ep_axis, t.expert);
  };
  return cut(a) == cut(b);
}

// Checks each tensor that is tied to another one, and that all names are
// distinct.
Status CheckNames(std::string_view file, const ModelSpec& model) {
  absl::flat_hash_map<std::string_view, size_t> lines;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const auto [it, fresh] = lines.try_emplace(model.tensors[i].name, i);
    if (fresh) continue;
    return Mistake(file, i + 2, "name",
                   Cat("\"", model.tensors[i].name, "\" is in line ",
                       it->second + 2, " already"));
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSpec& tensor = model.tensors[i];
    if (tensor.tied_to.empty()) continue;
    const auto it = lines.find(tensor.tied_to);
    const TensorSpec* const other =
        it == lines.end() ? nullptr : &model.tensors[it->second];
    if (other != nullptr && other->tied_to.empty() && IsCutAs(*other, tensor)) {
      continue;
    }
    return Mistake(file, i + 2, "tied_to",
                   Cat("need a tensor of this dtype, shape and cut that is not "
                       "tied itself, found \"",
                       tensor.tied_to, "\""));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ModelSpec> ParseModel(std::string_view file, std::string_view text) {
  ModelSpec model{.name = std::string(file)};
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty()) return Mistake(file, 1, "", "no column names");
  // The table may have been written on Windows.
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  const std::vector<std::string_view> names = Split(lines[0], '\t');
  BELAY_ASSIGN_OR_RETURN(const Positions positions, ParseHead(file, names));
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> fields = Split(lines[i], '\t');
    if (fields.size() != names.size()) {
      return Mistake(file, i + 1, "",
                     absl::StrFormat("need %d fields, found %d", names.size(),
                                     fields.size()));
    }
    BELAY_ASSIGN_OR_RETURN(TensorSpec tensor,
                           ParseLine(file, i + 1, fields, positions));
    if (tensor.stage == StageOf::kLayer) {
      model.num_layers = std::max(model.num_layers, tensor.layer + 1);
    }
    model.num_experts = std::max(model.num_experts, tensor.expert + 1);
    model.tensors.push_back(std::move(tensor));
  }
  if (model.tensors.empty()) return Mistake(file, 2, "", "no tensors");
  BELAY_RETURN_IF_ERROR(CheckNames(file, model));
  return model;
}

}  // namespace belay
