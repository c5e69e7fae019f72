#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "array_text.h"
#include "commands.h"
#include "number_text.h"
#include "object_path.h"
#include "statistics.h"

namespace belay::tools {
namespace {

void PrintHead(const ArrayInfo& array, const std::string& rest) {
  absl::PrintF("%s: %s %s, %s, %s%s\n", QuotedText(array.key),
               DTypeName(array.dtype), ShapeText(array.shape),
               BytesText(array.bytes), array.cut, rest);
  if (!array.layout.empty()) absl::PrintF("laid out as %s\n", array.layout);
  if (!array.args.empty()) absl::PrintF("saved with %s\n", array.args);
}

// The box that the text means, "offset,length" or "-" for each axis.
StatusOr<Box> ParseBox(const std::string& text, const ArrayInfo& array) {
  if (text.empty()) return WholeBox(array.shape);
  const StatusOr<SliceSpec> spec =
      ParseSliceSpec(absl::StrCat(absl::StrJoin(array.shape, " "), " ", text));
  if (absl::IsInvalidArgument(spec.status())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s; write \"offset,length\" or \"-\" for each axis, with ':' between "
        "them",
        spec.status().message()));
  }
  if (!spec.ok()) return spec.status();
  return spec->box;
}

Status ShowText(const CheckpointReader& reader, const ArrayInfo& array,
                const ShowOptions& options) {
  if (!options.box.empty() || options.statistics) {
    return absl::InvalidArgumentError(
        absl::StrFormat("show %s: a string has neither a box nor statistics",
                        QuotedText(array.key)));
  }
  const StatusOr<std::string> text = reader.ReadText(array.key);
  if (!text.ok()) return text.status();
  const size_t shown = std::min(text->size(), static_cast<size_t>(options.max));
  PrintHead(array, "");
  absl::PrintF("\n%s", QuotedText(text->substr(0, shown)));
  if (shown < text->size()) absl::PrintF("...");
  absl::PrintF("\n");
  return absl::OkStatus();
}

void PrintStatistics(const Statistics& statistics, bool is_complex) {
  const char* of = is_complex ? " |z|" : "";
  absl::PrintF("\n");
  absl::PrintF("elements  %d\n", statistics.elements);
  absl::PrintF("%-10s%s\n", absl::StrCat("min", of), statistics.min);
  absl::PrintF("%-10s%s\n", absl::StrCat("max", of), statistics.max);
  absl::PrintF("mean      %s\n", statistics.mean);
  absl::PrintF("zeros     %d\n", statistics.zeros);
  absl::PrintF("NaN       %d\n", statistics.nans);
  absl::PrintF("infinite  %d\n", statistics.infinities);
}

Status ShowArray(const CheckpointReader& reader, const ArrayInfo& array,
                 const ShowOptions& options) {
  const StatusOr<Box> box = ParseBox(options.box, array);
  if (!box.ok()) return box.status();
  const StatusOr<Excerpt> excerpt = ReadExcerpt(
      array.dtype, *box, options.max,
      [&](const Box& part) { return reader.ReadTensor(array.key, part); });
  if (!excerpt.ok()) return excerpt.status();
  PrintHead(array, options.box.empty()
                       ? ""
                       : absl::StrFormat("; box \"%s\"", BoxText(*box)));
  absl::PrintF("\n%s\n", ArrayText(*excerpt));
  if (!options.statistics) return absl::OkStatus();
  const StatusOr<Statistics> statistics =
      ReadStatistics(reader, array.key, *box);
  if (!statistics.ok()) return statistics.status();
  PrintStatistics(*statistics,
                  array.dtype == DType::kC64 || array.dtype == DType::kC128);
  return absl::OkStatus();
}

// The array of that key or, if there is none, the one value that has that path
// in the objects.
StatusOr<ArrayInfo> FindArray(const CheckpointReader& reader,
                              const std::string& name) {
  StatusOr<ArrayInfo> array = reader.Find(name);
  if (array.ok()) return array;
  const StatusOr<std::vector<ObjectInfo>> objects = reader.Objects();
  if (!objects.ok()) return objects.status();
  const std::vector<std::string> keys = KeysAt(*objects, name);
  if (keys.empty()) return array;
  if (keys.size() == 1) return reader.Find(keys[0]);
  return absl::InvalidArgumentError(absl::StrFormat(
      "show %s: several values have this path; name one by its key: %s",
      QuotedText(name),
      absl::StrJoin(keys, ", ", [](std::string* out, const std::string& key) {
        out->append(QuotedText(key));
      })));
}

}  // namespace

int Show(const std::string& path, const std::string& key,
         const ShowOptions& options) {
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(path);
  if (!reader.ok()) return Fail(reader.status());
  const StatusOr<ArrayInfo> array = FindArray(*reader, key);
  if (!array.ok()) return Fail(array.status());
  const Status status = array->dtype == DType::kString
                            ? ShowText(*reader, *array, options)
                            : ShowArray(*reader, *array, options);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace belay::tools
