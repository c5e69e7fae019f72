#include "save/kept_listing.h"

#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "values/array_access.h"

namespace belay {
namespace {

size_t TextBytes(const Shard& shard) {
  return shard.text == nullptr ? 0 : shard.text->size();
}

}  // namespace

std::optional<std::vector<MovingShard>> FindMoving(
    const HandlerListing& listing, const std::vector<Shard>& shards) {
  if (!listing.is_fixed) return std::nullopt;
  std::vector<MovingShard> moving;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].access == nullptr && shards[i].text == nullptr) continue;
    moving.push_back({.shard = i, .text_bytes = TextBytes(shards[i])});
  }
  return moving;
}

bool FindMovedElements(KeptListing& kept) {
  for (const MovingShard& moving : kept.moving) {
    Shard& shard = kept.shards[moving.shard];
    if (TextBytes(shard) != moving.text_bytes) return false;
    if (shard.access == nullptr) continue;
    const DType dtype = shard.dtype;
    const Shape shape = shard.global_shape;
    if (!FindElements(shard).ok()) return false;
    if (shard.dtype != dtype || shard.global_shape != shape) return false;
  }
  return true;
}

}  // namespace belay
