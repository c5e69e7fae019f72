// Fed: a byte that says which kind of text follows, and the text. A text that
// can be parsed has one spelling, which parses to the same.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/layout.h"
#include "core/keys.h"
#include "core/text.h"
#include "format/paths.h"
#include "fuzz_input.h"
#include "fuzz_target.h"
#include "manager/time_limit.h"
#include "pipeline/operator_options.h"
#include "plan/chunks.h"
#include "storage/file_system.h"

namespace belay::fuzz_texts {
namespace {

void ReadSliceSpec(std::string_view text) {
  const StatusOr<SliceSpec> spec = ParseSliceSpec(text);
  if (!spec.ok()) return;
  Require(CheckBox(spec->box, spec->full_shape).ok(),
          "a slice is in its array");
  const auto again =
      ParseSliceSpec(FormatSliceSpec(spec->full_shape, spec->box));
  Require(again.ok() && again->full_shape == spec->full_shape &&
              again->box == spec->box,
          "a slice spec comes back as it was");
}

void ReadLayout(std::string_view text) {
  const StatusOr<Layout> layout = Layout::Parse(text);
  if (!layout.ok()) return;
  const StatusOr<Layout> again = Layout::Parse(layout->ToString());
  Require(again.ok() && *again == *layout, "a layout comes back as it was");
  const Shape shape(static_cast<size_t>(layout->ndim()), 5);
  const int last = layout->mesh().num_ranks() - 1;
  for (const int rank : {0, last}) {
    const StatusOr<Box> box = layout->LocalBox(shape, rank);
    if (!box.ok()) continue;
    Require(CheckBox(*box, shape).ok(), "a rank's box is in the array");
    const int64_t replica = layout->Replica(rank);
    Require(replica >= 0 && replica < layout->NumReplicas(),
            "replicas are counted from 0");
  }
  Require(layout->OnRanks(6).mesh().num_ranks() == 6,
          "a layout fits another number of ranks");
}

void ReadDevice(std::string_view text) {
  const StatusOr<DeviceSpec> device = ParseDevice(text);
  if (!device.ok()) return;
  const StatusOr<DeviceSpec> again = ParseDevice(DeviceText(*device));
  Require(again.ok() && *again == *device, "a device comes back as it was");
}

// An expression, a rewriting and a key, a line each.
void ReadPattern(std::string_view text) {
  std::vector<std::string_view> lines = Split(text, '\n');
  lines.resize(std::max<size_t>(lines.size(), 3));
  const StatusOr<KeyPatterns> patterns =
      KeyPatterns::Compile({std::string(lines[0])});
  if (!patterns.ok()) return;
  const bool matches = patterns->Find(lines[2]) == 0;
  Require(patterns->Unmatched({lines[2]})[0] == (matches ? 0 : 1),
          "what matches is not counted as unmatched");
  const std::string rewrite(lines[1]);
  if (matches && patterns->CheckRewrite(0, rewrite).ok()) {
    patterns->Rewrite(0, lines[2], rewrite);
  }
  patterns->NoMatchError(0, {lines[1], lines[2]}).IgnoreError();
}

void ReadFilters(std::string_view text) {
  const StatusOr<std::vector<Filter>> filters = ParseFilters(text);
  if (!filters.ok()) return;
  DescribeFilters(*filters);
  CheckFilters(*filters).IgnoreError();
  const auto again = ParseFilters(FiltersText(*filters));
  Require(again.ok() && *again == *filters, "filters come back as they were");
}

void ReadName(std::string_view text) {
  const std::optional<StepLabel> label = ParseStepName(text);
  Require(!label || StepName(label->step, label->prefix) == text,
          "a step has one name");
  std::string_view path = text;
  Require(WithoutInProgress(path) == IsInProgress(text),
          "a path in progress has an end that is taken off");
  GetParent(std::string(text));
  GetLastName(std::string(text));
  WithoutSlashes(std::string(text));
  IsMarker(text);
}

void ReadPrintable(std::string_view text) {
  for (const std::string& shown : {PrintableText(text), QuotedText(text)}) {
    Require(IsUtf8(shown), "what prints is UTF-8");
    Require(shown.find('\x1b') == shown.npos, "what prints turns no terminal");
  }
}

void ReadDType(std::string_view text) {
  const StatusOr<DType> dtype = ParseDType(text);
  Require(!dtype.ok() || DTypeName(*dtype) == text, "a dtype has one name");
}

void ReadTimeLeft(std::string_view text) {
  const StatusOr<double> seconds = ParseTimeLeft(text);
  Require(!seconds.ok() || *seconds >= 0, "no time is negative");
  const StatusOr<double> least = LeastTimeLeft(std::string(text));
  Require(!least.ok() || *least >= 0, "no time is negative");
}

// The values of the variables, a line each.
void ReadVariables(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : Split(text, '\n')) {
    lines.emplace_back(line);
  }
  lines.resize(OperatorVariables().size());
  const auto options =
      ParseOperatorOptions([&](const char* name) -> const char* {
        for (size_t i = 0; i < lines.size(); ++i) {
          if (std::string_view(OperatorVariables()[i]) == name) {
            return lines[i].c_str();
          }
        }
        return nullptr;
      });
  Require(!options.ok() || !options->contains("BELAY_INTERVAL") ||
              !options->at("BELAY_INTERVAL").starts_with("-"),
          "no interval is negative");
}

void ReadStripes(std::string_view text) {
  const StatusOr<LustreLayout> layout =
      ParseLustreLayout(std::as_bytes(std::span(text)));
  Require(
      !layout.ok() || (layout->stripe_bytes > 0 && layout->stripe_count >= 0),
      "stripes have a length");
}

constexpr void (*kReaders[])(std::string_view) = {
    ReadSliceSpec, ReadLayout,    ReadDevice,    ReadPattern,
    ReadFilters,   ReadName,      ReadPrintable, ReadDType,
    ReadTimeLeft,  ReadVariables, ReadStripes};

void Run(std::string_view input) {
  FuzzInput in(input);
  const size_t kind = in.Number<uint8_t>() % std::size(kReaders);
  kReaders[kind](in.Rest());
}

const RegisterFuzzTarget kTarget({"texts", Run});

}  // namespace
}  // namespace belay::fuzz_texts
