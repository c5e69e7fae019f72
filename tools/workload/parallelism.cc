#include "workload/parallelism.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "workload/rank_state.h"

namespace belay {
namespace {

struct Degree {
  std::string_view name;
  int64_t Parallelism::*value;
};

constexpr Degree kDegrees[] = {{"tp", &Parallelism::tp},
                               {"pp", &Parallelism::pp},
                               {"dp", &Parallelism::dp},
                               {"fsdp", &Parallelism::fsdp},
                               {"ep", &Parallelism::ep}};

Status Mistake(std::string_view text, const std::string& cause) {
  return absl::InvalidArgumentError(
      absl::StrFormat("parse parallelism \"%s\": %s", AbslView(text), cause));
}

// Parses a whole text as a number. Returns -1 if it is not a number.
int64_t DegreeOf(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

Status ParsePart(std::string_view text, std::string_view part,
                 std::vector<std::string_view>& seen, Parallelism& result) {
  const size_t sign = part.find('=');
  const std::string_view name = part.substr(0, sign);
  if (sign == part.npos) {
    return Mistake(text,
                   absl::StrFormat("need parts such as tp=8, found \"%s\"",
                                   AbslView(part)));
  }
  for (std::string_view other : seen) {
    if (other == name) {
      return Mistake(text, Cat("\"", name, "\" appears twice"));
    }
  }
  seen.push_back(name);
  const int64_t value = DegreeOf(part.substr(sign + 1));
  if (name == "zero") {
    if (value != 0 && value != 1) {
      return Mistake(text,
                     Cat("need zero=0 or zero=1 (2 stores what 1 does, 3 is "
                         "fsdp), found \"",
                         part, "\""));
    }
    result.zero = value == 1;
    return absl::OkStatus();
  }
  for (const Degree& degree : kDegrees) {
    if (degree.name != name) continue;
    if (value < 1 || value > kMaxRanks) {
      return Mistake(text, Cat("need ", name, "=1 to ", name, "=", kMaxRanks,
                               ", found \"", part, "\""));
    }
    result.*degree.value = value;
    return absl::OkStatus();
  }
  return Mistake(text, Cat("unknown degree \"", name,
                           "\" (need tp, pp, dp, fsdp, ep or zero)"));
}

Status CheckTogether(std::string_view text, const Parallelism& result) {
  int64_t ranks = 1;
  for (const Degree& degree : kDegrees) {
    if (degree.name == "ep") continue;
    ranks *= result.*degree.value;  // both are at most 2^20
    if (ranks > kMaxRanks) {
      return Mistake(text, Cat("too many ranks (need at most ", kMaxRanks,
                               ", found ", ranks, " or more)"));
    }
  }
  if (result.dp % result.ep != 0) {
    return Mistake(text, Cat("expert-parallel ranks are a part of the "
                             "data-parallel ones (need an ep that divides dp=",
                             result.dp, ", found ep=", result.ep, ")"));
  }
  if (result.zero && result.fsdp > 1) {
    return Mistake(text,
                   Cat("FSDP cuts the state of the optimizer already (need "
                       "zero=0 or fsdp=1, found fsdp=",
                       result.fsdp, ")"));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Parallelism> ParseParallelism(std::string_view text) {
  Parallelism result;
  std::vector<std::string_view> seen;
  for (std::string_view part : Split(text, ',')) {
    BELAY_RETURN_IF_ERROR(ParsePart(text, part, seen, result));
  }
  BELAY_RETURN_IF_ERROR(CheckTogether(text, result));
  return result;
}

std::string ToString(const Parallelism& parallelism) {
  std::string text;
  for (const Degree& degree : kDegrees) {
    const int64_t value = parallelism.*degree.value;
    if (value == 1) continue;
    text += Cat(text.empty() ? "" : ",", degree.name, "=", value);
  }
  if (parallelism.zero) text += text.empty() ? "zero=1" : ",zero=1";
  return text.empty() ? "dp=1" : text;
}

RankPlace PlaceOf(const Parallelism& parallelism, int64_t rank) {
  RankPlace place;
  place.tp = rank % parallelism.tp;
  rank /= parallelism.tp;
  place.fsdp = rank % parallelism.fsdp;
  rank /= parallelism.fsdp;
  place.dp = rank % parallelism.dp;
  place.pp = rank / parallelism.dp;
  return place;
}

// --- Fit ---

namespace {

Status Mistake(const ModelSpec& model, const Parallelism& parallelism,
               const std::string& cause) {
  return absl::InvalidArgumentError(Cat("cut model \"", model.name, "\" by ",
                                        ToString(parallelism), ": ", cause));
}

// Checks the tensor-parallel split of one tensor. Returns "" if it fits.
std::string TpProblem(const TensorSpec& tensor, int64_t tp) {
  if (tensor.tp_axis < 0 || tp == 1) return "";
  if (tensor.tp_max > 0 && tp > tensor.tp_max) {
    if (tp % tensor.tp_max == 0) return "";
    return absl::StrFormat(
        "\"%s\" has %d parts, of which TP ranks hold copies (need a multiple "
        "of %d, found tp=%d)",
        tensor.name, tensor.tp_max, tensor.tp_max, tp);
  }
  std::vector<int64_t> segments = tensor.tp_segments;
  if (segments.empty()) segments = {tensor.shape[tensor.tp_axis]};
  const int64_t units =
      *std::min_element(segments.begin(), segments.end()) / tensor.tp_unit;
  if (units >= tp) return "";
  return absl::StrFormat(
      "\"%s\" has fewer units along axis %d than there are TP ranks (need "
      "tp=%d or less, found tp=%d)",
      tensor.name, tensor.tp_axis, units, tp);
}

std::string EpProblem(const TensorSpec& tensor, int64_t ep) {
  if (tensor.ep_axis < 0 || tensor.shape[tensor.ep_axis] % ep == 0) return "";
  return absl::StrFormat(
      "\"%s\" has a number of experts that EP ranks do not divide (need a "
      "divisor of %d, found ep=%d)",
      tensor.name, tensor.shape[tensor.ep_axis], ep);
}

}  // namespace

Status CheckFit(const ModelSpec& model, const Parallelism& parallelism) {
  if (parallelism.pp > std::max<int64_t>(1, model.num_layers)) {
    return Mistake(model, parallelism,
                   absl::StrFormat("fewer layers than stages (need pp=%d or "
                                   "less, found pp=%d)",
                                   model.num_layers, parallelism.pp));
  }
  bool has_experts = false;
  for (const TensorSpec& tensor : model.tensors) {
    has_experts = has_experts || IsOfExperts(tensor);
    std::string problem = TpProblem(tensor, parallelism.tp);
    if (problem.empty()) problem = EpProblem(tensor, parallelism.ep);
    if (!problem.empty()) return Mistake(model, parallelism, problem);
  }
  if (parallelism.ep > 1 && !has_experts) {
    return Mistake(model, parallelism, "the model has no experts");
  }
  if (model.num_experts % parallelism.ep != 0) {
    return Mistake(model, parallelism,
                   absl::StrFormat("EP ranks do not divide the experts (need a "
                                   "divisor of %d, found ep=%d)",
                                   model.num_experts, parallelism.ep));
  }
  return absl::OkStatus();
}

}  // namespace belay
