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
#include "state/memory_layout.h"
#include "state/state.h"

namespace belay {
namespace {

using Names = std::set<std::string>;

constexpr int kMaxDepth = 32;
constexpr int kMaxRounds = 16;

// The error of a handler, with what it was for.
Status HandlerError(const HandledValue& value, const Status& status,
                    std::string_view operation = "list") {
  if (status.ok()) return status;
  std::string name =
      CatchExceptions([&] { return value.handler->typestr(); }).value_or("");
  // What stands for another value has no name of its own.
  if (name.empty()) name = TypeName(value.value.type);
  return Status(status.code(),
                Cat(operation, " \"", value.key, "\" (handler \"", name,
                    "\"): ", std::string(status.message())));
}

// What a checkpoint says of the value with a key.
using FindStored =
    absl::FunctionRef<StatusOr<StoredValue>(const std::string& key)>;

Status NotStored(const std::string& key) {
  return absl::NotFoundError(Cat("list \"", key, "\": it is not stored"));
}

// What is stored of a value inside another one.
StatusOr<StoredValue> StoredInside(const StoredValue& outer,
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
  // Without `find`, of a save.
  Lister(const HandlerTable& table, bool is_save)
      : table_(table), is_save_(is_save) {}

  // Adds a value of a restore.
  Status AddValue(HandledValue value, FindStored find) {
    tolerance_ = value.tolerance;
    return AddInside(std::move(value), "", find, nullptr);
  }

  void AddShard(Shard&& shard, Tolerance tolerance) {
    out_.shards.push_back(std::move(shard));
    if (is_save_) return;
    out_.tolerances.push_back(tolerance);
    listed_after_.push_back(out_.former.size());
  }

  // Begins with the shards of the program's own values, which were listed
  // before the containers among them took their lengths.
  void BeginWith(ValuesToRead values) {
    out_.former = std::move(values.former);
    listed_after_.assign(values.shards.size(), 0);
    out_.shards = std::move(values.shards);
    out_.tolerances = std::move(values.tolerances);
  }

  // Adds what was added to `state` by the value `outer` and its handler, or by
  // the program if that is empty. Adds the names of its parts to `names`, if
  // not null. The shards are moved out of `taken`, if not null, which has those
  // of the State.
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
        // Its key alone would not say whose part it is.
        return HandlerFor({WholeKey(outer, value.key), value.value,
                           value.handler, value.shard},
                          table_)
            .status();
      }
      TypeHandlerPtr handler = *std::move(found);
      // What a handler for numbers makes of them are numbers.
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
      BELAY_RETURN_IF_ERROR(AddFound(std::move(shard)));
    }
    for (const auto* kept :
         {&OwnedObjects::Of(state), &OwnedObjects::Functions(state)}) {
      out_.kept.insert(out_.kept.end(), kept->begin(), kept->end());
    }
    return absl::OkStatus();
  }

  // Tells a value that its parts are there, and lists what it wants then.
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

  // What was listed of a restore.
  StatusOr<HandlerListing> TakeChecked() {
    BELAY_RETURN_IF_ERROR(
        CheckAfterLengths(out_.former, listed_after_, out_.shards));
    return std::move(out_);
  }

  HandlerListing Take() { return std::move(out_); }

 private:
  // Rows are listed as a value, since their array alone does not say what they
  // are.
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

  // Adds a shard whose elements are found; of a restore with the ghost cells
  // that it fills.
  Status AddFound(Shard&& shard) {
    if (is_save_) {
      AddShard(std::move(shard), tolerance_);
      return absl::OkStatus();
    }
    BELAY_ASSIGN_OR_RETURN(std::vector<Shard> parts,
                           WithGhostCells(std::move(shard)));
    for (Shard& part : parts) AddShard(std::move(part), tolerance_);
    return absl::OkStatus();
  }

  static std::string WholeKey(const std::string& outer,
                              const std::string& key) {
    return outer.empty() ? key : PartKey(outer, key);
  }

  // Gives a part that can change its length the one that is stored.
  Status TakeLength(FindStored find, Shard& shard) {
    if (is_save_ || shard.access == nullptr) return absl::OkStatus();
    const StatusOr<StoredValue> stored = find(shard.key);
    return stored.ok() ? GiveLength(*stored, shard, out_.former)
                       : absl::OkStatus();
  }

  // The names of what all ranks have to hold in a container.
  static std::vector<std::string> EntriesOf(const State& parts) {
    Names entries;
    for (const TypedValue& value : parts.typed()) {
      if (value.shard < 0) entries.insert(value.key);
    }
    for (const Shard& shard : parts.shards()) {
      if (shard.replica == State::kReplicaIsRank) entries.insert(shard.key);
    }
    return {entries.begin(), entries.end()};
  }

  // Lists a value that is called `name` in the one around it.
  Status AddInside(HandledValue value, const std::string& name, FindStored find,
                   Names* names) {
    if (!is_save_) {
      BELAY_ASSIGN_OR_RETURN(value.stored, find(value.key));
    }
    Names inner;
    BELAY_RETURN_IF_ERROR(Add(std::move(value), inner));
    if (names == nullptr) return absl::OkStatus();
    for (const std::string& part : inner) {
      names->insert(name.empty() ? part : PartKey(name, part));
    }
    return absl::OkStatus();
  }

  Status Add(HandledValue value, Names& names) {
    if (depth_ == kMaxDepth) {
      return absl::InvalidArgumentError(
          Cat("list \"", value.key, "\": too many values inside each other ",
              "(need at most ", kMaxDepth, ")"));
    }
    State parts;
    const Status listed = CatchExceptions([&]() -> Status {
      const TypeHandler& handler = *value.handler;
      if (is_save_) return handler.ListValueForSave(value.value, parts);
      BELAY_RETURN_IF_ERROR(CheckAccepts(value));
      return handler.ListValueForRestore(value.value, value.stored, parts);
    });
    BELAY_RETURN_IF_ERROR(HandlerError(value, listed));
    return AddListed(std::move(value), parts, &names);
  }

  Status AddListed(HandledValue value, const State& parts, Names* names) {
    const Status sound =
        parts.status().ok() ? CheckAlone(parts) : parts.status();
    BELAY_RETURN_IF_ERROR(HandlerError(value, sound));
    ++depth_;
    BELAY_RETURN_IF_ERROR(AddParts(
        parts, value.key,
        [&](const std::string& key) { return StoredInside(value.stored, key); },
        names, value.handler.get()));
    --depth_;
    if (!is_save_) {
      value.kept = OwnedObjects::Of(parts);
      out_.handled.push_back(std::move(value));
      return absl::OkStatus();
    }
    // What has no name of its own stands for what it holds.
    BELAY_ASSIGN_OR_RETURN(std::string typestr, CatchExceptions([&] {
                             return value.handler->typestr();
                           }));
    // What stands for another value may hold one that is none next time.
    if (depth_ > 0 || !IsFixed(value, typestr, *names)) out_.is_fixed = false;
    if (typestr.empty()) return absl::OkStatus();
    AddHandler(value.handler);
    ListedValue listed{.key = value.key,
                       .typestr = std::move(typestr),
                       .parts = {names->begin(), names->end()}};
    if (IsContainerTypestr(listed.typestr)) listed.entries = EntriesOf(parts);
    out_.values.push_back(std::move(listed));
    return absl::OkStatus();
  }

  // Whether a value says all by its kind: it holds nothing.
  static bool IsFixed(const HandledValue& value, std::string_view typestr,
                      const Names& names) {
    const bool is_none =
        typestr == kNoneTypestr && value.value.As<std::monostate>() != nullptr;
    return names.empty() && (is_none || IsFormKey(value.key));
  }

  void AddHandler(const TypeHandlerPtr& handler) {
    if (listers_.insert(handler.get()).second) out_.handlers.push_back(handler);
  }

  static Status CheckAccepts(const HandledValue& value) {
    if (value.handler->Accepts(value.stored)) return absl::OkStatus();
    return absl::FailedPreconditionError(Cat(
        "a value of another type is stored (need typestr \"",
        value.handler->typestr(), "\", found \"", value.stored.typestr, "\")"));
  }

  // A value in the place of the whole one cannot have parts beside it.
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
  std::vector<size_t> listed_after_;  // as of CheckAfterLengths, by shard
  absl::flat_hash_set<const TypeHandler*> listers_;  // those of out_.handlers
};

}  // namespace

StatusOr<TypeHandlerPtr> HandlerFor(const TypedValue& value,
                                    const HandlerTable& table) {
  const StatusOr<const HandlerTable::Entry*> entry =
      CatchExceptions([&] { return table.Find(value.value.type); });
  if (!entry.ok()) return entry.status();
  if (*entry != nullptr) return (*entry)->handler;
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
    const auto found =
        std::lower_bound(stored.begin(), stored.end(), key,
                         [](const StoredValue& value, const std::string& k) {
                           return value.key < k;
                         });
    if (found == stored.end() || found->key != key) return NotStored(key);
    return *found;
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
