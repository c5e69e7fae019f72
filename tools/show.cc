#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "array_text.h"
#include "block_boxes.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"
#include "object_path.h"
#include "statistics.h"
#include "struct_fields.h"

namespace belay::tools {
namespace {

void PrintHead(const ArrayInfo& array, const std::string& rest) {
  Print("%s: %s %s, %s, %s%s\n", QuotedText(array.key), DTypeName(array.dtype),
        ShapeText(array.shape), BytesText(array.bytes), array.cut, rest);
  if (!array.fields.empty()) Print("structs of %s\n", array.fields);
  if (!array.layout.empty()) {
    Print("laid out as %s\n", IndentedText(array.layout));
  }
  if (!array.args.empty()) {
    Print("saved with %s\n", IndentedText(array.args));
  }
}

// Parses a box: "offset,length" or "-" for each axis.
StatusOr<Box> ParseBox(const std::string& text, const ArrayInfo& array) {
  if (text.empty()) return WholeBox(array.shape);
  const StatusOr<SliceSpec> spec =
      ParseSliceSpec(absl::StrCat(absl::StrJoin(array.shape, " "), " ", text));
  if (spec.ok()) return spec->box;
  // The message begins with a text that was made from the user's text.
  std::string cause(spec.status().message());
  if (const size_t at = cause.find("\": "); at != cause.npos) {
    cause.erase(0, at + 3);
  }
  const std::string hint = absl::IsInvalidArgument(spec.status())
                               ? "; write \"offset,length\" or \"-\" for each "
                                 "axis, with ':' between "
                                 "them"
                               : "";
  return Status(spec.status().code(),
                absl::StrFormat("show %s: box %s: %s%s", QuotedText(array.key),
                                QuotedText(text), cause, hint));
}

constexpr int64_t kMaxCheckedBytes = int64_t{256} << 20;

// An array, and a part of it that holds all bytes of a part of a field.
struct PartOfArray {
  ArrayInfo array;
  Box box;
};

// Returns the array whose checksums cover `array`: for a field, that of the
// structs.
PartOfArray WithChecksums(const CheckpointReader& reader,
                          const ArrayInfo& array, const Box& box) {
  for (size_t dot = array.key.rfind('.');
       dot != array.key.npos && dot > 0 && array.fields.empty();
       dot = array.key.rfind('.', dot - 1)) {
    StatusOr<ArrayInfo> structs = reader.Find(array.key.substr(0, dot));
    if (!structs.ok() || structs->fields.empty()) continue;
    Box part = WholeBox(structs->shape);
    for (size_t axis = 0; axis + 1 < part.shape.size(); ++axis) {
      part.offset[axis] = box.offset[axis];
      part.shape[axis] = box.shape[axis];
    }
    return {*std::move(structs), std::move(part)};
  }
  return {array, box};
}

// Compares the blocks that have elements of these parts with their checksums: a
// read verifies only the blocks that it covers in full. Returns false if some
// blocks were skipped because they would take too long.
// Errors: DataLoss - a checksum does not match.
StatusOr<bool> CheckParts(const CheckpointReader& reader,
                          const ArrayInfo& array,
                          const std::vector<Box>& parts) {
  if (!reader.info().has_checksums) return true;
  std::vector<Box> wanted;
  ArrayInfo stored = array;
  for (const Box& part : parts) {
    if (part == WholeBox(array.shape)) return true;  // it was read in full
    PartOfArray found = WithChecksums(reader, array, part);
    stored = std::move(found.array);
    wanted.push_back(std::move(found.box));
  }
  const BlockBoxes blocks = BoxesOfBlocks(stored.shape, DTypeSize(stored.dtype),
                                          wanted, kMaxCheckedBytes);
  for (const Box& box : blocks.boxes) {
    const Status status = reader.ReadPieces(
        stored.key, box, int64_t{4} << 20,
        [](const Box&, const Tensor&) { return absl::OkStatus(); });
    if (!status.ok()) return status;
  }
  return blocks.all;
}

void PrintIfUnchecked(bool is_checked) {
  if (is_checked) return;
  Print(
      "\nnot all of it was compared with its checksums; belay verify does "
      "that\n");
}

// Returns the description of the array, which precedes its values.
Json HeadJson(const CheckpointReader& reader, const ArrayInfo& array,
              const Json& box) {
  return {{"path", TextJson(reader.info().path)},
          {"step", reader.info().step},
          {"key", TextJson(array.key)},
          {"dtype", DTypeName(array.dtype)},
          {"shape", array.shape},
          {"bytes", array.bytes},
          {"fields", TextOrNull(array.fields)},
          {"stored_as", array.cut},
          {"layout", TextOrNull(array.layout)},
          {"args", TextOrNull(array.args)},
          {"box", box}};
}

Json StatisticsJson(const Statistics& statistics) {
  const auto number = [&](const Tensor& element) {
    return statistics.finite > 0 ? ElementJson(element, 0) : Json();
  };
  return {
      {"elements", statistics.elements},    {"min", number(statistics.min)},
      {"max", number(statistics.max)},      {"mean", number(statistics.mean)},
      {"zeros", statistics.zeros},          {"nans", statistics.nans},
      {"infinities", statistics.infinities}};
}

Status ShowArrayAsJson(const CheckpointReader& reader, const ArrayInfo& array,
                       const Box& box, const ShowOptions& options) {
  Json json =
      HeadJson(reader, array, {{"offset", box.offset}, {"shape", box.shape}});
  json["values"] = Json();
  bool is_read = false;
  if (HasAtMost(box.shape, options.max)) {
    const StatusOr<Tensor> values = reader.ReadTensor(array.key, box);
    if (!values.ok()) return values.status();
    json["values"] = ValuesJson(*values);
    is_read = true;
  }
  if (options.statistics) {
    const StatusOr<Statistics> statistics =
        ReadStatistics(reader, array.key, box);
    if (!statistics.ok()) return statistics.status();
    json["stats"] = StatisticsJson(*statistics);
    is_read = true;
  }
  if (is_read) {
    const StatusOr<bool> checked = CheckParts(reader, array, {box});
    if (!checked.ok()) return checked.status();
    json["checked"] = *checked && reader.info().has_checksums;
  }
  PrintJson(json);
  return absl::OkStatus();
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
  if (options.json) {
    Json json = HeadJson(reader, array, nullptr);
    json["values"] =
        std::ssize(*text) <= options.max ? TextJson(*text) : Json();
    PrintJson(json);
    return absl::OkStatus();
  }
  const size_t shown = std::min(text->size(), static_cast<size_t>(options.max));
  PrintHead(array, "");
  Print("\n%s", QuotedText(text->substr(0, shown)));
  if (shown < text->size()) Print("...");
  Print("\n");
  return absl::OkStatus();
}

void PrintStatistics(const Statistics& statistics, bool is_complex) {
  const char* of = is_complex ? " |z|" : "";
  const auto text = [&](const Tensor& element) {
    return statistics.finite > 0 ? ElementText(element, 0) : "none";
  };
  Print("\n");
  Print("elements  %d\n", statistics.elements);
  Print("%-10s%s\n", absl::StrCat("min", of), text(statistics.min));
  Print("%-10s%s\n", absl::StrCat("max", of), text(statistics.max));
  Print("mean      %s\n", text(statistics.mean));
  Print("zeros     %d\n", statistics.zeros);
  Print("NaN       %d\n", statistics.nans);
  Print("infinite  %d\n", statistics.infinities);
}

Status ShowArray(const CheckpointReader& reader, const ArrayInfo& array,
                 const ShowOptions& options) {
  const StatusOr<Box> box = ParseBox(options.box, array);
  if (!box.ok()) return box.status();
  if (options.json) return ShowArrayAsJson(reader, array, *box, options);
  std::vector<Box> parts;
  const StatusOr<Excerpt> excerpt =
      ReadExcerpt(array.dtype, *box, options.max, [&](const Box& part) {
        parts.push_back(part);
        return reader.ReadTensor(array.key, part);
      });
  if (!excerpt.ok()) return excerpt.status();
  StatusOr<Statistics> statistics = Statistics();
  if (options.statistics) {
    statistics = ReadStatistics(reader, array.key, *box);
    if (!statistics.ok()) return statistics.status();
    parts = {*box};
  }
  const StatusOr<bool> checked = CheckParts(reader, array, parts);
  if (!checked.ok()) return checked.status();
  PrintHead(array, options.box.empty()
                       ? ""
                       : absl::StrFormat("; box \"%s\"", BoxText(*box)));
  Print("\n%s\n", ArrayText(*excerpt));
  if (options.statistics) {
    PrintStatistics(*statistics,
                    array.dtype == DType::kC64 || array.dtype == DType::kC128);
  }
  PrintIfUnchecked(*checked);
  return absl::OkStatus();
}

// Shows the fields of structs one after another, each as an array.
Status ShowStructs(const CheckpointReader& reader, const ArrayInfo& array,
                   const ShowOptions& options) {
  PrintHead(array, "");
  const StatusOr<std::vector<ArrayInfo>> fields = FieldsOf(reader, array);
  if (!fields.ok()) return fields.status();
  for (const ArrayInfo& field : *fields) {
    Print("\n");
    const Status status = ShowArray(reader, field, options);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Shows structs by their fields, because their bytes are meaningless to people.
Status ShowAny(const CheckpointReader& reader, const ArrayInfo& array,
               const ShowOptions& options) {
  if (array.dtype == DType::kString) return ShowText(reader, array, options);
  const bool shows_fields =
      !array.fields.empty() && options.box.empty() && !options.json;
  return shows_fields ? ShowStructs(reader, array, options)
                      : ShowArray(reader, array, options);
}

std::string QuotedList(const std::vector<std::string>& keys) {
  return absl::StrJoin(keys, ", ",
                       [](std::string* out, const std::string& key) {
                         out->append(QuotedText(key));
                       });
}

// Returns the array with that key, or the only array of the value with that
// key.
StatusOr<ArrayInfo> FindArrayOfKey(const CheckpointReader& reader,
                                   const std::string& key) {
  StatusOr<ArrayInfo> array = reader.Find(key);
  if (array.ok()) return array;
  for (const ValueInfo& value : reader.Values()) {
    if (value.key != key) continue;
    std::vector<std::string> parts;
    for (const ValuePart& part : value.parts) {
      parts.push_back(part.name.empty() ? key
                                        : absl::StrCat(key, "/", part.name));
    }
    if (parts.size() == 1) return reader.Find(parts[0]);
    return absl::InvalidArgumentError(absl::StrFormat(
        "show %s: a value of type %s, stored as %d arrays%s%s", QuotedText(key),
        QuotedText(value.typestr), parts.size(),
        parts.empty() ? "" : "; name one of them: ", QuotedList(parts)));
  }
  return array;
}

// Returns the array with that key or, if there is none, the only value with
// that path in the objects.
StatusOr<ArrayInfo> FindArray(const CheckpointReader& reader,
                              const std::string& name) {
  StatusOr<ArrayInfo> array = FindArrayOfKey(reader, name);
  if (!absl::IsNotFound(array.status())) return array;
  const StatusOr<std::vector<ObjectInfo>> objects = reader.Objects();
  if (!objects.ok()) return objects.status();
  const std::vector<std::string> keys = KeysAt(*objects, name);
  if (keys.empty()) return array;
  if (keys.size() == 1) return FindArrayOfKey(reader, keys[0]);
  return absl::InvalidArgumentError(absl::StrFormat(
      "show %s: several values have this path; name one by its key: %s",
      QuotedText(name), QuotedList(keys)));
}

// Reports, like belay verify, that values are damaged. They are not shown.
int ShowDamage(const CheckpointReader& reader, const std::string& key,
               const Status& status, bool json) {
  if (json) {
    PrintJson({{"path", TextJson(reader.info().path)},
               {"step", reader.info().step},
               {"key", TextJson(key)},
               {"values", nullptr},
               {"sound", false},
               {"damage", {PrintableText(std::string(status.message()))}}});
  } else {
    Print("damaged: %s\n", IndentedText(std::string(status.message())));
    Print("%s: not shown; --box shows other parts of an array\n",
          QuotedText(key));
  }
  return 1;
}

}  // namespace

int Show(const std::string& path, const std::string& key,
         const ShowOptions& options) {
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(path);
  if (!reader.ok()) return Fail(reader.status(), options.json);
  const StatusOr<ArrayInfo> array = FindArray(*reader, key);
  if (!array.ok()) return Fail(array.status(), options.json);
  const Status status = ShowAny(*reader, *array, options);
  if (absl::IsDataLoss(status)) {
    return ShowDamage(*reader, array->key, status, options.json);
  }
  return status.ok() ? 0 : Fail(status, options.json);
}

}  // namespace belay::tools
