#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/manager/metadata.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"
#include "shard_devices.h"

namespace belay::tools {
namespace {

const char* LayoutText(const CheckpointInfo& info) {
  const bool groups =
      std::any_of(info.pieces.begin(), info.pieces.end(),
                  [](const StoredPiece& p) { return p.group > 0; });
  switch (info.file_layout) {
    case FileLayout::kShared:
      return groups ? "shared files" : "one shared file";
    case FileLayout::kPerNode:
      return groups ? "files per node" : "one file per node";
    case FileLayout::kPerTask:
      return groups ? "files per task" : "one file per task";
  }
  return "unknown";
}

void PrintTable(const CheckpointInfo& info) {
  size_t key_width = 3, shape_width = 5;
  for (const ArrayInfo& array : info.arrays) {
    key_width = std::max(key_width, WidthOf(PrintableName(array.key)));
    shape_width = std::max(shape_width, ShapeText(array.shape).size());
  }
  Print("%s  %-7s %s %10s  %s\n", Padded("key", key_width), "dtype",
        Padded("shape", shape_width), "bytes", "stored as");
  for (const ArrayInfo& array : info.arrays) {
    Print("%s  %-7s %s %10s  %s\n", Padded(PrintableName(array.key), key_width),
          array.fields.empty() ? DTypeName(array.dtype) : "struct",
          Padded(ShapeText(array.shape), shape_width), BytesText(array.bytes),
          array.cut);
  }
}

// True if a handler stored the value; other values are arrays.
bool IsHandled(const ValueInfo& value) {
  return value.typestr != kScalarTypestr && value.typestr != kArrayTypestr &&
         value.typestr != kStringTypestr;
}

// Prints the values that handlers have stored, if there are any.
void PrintValues(const std::vector<ValueInfo>& all) {
  std::vector<ValueInfo> values;
  size_t key_width = 5, type_width = 4;
  for (const ValueInfo& value : all) {
    if (!IsHandled(value)) continue;
    key_width = std::max(key_width, WidthOf(PrintableName(value.key)));
    type_width = std::max(type_width, WidthOf(PrintableName(value.typestr)));
    values.push_back(value);
  }
  if (values.empty()) return;
  Print("\n%s  %s  %s\n", Padded("value", key_width),
        Padded("type", type_width), "arrays");
  for (const ValueInfo& value : values) {
    Print("%s  %s  %d\n", Padded(PrintableName(value.key), key_width),
          Padded(PrintableName(value.typestr), type_width), value.parts.size());
  }
}

// One line of the table of shards.
struct ShardLine {
  std::string file;
  std::string group;
  std::string key;
  std::string box;
  std::string device;
};

// Adds the lines of a dataset: one for each shard if their devices are known,
// else one.
void AddLines(const StoredPiece& piece, const ArrayInfo& array,
              int64_t& boxes_left, std::vector<ShardLine>& lines) {
  const auto add = [&](const Box& box, const std::string& device) {
    lines.push_back({.file = PrintableName(piece.file),
                     .group = absl::StrCat(piece.group),
                     .key = PrintableName(piece.key),
                     .box = box.shape.empty() ? "-" : BoxText(box),  // a scalar
                     .device = device});
  };
  const std::vector<HeldShard> shards = ShardsOf(piece, array, boxes_left);
  for (const HeldShard& shard : shards) {
    add(shard.box, DevicesText(shard.devices));
  }
  if (shards.empty()) add(piece.box, "shared");
}

// Returns the array of a piece; arrays are sorted by key.
const ArrayInfo& ArrayOf(const StoredPiece& piece, const CheckpointInfo& info) {
  return *std::lower_bound(info.arrays.begin(), info.arrays.end(), piece.key,
                           [](const ArrayInfo& array, const std::string& key) {
                             return array.key < key;
                           });
}

void PrintPieces(const CheckpointInfo& info) {
  std::vector<ShardLine> lines;
  int64_t boxes_left = kMaxBoxes;
  for (const StoredPiece& piece : info.pieces) {
    AddLines(piece, ArrayOf(piece, info), boxes_left, lines);
  }
  size_t file_width = 4, key_width = 3, box_width = 3;
  for (const ShardLine& line : lines) {
    file_width = std::max(file_width, WidthOf(line.file));
    key_width = std::max(key_width, WidthOf(line.key));
    box_width = std::max(box_width, line.box.size());
  }
  Print("%s  %5s  %s  %s  %s\n", Padded("file", file_width), "group",
        Padded("key", key_width), Padded("box", box_width), "device");
  for (const ShardLine& line : lines) {
    Print("%s  %5s  %s  %s  %s\n", Padded(line.file, file_width), line.group,
          Padded(line.key, key_width), Padded(line.box, box_width),
          line.device);
  }
}

const char* LayoutName(FileLayout layout) {
  switch (layout) {
    case FileLayout::kShared:
      return "shared";
    case FileLayout::kPerNode:
      return "node";
    case FileLayout::kPerTask:
      return "task";
  }
  return "unknown";
}

Json ArraysJson(const std::vector<ArrayInfo>& arrays) {
  Json all = Json::array();
  for (const ArrayInfo& array : arrays) {
    all.push_back({{"key", TextJson(array.key)},
                   {"dtype", DTypeName(array.dtype)},
                   {"shape", array.shape},
                   {"bytes", array.bytes},
                   {"fields", TextOrNull(array.fields)},
                   {"stored_as", array.cut},
                   {"layout", TextOrNull(array.layout)},
                   {"args", TextOrNull(array.args)}});
  }
  return all;
}

Json ListedValuesJson(const std::vector<ValueInfo>& values) {
  Json all = Json::array();
  for (const ValueInfo& value : values) {
    if (!IsHandled(value)) continue;
    Json parts = Json::array();
    for (const ValuePart& part : value.parts) {
      const std::string key = part.name.empty()
                                  ? value.key
                                  : absl::StrCat(value.key, "/", part.name);
      parts.push_back({{"name", TextJson(part.name)}, {"key", TextJson(key)}});
    }
    all.push_back({{"key", TextJson(value.key)},
                   {"type", TextJson(value.typestr)},
                   {"parts", std::move(parts)}});
  }
  return all;
}

Json ShardsJson(const std::vector<HeldShard>& shards) {
  Json all = Json::array();
  for (const HeldShard& shard : shards) {
    Json devices = Json::array();
    for (const DeviceSpec& device : shard.devices) {
      devices.push_back(DeviceText(device));
    }
    all.push_back({{"offset", shard.box.offset},
                   {"shape", shard.box.shape},
                   {"devices", std::move(devices)}});
  }
  return all;
}

Json PiecesJson(const CheckpointInfo& info) {
  Json all = Json::array();
  int64_t boxes_left = kMaxBoxes;
  for (const StoredPiece& piece : info.pieces) {
    all.push_back({{"file", TextJson(piece.file)},
                   {"group", piece.group},
                   {"key", TextJson(piece.key)},
                   {"offset", piece.box.offset},
                   {"shape", piece.box.shape},
                   {"task", piece.task ? Json(*piece.task) : Json()},
                   {"shards", ShardsJson(ShardsOf(piece, ArrayOf(piece, info),
                                                  boxes_left))}});
  }
  return all;
}

// Returns null if the metadata cannot be read.
Json MetadataJson(const StatusOr<Metadata>& metadata) {
  if (!metadata.ok()) return Json();
  // All names are distinct, and there may be too many to compare each with all
  // others.
  Json::object_t all;
  for (const auto& [name, value] : *metadata) all.emplace_back(name, value);
  return all;
}

void PrintAsJson(const CheckpointReader& reader,
                 const StatusOr<Metadata>& metadata, bool shards) {
  const CheckpointInfo& info = reader.info();
  Json json = {{"path", TextJson(info.path)},
               {"step", info.step},
               {"time", TimeText(info.time)},
               {"format", FormatJson(info.format_major, info.format_minor)},
               {"file_layout", LayoutName(info.file_layout)},
               {"files", info.num_files},
               {"file_bytes", info.file_bytes},
               {"bytes", info.bytes},
               {"checksums", info.has_checksums},
               {"graph", info.has_graph},
               {"metadata", MetadataJson(metadata)},
               {"arrays", ArraysJson(info.arrays)},
               {"values", ListedValuesJson(reader.Values())}};
  if (shards) json["pieces"] = PiecesJson(info);
  PrintJson(json);
}

void PrintMetadata(const Metadata& metadata) {
  size_t width = 0;
  for (const auto& [name, value] : metadata) {
    width = std::max(width, WidthOf(PrintableName(name)));
  }
  for (const auto& [name, value] : metadata) {
    Print("%s  %s\n", Padded(PrintableName(name), width), PrintableName(value));
  }
  if (!metadata.empty()) Print("\n");
}

}  // namespace

int List(const std::string& path, const ListOptions& options) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status(), options.json);
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(*step);
  if (!reader.ok()) return Fail(reader.status(), options.json);
  // The arrays can be listed without metadata.
  const StatusOr<Metadata> metadata = ReadMetadata(*step);
  if (!metadata.ok()) (void)Fail(metadata.status());
  const int code = metadata.ok() ? 0 : 1;
  if (options.json) {
    PrintAsJson(*reader, metadata, options.shards);
    return code;
  }
  const CheckpointInfo* info = &reader->info();
  // Files are smaller than the arrays if chunks have filters.
  const std::string compressed =
      info->file_bytes < info->bytes
          ? absl::StrCat(" of ", BytesText(info->file_bytes))
          : "";
  Print("%s: step %d, saved %s, %s, %s in %s (%d)%s, format %d.%d%s\n\n",
        info->path, info->step, TimeText(info->time),
        CountText(info->arrays.size(), "array"), BytesText(info->bytes),
        LayoutText(*info), info->num_files, compressed, info->format_major,
        info->format_minor,
        info->has_checksums ? ", CRC32C" : ", no checksums");
  if (metadata.ok()) PrintMetadata(*metadata);
  if (options.shards) {
    PrintPieces(*info);
  } else {
    PrintTable(*info);
    PrintValues(reader->Values());
  }
  return code;
}

}  // namespace belay::tools
