#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "commands.h"
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

// Arrays that are in the checkpoint beside the objects.
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

}  // namespace

int Graph(const std::string& path, const GraphOptions& options) {
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(path);
  if (!reader.ok()) return Fail(reader.status());
  const StatusOr<std::vector<ObjectInfo>> objects = reader->Objects();
  if (!objects.ok()) return Fail(objects.status());
  const CheckpointInfo& info = reader->info();
  if (objects->empty()) {
    return Fail(absl::NotFoundError(absl::StrFormat(
        "graph \"%s\": the checkpoint has no object graph, it holds %s "
        "only; list them with belay ls",
        info.path, CountText(info.arrays.size(), "array"))));
  }
  absl::PrintF("%s: step %d, %s, %s, %s, format %d.%d\n\n", info.path,
               info.step, CountText(objects->size(), "object"),
               CountText(CountValues(*objects), "value"), BytesText(info.bytes),
               info.format_major, info.format_minor);
  const std::string tree = ObjectTreeText(*objects, info.arrays,
                                          {.depth = options.depth,
                                           .values = options.values,
                                           .color = WantsColor()});
  std::fwrite(tree.data(), 1, tree.size(), stdout);
  if (const int64_t others = CountOtherArrays(*objects, info.arrays)) {
    absl::PrintF("\n%s %s to no object; list them with belay ls\n",
                 CountText(others, "array"),
                 others == 1 ? "belongs" : "belong");
  }
  return 0;
}

}  // namespace belay::tools
