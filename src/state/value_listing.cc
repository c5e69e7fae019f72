#include "state/value_listing.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "plan/stored_objects.h"
#include "plan/stored_values.h"
#include "state/array_access.h"
#include "state/state.h"
#include "state/strides_and_ghosts.h"

namespace belay {
namespace {

using Names = std::set<std::string>;

constexpr int kMaxDepth = 32;
constexpr int kMaxRounds = 16;

// Adds the operation, the key and the handler to an error.
Status HandlerError(const HandledValue& value, const Status& status,
                    std::string_view operation = "list") {
  if (status.ok()) return status;  // asks for no name
  std::string name =
      CatchExceptions([&] { return value.handler->typestr(); }).value_or("");
  // A handler that only forwards to another value has no typestr.
  if (name.empty()) name = TypeName(value.value.type);
  return AddPrefix(status, operation, " \"", value.key, "\" (handler \"", name,
                   "\")");
}

// Returns the stored value with a key.
using FindStored =
    absl::FunctionRef<StatusOr<StoredValue>(const std::string& key)>;

Status NotStored(const std::string& key) {
  return absl::NotFoundError(Cat("list \"", key, "\": it is not stored"));
}

StatusOr<StoredValue> FindInside(const StoredValue& outer,
                                 const std::string& key) {
  if (key == outer.key) return outer;
  for (const StoredValue& inner : outer.values) {
    if (inner.key != key) continue;
    StoredValue stored = inner;
    for (const StoredValue& other : outer.values) {
      if (other.key.starts_with(key + "/")) stored.values.push_back(other);
    }
    return stored;
  }
  const ValuePart* part =
      outer.Find(std::string_view(key).substr(outer.key.size() + 1));
  if (part == nullptr) return NotStored(key);
  return PlainValue(key, *part);
}

class Lister {
 public:
  Lister(const HandlerTable& table, bool is_save)
      : table_(table), is_save_(is_save) {}

  Status AddValue(HandledValue value, FindStored find) {
    tolerance_ = value.tolerance;
    return AddInside(std::move(value), "", find, nullptr);
  }

  // Starts with the shards of values that need no handler. They were listed
  // before any containers were resized.
  void BeginWith(ValuesToRead values) {
    out_.former = std::move(values.former);
    listed_after_.assign(values.shards.size(), 0);
    out_.shards = std::move(values.shards);
    out_.tolerances = std::move(values.tolerances);
  }

  // Adds the parts in `state`. They were listed by `lister`, the handler of the
  // value `outer`, or by the program if `outer` is empty. Adds the names of the
  // parts to `names` if it is not null. If `taken` is not null, it has the
  // shards of the State, which are moved out of it.
  Status AddParts(const State& state, const std::string& outer, FindStored find,
                  Names* names, const TypeHandler* lister = nullptr,
                  std::vector<Shard>* taken = nullptr) {
    BELAY_RETURN_IF_ERROR(state.status());
    const std::vector<Shard>& shards =
        taken != nullptr ? *taken : state.shards();
    std::vector<bool> is_handled(shards.size());
    for (const TypedValue& value : state.typed()) {
      StatusOr<TypeHandlerPtr> found = HandlerFor(value, table_);
      if (!found.ok()) {
        // Repeats the call to get an error with the full key.
        return HandlerFor({WholeKey(outer, value.key), value.value,
                           value.handler, value.shard},
                          table_)
            .status();
      }
      TypeHandlerPtr handler = *std::move(found);
      // Numbers that their own handler lists are stored unchanged.
      const bool is_own = value.shard >= 0 && handler.get() == lister;
      if (handler == nullptr || is_own) continue;
      if (value.shard >= 0) is_handled[static_cast<size_t>(value.shard)] = true;
      if (!is_save_ && value.value.is_const) {
        return ConstValueError(WholeKey(outer, value.key));
      }
      BELAY_RETURN_IF_ERROR(AddInside({.key = WholeKey(outer, value.key),
                                       .value = value.value,
                                       .handler = std::move(handler),
                                       .tolerance = tolerance_},
                                      value.key, find, names));
    }
    if (outer.empty()) {
      out_.shards.reserve(out_.shards.size() + is_handled.size());
    }
    for (size_t i = 0; i < is_handled.size(); ++i) {
      if (is_handled[i]) continue;
      Shard shard = taken != nullptr ? std::move((*taken)[i]) : shards[i];
      if (names != nullptr) names->insert(shard.key);
      if (!outer.empty()) shard.key = PartKey(outer, shard.key);
      if (!is_save_ && shard.is_const) return ConstValueError(shard.key);
      BELAY_RETURN_IF_ERROR(NoteRows(outer, shard));
      BELAY_RETURN_IF_ERROR(FindElements(shard));
      BELAY_RETURN_IF_ERROR(TakeLength(find, shard));
      BELAY_RETURN_IF_ERROR(AddShard(std::move(shard)));
    }
    for (const auto* kept :
         {&OwnedObjects::Of(state), &OwnedObjects::Functions(state)}) {
      out_.kept.insert(out_.kept.end(), kept->begin(), kept->end());
    }
    return absl::OkStatus();
  }

