#include "belay/handlers/type_handler_registry.h"

#include <mutex>

#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/text.h"
#include "base/type_name.h"
#include "values/handlers/handler_table.h"

namespace belay {

// A table is never changed, but replaced.
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
  const StatusOr<const HandlerTable::Entry*> found =
      CatchExceptions([&] { return entries->Find(type); });
  if (!found.ok()) return found.status();
  if (*found != nullptr) return (*found)->handler;
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
    if (Status status = registry.Add(entry); !status.ok()) return status;
  }
  return registry;
}

TypeHandlerRegistry& GlobalTypeHandlerRegistry() {
  // Never destroyed: objects of the program may be saved until it ends.
  static auto* const registry = new TypeHandlerRegistry();
  return *registry;
}

}  // namespace belay
