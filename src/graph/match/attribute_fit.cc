#include "graph/match/attribute_fit.h"

#include <map>

#include "base/text.h"
#include "plan/stored/stored_form.h"
#include "transform/form.h"
#include "values/array_access.h"

namespace belay {

std::string TypeText(const GraphAttribute& attribute) {
  if (attribute.has_handler()) return Cat(kTypeText, attribute.typestr);
  return FormText({attribute.dtype, attribute.shape});
}

std::optional<GraphAttribute> FittedTo(const GraphAttribute& stored,
                                       const std::vector<Shard>& shards,
                                       const GraphAttribute& needed) {
  if (shards.size() != 1 || stored.has_handler() ||
      !TakesLength(shards[0], stored.dtype, stored.shape)) {
    return std::nullopt;
  }
  GraphAttribute fitted = needed;
  fitted.shape = stored.shape;
  return fitted;
}

std::optional<GraphAttribute> ResultOf(
    const Transform& transform,
    absl::FunctionRef<const GraphAttribute*(const std::string& key)> find) {
  std::map<std::string, ArrayForm> forms;
  for (const std::string& key : transform.StoredKeys()) {
    const GraphAttribute* attribute = find(key);
    if (attribute == nullptr || attribute->has_handler()) return std::nullopt;
    forms[key] = {.dtype = attribute->dtype, .shape = attribute->shape};
  }
  const StatusOr<ArrayForm> form =
      FormOf(transform, [&](const std::string& key) { return &forms.at(key); });
  if (!form.ok()) return std::nullopt;
  GraphAttribute result;
  result.dtype = form->dtype;
  result.shape = form->shape;
  return result;
}

bool IsSameKind(const GraphAttribute& stored, const GraphAttribute& needed) {
  if (needed.has_handler()) return true;
  return !stored.has_handler() && stored.dtype == needed.dtype &&
         stored.shape == needed.shape;
}

bool Fits(const GraphAttribute& stored, const GraphAttribute& needed,
          Tolerance tolerance) {
  if (stored.has_handler()) return false;
  return Fits(StoredForm{stored.dtype, stored.shape},
              StoredForm{needed.dtype, needed.shape}, tolerance);
}

}  // namespace belay
