#include "belay/handlers/type_handler.h"

#include <algorithm>

#include "plan/stored/stored_values.h"
#include "values/handlers/handler_table.h"
#include "values/value_listing.h"

namespace belay {

const ValuePart* StoredValue::Find(std::string_view name) const {
  const auto found =
      std::find_if(parts.begin(), parts.end(),
                   [&](const ValuePart& part) { return part.name == name; });
  return found == parts.end() ? nullptr : &*found;
}

Status TypeHandler::ValueReceived(const ValueRef&, const StoredValue&, int,
                                  State&) const {
  return absl::OkStatus();
}

bool TypeHandler::Accepts(const StoredValue& stored) const {
  return stored.typestr == typestr() || IsPlain(stored);
}

Status TypeHandler::Finalize(const std::string&) const {
  return absl::OkStatus();
}

bool TypeHandler::HasFinalize() const { return true; }

StatusOr<int64_t> TypeHandler::MemorySize(const ValueRef& value) const {
  State parts;
  if (Status status = ListValueForSave(value, parts); !status.ok()) {
    return status;
  }
  const StatusOr<HandlerListing> listing =
      ListForSave(parts, *HandlersOf(nullptr));
  if (!listing.ok()) return listing.status();
  int64_t bytes = 0;
  for (const Shard& shard : listing->shards) {
    bytes += shard.dtype == DType::kString
                 ? std::ssize(*shard.text)
                 : NumElements(shard.box.shape) * DTypeSize(shard.dtype);
  }
  return bytes;
}

}  // namespace belay