  // Notifies the handler that its parts were read, and lists the parts that it
  // wants next.
  Status AddMore(HandledValue value) {
    tolerance_ = value.tolerance;
    State parts;
    OwnedObjects::Set(value.kept, parts);
    const Status received = CatchExceptions([&] {
      return value.handler->ValueReceived(value.value, value.stored,
                                          value.round, parts);
    });
    BELAY_RETURN_IF_ERROR(HandlerError(value, received, "receive"));
    if (parts.status().ok() && parts.shards().empty() &&
        parts.typed().empty()) {
      return absl::OkStatus();
    }
    if (++value.round > kMaxRounds) {
      return HandlerError(
          value,
          absl::InvalidArgumentError(Cat(
              "its handler asks for more parts in every round (need at most ",
              kMaxRounds, " rounds)")),
          "receive");
    }
    return AddListed(std::move(value), parts, nullptr);
  }

  StatusOr<HandlerListing> TakeChecked() {
    BELAY_RETURN_IF_ERROR(
        CheckAfterLengths(out_.former, listed_after_, out_.shards));
    return std::move(out_);
  }

  HandlerListing Take() { return std::move(out_); }

 private:
  // Records rows as a value, because an array alone does not show that it
  // consists of rows.
  Status NoteRows(const std::string& outer, const Shard& shard) {
    if (shard.rows == nullptr) return absl::OkStatus();
    if (!outer.empty()) {
      return absl::UnimplementedError(
          Cat("list \"", shard.key, "\": a handler lists rows of ranks, which ",
              "only a State and objects may have"));
    }
    if (is_save_) {
      out_.is_fixed = false;
      out_.values.push_back({.key = shard.key,
                             .typestr = std::string(kRowsTypestr),
                             .parts = {""}});
    }
    return absl::OkStatus();
  }

  // Adds a shard. In a restore, includes the ghost cells to fill.
  Status AddShard(Shard&& shard) {
    if (is_save_) {
      out_.shards.push_back(std::move(shard));
      return absl::OkStatus();
    }
    BELAY_ASSIGN_OR_RETURN(std::vector<Shard> parts,
                           WithGhostCells(std::move(shard)));
    for (Shard& part : parts) {
      out_.shards.push_back(std::move(part));
      out_.tolerances.push_back(tolerance_);
      listed_after_.push_back(out_.former.size());
    }
    return absl::OkStatus();
  }

  static std::string WholeKey(const std::string& outer,
                              const std::string& key) {
    return outer.empty() ? key : PartKey(outer, key);
  }

  // Resizes a part to its stored length, if it takes one.
  Status TakeLength(FindStored find, Shard& shard) {
    if (is_save_ || shard.access == nullptr) return absl::OkStatus();
    const StatusOr<StoredValue> stored = find(shard.key);
    return stored.ok() ? GiveLength(*stored, shard, out_.former)
                       : absl::OkStatus();
  }

  // Returns the names of the entries that all ranks must have in a container.
  static std::vector<std::string> ListEntries(const State& parts) {
    Names entries;
    for (const TypedValue& value : parts.typed()) {
      if (value.shard < 0) entries.insert(value.key);
    }
    for (const Shard& shard : parts.shards()) {
      if (shard.replica == State::kReplicaIsRank) entries.insert(shard.key);
    }
    return {entries.begin(), entries.end()};
  }

  // Lists the part `name` of another value.
  Status AddInside(HandledValue value, const std::string& name, FindStored find,
                   Names* names) {
    if (!is_save_) {
      BELAY_ASSIGN_OR_RETURN(value.stored, find(value.key));
    }
    if (depth_ == kMaxDepth) {
      return absl::InvalidArgumentError(
          Cat("list \"", value.key, "\": too many values inside each other ",
              "(need at most ", kMaxDepth, ")"));
    }
    State parts;
    const Status listed = CatchExceptions([&]() -> Status {
      const TypeHandler& handler = *value.handler;
      if (is_save_) return handler.ListValueForSave(value.value, parts);
      if (!handler.Accepts(value.stored)) {
        return absl::FailedPreconditionError(Cat(
            "a value of another type is stored (need typestr \"",
            handler.typestr(), "\", found \"", value.stored.typestr, "\")"));
      }
      return handler.ListValueForRestore(value.value, value.stored, parts);
    });
    BELAY_RETURN_IF_ERROR(HandlerError(value, listed));
    Names inner;
    BELAY_RETURN_IF_ERROR(AddListed(std::move(value), parts, &inner));
    if (names == nullptr) return absl::OkStatus();
    for (const std::string& part : inner) {
      names->insert(name.empty() ? part : PartKey(name, part));
    }
    return absl::OkStatus();
  }

