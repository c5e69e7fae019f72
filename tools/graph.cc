#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"
#include "object_tree.h"

namespace belay::tools {
namespace {

bool WantsColor() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 &&
         (no_color == nullptr || *no_color == '\0');
}

int64_t CountValues(const std::vector<ObjectInfo>& objects) {
  int64_t values = 0;
  for (const ObjectInfo& object : objects) {
    values += static_cast<int64_t>(object.values.size());
  }
  return values;
}

// Counts arrays in the checkpoint that belong to no object.
int64_t CountOtherArrays(const std::vector<ObjectInfo>& objects,
                         const std::vector<ArrayInfo>& arrays) {
  std::set<std::string> keys;
  for (const ArrayInfo& array : arrays) keys.insert(array.key);
  for (const ObjectInfo& object : objects) {
    for (const ObjectValue& value : object.values) {
      keys.erase(value.key);
      if (value.typestr.empty()) continue;
      const auto part = keys.lower_bound(value.key + "/");
      const auto end = keys.lower_bound(value.key + "0");  // behind '/'
      keys.erase(part, end);
    }
  }
  return static_cast<int64_t>(keys.size());
}

// Returns the depth of each object below the root, along its path.
std::vector<int64_t> LevelsOf(const std::vector<ObjectInfo>& objects) {
  std::vector<int64_t> levels;
  for (const ObjectInfo& object : objects) {
    const auto parent =
        static_cast<size_t>(std::max<int64_t>(object.parent, 0));
    levels.push_back(object.parent < 0 ? 0 : levels[parent] + 1);
  }
  return levels;
}

Json ValueJson(const ObjectValue& value, const CheckpointReader& reader) {
  // Find would search for similar keys if the key does not exist.
  const bool is_array = value.typestr.empty() && reader.Has(value.key);
  ArrayInfo array;
  if (is_array) array = *reader.Find(value.key);
  return {{"name", TextJson(value.name)},
          {"key", TextJson(value.key)},
          {"dtype", is_array ? Json(DTypeName(array.dtype)) : Json()},
          {"shape", is_array ? Json(array.shape) : Json()},
          {"bytes", is_array ? Json(array.bytes) : Json()},
          {"layout", TextOrNull(value.layout)},
          {"opaque", value.opaque},
          {"type", TextOrNull(value.typestr)}};
}

Json ObjectJson(int64_t id, const ObjectInfo& object,
                const CheckpointReader& reader, bool values) {
  Json json = {{"id", id},
               {"path", TextJson(object.path)},
               {"parent", object.parent < 0 ? Json() : Json(object.parent)}};
  if (values) {
    json["values"] = Json::array();
    for (const ObjectValue& value : object.values) {
      json["values"].push_back(ValueJson(value, reader));
    }
  }
  json["children"] = Json::array();
  for (const ObjectChild& child : object.children) {
    json["children"].push_back(
        {{"name", TextJson(child.name)}, {"object", child.object}});
  }
  json["slots"] = Json::array();
  for (const ObjectSlot& slot : object.slots) {
    json["slots"].push_back({{"name", TextJson(slot.name)},
                             {"variable", slot.variable},
                             {"object", slot.object}});
  }
  return json;
}

void PrintAsJson(const std::vector<ObjectInfo>& objects,
                 const CheckpointReader& reader, const GraphOptions& options) {
  const CheckpointInfo& info = reader.info();
  const std::vector<int64_t> levels = LevelsOf(objects);
  Json all = Json::array();
  for (size_t i = 0; i < objects.size(); ++i) {
    if (options.depth && levels[i] > *options.depth) continue;
    all.push_back(ObjectJson(static_cast<int64_t>(i), objects[i], reader,
                             options.values));
  }
  PrintJson({{"path", TextJson(info.path)},
             {"step", info.step},
             {"format", FormatJson(info.format_major, info.format_minor)},
             {"bytes", info.bytes},
             {"objects", std::move(all)},
             {"other_arrays", CountOtherArrays(objects, info.arrays)}});
}

}  // namespace

int Graph(const std::string& path, const GraphOptions& options) {
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(path);
  if (!reader.ok()) return Fail(reader.status(), options.json);
  const StatusOr<std::vector<ObjectInfo>> objects = reader->Objects();
  if (!objects.ok()) return Fail(objects.status(), options.json);
  const CheckpointInfo& info = reader->info();
  if (objects->empty()) {
    return Fail(absl::NotFoundError(absl::StrFormat(
                    "graph \"%s\": the checkpoint has no object graph, it "
                    "holds %s only; list them with belay ls",
                    info.path, CountText(info.arrays.size(), "array"))),
                options.json);
  }
  if (options.json) {
    PrintAsJson(*objects, *reader, options);
    return 0;
  }
  Print("%s: step %d, %s, %s, %s, format %d.%d\n\n", info.path, info.step,
        CountText(objects->size(), "object"),
        CountText(CountValues(*objects), "value"), BytesText(info.bytes),
        info.format_major, info.format_minor);
  const std::string tree = ObjectTreeText(*objects, info.arrays,
                                          {.depth = options.depth,
                                           .values = options.values,
                                           .color = WantsColor()});
  std::fwrite(tree.data(), 1, tree.size(), stdout);  // may contain colors
  if (const int64_t others = CountOtherArrays(*objects, info.arrays)) {
    Print("\n%s %s to no object; list them with belay ls\n",
          CountText(others, "array"), others == 1 ? "belongs" : "belong");
  }
  return 0;
}

}  // namespace belay::tools
