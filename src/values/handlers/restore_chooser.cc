#include "values/handlers/restore_chooser.h"

#include <optional>

#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/wire.h"
#include "transform/node.h"

namespace belay {

Tolerance MostTolerance(const RestoreOptions& options) {
  Tolerance most{.dtype = options.allow_dtype_cast,
                 .lengths = options.allow_shape_mismatch};
  for (const RestoreArgsFor& entry : options.args) {
    most.dtype = most.dtype || entry.args.allow_dtype_cast.value_or(false);
    most.lengths =
        most.lengths || entry.args.allow_shape_mismatch.value_or(false);
  }
  return most;
}

void TakeFrom(const Transform& transform, RestoreChoice& choice) {
  if (const std::string* stored = StoredKeyOf(transform)) {
    choice.stored_key = *stored;
  } else {
    choice.transform = transform;
  }
}

StatusOr<RestoreChooser> RestoreChooser::Create(const RestoreOptions& options) {
  RestoreChooser chooser;
  chooser.options_ = &options;
  BELAY_ASSIGN_OR_RETURN(chooser.patterns_,
                         KeyPatterns::CompileKeysOf(options.args));
  for (size_t i = 0; i < options.args.size(); ++i) {
    const RestoreArgs& args = options.args[i].args;
    const int place = static_cast<int>(i);
    BELAY_RETURN_IF_ERROR(
        chooser.patterns_.CheckRewrite(place, args.stored_key));
    if (!args.transform.empty() && !args.stored_key.empty()) {
      return absl::InvalidArgumentError(
          Cat("args \"", options.args[i].keys,
              "\": stored_key and transform exclude each other"));
    }
    for (const std::string& key : args.transform.StoredKeys()) {
      BELAY_RETURN_IF_ERROR(chooser.patterns_.CheckRewrite(place, key));
    }
  }
  return chooser;
}

RestoreChoice RestoreChooser::Choose(std::string_view key) const {
  RestoreChoice choice{
      .tolerance = {.dtype = options_->allow_dtype_cast,
                    .lengths = options_->allow_shape_mismatch}};
  const int entry = patterns_.Find(key);
  if (entry >= 0) {
    const RestoreArgs& args = options_->args[static_cast<size_t>(entry)].args;
    choice.skip = args.skip;
    choice.may_be_absent = args.allow_missing;
    if (!args.stored_key.empty()) {
      choice.stored_key = patterns_.Rewrite(entry, key, args.stored_key);
    }
    TakeFrom(WithKeys(args.transform,
                      [&](const std::string& stored) {
                        return patterns_.Rewrite(entry, key, stored);
                      }),
             choice);
    choice.tolerance.dtype =
        args.allow_dtype_cast.value_or(choice.tolerance.dtype);
    choice.tolerance.lengths =
        args.allow_shape_mismatch.value_or(choice.tolerance.lengths);
  }
  if (options_->selects && !options_->selects(key)) choice.skip = true;
  return choice;
}

std::string EncodeArgs(const std::vector<RestoreArgsFor>& args) {
  const auto number = [](const std::optional<bool>& value) {
    return static_cast<uint8_t>(value.has_value() ? 1 + *value : 0);
  };
  WireWriter out;
  for (const auto& [keys, entry] : args) {
    out.PutText(keys);
    out.Put(entry.skip);
    out.PutText(entry.stored_key);
    out.Put(entry.allow_missing);
    out.Put(number(entry.allow_dtype_cast));
    out.Put(number(entry.allow_shape_mismatch));
    out.PutText(entry.transform.ToString());
  }
  return out.Take();
}

}  // namespace belay
