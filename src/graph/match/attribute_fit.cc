#include "graph/match/attribute_fit.h"

#include <map>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "plan/stored/stored_form.h"
#include "transform/form.h"
#include "values/array_access.h"

namespace belay {
namespace {

// The form of which FormText made the text; nothing for a type of a handler.
std::optional<StoredForm> FormOfText(std::string_view text) {
  const size_t end = text.find(" [");
  if (end == text.npos || !text.ends_with("]")) return std::nullopt;
  const StatusOr<DType> dtype = ParseDType(text.substr(0, end));
  if (!dtype.ok()) return std::nullopt;
  StoredForm form{.dtype = *dtype};
  const std::string_view shape = text.substr(end + 2, text.size() - end - 3);
  if (shape.empty()) return form;
  for (std::string_view length : Split(shape, ',')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(AbslView(length), &number)) return std::nullopt;
    form.shape.push_back(number);
  }
  return form;
}

}  // namespace

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

std::string MismatchAdvice(const std::vector<DifferentValue>& values) {
  bool casts = false, cuts = false;
  const DifferentValue* hopeless = nullptr;
  for (const DifferentValue& value : values) {
    const std::optional<StoredForm> stored = FormOfText(value.found);
    const std::optional<StoredForm> needed = FormOfText(value.needed);
    if (!stored || !needed ||
        !Fits(*stored, *needed, {.dtype = true, .lengths = true})) {
      if (hopeless == nullptr) hopeless = &value;
      continue;
    }
    casts = casts || stored->dtype != needed->dtype;
    cuts = cuts || stored->shape != needed->shape;
  }
  std::vector<std::string> advice;
  if (casts) {
    advice.push_back("RestoreOptions.allow_dtype_cast converts numbers");
  }
  if (cuts) {
    advice.push_back(
        "RestoreOptions.allow_shape_mismatch restores what both shapes have in "
        "common");
  }
  if (hopeless != nullptr) {
    advice.push_back(Cat("no option converts \"", hopeless->key,
                         "\": the program needs a value of the stored type"));
  }
  return absl::StrJoin(advice, "; ");
}

}  // namespace belay
