#include "values/handlers/handler_table.h"

#include <algorithm>
#include <utility>

#include "base/catch_exceptions.h"
#include "base/text.h"
#include "base/type_name.h"
#include "plan/stored/stored_values.h"

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
  const auto exact = by_type.find(type);
  const size_t end = exact == by_type.end() ? entries.size() : exact->second;
  for (const size_t i : asked) {
    if (i >= end) break;
    if (entries[i].accepts(type)) return &entries[i];
  }
  return end == entries.size() ? nullptr : &entries[end];
}

const HandlerTable::Entry* HandlerTable::FindTypestr(
    std::string_view typestr) const {
  const auto found = std::find_if(
      entries.begin(), entries.end(),
      [&](const Entry& entry) { return entry.typestr == typestr; });
  return found == entries.end() ? nullptr : &*found;
}

Status HandlerTable::Add(HandlerEntry added) {
  StatusOr<std::string> typestr = CheckEntry(added);
  if (!typestr.ok()) return typestr.status();
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
    if (entry == same || entry->typestr != *typestr ||
        entry->handler == added.handler) {
      continue;
    }
    return exists(Cat("another handler, for \"", TypeName(entry->type),
                      "\", has the typestr \"", *typestr, "\""));
  }
  Entry entry{added.type, std::move(added.options.accepts),
              std::move(added.handler), *std::move(typestr)};
  const bool is_first = same != entries.end() && &*same == first;
  if (is_first) {
    if (entry.accepts == nullptr) entry.accepts = std::move(same->accepts);
    *same = std::move(entry);
  } else {
    const auto place =
        first == nullptr ? std::ssize(entries) : first - entries.data();
    // An entry of this type that another one hides.
    if (same != entries.end()) entries.erase(same);
    entries.insert(entries.begin() + place, std::move(entry));
  }
  Index();
  return absl::OkStatus();
}

void HandlerTable::Index() {
  by_type.clear();
  asked.clear();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].accepts != nullptr) {
      asked.push_back(i);
    } else {
      by_type.emplace(entries[i].type, i);
    }
  }
}

std::shared_ptr<const HandlerTable> HandlersOf(
    const TypeHandlerRegistry* registry) {
  return (registry != nullptr ? *registry : GlobalTypeHandlerRegistry())
      .table();
}

}  // namespace belay
