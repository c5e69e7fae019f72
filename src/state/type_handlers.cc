#include "state/type_handlers.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "belay/extend/type_handler.h"
#include "belay/extend/type_handler_registry.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/stored_values.h"
#include "state/transform.h"
#include "state/value_listing.h"

namespace belay {
namespace {

Status RegisterError(absl::StatusCode code, const HandlerEntry& added,
                     std::string_view cause) {
  return Status(code, Cat("register type handler \"", TypeName(added.type),
                          "\": ", cause));
}

// Asks the handler for its typestr, and the predicate for the type.
StatusOr<std::string> CheckEntry(const HandlerEntry& added) {
  const auto bad = [&](std::string_view cause) {
    return RegisterError(absl::StatusCode::kInvalidArgument, added, cause);
  };
  if (added.handler == nullptr) return bad("the handler is null");
  StatusOr<std::string> typestr =
      CatchExceptions([&] { return added.handler->typestr(); });
  if (!typestr.ok()) return bad(std::string(typestr.status().message()));
  if (typestr->empty()) return bad("its typestr is empty");
  if (typestr->find('\0') != typestr->npos) {
    return bad("its typestr has a NUL byte");
  }
  if (IsBuiltinTypestr(*typestr)) {
    return RegisterError(
        absl::StatusCode::kAlreadyExists, added,
        Cat("the typestr \"", *typestr, "\" is one of belay's own"));
  }
  if (added.options.accepts == nullptr) return typestr;
  const StatusOr<bool> accepts =
      CatchExceptions([&] { return added.options.accepts(added.type); });
  if (!accepts.ok()) return bad(std::string(accepts.status().message()));
  if (!*accepts) return bad("it is not for its own type");
  return typestr;
}

}  // namespace

const HandlerTable::Entry* HandlerTable::Find(std::type_index type) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
        return entry.accepts ? entry.accepts(type) : entry.type == type;
      });
  return found == entries.end() ? nullptr : &*found;
}

const HandlerTable::Entry* HandlerTable::FindTypestr(
    std::string_view typestr) const {
  const auto found = std::find_if(
      entries.begin(), entries.end(),
      [&](const Entry& entry) { return entry.typestr == typestr; });
  return found == entries.end() ? nullptr : &*found;
}

Status HandlerTable::Add(HandlerEntry added) {
  BELAY_ASSIGN_OR_RETURN(std::string typestr, CheckEntry(added));
  const auto exists = [&](std::string_view cause) {
    return RegisterError(absl::StatusCode::kAlreadyExists, added, cause);
  };
  const Entry* first = Find(added.type);
  if (first != nullptr && !added.options.override_existing) {
    return exists(Cat("the handler \"", first->typestr,
                      "\" handles this type already; set override_existing"));
  }
  const auto same = std::find_if(
      entries.begin(), entries.end(),
      [&](const Entry& entry) { return entry.type == added.type; });
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    if (entry == same || entry->typestr != typestr ||
        entry->handler == added.handler) {
      continue;
    }
    return exists(Cat("another handler, for \"", TypeName(entry->type),
                      "\", has the typestr \"", typestr, "\""));
  }
  Entry entry{added.type, std::move(added.options.accepts),
              std::move(added.handler), std::move(typestr)};
  const bool is_first = same != entries.end() && &*same == first;
  if (is_first) {
    if (entry.accepts == nullptr) entry.accepts = std::move(same->accepts);
    *same = std::move(entry);
  } else {
    const auto place =
        first == nullptr ? std::ssize(entries) : first - entries.data();
    // Removes the old entry for this type, which another entry hides.
    if (same != entries.end()) entries.erase(same);
    entries.insert(entries.begin() + place, std::move(entry));
  }
  return absl::OkStatus();
}

std::shared_ptr<const HandlerTable> GetHandlers(
    const TypeHandlerRegistry* registry) {
  return (registry != nullptr ? *registry : GlobalTypeHandlerRegistry())
      .table();
}

