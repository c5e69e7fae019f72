#include "plan/restore/shared_targets.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"

namespace belay {
namespace {

// The memory that a shard is read to.
struct Target {
  size_t shard;
  std::byte* begin;
  size_t bytes;

  const std::byte* end() const { return begin + bytes; }
};

// Whether the elements lie without gaps, in any order of the axes.
bool LiesDense(const Shard& shard) {
  if (shard.strides.empty()) return true;
  if (shard.strides.size() != shard.box.shape.size()) return false;
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride and length
  for (size_t axis = 0; axis < shard.strides.size(); ++axis) {
    const int64_t length = shard.box.shape[axis];
    if (length > 1) axes.emplace_back(shard.strides[axis], length);
  }
  std::ranges::sort(axes);
  int64_t dense = 1;
  for (const auto& [stride, length] : axes) {
    if (stride != dense) return false;
    dense *= length;
  }
  return true;
}

// Nothing if it is not known which bytes it has, or if it has none.
size_t DenseBytes(const Shard& shard) {
  if (shard.text != nullptr) return sizeof(std::string);
  if (shard.data == nullptr || shard.dtype == DType::kString ||
      shard.ghosts != nullptr || shard.structs != nullptr) {
    return 0;
  }
  const StatusOr<int64_t> elements = CheckedNumElements(shard.box.shape);
  if (!elements.ok() || *elements <= 0 || !LiesDense(shard)) return 0;
  return static_cast<size_t>(*elements * DTypeSize(shard.dtype));
}

// Ascending by where they begin, in the order of listing.
std::vector<Target> TargetsOf(const std::vector<Shard>& shards) {
  std::vector<Target> targets;
  targets.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    const size_t bytes = DenseBytes(shard);
    void* const begin = shard.text != nullptr ? shard.text : shard.data;
    if (bytes > 0)
      targets.push_back({i, static_cast<std::byte*>(begin), bytes});
  }
  std::ranges::stable_sort(targets, [](const Target& a, const Target& b) {
    return std::less<>()(a.begin, b.begin);
  });
  return targets;
}

// Of the targets so far, the one that ends last, and the one of another key
// that does.
class LastOnes {
 public:
  explicit LastOnes(const std::vector<Shard>& shards) : shards_(shards) {}

  // One of another key that it begins in, or null.
  const Target* FindOther(const Target& target) const {
    for (const Target* one : {last_, other_}) {
      if (one != nullptr && KeyOf(*one) != KeyOf(target)) {
        return target.begin < one->end() ? one : nullptr;
      }
    }
    return nullptr;
  }

  void Add(const Target& target) {
    const bool is_same = last_ != nullptr && KeyOf(*last_) == KeyOf(target);
    if (last_ == nullptr || last_->end() < target.end()) {
      if (!is_same) other_ = last_;
      last_ = &target;
    } else if (!is_same &&
               (other_ == nullptr || other_->end() < target.end())) {
      other_ = &target;
    }
  }

 private:
  const std::string& KeyOf(const Target& target) const {
    return shards_[target.shard].key;
  }

  const std::vector<Shard>& shards_;
  const Target* last_ = nullptr;
  const Target* other_ = nullptr;
};

// What is not read keeps the value that the program has there.
Status MakeRoom(const Shard& shard, size_t bytes, SharedTarget& one) {
  return CatchBadAlloc(
      Cat("\"", shard.key, "\", which has the memory of \"", one.other, "\""),
      [&] {
        one.read.assign(one.data, one.data + bytes);
        return absl::OkStatus();
      });
}

}  // namespace

StatusOr<std::vector<SharedTarget>> SetApart(std::vector<Shard>& shards) {
  const std::vector<Target> targets = TargetsOf(shards);
  std::vector<SharedTarget> shared;
  LastOnes last(shards);
  for (const Target& target : targets) {
    const Shard& shard = shards[target.shard];
    if (const Target* const other = last.FindOther(target)) {
      SharedTarget one{.shard = target.shard, .text = shard.text};
      one.other = shards[other->shard].key;
      if (shard.text == nullptr) {
        one.data = target.begin;
        one.common_bytes = static_cast<size_t>(
            std::min(other->end(), target.end()) - target.begin);
        BELAY_RETURN_IF_ERROR(MakeRoom(shard, target.bytes, one));
      }
      shared.push_back(std::move(one));
    }
    last.Add(target);
  }
  for (SharedTarget& one : shared) {
    Shard& shard = shards[one.shard];
    if (one.text != nullptr) {
      shard.text = &one.read_text;
    } else {
      shard.data = one.read.data();
    }
  }
  return shared;
}

Status PutTogether(const std::vector<SharedTarget>& shared,
                   const std::string& operation, std::vector<Shard>& shards) {
  Status status;
  for (const SharedTarget& one : shared) {
    Shard& shard = shards[one.shard];
    bool is_same = false;
    if (one.text != nullptr) {
      shard.text = one.text;
      is_same = *one.text == one.read_text;
    } else {
      shard.data = one.data;
      is_same = std::memcmp(one.data, one.read.data(), one.common_bytes) == 0;
      std::memcpy(one.data, one.read.data(), one.read.size());
    }
    if (is_same) continue;
    status.Update(absl::FailedPreconditionError(Cat(
        operation, ": \"", one.other, "\" and \"", shard.key,
        "\" have the same memory, and different values are stored for them: ",
        "give one of them its own memory, or leave it out with "
        "RestoreArgs::skip")));
  }
  return status;
}

}  // namespace belay
