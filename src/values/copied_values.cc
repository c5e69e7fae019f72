#include "values/copied_values.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "base/text.h"
#include "plan/stored/stored_values.h"
#include "values/struct_layout.h"

namespace belay {
namespace {

// Less is not worth cutting.
constexpr int64_t kLeastCutBytes = int64_t{1} << 20;
// Any element lies well at multiples of this.
constexpr int64_t kAlignment = 64;

int64_t BytesOf(const Shard& shard) {
  return NumElements(shard.box.shape) * DTypeSize(shard.dtype);
}

int64_t AlignedBytes(const Shard& shard) {
  return (BytesOf(shard) + kAlignment - 1) / kAlignment * kAlignment;
}

// The arrays of a value and of those inside it, which may be listed with both.
void CollectParts(const StoredValue& value,
                  std::map<std::string, ValuePart>& parts) {
  for (const ValuePart& part : value.parts) {
    parts.emplace(PartKey(value.key, part.name), part);
  }
  for (const StoredValue& inner : value.values) CollectParts(inner, parts);
}

// Deals out arrays.
class Cutter {
 public:
  Cutter(const CopyPlan& plan, int rank, int num_ranks, CopiedPieces& pieces)
      : plan_(plan), rank_(rank), num_ranks_(num_ranks), pieces_(pieces) {}

  void Add(size_t value, Shard shard) {
    if (shard.dtype == DType::kString) {
      if (!IsMyTurn()) return;
      shard.text = &pieces_.texts.emplace_back();
      return Keep(value, std::move(shard));
    }
    shard.box = WholeBox(shard.global_shape);
    shard.structs = StructsOf(shard.key);
    const int64_t bytes = BytesOf(shard);  // of the whole array
    pieces_.total_bytes += bytes;
    size_t axes = shard.global_shape.size();  // that can be cut
    if (shard.structs != nullptr) --axes;
    size_t axis = 0;
    while (axis < axes && shard.global_shape[axis] < num_ranks_) ++axis;
    if (bytes < kLeastCutBytes || axis == axes) {
      if (!IsMyTurn()) return;
      return Keep(value, std::move(shard));
    }
    const int64_t length = shard.global_shape[axis];
    // An even cut: the first ranks have one more.
    const int64_t even = length / num_ranks_, more = length % num_ranks_;
    shard.box.offset[axis] = rank_ * even + std::min<int64_t>(rank_, more);
    shard.box.shape[axis] = even + (rank_ < more ? 1 : 0);
    Keep(value, std::move(shard));
  }

 private:
  // How structs lie in the memory of the copy; null for an array of numbers.
  std::shared_ptr<const StructLayout> StructsOf(const std::string& key) const {
    const auto found = plan_.fields.find(key);
    if (found == plan_.fields.end()) return nullptr;
    const auto layout = StoredLayout(found->second);  // the index was read
    return layout.ok() ? *layout : nullptr;
  }

  bool IsMyTurn() { return next_++ % num_ranks_ == rank_; }

  void Keep(size_t value, Shard shard) {
    if (shard.text == nullptr) {
      pieces_.bytes += AlignedBytes(shard);
      pieces_.array_bytes += BytesOf(shard);
    }
    pieces_.shards.push_back(std::move(shard));
    pieces_.value_of.push_back(value);
  }

  const CopyPlan& plan_;
  const int rank_;
  const int num_ranks_;
  int64_t next_ = 0;
  CopiedPieces& pieces_;
};

// A value with the pieces of one rank, and those inside it, by their keys
// behind its own.
struct CopiedValue {
  std::vector<std::pair<std::string, Shard>> pieces;
  std::vector<std::pair<std::string, CopiedValue*>> inner;
  std::string typestr;
};

// Lists the pieces under the typestr that the value was stored with. Local.
class CopiedValueHandler : public Handler<CopiedValue> {
 public:
  explicit CopiedValueHandler(std::string typestr)
      : typestr_(std::move(typestr)) {}