// --- Type handler ---

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
  BELAY_RETURN_IF_ERROR(ListValueForSave(value, parts));
  BELAY_ASSIGN_OR_RETURN(const HandlerListing listing,
                         ListForSave(parts, *GetHandlers(nullptr)));
  int64_t bytes = 0;
  for (const Shard& shard : listing.shards) {
    bytes += shard.dtype == DType::kString
                 ? std::ssize(*shard.text)
                 : NumElements(shard.box.shape) * DTypeSize(shard.dtype);
  }
  return bytes;
}

// --- Type handler registry ---

// The table is immutable; changes replace it.
struct TypeHandlerRegistry::Impl {
  mutable std::mutex mutex;
  std::shared_ptr<const HandlerTable> table =
      std::make_shared<const HandlerTable>();
};

TypeHandlerRegistry::TypeHandlerRegistry() : impl_(std::make_unique<Impl>()) {}
TypeHandlerRegistry::~TypeHandlerRegistry() = default;
TypeHandlerRegistry::TypeHandlerRegistry(TypeHandlerRegistry&&) noexcept =
    default;
TypeHandlerRegistry& TypeHandlerRegistry::operator=(
    TypeHandlerRegistry&&) noexcept = default;

std::shared_ptr<const HandlerTable> TypeHandlerRegistry::table() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->table;
}

Status TypeHandlerRegistry::Add(HandlerEntry entry) {
  const std::lock_guard lock(impl_->mutex);
  auto table = std::make_shared<HandlerTable>(*impl_->table);
  Status status = table->Add(std::move(entry));
  if (status.ok()) impl_->table = std::move(table);
  return status;
}

StatusOr<TypeHandlerPtr> TypeHandlerRegistry::Get(std::type_index type) const {
  const auto entries = table();
  BELAY_ASSIGN_OR_RETURN(const HandlerTable::Entry* const found,
                         CatchExceptions([&] { return entries->Find(type); }));
  if (found != nullptr) return found->handler;
  return absl::NotFoundError(Cat("find type handler \"", TypeName(type),
                                 "\": no handler is registered for this type"));
}

StatusOr<TypeHandlerPtr> TypeHandlerRegistry::GetByTypestr(
    std::string_view typestr) const {
  const auto entries = table();
  const HandlerTable::Entry* found = entries->FindTypestr(typestr);
  if (found != nullptr) return found->handler;
  return absl::NotFoundError(
      Cat("find type handler \"", typestr, "\": no handler has this typestr ",
          "(need one of: ", absl::StrJoin(Typestrs(), ", "), ")"));
}

bool TypeHandlerRegistry::Has(std::type_index type) const {
  return Get(type).ok();
}

std::vector<std::string> TypeHandlerRegistry::Typestrs() const {
  std::vector<std::string> typestrs;
  for (const HandlerTable::Entry& entry : table()->entries) {
    typestrs.push_back(entry.typestr);
  }
  return typestrs;
}

StatusOr<TypeHandlerRegistry> CreateTypeHandlerRegistry(
    std::initializer_list<HandlerEntry> entries) {
  TypeHandlerRegistry registry;
  for (const HandlerEntry& entry : entries) {
    BELAY_RETURN_IF_ERROR(registry.Add(entry));
  }
  return registry;
}

TypeHandlerRegistry& GlobalTypeHandlerRegistry() {
  // Never destroyed, because the program may save objects until it ends.
  static auto* const registry = new TypeHandlerRegistry();
  return *registry;
}

// --- Restore chooser ---

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
  if (const std::string* stored = FindStoredKey(transform)) {
    choice.stored_key = *stored;
  } else {
    choice.transform = transform;
  }
}

StatusOr<RestoreChooser> RestoreChooser::Create(const RestoreOptions& options) {
  RestoreChooser chooser;
  chooser.options_ = &options;
  BELAY_ASSIGN_OR_RETURN(chooser.patterns_,
                         KeyPatterns::CompileKeys(options.args));
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
  WireWriter out;
  for (const auto& [keys, entry] : args) {
    out(keys, entry.skip, entry.stored_key, entry.allow_missing,
        entry.allow_dtype_cast, entry.allow_shape_mismatch,
        entry.transform.ToString());
  }
  return out.Take();
}

}  // namespace belay