  Status AddListed(HandledValue value, const State& parts, Names* names) {
    const Status sound =
        parts.status().ok() ? CheckAlone(parts) : parts.status();
    BELAY_RETURN_IF_ERROR(HandlerError(value, sound));
    ++depth_;
    BELAY_RETURN_IF_ERROR(AddParts(
        parts, value.key,
        [&](const std::string& key) { return FindInside(value.stored, key); },
        names, value.handler.get()));
    --depth_;
    if (!is_save_) {
      value.kept = OwnedObjects::Of(parts);
      out_.handled.push_back(std::move(value));
      return absl::OkStatus();
    }
    // A value without a typestr is stored as the value that it holds.
    BELAY_ASSIGN_OR_RETURN(std::string typestr, CatchExceptions([&] {
                             return value.handler->typestr();
                           }));
    // The value may list different parts next time.
    if (depth_ > 0 || !IsFixed(value, typestr, *names)) out_.is_fixed = false;
    if (typestr.empty()) return absl::OkStatus();
    if (listers_.insert(value.handler.get()).second) {
      out_.handlers.push_back(value.handler);
    }
    ListedValue listed{.key = value.key,
                       .typestr = std::move(typestr),
                       .parts = {names->begin(), names->end()}};
    if (IsContainerTypestr(listed.typestr)) listed.entries = ListEntries(parts);
    out_.values.push_back(std::move(listed));
    return absl::OkStatus();
  }

  // Returns true if the value holds nothing, and never will.
  static bool IsFixed(const HandledValue& value, std::string_view typestr,
                      const Names& names) {
    const bool is_none =
        typestr == kNoneTypestr && value.value.As<std::monostate>() != nullptr;
    return names.empty() && (is_none || IsFormKey(value.key));
  }

  // A value that represents the whole value must be its only part.
  static Status CheckAlone(const State& parts) {
    size_t num_inner = 0;
    bool has_whole = false;
    for (const TypedValue& value : parts.typed()) {
      if (value.shard >= 0) continue;
      ++num_inner;
      has_whole = has_whole || value.key.empty();
    }
    if (!has_whole || num_inner + parts.shards().size() == 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "a value with a handler of its own is listed under \"\", beside other "
        "parts");
  }

  const HandlerTable& table_;
  const bool is_save_;
  Tolerance tolerance_;  // of the outermost value
  int depth_ = 0;
  HandlerListing out_;
  std::vector<size_t> listed_after_;  // per shard, see CheckAfterLengths
  absl::flat_hash_set<const TypeHandler*> listers_;  // same as out_.handlers
};

}  // namespace

StatusOr<TypeHandlerPtr> HandlerFor(const TypedValue& value,
                                    const HandlerTable& table) {
  BELAY_ASSIGN_OR_RETURN(
      const HandlerTable::Entry* const entry,
      CatchExceptions([&] { return table.Find(value.value.type); }));
  if (entry != nullptr) return entry->handler;
  if (value.handler != nullptr || value.shard >= 0) return value.handler;
  const std::string type = TypeName(value.value.type);
  return absl::InvalidArgumentError(
      Cat("list \"", value.key, "\": no handler for type ", type,
          ": register one with RegisterTypeHandler<", type,
          ">; an object with a member void Track(belay::Tracker&) goes into a "
          "Checkpoint, not into a State"));
}

StatusOr<HandlerListing> ListForSave(const State& state,
                                     const HandlerTable& table) {
  Lister lister(table, /*is_save=*/true);
  BELAY_RETURN_IF_ERROR(lister.AddParts(state, "", NotStored, nullptr));
  return lister.Take();
}

StatusOr<HandlerListing> ListForSave(State&& state, const HandlerTable& table) {
  std::vector<Shard> shards = StateVersion::TakeShards(state);
  Lister lister(table, /*is_save=*/true);
  BELAY_RETURN_IF_ERROR(
      lister.AddParts(state, "", NotStored, nullptr, nullptr, &shards));
  return lister.Take();
}

StatusOr<HandlerListing> ListForRestore(
    ValuesToRead values, const HandlerTable& table,
    const std::vector<StoredValue>& stored) {
  const auto find = [&](const std::string& key) -> StatusOr<StoredValue> {
    const StoredValue* const found = FindByKey(stored, key);
    return found != nullptr ? *found : StatusOr<StoredValue>(NotStored(key));
  };
  Lister lister(table, /*is_save=*/false);
  std::vector<HandledValue> handled = std::move(values.handled);
  lister.BeginWith(std::move(values));
  for (HandledValue& value : handled) {
    BELAY_RETURN_IF_ERROR(lister.AddValue(std::move(value), find));
  }
  return lister.TakeChecked();
}

StatusOr<HandlerListing> ListMore(const HandlerListing& listed,
                                  const HandlerTable& table) {
  Lister lister(table, /*is_save=*/false);
  for (const HandledValue& value : listed.handled) {
    BELAY_RETURN_IF_ERROR(lister.AddMore(value));
  }
  return lister.TakeChecked();
}

}  // namespace belay