  std::string typestr() const override { return typestr_; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(CopiedValue& value, State& parts) const override;
  Status ListForRestore(CopiedValue&, const StoredValue& stored,
                        State&) const override {
    return absl::InternalError(
        Cat("restore \"", stored.key, "\": a copy is not restored"));
  }

 private:
  std::string typestr_;
};

void AddCopied(const std::string& key, CopiedValue& value, State& state) {
  if (value.typestr == kNoneTypestr) {
    state.Add(key, state.Own(std::make_shared<std::monostate>()));
  } else {
    state.AddValue(key, RefTo(value),
                   std::make_shared<const CopiedValueHandler>(value.typestr));
  }
}

Status CopiedValueHandler::ListForSave(CopiedValue& value, State& parts) const {
  for (const auto& [key, piece] : value.pieces) {
    Shard shard = piece;
    shard.key = key;
    parts.AddShard(std::move(shard));
  }
  for (const auto& [key, inner] : value.inner) AddCopied(key, *inner, parts);
  return absl::OkStatus();
}

// Values inside each other, by whole key.
using Family = std::map<std::string, CopiedValue>;

// The innermost value that a key lies in, itself included if `itself`.
Family::iterator HolderOf(const std::string& key, bool itself, Family& family) {
  std::string prefix = key;
  if (itself) {
    if (const auto at = family.find(prefix); at != family.end()) return at;
  }
  while (true) {
    const size_t slash = prefix.rfind('/');
    if (slash == prefix.npos) return family.end();
    prefix.resize(slash);
    if (const auto at = family.find(prefix); at != family.end()) return at;
  }
}

std::string Behind(const std::string& holder, const std::string& key) {
  return key.size() == holder.size() ? "" : key.substr(holder.size() + 1);
}

// Adds a value and all inside it, which may be listed with several that hold
// it. Returns their keys, ascending.
std::set<std::string> AddValues(const StoredValue& stored, Family& family) {
  std::set<std::string> keys = {stored.key};
  family[stored.key].typestr = stored.typestr;
  for (const StoredValue& inner : stored.values) {
    keys.merge(AddValues(inner, family));
  }
  return keys;
}

// The same, with the links between them.
void AddFamily(const StoredValue& stored, Family& family) {
  for (const std::string& key : AddValues(stored, family)) {
    if (key == stored.key) continue;
    const auto holder = HolderOf(key, /*itself=*/false, family);
    holder->second.inner.emplace_back(Behind(holder->first, key), &family[key]);
  }
}

}  // namespace

void CutForCopy(const CopyPlan& plan, int rank, int num_ranks,
                CopiedPieces& pieces) {
  Cutter cutter(plan, rank, num_ranks, pieces);
  for (size_t i = 0; i < plan.values.size(); ++i) {
    std::map<std::string, ValuePart> parts;
    CollectParts(plan.values[i], parts);
    for (auto& [key, part] : parts) {
      cutter.Add(i, {.key = key,
                     .dtype = part.dtype,
                     .global_shape = part.shape,
                     .layout = plan.layouts[i]});
    }
  }
  for (size_t i = 0; i < plan.made.size(); ++i) {
    const MadeArray& made = plan.made[i];
    cutter.Add(plan.values.size() + i, {.key = made.key,
                                        .dtype = made.form.dtype,
                                        .global_shape = made.form.shape});
  }
}

void PlaceIn(std::byte* memory, CopiedPieces& pieces) {
  for (Shard& shard : pieces.shards) {
    if (shard.text != nullptr) continue;
    shard.data = memory;
    memory += AlignedBytes(shard);
  }
}

State ListForReading(const CopiedPieces& pieces) {
  State state;
  for (Shard shard : pieces.shards) {
    shard.layout.clear();
    state.AddShard(std::move(shard));
  }
  return state;
}

State ListForCopy(const CopyPlan& plan, CopiedPieces& pieces) {
  State state;
  auto family = std::make_shared<Family>();
  for (const StoredValue& value : plan.values) {
    if (!IsPlain(value)) AddFamily(value, *family);
  }
  for (size_t i = 0; i < pieces.shards.size(); ++i) {
    Shard shard = std::move(pieces.shards[i]);
    const size_t value = pieces.value_of[i];
    if (value >= plan.values.size() || IsPlain(plan.values[value])) {
      state.AddShard(std::move(shard));
      continue;
    }
    const auto holder = HolderOf(shard.key, /*itself=*/true, *family);
    std::string key = Behind(holder->first, shard.key);
    holder->second.pieces.emplace_back(std::move(key), std::move(shard));
  }
  std::exchange(pieces.shards, {});  // with its memory
  for (const StoredValue& value : plan.values) {
    if (!IsPlain(value)) AddCopied(value.key, family->at(value.key), state);
  }
  state.Own(std::move(family));
  return state;
}

}  // namespace belay
